"""
Define the figures of a load and of a service level: how calls began, what is in time, and what plain calls returned.

Files contain these figures only if the run has a load or a service level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_jsbench.metrics.attempt_groups import AttemptGroups, cluster_by_case, timings
from pytest_jsbench.metrics.figure import (
    COUNT,
    DOLLARS,
    RATE,
    RUNS,
    SUM,
    TIME,
    VARIANTS,
    Better,
    FigureSet,
    metric,
)
from pytest_jsbench.metrics.statistics import Distribution, Proportion, clustered, proportion
from pytest_jsbench.records.call_load import LoadFacts, PlainFacts, PlainProblem
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.settings.load_options import LoadOptions

_OPEN = ("errors", "unjudged")
#: A passed answer whose limited times were not measured may be in time.
_TIMED_OPEN = (*_OPEN, "passed_untimed")
_PLAIN_LEFT_OUT = ("plain_missing", "plain_failed")


@dataclass(frozen=True, slots=True)
class NeedsLoad:
    """The condition of a figure: the run sets one of these options of the load."""

    options: tuple[str, ...]
    #: Whether the run must also make several attempts at a case.
    repeats: bool = False

    def __call__(self, groups: AttemptGroups) -> bool:
        """Return whether the run of these attempts meets the condition."""
        load = groups.load
        return load is not None and not load.options.isdisjoint(self.options) and load.has_repeats >= self.repeats


_HAS_LOAD = NeedsLoad(tuple(LoadOptions.options))
_HAS_LATER_CALLS = NeedsLoad(tuple(LoadOptions.options), repeats=True)
_HAS_RATE = NeedsLoad(("rate",))
_HAS_PLAIN = NeedsLoad(("plain_share",))
_HAS_SERVICE_LEVEL = NeedsLoad(("slo",))


class LoadFigures(FigureSet):
    """Figures of the load and of the service level of a set of attempts."""

    comes_last = True

    @cached_property
    def is_merged(self) -> bool:
        """Whether the calls belong to several runs, so that there is no time in which all of them were made."""
        return self._groups.load is not None and self._groups.load.is_merged  # cached by the figures that need it

    @cached_property
    def plain_missing(self) -> int:
        """Number of calls without a schema that may be next to the missing attempts."""
        load = self._groups.load
        return 0 if load is None else self._groups.missing * load.plain_per_call

    @cached_property
    def plain_failed(self) -> int:
        """Number of calls without a schema that failed."""
        return sum(call.problem is PlainProblem.FAILED for call in self._groups.plain_calls)

    @cached_property
    def plain_without_cost(self) -> int:
        """Number of calls without a schema whose cost is unknown, since they failed or have no known price."""
        loads = ((each.attempt in self._groups.costs.plain, each.load) for each in self._groups.attempts)
        calls = ((known, call) for known, load in loads if load is not None for call in load.plain)
        return sum(not known or call.problem is PlainProblem.FAILED for known, call in calls)

    @cached_property
    def untimed(self) -> int:
        """Number of answers that may be in time or late, as a limited time is unknown; 0 without a service level."""
        return sum(map(self._is_untimed, self._groups.completions))

    @cached_property
    def passed_untimed(self) -> int:
        """Number of passed attempts among `untimed`, which count as late."""
        return sum(attempt.passed and self._is_untimed(attempt) for attempt in self._groups.completions)

    @metric(RATE, words="Answers in time", left_out=("errors", "untimed"), only_if=_HAS_SERVICE_LEVEL)
    def in_time(self) -> Proportion:
        """Answers within the service level / answers whose limited times were measured."""
        decided = [(attempt, self._is_in_time(attempt)) for attempt in self._groups.completions]
        return cluster_by_case((attempt.key, int(met), 1) for attempt, met in decided if met is not None)

    @metric(
        RATE,
        words="Passed in time",
        of="planned",
        counted_open=_TIMED_OPEN,
        heading="In time",
        tables=VARIANTS | RUNS,
        only_if=_HAS_SERVICE_LEVEL,
    )
    def good_rate(self) -> Proportion:
        """Attempts that passed within the service level / planned attempts."""
        groups = self._groups
        if not self.in_time.n:
            return proportion(0, 0)
        good = Counter(attempt.key for attempt in groups.counted if attempt.passed and self._is_in_time(attempt))
        return clustered((good[key], n) for key, n in groups.decided_plan.items())

    @metric(TIME, words="Delay of starts", unit="s", left_out=("missing", "plain_missing"), only_if=_HAS_RATE)
    def start_delay(self) -> Distribution:
        """Time between the scheduled start of a call, also of a plain call, and its begin; not the server's delay."""
        return Distribution.of(call.late_s for call in self._calls() if call.late_s is not None)

    @metric(TIME, words="Time to first token, first call of a schema", unit="s", only_if=_HAS_LATER_CALLS)
    def ttft_cold(self) -> Distribution:
        """TTFT of the first call of each schema to a server, which may compile a grammar, in runs with repeats."""
        return timings((first for first, _ in self._groups.calls_by_schema), "ttft")

    @metric(TIME, words="Time to first token, later calls of a schema", unit="s", only_if=_HAS_LATER_CALLS)
    def ttft_warm(self) -> Distribution:
        """TTFT of the calls that began after the first token of the first call of their schema."""
        return timings((later for _, after in self._groups.calls_by_schema for later in after), "ttft")

    @metric(
        TIME,
        words="Time to first token of plain calls",
        unit="s",
        left_out=_PLAIN_LEFT_OUT,
        only_if=_HAS_PLAIN,
    )
    def plain_ttft(self) -> Distribution:
        """TTFT of calls without a schema."""
        return Distribution.of(
            call.timing.ttft
            for call in self._groups.plain_calls
            if call.timing is not None and call.timing.ttft is not None
        )

    @metric(TIME, words="Total time of plain calls", unit="s", left_out=_PLAIN_LEFT_OUT, only_if=_HAS_PLAIN)
    def plain_tgt(self) -> Distribution:
        """Time from the request of a call without a schema to the end of its answer."""
        return Distribution.of(call.timing.tgt for call in self._groups.plain_calls if call.timing is not None)

    @metric(
        SUM,
        words="Goodput",
        unit="1/s",
        better_when=Better.HIGHER,
        counted_open=_TIMED_OPEN,
        lowered_by=("missing",),
        heading="Goodput (1/s)",
        tables=VARIANTS | RUNS,
        only_if=_HAS_LOAD,
    )
    def goodput(self) -> float | None:
        """
        Attempts that passed, in time if there is a service level / seconds from the first start to the last end of a
        call, without reused answers; None for merged runs.
        """
        timed = self._groups.timed
        if self.is_merged or not timed:
            return None
        begun = min(load.began - (load.late_s or 0.0) for _, load in timed)
        seconds = max(load.ended for _, load in timed) - begun
        has_limits = _HAS_SERVICE_LEVEL(self._groups)
        good = sum(attempt.passed and (not has_limits or self._is_in_time(attempt) is True) for attempt, _ in timed)
        return good / seconds if seconds > 0 else None

    @metric(
        SUM, words="Rate of starts", unit="1/s", counted_open=("missing",), lowered_by=("missing",), only_if=_HAS_RATE
    )
    def achieved_rate(self) -> float | None:
        """
        Calls that began per second, with plain calls and without retries, from the first to the last start; None for
        merged runs.
        """
        begun = sorted(call.began for call in self._calls()) if not self.is_merged else []
        seconds = begun[-1] - begun[0] if begun else 0.0
        return (len(begun) - 1) / seconds if seconds > 0 else None

    @metric(
        SUM,
        unit=DOLLARS,
        better_when=Better.LOWER,
        counted_open=(*_OPEN, "without_cost"),
        lowered_by=_OPEN,
        only_if=_HAS_LOAD,
    )
    def cost_per_valid(self) -> float | None:
        """Cost of all attempts in US dollars, as far as known / attempts that passed."""
        costs = self._groups.known_costs
        passed = self._groups.passed.total()
        return sum(costs) / passed if costs and passed else None

    @metric(
        SUM,
        unit="tokens",
        better_when=Better.LOWER,
        counted_open=(*_OPEN, "unreported"),
        lowered_by=_OPEN,
        only_if=_HAS_LOAD,
    )
    def output_tokens_per_valid(self) -> float | None:
        """Tokens in all answers, as far as reported / attempts that passed."""
        reported = [attempt.usage for attempt in self._groups.reporting if attempt.usage is not None]
        tokens = sum(usage.output_tokens or 0 for usage in reported)
        passed = self._groups.passed.total()
        return tokens / passed if reported and passed else None

    @metric(
        SUM,
        unit=DOLLARS,
        better_when=Better.LOWER,
        counted_open=("plain_missing", "plain_without_cost"),
        only_if=_HAS_PLAIN,
    )
    def plain_cost(self) -> float | None:
        """Cost of the calls without a schema in US dollars, as far as known; `cost` does not include it."""
        costs = self._groups.costs.plain
        known = [costs[attempt.attempt] for attempt in self._groups.attempts if attempt.attempt in costs]
        return sum(known) if known else None

    @metric(RATE, words="Plain answers without a problem", left_out=("plain_missing",), only_if=_HAS_PLAIN)
    def plain_ok(self) -> Proportion:
        """Calls without a schema with an answer that is neither empty nor corrupted / calls without a schema."""
        return proportion(sum(call.problem is None for call in self._groups.plain_calls), len(self._groups.plain_calls))

    @metric(RATE, words="Plain answers that repeat their line", left_out=_PLAIN_LEFT_OUT, only_if=_HAS_PLAIN)
    def plain_repeated(self) -> Proportion:
        """Plain answers that contain the line that they should repeat / plain answers; low for weak models."""
        answers = [call for call in self._groups.plain_calls if call.generation_type == "completion"]
        return proportion(sum(call.repeated for call in answers), len(answers))

    @metric(COUNT, words="Plain calls", counted_open=("plain_missing",), only_if=_HAS_PLAIN)
    def plain_calls(self) -> int:
        """Number of calls without a schema; they are no attempts."""
        return len(self._groups.plain_calls)

    @metric(
        COUNT,
        better_when=Better.LOWER,
        counted_open=("plain_missing",),
        members={problem: {} for problem in PlainProblem},
        only_if=_HAS_PLAIN,
    )
    def plain_problems(self) -> Mapping[PlainProblem, int]:
        """Number of calls without a schema by what is wrong with them; empty without such calls."""
        problems = Counter(call.problem for call in self._groups.plain_calls)
        return {problem: problems[problem] for problem in PlainProblem} if self._groups.plain_calls else {}

    def _is_in_time(self, attempt: AttemptFacts) -> bool | None:
        """Return whether an answer is within the service level; None if unknown, or without a service level."""
        terms = self._groups.load
        if terms is None or terms.service is None:
            return None
        late = 0.0 if attempt.load is None else attempt.load.late_s or 0.0
        return terms.service.is_met(attempt.timing, attempt.usage, late)

    def _is_untimed(self, answer: AttemptFacts) -> bool:
        """Return whether a limited time of an answer was not measured, so that it may be in time."""
        return _HAS_SERVICE_LEVEL(self._groups) and self._is_in_time(answer) is None

    def _calls(self) -> Iterator[LoadFacts | PlainFacts]:
        """Yield the calls of this run with scheduled starts."""
        for _, load in self._groups.timed:
            yield load
            yield from load.plain
