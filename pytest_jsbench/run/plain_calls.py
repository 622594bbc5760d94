"""
Send calls without a schema next to those of the cases, since some servers corrupt them next to constrained ones.

A plain call asks the model to repeat a line of words with a number that no other plain call has. It is made before the
call of an attempt, in the same thread, so that the number of calls in flight stays within the concurrency. At a rate,
its answer must not delay the call of the attempt, so it has a thread of its own.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.cases import CaseKey, Prompt
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import Completion, ResponseFormat
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines.engine_secrets import describe
from pytest_jsbench.records.call_load import PlainCall, find_problem
from pytest_jsbench.run.call_layers import Tries
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.limits import Refused

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Declined, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.run.attempts import Runner
    from pytest_jsbench.run.call_layers import Call, ScheduledStarts
    from pytest_jsbench.run.variants import Variant

#: Task in the keys of plain calls, which engines get with each request.
PLAIN = "plain"
_PROMPT = "Repeat the line below exactly, and write nothing else.\n\n{}"
_WORDS = (
    *("apple", "bridge", "candle", "dinner", "engine", "forest", "garden", "hammer", "island", "jacket", "kitchen"),
    *("ladder", "market", "number", "orange", "pencil", "question", "river", "summer", "table", "uncle", "village"),
    *("window", "yellow"),
)
_WORDS_PER_LINE = 12


def plain_config(variant: Variant) -> EngineConfig:
    """Return the configuration for calls without a schema; raise EngineError if the engine always sends one."""
    config = replace(variant.engine, response_format=ResponseFormat.TEXT)
    problem = f"--jsbench-plain-share: engine '{variant.engine.name}' cannot send calls without a schema"
    try:
        sent = describe(variant.factory, config).response_format
    except EngineError as error:
        raise EngineError(f"{problem}: {error}", option="plain_share") from error
    if sent is not ResponseFormat.TEXT:
        raise EngineError(f"{problem}; remove this option", found=sent.value, option="plain_share")
    return config


def count_plain(calls: int, share: float | None) -> int:
    """Return the number of plain calls next to this number of other calls, if this share of all calls is plain."""
    # a tiny part makes up for rounding, as in 9 * (0.1 / 0.9)
    return 0 if share is None else math.floor(calls * share / (1 - share) + 1e-9)


class PlainCalls:
    """
    A layer around an engine that makes plain calls next to other calls, until they have their share of all calls.

    Each process of a run has one object for each variant, which all threads of the calls in flight use.
    """

    def __init__(
        self,
        runner: Runner,
        share: float,
        *,
        starts: ScheduledStarts | None = None,
        numbers: random.Random | None = None,
    ) -> None:
        #: Makes calls of the same server without a schema.
        self._runner = runner
        self._share = share
        #: Schedule of all calls; None without a rate.
        self._starts = starts
        self._numbers = random.SystemRandom() if numbers is None else numbers
        self._lock = threading.Lock()
        #: Number of other calls so far.
        self._calls = 0
        #: Numbers in the lines of all plain calls so far.
        self._marks: set[str] = set()

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Make the plain calls that are due, and the call."""
        due = 0 if tries.continues else self._count_due()
        if self._starts is not None and due:
            return self._call_on_schedule(self._starts, due, below, request, tries)
        for _ in range(due):
            self._add(tries, self._make(request, Tries()))
        return below(request, tries)

    def _call_on_schedule(
        self, starts: ScheduledStarts, due: int, below: Call, request: Request, tries: Tries
    ) -> Completion | Declined:
        """
        Make the plain calls in threads of their own, at the scheduled starts before that of the call.

        If the call is refused, it has no record, and the answers to the plain calls next to it are dropped.
        """
        calls: CallsInFlight[PlainCall | None] = CallsInFlight(due)
        try:
            for number in range(due):
                plain = Tries(due=starts.take())
                calls.add(number, partial(self._make, request, plain))
            tries.due = starts.take()
            return below(request, tries)
        finally:
            try:
                for number in range(len(calls)):
                    self._add(tries, calls.take(number))
            finally:
                calls.stop()

    def _add(self, tries: Tries, made: PlainCall | None) -> None:
        """Add a plain call to the call next to it, unless it was not allowed."""
        if made is not None:
            tries.plain.append(made)

    def _count_due(self) -> int:
        with self._lock:
            self._calls += 1
            return count_plain(self._calls, self._share) - count_plain(self._calls - 1, self._share)

    def _make(self, request: Request, tries: Tries) -> PlainCall | None:
        """
        Make one plain call; return None if no call is allowed.

        The call next to it is then refused too, or is allowed because it costs less.
        """
        mark, line = self._new_line()
        plain = replace(
            request,
            key=CaseKey(task=PLAIN, id=mark),
            prompt=Prompt(messages=(Message(role="user", content=_PROMPT.format(line)),)),
            schema=True,
            params=structs.replace(request.params, tool_choice=None),
            offer=None,
        )
        try:
            generation = self._runner.make_call(plain, tries)
        except Refused:
            return None
        with self._lock:
            others = frozenset(self._marks - {mark})
        text = generation.text if isinstance(generation, Completion) else ""
        return PlainCall(
            line=line,
            generation=generation,
            problem=find_problem(generation, line, others),
            repeated=line in " ".join(text.split()),
            began=self._runner.now().timestamp() if tries.began is None else tries.began,
            late_s=tries.late,
        )

    def _new_line(self) -> tuple[str, str]:
        """Return a new number of seven digits, and the line that contains it."""
        with self._lock:
            mark = str(self._numbers.randint(1_000_000, 9_999_999))
            self._marks.add(mark)
            words = self._numbers.sample(_WORDS, _WORDS_PER_LINE)
        return mark, f"{' '.join(words)} {mark}"
