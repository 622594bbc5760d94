"""The times of a call, by a monotonic clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pytest_jsbench.core.json_values import UNSAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of one successful call, in seconds; waiting in a queue and failed tries are not in them."""

    #: total generation time: request sent to complete response
    tgt: float
    #: time to first token: request sent to first content token; None where the engine does not stream
    ttft: float | None = None
    #: generation completion time: first content token to last; None where they did not come one after the other
    gct: float | None = None
    #: from the schema to the first mask of its grammar, where the engine does that locally
    grammar_compilation: float | None = None
    #: of that, the time before the first mask is asked for; None where the library does not tell the two apart
    compile_time: float | None = field(default=None, metadata=UNSAID)
    #: first sign of reasoning to first token of the answer; None where the model did not reason, or nobody saw when
    reasoning_time: float | None = field(default=None, metadata=UNSAID)
    #: of a grammar that is walked through texts: a token taken to the mask for the next, of each token
    masks: tuple[float, ...] = field(default=(), metadata=UNSAID)

    def __post_init__(self) -> None:
        """Take a 0, which an engine may say or a record of before may hold, for what it is: not measured."""
        object.__setattr__(self, "masks", tuple(self.masks))
        for name in ("ttft", "gct", "reasoning_time"):
            object.__setattr__(self, name, getattr(self, name) or None)

    def tpot_ms(self, tokens: int | None) -> float | None:
        """Milliseconds per token of the answer after the first; None without streaming or with fewer than two."""
        if self.gct is None or tokens is None or tokens < 2:
            return None
        return self.gct * 1000 / (tokens - 1)


class Stopwatch:
    """Started when it is made; told of reasoning and of each content token; stopped into a `Timing`."""

    __slots__ = ("_first", "_last", "_piece", "_reasoning", "_start")

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first: float | None = None
        self._last: float | None = None
        self._piece: object = None
        #: when reasoning was first seen, and in which piece of a body
        self._reasoning: tuple[float, object] | None = None

    def token(self, *, piece: object = None) -> float:
        """Note that content has arrived, and say when; content of one piece of a body has arrived at one time."""
        if self._last is not None and piece is not None and piece == self._piece:
            return self._last
        self._last, self._piece = time.perf_counter(), piece
        if self._first is None:
            self._first = self._last
            if piece is not None and self._reasoning is not None and self._reasoning[1] == piece:
                self._reasoning = self._last, piece
        return self._last

    def reasoning(self, *, piece: object = None) -> None:
        """Note that the model reasons, which is no content; only what comes before the first content counts."""
        if self._reasoning is None and self._first is None:
            self._reasoning = time.perf_counter(), piece

    def stop(self, *, answer: float | None = None) -> Timing:
        """The times up to now; `answer` is when the answer began, of content that begins with reasoning."""
        tgt = time.perf_counter() - self._start
        first, last = self._first, self._last
        begun = first if self._reasoning is None else self._reasoning[0]
        ended = first if answer is None else answer
        return Timing(
            tgt=tgt,
            ttft=None if first is None else first - self._start,
            # of a stream that came all at once nothing was measured
            gct=None if first is None or last is None or last == first else last - first,
            reasoning_time=None if begun is None or ended is None else ended - begun,
        )
