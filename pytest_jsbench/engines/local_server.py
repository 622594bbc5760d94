"""Run the local engine's model server: llama.cpp in a separate process, which ends with the process that started it."""

from __future__ import annotations

import functools
import os
import secrets
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the model server."""

    #: Path of a GGUF file.
    model: str
    #: Name of the model in requests and answers.
    alias: str
    #: Key that callers must send; never passed on a command line.
    key: str = field(repr=False, default_factory=secrets.token_hex)
    #: Number of sequences that are generated at the same time.
    slots: int
    #: Maximum number of tokens of prompt and answer together in each slot.
    context: int
    threads: int
    #: Port to listen on; 0 for any free port.
    port: int = 0


def address_of(settings: dict[str, Any]) -> str:
    """Start the server and return its address; the server runs until its process ends."""
    address: str = _server(ServerSettings(**settings)).listening_address
    return address


@functools.cache
def _server(settings: ServerSettings) -> Any:
    # The variable is read when the library is loaded; by default, waiting threads would use all of the CPU.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.model_alias = {settings.alias}
    params.api_keys = [settings.key]
    # Without CORS headers, no web page in a browser can read answers or detect the server.
    params.cors_origins = params.cors_methods = params.cors_headers = ""
    params.cors_credentials = False
    params.cors_origins_explicit = True
    params.port = settings.port
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # Flash attention splits sums by the longest sequence of the batch, so an answer would depend on concurrent calls.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = 0  # by default, the server keeps up to 8 GiB of old prompts
    # Applications do not turn off the prompt cache, which would make their answers depend on earlier calls.
    params.cache_prompt = False
    params.verbosity = 0
    params.warmup = params.ui = params.fit_params = False
    return xllamacpp.Server(params)
