"""How long one call took, by a monotonic clock."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of one successful call, in seconds; waiting in a queue and failed tries are not in them."""

    #: total generation time: request sent to complete response
    tgt: float
    #: time to first token: request sent to first content token; None where the engine does not stream
    ttft: float | None = None
    #: generation completion time: first content token to last; None where they did not come one after the other
    gct: float | None = None
    #: time to compile the schema's grammar, where the engine does that locally
    grammar_compilation: float | None = None

    def __post_init__(self) -> None:
        """Take a 0, which an engine may say or a record of before may hold, for what it is: not measured."""
        for name in ("ttft", "gct"):
            object.__setattr__(self, name, getattr(self, name) or None)

    def tpot_ms(self, tokens: int | None) -> float | None:
        """Milliseconds per token of the answer after the first; None without streaming or with fewer than two."""
        if self.gct is None or tokens is None or tokens < 2:
            return None
        return self.gct * 1000 / (tokens - 1)


class Stopwatch:
    """Started when it is made; told of each content token; stopped into a `Timing`."""

    __slots__ = ("_first", "_last", "_piece", "_start")

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first: float | None = None
        self._last: float | None = None
        self._piece: object = None

    def token(self, *, piece: object = None) -> None:
        """Note that content has arrived; content of one piece of a body has arrived at one time."""
        if self._last is not None and piece is not None and piece == self._piece:
            return
        self._last, self._piece = time.perf_counter(), piece
        if self._first is None:
            self._first = self._last

    def stop(self, *, grammar_compilation: float | None = None) -> Timing:
        """The times up to now."""
        tgt = time.perf_counter() - self._start
        first, last = self._first, self._last
        return Timing(
            tgt=tgt,
            ttft=None if first is None else first - self._start,
            # of a stream that came all at once nothing was measured
            gct=None if first is None or last is None or last == first else last - first,
            grammar_compilation=grammar_compilation,
        )
