"""A decoding library in a process of its own, which answers each `{"do": …}`."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.lab.decoding.libraries import LIBRARIES, Unsupported
from pytest_jsbench.lab.decoding.vocabulary import Tokenizer, Vocabulary
from pytest_jsbench.lab.decoding.walks import Draw, Likeliest, Walk, accepts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_jsbench.lab.decoding.libraries import Library, Matcher
    from pytest_jsbench.lab.decoding.walks import Offered


class Session:
    """One grammar at a time: compiled, then walked through or asked."""

    def __init__(self, library: Library, vocabulary: Vocabulary) -> None:
        self._library = library
        self._end = vocabulary.end
        self._tokenizer = Tokenizer(vocabulary)
        self._begin: Callable[[], Matcher] | None = None
        self._walk: Walk | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question."""
        match request:
            case {"do": "compile", "schema": schema}:
                return self._compile(schema)
            case {"do": "begin", "sampling": sampling} if self._begin is not None:
                choice = Likeliest() if sampling is None else Draw(**sampling)
                self._walk = Walk(self._begin(), choice, end=self._end)
                return self._step(self._walk, [])
            case {"do": "step", "offered": offered} if self._walk is not None:
                return self._step(self._walk, offered)
            case {"do": "accepts", "text": text} if self._begin is not None:
                data = text.encode("utf-8", "surrogatepass")
                accepted, seconds = accepts(self._begin, data, self._tokenizer, end=self._end)
                return {"accepts": accepted, "masks": [float(f"{each:.3g}") for each in seconds]}
        raise ValueError(f"not to be answered now: {request}")

    def _compile(self, schema: Any) -> dict[str, Any]:
        self._begin = self._walk = None
        start = time.perf_counter()
        try:
            self._begin = self._library.compile(schema)
            compiled = time.perf_counter()
            # some do a part of the work only when the first mask is asked for
            self._begin().mask()
        except Unsupported as error:
            return {"unsupported": str(error)}
        except RuntimeError as error:
            if "bad_alloc" in str(error):  # no word about the schema: the memory is at its end
                raise
            return {"unsupported": str(error)}
        return {"seconds": time.perf_counter() - start, "compiled": compiled - start}

    def _step(self, walk: Walk, offered: Sequence[Offered]) -> dict[str, Any]:
        step = walk.step(offered)
        return {"taken": step.taken, "state": step.state.value}


def load(library: str, model: str) -> None:
    """Have the library loaded, with the vocabulary of a model's file."""
    _session(library, model)


def answer(library: str, model: str, question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question to the library."""
    return _session(library, model).answer(question)


@functools.lru_cache(maxsize=1)
def _session(library: str, model: str) -> Session:
    vocabulary = Vocabulary.from_gguf(Path(model))
    return Session(LIBRARIES[library](vocabulary), vocabulary)
