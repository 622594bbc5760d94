"""Define the figures of second tries, which no other figure includes: what they repair, and what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.metrics.attempt_groups import cluster_by_case, timings
from pytest_jsbench.metrics.figure import COUNT, DOLLARS, RATE, SUM, TIME, Better, Display, FigureSet, metric
from pytest_jsbench.metrics.statistics import Distribution, Proportion, clustered, proportion
from pytest_jsbench.records.repairs import REPAIRABLE, TryFacts
from pytest_jsbench.settings.parsers import MOST_REPAIRS
from pytest_jsbench.verdicts import FailureType

_OPEN = ("errors", "unjudged", "repairs_open")
_LEFT_OUT = ("errors", "repairs_open")
_SUM_OPEN = (*_LEFT_OUT, "repairs_unreported")
_KINDS = tuple(kind for kind in FailureType if kind in REPAIRABLE)
_EACH_TRY: dict[str, Display] = {
    str(number): {"words": f"Pass rate after {number} second {'try' if number == 1 else 'tries'}"}
    for number in range(MOST_REPAIRS + 1)
}


class RepairFigures(FigureSet):
    """Figures of the second tries of a set of attempts."""

    comes_last = True

    @cached_property
    def tries_open(self) -> int:
        """Maximum number of second tries that may still be made, also after calls that failed or are missing."""
        tried = [each.repairs for each in self._groups.second_tries]
        most = max((repairs.most for repairs in tried), default=1)
        begun = (repairs for repairs in tried if repairs.passed_at is None)
        left = (max(repairs.most - sum(not each.failed for each in repairs.tries), 1) for repairs in begun)
        return sum(left) + (self._groups.failed.total() + self._groups.missing) * most

    @cached_property
    def repairs_unreported(self) -> int:
        """Number of second tries with an answer that did not report its number of tokens."""
        answered = (each.usage for each in self._tries() if each.generation_type == "completion")
        return sum(usage is None or usage.output_tokens is None for usage in answered)

    @cached_property
    def repairs_without_cost(self) -> int:
        """Number of wrong answers whose second tries were called for and have an unknown cost."""
        return sum(
            each.cost is None and any(not (made.remembered or made.failed) for made in each.repairs.tries)
            for each in self._groups.second_tries
        )

    @metric(RATE, of="planned", counted_open=_OPEN, members=_EACH_TRY, absent=proportion(0, 0))
    def pass_after(self) -> Mapping[int, Proportion]:
        """
        For each number of second tries from 0, attempts that passed at first or after at most so many / planned
        attempts; bounds are named `1_ci_low` and `1_ci_high`; empty without second tries.
        """
        groups = self._groups
        tried = groups.second_tries
        most = min(max((each.repairs.most for each in tried), default=-1), MOST_REPAIRS)
        repaired = [each for each in tried if each.repairs.passed_at]
        first = Counter(groups.passed)
        first.subtract(each.key for each in repaired if each.by_application)
        rates = {}
        for number in range(most + 1):
            passed = first + Counter(each.key for each in repaired if (each.repairs.passed_at or 0) <= number)
            rates[number] = clustered((passed[key], n) for key, n in groups.decided_plan.items())
        return rates

    @metric(RATE, words="Wrong answers repaired", left_out=_LEFT_OUT)
    def repair_rate(self) -> Proportion:
        """Wrong answers that passed after a second try / wrong answers that were asked for again."""
        return cluster_by_case(self._ends(*_KINDS))

    @metric(RATE, left_out=_LEFT_OUT, members={kind: {} for kind in _KINDS}, absent=proportion(0, 0))
    def repair_rates(self) -> Mapping[FailureType, Proportion]:
        """Repair rate of the wrong answers of each failure type; only types that were asked for again."""
        kinds = {each.failure_type for each in self._groups.second_tries}
        return {kind: cluster_by_case(self._ends(kind)) for kind in _KINDS if kind in kinds}

    @metric(RATE, words="Answers that json-repair rescues", left_out=("errors",))
    def json_repair_rate(self) -> Proportion:
        """Answers that pass after json-repair repaired their text / answers that are not JSON, with second tries."""
        tested = [(each.key, each.repairs.json_repair) for each in self._groups.second_tries]
        return cluster_by_case((key, int(rescued), 1) for key, rescued in tested if rescued is not None)

    @metric(TIME, words="Time of a second try", unit="s", left_out=("tries_open",))
    def repair_time(self) -> Distribution:
        """Time from the request of a second try to the end of its answer."""
        return timings(self._tries(), "tgt")

    @metric(SUM, counted_open=_SUM_OPEN)
    def repair_input_tokens(self) -> int | None:
        """Tokens in the conversations of the second tries; `input_tokens` only includes those of applications."""
        return self._tokens_of_tries().input_tokens

    @metric(SUM, counted_open=_SUM_OPEN)
    def repair_output_tokens(self) -> int | None:
        """Tokens in the answers of the second tries; `output_tokens` only includes those of applications."""
        return self._tokens_of_tries().output_tokens

    @metric(SUM, unit=DOLLARS, better_when=Better.LOWER, counted_open=(*_LEFT_OUT, "repairs_without_cost"))
    def repair_cost(self) -> float | None:
        """Cost in US dollars of the second tries, as far as known; `cost` only includes those of applications."""
        known = [each.cost for each in self._groups.second_tries if each.cost is not None]
        return sum(known) if known else None

    @metric(COUNT, counted_open=("tries_open",))
    def repair_tries(self) -> int:
        """Number of second tries with an answer or a decline of the model."""
        return sum(not each.failed for each in self._tries())

    @metric(COUNT, better_when=Better.LOWER)
    def repairs_open(self) -> int:
        """Number of wrong answers whose second tries are incomplete, for example because a call failed."""
        return sum(each.repairs.passed_at is None for each in self._groups.second_tries)

    def _tries(self) -> Iterator[TryFacts]:
        for each in self._groups.second_tries:
            yield from each.repairs.tries

    def _tokens_of_tries(self) -> Usage:
        return Usage.total([each.usage for each in self._tries() if each.usage is not None])

    def _ends(self, *kinds: FailureType) -> Iterator[tuple[CaseKey, int, int]]:
        """Yield, for each answer that the tries decided, its case and whether it was repaired."""
        for each in self._groups.second_tries:
            passed_at = each.repairs.passed_at
            if each.failure_type in kinds and passed_at is not None:
                yield each.key, int(passed_at > 0), 1
