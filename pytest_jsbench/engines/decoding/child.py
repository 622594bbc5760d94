"""
A decoding library in a process of its own.

`python -m pytest_jsbench.engines.decoding.child` reads one JSON line of `LibrarySettings` from stdin, answers
`{"ready": true}` or `{"error": …}`, and then answers each line of `{"do": …}` with one line, until stdin closes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_jsbench.engines.decoding.libraries import LIBRARIES, Unsupported
from pytest_jsbench.engines.decoding.vocabulary import Tokenizer, Vocabulary
from pytest_jsbench.engines.decoding.walks import Walk, accepts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_jsbench.engines.decoding.libraries import Library, Matcher


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySettings:
    """Which library is loaded, for whose vocabulary, and with how much memory."""

    library: str
    #: path of a GGUF file
    model: str
    #: bytes; where the system can hold a process to it
    memory: int

    def to_line(self) -> str:
        """The settings as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> LibrarySettings:
        """The inverse of `to_line`."""
        return cls(**json.loads(line))


class Session:
    """One grammar at a time: compiled, then walked through or asked."""

    def __init__(self, library: Library, vocabulary: Vocabulary) -> None:
        self._library = library
        self._end = vocabulary.end
        self._tokenizer = Tokenizer(vocabulary)
        self._begin: Callable[[], Matcher] | None = None
        self._walk: Walk | None = None

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one line."""
        match asked:
            case {"do": "compile", "schema": schema}:
                return self._compile(schema)
            case {"do": "begin"} if self._begin is not None:
                self._walk = Walk(self._begin(), end=self._end)
                return self._step([])
            case {"do": "step", "offered": offered}:
                return self._step(offered)
            case {"do": "accepts", "text": text} if self._begin is not None:
                spelled = text.encode("utf-8", "surrogatepass")
                return {"accepts": accepts(self._begin, spelled, self._tokenizer, end=self._end)}
        message = f"not to be answered now: {asked}"
        raise ValueError(message)

    def _compile(self, schema: Any) -> dict[str, Any]:
        self._begin = self._walk = None
        start = time.perf_counter()
        try:
            self._begin = self._library.compile(schema)
            # some compile only when the first mask is asked for
            self._begin().mask()
        except Unsupported as error:
            return {"unsupported": str(error)}
        except RuntimeError as error:
            if "bad_alloc" in str(error):  # no word about the schema: the memory is at its end
                raise
            return {"unsupported": str(error)}
        return {"seconds": time.perf_counter() - start}

    def _step(self, offered: list[list[int]]) -> dict[str, Any]:
        assert self._walk is not None
        step = self._walk.step(offered)
        return {"taken": step.taken, "state": step.state.value}


def main() -> None:
    """Answer until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the process that started this one
    replies = _take_stdout()
    settings = LibrarySettings.from_line(sys.stdin.readline())
    try:
        vocabulary = Vocabulary.from_gguf(Path(settings.model))
        session = Session(LIBRARIES[settings.library](vocabulary), vocabulary)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the reply
        _reply(replies, {"error": f"{type(error).__name__}: {error}"})
        return
    _bound_memory(settings.memory)
    _reply(replies, {"ready": True})
    for line in sys.stdin:
        try:
            answer = session.answer(json.loads(line))
        except BaseException as error:  # noqa: BLE001  a panic of Rust is no Exception
            answer = {"broke": f"{type(error).__name__}: {error}"}
        _reply(replies, answer)


def _take_stdout() -> TextIO:
    """A private copy of stdout; what native code prints there goes to stderr instead."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return private


def _reply(stream: TextIO, message: Mapping[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _bound_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (size if limit == resource.RLIMIT_DATA else 0,) * 2)


if __name__ == "__main__":
    main()
