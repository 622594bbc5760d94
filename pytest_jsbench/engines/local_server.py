"""
The local engine's model server: llama.cpp in a process of its own.

`python -m pytest_jsbench.engines.local_server` reads one JSON line of `ServerSettings` from stdin, answers
one JSON line, `{"address": …}` or `{"error": …}`, on stdout, and serves until stdin closes: it ends with the
process that started it, however that ends.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What the server loads, and how wide it opens."""

    #: path of a GGUF file
    model: str
    #: the only name by which the server gives the model away
    alias: str
    #: what a caller must bear; never on a command line
    key: str = field(repr=False, default_factory=secrets.token_hex)
    #: sequences generated at once
    slots: int
    #: tokens of prompt and answer in each slot
    context: int
    threads: int

    def to_line(self) -> str:
        """The settings as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> ServerSettings:
        """The inverse of `to_line`."""
        return cls(**json.loads(line))


def main() -> None:
    """Serve until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the process that started this one
    replies = _take_stdout()
    settings = ServerSettings.from_line(sys.stdin.readline())
    try:
        server = _start(settings)
    except (ImportError, RuntimeError, OSError) as error:
        _reply(replies, {"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    _reply(replies, {"address": server.listening_address})
    while sys.stdin.readline():
        pass
    os._exit(0)  # a server with a call in flight waits for its end when it is destroyed


def _take_stdout() -> TextIO:
    """A private copy of stdout; what native code prints there goes to stderr instead."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return private


def _reply(stream: TextIO, message: Mapping[str, str]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _start(settings: ServerSettings) -> Any:
    # read when the library loads; with the default, threads spin and a busy machine comes to a halt
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.model_alias = {settings.alias}
    params.api_keys = [settings.key]
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # it splits a sum by the longest sequence of the batch: an answer would depend on its neighbours
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    params.verbosity = 0
    params.warmup = params.ui = params.fit_params = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
