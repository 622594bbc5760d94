"""Find the cases that a run must not lose since a baseline: that vanished, arrived failing, or broke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.case_outcomes import CaseOutcome

#: Names of the counts, which are gates of a run with a baseline.
RATCHET = ("vanished", "arrived_failing", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratchet:
    """Cases of a run that are worse than in a baseline, one by one; a case fails if any of its attempts failed."""

    #: Cases of the baseline that this run does not have, or whose schema is invalid in this run.
    vanished: tuple[CaseKey, ...]
    #: Cases that fail in this run, and that the baseline does not have with the same schema.
    arrived_failing: tuple[CaseKey, ...]
    #: Cases in which every attempt passed in the baseline, and that fail in this run.
    broken: tuple[CaseKey, ...]
    #: Number of cases that could still become `arrived_failing` and `broken`, because some attempts are undecided.
    may_arrive: int = 0
    may_break: int = 0

    @classmethod
    def of(cls, baseline: Mapping[CaseKey, CaseOutcome], run: Mapping[CaseKey, CaseOutcome]) -> Self:
        """Return the cases of a run that are worse than in the baseline."""
        known = {key for key, now in run.items() if key in baseline and baseline[key].has_same_schema(now)}
        new = [key for key in run if key not in known]
        held = [key for key in run if key in known and baseline[key].passed]
        return cls(
            vanished=tuple(key for key in baseline if key not in run),
            arrived_failing=tuple(key for key in new if run[key].failed),
            broken=tuple(key for key in held if run[key].failed),
            may_arrive=sum(_may_fail(run[key]) for key in new),
            may_break=sum(_may_fail(run[key]) for key in held),
        )

    def open_cases(self, count: str) -> int:
        """Return how many more cases a count could have after all attempts are decided."""
        return {"arrived_failing": self.may_arrive, "broken": self.may_break}.get(count, 0)

    def to_dict(self) -> dict[str, list[str]]:
        """Return the names of the cases as JSON values."""
        return {name: [str(key) for key in getattr(self, name)] for name in RATCHET}


def _may_fail(outcome: CaseOutcome) -> bool:
    return not outcome.failed and len(outcome.decided) < len(outcome.attempts)
