"""Measure the times of one call: to the first token, between tokens, in all."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import force_setattr

from pytest_jsbench.core.json_values import Seconds, write_always

#: Maximum difference between two clocks that were read one after the other, in seconds.
CLOCK_TOLERANCE = 0.001


class Timing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times of one successful call, in seconds, without the time spent in queues and on failed calls."""

    #: Total generation time: from sending the request to the complete response.
    tgt: Seconds
    #: Time to first token: from sending the request to the first content token; None without streaming.
    ttft: Seconds | None = write_always(None)
    #: Generation completion time: from the first content token to the last; None without streaming, or if all content
    #: arrived at once.
    gct: Seconds | None = write_always(None)
    #: Time from receiving the schema to the first mask of its grammar; None unless the engine compiles the grammar
    #: locally.
    grammar_compilation: Seconds | None = write_always(None)
    #: How late the first token was read: part of `ttft` after the token could have been read from the connection; None
    #: if not measured.
    ttft_lateness: Seconds | None = None
    #: Part of `grammar_compilation` before the first mask is computed; None if the library does not separate the two
    #: parts.
    compile_time: Seconds | None = None
    #: Time from the first sign of reasoning to the first token of the answer; None if the model did not reason, or if
    #: this time was not measured.
    reasoning_time: Seconds | None = None
    #: For each token of a labelled answer, the time from accepting the token to the mask for the next token; empty
    #: unless a grammar is tested.
    masks: tuple[Seconds, ...] = ()
    #: Time in the server's queue, by the server's clock; None if the server does not report this time.
    server_queue: Seconds | None = None
    #: Time for processing the prompt, by the server's clock.
    server_prefill: Seconds | None = None
    #: Time for generating the answer, by the server's clock.
    server_decode: Seconds | None = None

    def __post_init__(self) -> None:
        """Replace a time of 0, which engines and old records use for an unmeasured time, with None."""
        force_setattr(self, "masks", tuple(self.masks))
        for name in ("ttft", "gct", "reasoning_time"):
            force_setattr(self, name, getattr(self, name) or None)


class Stopwatch:
    """Measures one call from the creation of this object: the times of reasoning, of content tokens, and of the end."""

    __slots__ = ("_clock", "_first", "_last", "_piece", "_reasoning", "_start")

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._start = clock()
        self._first: float | None = None
        self._last: float | None = None
        self._piece: object = None
        #: Arrival time of the first reasoning, and the piece of the response body that contained the reasoning.
        self._reasoning: tuple[float, object] | None = None

    def token(self, *, piece: object = None) -> float:
        """
        Record the arrival of content and return the time, which is the same for all content in a
        piece of the body.
        """
        if self._last is not None and piece is not None and piece == self._piece:
            return self._last
        self._last = self._clock()
        self._piece = piece
        if self._first is None:
            self._first = self._last
            if piece is not None and self._reasoning is not None and self._reasoning[1] == piece:
                self._reasoning = self._last, piece
        return self._last

    def reasoning(self, *, piece: object = None) -> None:
        """Record the arrival of reasoning, which is not content; only reasoning before the first content counts."""
        if self._reasoning is None and self._first is None:
            self._reasoning = self._clock(), piece

    def stop(self, *, answer: float | None = None, arrived: float | None = None) -> Timing:
        """
        Return the times up to now; `answer` is the time at which the answer itself began, if the content begins with
        reasoning, and `arrived` the time at which the first content could have been read.
        """
        tgt = self._clock() - self._start
        first, last = self._first, self._last
        begun = first if self._reasoning is None else self._reasoning[0]
        ended = first if answer is None else answer
        return Timing(
            tgt=tgt,
            ttft=None if first is None else first - self._start,
            # The time is not measurable if the whole stream arrived at once.
            gct=None if first is None or last is None or last == first else last - first,
            reasoning_time=None if begun is None or ended is None else ended - begun,
            ttft_lateness=None if first is None or arrived is None else self._lateness(first, arrived),
        )

    def _lateness(self, first: float, arrived: float) -> float | None:
        """Return how late the first token was read; None if it cannot have arrived at this time."""
        return max(first - arrived, 0.0) if self._start <= arrived <= first + CLOCK_TOLERANCE else None
