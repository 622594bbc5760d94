"""Define a run in memory: its plan, the facts about its attempts, and the verdict on it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, overload

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.records import Attempt, End, Record
from pytest_jsbench.verdicts import UNDESCRIBED, WITHOUT_SCHEMA

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Missing
from pytest_jsbench.records.facts import AttemptFacts, open_lines

#: Maximum length of a reason for a run verdict, which is enough for the node ids of several tests.
_LONGEST_REASON = 2000


class Records(Sequence[Record]):
    """
    The records of a run in order; each record is read from disk when it is accessed.

    Iteration opens each file once, and keeps at most one record in memory.
    """

    def __init__(self, outcomes: Sequence[AttemptFacts]) -> None:
        self._outcomes = outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Record]:
        with open_lines() as lines:
            for outcome in self._outcomes:
                yield outcome.read(lines)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        if isinstance(index, slice):
            return Records(self._outcomes[index])
        return self._outcomes[index].read()


class RunStatus(StrEnum):
    """Ways in which a run can end."""

    PASSED = "passed"
    #: A gate was not met, or a test or schema failed.
    FAILED = "failed"
    #: Nothing failed, but too many answers are missing to pass.
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The verdict on a run."""

    #: passed: the exit status is 0; failed: a gate was not met, or a test or schema failed; incomplete: nothing failed,
    #: but too many answers are missing to pass.
    status: RunStatus
    #: Exit status of pytest, or of the command that decided the verdict.
    exit_status: int
    #: Reasons for the verdict, one printable line each: gates that are not met, tests that failed for another reason
    #: than an answer, and what is missing.
    because: tuple[str, ...]

    @classmethod
    def of(cls, status: RunStatus, exit_status: int, because: list[str]) -> RunVerdict:
        """Return the verdict with these reasons, made safe to print and limited in length."""
        shown = tuple(printable(reason, _LONGEST_REASON) for reason in because)
        return cls(status=status, exit_status=exit_status, because=shown)

    def with_exit_status(self, exit_status: int, reason: str) -> RunVerdict:
        """Return the verdict after another plugin changed the exit status; a failed run stays failed."""
        status = RunStatus.FAILED if self.passed and exit_status != 0 else self.status
        kept = () if self.passed else self.because
        return RunVerdict.of(status, exit_status, [*kept, reason])

    @property
    def passed(self) -> bool:
        """Whether the run passed; the exit status may differ if another plugin set it."""
        return self.status is RunStatus.PASSED

    @property
    def text(self) -> str:
        """The verdict as one line."""
        return f"{self.status.upper()}: {'; '.join(self.because)}"

    @classmethod
    def from_run_json(cls, data: Mapping[str, Any]) -> RunVerdict | None:
        """
        Return the verdict in a run.json, or None if the run has no verdict; raise ValueError if the
        verdict is invalid.
        """
        verdict: RunVerdict | None = from_json(cls | None, data.get("verdict"))
        return verdict and cls.of(verdict.status, verdict.exit_status, list(verdict.because))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    A run: its plan, and the outcomes of its attempts.

    A run with variants contains several runs; `of_variant` returns the run of each variant.
    """

    metadata: RunMetadata
    #: Case of each planned attempt, in order: a case with three attempts appears three times.
    planned: tuple[CaseKey, ...]
    outcomes: tuple[AttemptFacts, ...]
    #: Planned attempts that have no record, each with the reason.
    missing: tuple[Missing, ...] = ()
    #: Number of records reused from an earlier run.
    resumed: int = 0
    #: The run verdict; None if not decided yet.
    verdict: RunVerdict | None = None
    #: Problems with the files of the run, one line each.
    warnings: tuple[str, ...] = ()

    @property
    def records(self) -> Records:
        """Records of the outcomes, in the same order, read from disk."""
        return Records(self.outcomes)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the run's variants in order; empty for a run without variants."""
        return tuple(variant.variant for variant in self.metadata.variants)

    def breaks(self, outcome: AttemptFacts) -> bool:
        """
        Return whether the attempt has an invalid schema that counts against the run.

        This is the case for the user's own schemas, unless cases with an invalid schema are skipped; a project's own
        test is then skipped like a case of the dataset.
        """
        if not outcome.excluded or outcome.not_rewritten or outcome.reason in WITHOUT_SCHEMA:
            return False
        if outcome.asked_by is not None:
            return outcome.test_outcome is None or outcome.test_outcome.end is not End.SKIPPED
        return self.metadata.dataset.get("invalid_schemas") in ("fail", "strict")

    def tests_without_schema(self) -> tuple[str, ...]:
        """Return node ids of the project's tests that have no judged answer because their calls have no schema."""
        undescribed: dict[str, bool] = {}
        for outcome in self.outcomes:
            if outcome.asked_by is not None:
                alone = outcome.excluded and outcome.reason == UNDESCRIBED
                undescribed[outcome.asked_by.test] = alone and undescribed.get(outcome.asked_by.test, True)
        return tuple(test for test, alone in undescribed.items() if alone)

    def failed(self) -> list[AttemptFacts]:
        """
        Return the attempts to display as failed because of the answer, the schema, or the result of a project's own
        test.

        If a test failed for a reason other than its answers, only its last attempt is returned.
        """
        shown: dict[object, AttemptFacts] = {}
        for outcome in self.outcomes:
            test = outcome.test_outcome
            asked_by = outcome.asked_by
            if outcome.failing or self.breaks(outcome):
                shown[outcome.attempt] = outcome
            elif asked_by is not None and test is not None and test.passed is False:
                shown[asked_by.test, outcome.repeat, outcome.variant] = outcome
        return list(shown.values())

    def find_repeated(self) -> frozenset[CaseKey]:
        """Return the cases with several attempts."""
        return frozenset(outcome.key for outcome in self.outcomes if outcome.repeat > 0)

    def name_of(self, attempt: Attempt) -> str:
        """Return the attempt's name as in its node id, with its number if the case has several attempts."""
        return attempt.name(several=self.metadata.repeats > 1 or attempt.repeat > 0)

    @property
    def broke_server(self) -> tuple[str, ...]:
        """Names of the attempts whose request broke the server while it was the only one in flight."""
        return tuple(self.name_of(outcome.attempt) for outcome in self.outcomes if outcome.broke_server)

    def unrecorded(self) -> dict[Attempt, Missing | None]:
        """Return the planned attempts that have no record, in order, each with the reason if known."""
        reasons = {attempt.attempt: attempt for attempt in self.missing}
        made = {outcome.attempt for outcome in self.outcomes}
        unrecorded: dict[Attempt, Missing | None] = {}
        for variant, run in (self.each() or {self.metadata.variant: self}).items():
            answered = Counter(outcome.key for outcome in run.outcomes)
            for key, planned in Counter(run.planned).items():
                attempts = (Attempt(key, at, variant) for at in itertools.count())
                left = (attempt for attempt in attempts if attempt not in made)
                for attempt in itertools.islice(left, max(0, planned - answered[key])):
                    unrecorded[attempt] = reasons.get(attempt)
        return unrecorded

    def of_variant(self, name: str) -> Run:
        """Return the run of one variant, without a verdict; raise KeyError if the variant is unknown."""
        return self.each()[name]

    def each(self) -> dict[str, Run]:
        """Return the run of each variant, as `of_variant` does, in one pass over the outcomes."""
        if not self.variants:
            return {}
        outcomes: dict[str, list[AttemptFacts]] = {name: [] for name in self.variants}
        missing: dict[str, list[Missing]] = {name: [] for name in self.variants}
        # an untrusted file may contain records of other variants
        for outcome in self.outcomes:
            outcomes.get(outcome.variant, []).append(outcome)
        for entry in self.missing:
            missing.get(entry.variant, []).append(entry)
        plans = self.metadata.plans()
        runs = {}
        for name, made in outcomes.items():
            planned = plans[name]
            if planned is None:  # an old run may have no plan, so its records are used
                planned = tuple(outcome.key for outcome in made)
            metadata = self.metadata.of_variant(name)
            runs[name] = Run(metadata=metadata, planned=planned, outcomes=tuple(made), missing=tuple(missing[name]))
        return runs
