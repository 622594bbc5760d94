"""Count the attempts of a run while they arrive, and estimate the remaining time and the cost so far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import dollars, format_clock
from pytest_jsbench.records.runs import Run

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.run.state import RunState

#: Maximum number of cases whose schemas are read to estimate the remaining time; with more cases, each has weight 1.
_MOST_WEIGHED = 1000
#: Weight of the prompt without the schema, in characters.
_PROMPT_WEIGHT = 400


class RunProgress:
    """
    The progress of a run in the process that creates the summary.

    One thread calls `count` with each attempt, and `parts` when the progress is shown, which is never during `count`.
    """

    def __init__(self, plan: Plan, metadata: RunMetadata, state: RunState) -> None:
        self._plan = plan
        self._metadata = metadata
        self._state = state
        self._done = self._failing = self._done_of_suite = 0
        #: Weight of the suite's finished attempts, and of the attempts among these that are not from a resumed run.
        self._done_weight = self._called_weight = 0
        #: Weight of each case, and total weight of the planned attempts; computed when the first attempt is counted.
        self._weights: dict[CaseKey, int] | None = None
        self._planned_weight = 0
        #: Attempts whose cost has not been added to `_cost` yet.
        self._made: list[AttemptFacts] = []
        self._cost = 0.0

    def count(self, attempt: AttemptFacts, *, resumed: bool) -> None:
        """Count an attempt; an attempt from a resumed run affects neither the cost nor the remaining time."""
        weight = self._weight_of(attempt.attempt)
        self._done += 1
        self._done_of_suite += weight > 0
        self._done_weight += weight
        self._failing += attempt.failing
        if not resumed:
            self._called_weight += weight
            self._made.append(attempt)

    def parts(self, elapsed: float, *, processes: int) -> list[str]:
        """
        Describe the attempts, the remaining time and the cost, `elapsed` seconds after the first test began in one of
        the processes.
        """
        from pytest_jsbench.metrics.prices import costs

        made = Run(metadata=self._metadata, planned=(), outcomes=tuple(self._made))
        self._cost += sum(costs(made).attempts.values())
        self._made.clear()
        parts = [f"{self._done:,} of {self._state.count:,} done", f"{self._failing:,} failing"]
        left = self._seconds_left(elapsed, processes)
        if left is not None:
            parts.append(f"~{format_clock(left)} left")
        if self._cost:
            parts.append(f"{dollars(self._cost)} so far")
        return parts

    def _seconds_left(self, elapsed: float, processes: int) -> float | None:
        """
        Estimate the remaining seconds from the weights of the cases; None before the first answer.

        Each call in flight is assumed to be half finished.
        """
        attempts = len(self._state.planned) - self._done_of_suite
        weight = self._planned_weight - self._done_weight
        if not self._called_weight or attempts <= 0:
            return None
        in_flight = processes * sum(variant.concurrency for variant in self._plan.variants.values())
        halfway = weight / attempts * min(in_flight, attempts) / 2
        return (weight - halfway) * elapsed / (self._called_weight + halfway)

    def _weight_of(self, attempt: Attempt) -> int:
        if self._weights is None:
            self._weights = self._weigh_cases()
            self._planned_weight = sum(self._weights.get(one.key, 0) for one in self._state.planned)
        return self._weights.get(attempt.key, 0)

    def _weigh_cases(self) -> dict[CaseKey, int]:
        """Return the weight of each case; longer schemas count more, since their prompts and answers are longer."""
        planned = {attempt.key for attempt in self._state.planned}
        if len(planned) > _MOST_WEIGHED:
            return dict.fromkeys(planned, 1)
        return {key: self._weigh(key) for key in planned}

    def _weigh(self, key: CaseKey) -> int:
        try:
            case = self._plan.cases.case(key)
        except JSBenchError:  # the test of the case reports the problem
            return _PROMPT_WEIGHT
        schemas = case.judging_schemas if isinstance(case, Case) else ()
        return _PROMPT_WEIGHT + sum(len(json.dumps(schema)) for schema in schemas)
