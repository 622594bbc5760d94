"""Keep the state of a run: attempts, outcomes, missing attempts with the reasons, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts, Place
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.records import Attempt, EndedTest, Missing, MissingReason, ProjectTestOutcome
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.serving import add_served

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.records.fault_reports import FaultReport
    from pytest_jsbench.run.record_keeper import AttemptResult

#: Reasons that apply to all attempts of a process; they are reported as warnings, because no single attempt shows them.
_WARNED = frozenset({MissingReason.EXHAUSTED, MissingReason.ERROR})


class RunState:
    """
    The attempts of the run and the outcomes reported so far; the records themselves stay on disk.

    The process that creates the summary has one object and fills it in one thread: first with the plan, then with each
    result. At the end of the run, `add_from` adds the outcomes that were written but not reported, and `to_run` returns
    the run.
    """

    def __init__(self, keys: Sequence[CaseKey], *, variants: Iterable[str] = ("",)) -> None:
        #: Keys of the dataset's cases, in the dataset's order.
        self._keys = keys
        #: Position of each variant in the run, by the variant's name.
        self._variants = {name: place for place, name in enumerate(variants)}
        #: The suite's attempts, in the dataset's order; empty until the tests are collected.
        self.planned: tuple[Attempt, ...] = ()
        #: Attempts of the project's tests; an attempt is known only after it was made.
        self._project_attempts: set[Attempt] = set()
        self._outcomes: dict[Attempt, AttemptFacts] = {}
        self._missing: dict[Attempt, Missing] = {}
        #: Outcomes of the project's tests that made no attempt, or whose attempt is missing.
        self._test_ends: dict[Attempt, ProjectTestOutcome] = {}
        #: Faults that the endpoints of the project's tests injected, by test, repeat and variant.
        self._fault_reports: dict[tuple[str, str, int, str], list[FaultReport]] = {}
        self._resumed: set[Attempt] = set()
        #: One line for each problem in writing or reading files.
        self.warnings: list[str] = []
        #: For each error of a classifier or a metric: the first attempt with the error, and the number of attempts with
        #: the error.
        self._classifier_errors: dict[str, tuple[Attempt, int]] = {}
        #: For each problem: the first record that was not written, the number of unwritten records, and the warning.
        self._unwritten: dict[str, tuple[AttemptFacts, int, str]] = {}

    def plan(self, attempts: Iterable[Attempt]) -> None:
        """Set the planned attempts of the suite, given in any order."""
        position = {key: number for number, key in enumerate(self._keys)}
        self.planned = tuple(
            sorted(
                attempts,
                key=lambda attempt: (position[attempt.key], attempt.repeat, self._variant_position(attempt.variant)),
            )
        )

    def _variant_position(self, variant: str) -> int:
        return self._variants.get(variant, len(self._variants))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the suite and of the project's tests."""
        return (*self.planned, *sorted(self._project_attempts))

    @property
    def count(self) -> int:
        """The number of attempts that are known so far."""
        return len(self.planned) + len(self._project_attempts)

    @property
    def complete(self) -> bool:
        """True once every attempt of the suite has a record."""
        return self.has_all(self.planned)

    @property
    def has_ended_tests(self) -> bool:
        """Whether any of the project's tests failed without a recorded call."""
        return any(True for _ in self._ended_tests())

    @property
    def has_faults(self) -> bool:
        """Whether the endpoint of any of the project's tests injected a fault."""
        return bool(self._fault_reports)

    def add_fault_reports(self, reports: Iterable[FaultReport]) -> None:
        """Add the faults of one run of a test; they replace those of an earlier run of the same test."""
        added: dict[tuple[str, str, int, str], list[FaultReport]] = {}
        for report in reports:
            added.setdefault((report.task, report.id, report.repeat, report.variant), []).append(report)
        self._fault_reports |= added

    def has_all(self, attempts: Iterable[Attempt]) -> bool:
        """Return whether every one of these attempts has a record."""
        return all(attempt in self._outcomes for attempt in attempts)

    def warn(self, *messages: str) -> None:
        """Add these lines to the warnings, each line once, and without empty lines."""
        self.warnings += [line for line in dict.fromkeys(messages) if line and line not in self.warnings]

    def take(self, made: AttemptResult, *, from_project_test: bool = False) -> AttemptFacts | None:
        """
        Add the result of an attempt and return its outcome; return None if the attempt is missing or already has an
        outcome.
        """
        result = made.result
        attempt = result.attempt
        if isinstance(result, Missing) and result.test_outcome is not None:
            self._test_ends[attempt] = result.test_outcome
            if not result.is_planned:
                return None
        if from_project_test:
            self._project_attempts.add(attempt)
        if isinstance(result, Missing):
            self._missing[attempt] = result
            if result.reason in _WARNED and not from_project_test:
                self.warn(result.message)
            return None
        before = self._outcomes.get(attempt)
        if before is not None and (before == result or not before.failed):
            # If a test is run again, its first answer counts; only a failed call and the outcome of the test are
            # replaced.
            if structs.replace(result, test_outcome=before.test_outcome, source=before.source) == before:
                self._outcomes[attempt] = result
            return None
        self._outcomes[attempt] = result
        (self._resumed.add if made.resumed else self._resumed.discard)(attempt)
        if made.journal_error:
            self._warn_unwritten(made.journal_error, result)
        for error in made.classifier_errors:
            first, count = self._classifier_errors.get(error, (attempt, 0))
            self._classifier_errors[error] = first, count + 1
        self.warn(made.recording_error)
        return result

    @property
    def failures(self) -> list[str]:
        """
        One line for each error of a classifier or a metric, with the first attempt and the number
        of other attempts.
        """
        several = any(attempt.repeat for attempt in self.attempts)
        return [
            f"{error}, at {first.name(several=several)}" + (f" and {count - 1:,} more" if count > 1 else "")
            for error, (first, count) in self._classifier_errors.items()
        ]

    def _warn_unwritten(self, problem: str, outcome: AttemptFacts) -> None:
        """Warn that a record is not on disk, with one warning per problem."""
        first, count, before = self._unwritten.get(problem, (outcome, 0, ""))
        others = f" and {count:,} more are" if count else " is"
        warning = f"{problem}; the record of {first.key}{others} not on disk"
        self._unwritten[problem] = first, count + 1, warning
        if before in self.warnings:
            self.warnings[self.warnings.index(before)] = warning
        else:
            self.warn(warning)

    def add_missing(self, attempt: Attempt, reason: MissingReason) -> None:
        """Record the reason why an attempt of the suite is missing."""
        self._missing[attempt] = Missing(**attempt._asdict(), reason=reason)

    def add_missing_project_tests(self, first_attempts: Iterable[Missing]) -> None:
        """Add the first attempts of the project's tests that did not run; tests that made attempts are ignored."""
        made = {(attempt.key, attempt.variant) for attempt in self._project_attempts}
        for missing in first_attempts:
            if (missing.key, missing.variant) not in made:
                self._project_attempts.add(missing.attempt)
                self._missing.setdefault(missing.attempt, missing)

    def add_from(self, folder: Path) -> None:
        """Add the records that the processes of the run wrote but did not report; rename files that cannot be read."""
        for path in sorted(folder.glob("records*.jsonl")):
            # resumed records count only if this run has judged and reported them; late records are not part of this run
            if path.name in (journal.RESUMED, journal.LATE):
                continue
            try:
                content = journal.read(path)
            except JSBenchError as error:
                self.warn(f"{error}; {self._rename_unreadable(path)}")
                continue
            self.warn(*content.warnings)
            self.add(content.outcomes)

    def add(self, outcomes: Iterable[AttemptFacts]) -> None:
        """Add attempts whose records were found on disk but were not reported."""
        planned = frozenset(self.planned)
        for outcome in outcomes:
            if outcome.asked_by is not None:
                self._project_attempts.add(outcome.attempt)
            if outcome.asked_by is not None or outcome.attempt in planned:
                self._outcomes.setdefault(outcome.attempt, outcome)

    def _rename_unreadable(self, path: Path) -> str:
        """
        Rename a file that cannot be read completely, so that it is not overwritten; return a description of the
        problem.
        """
        try:
            aside = path.rename(path.with_name(f"{path.name}.unreadable"))
        except OSError as error:
            return f"it is not renamed: {error}"
        # records that were already reported are intact, and are now in the renamed file
        for outcome in tuple(self._outcomes.values()):
            if isinstance(outcome.source, Place) and outcome.source.path == path:
                source = structs.replace(outcome.source, path=aside)
                self._outcomes[outcome.attempt] = structs.replace(outcome, source=source)
        return f"it is kept as {aside.name}"

    def _ended_tests(self) -> Iterator[EndedTest]:
        """Yield the project's tests that failed without a recorded call."""
        if not self._test_ends:  # a run of a dataset's cases has none, and its outcomes are many
            return
        recorded = {(made.key.of_first, made.repeat, made.variant) for made in self._outcomes.values()}
        for (key, repeat, variant), outcome in sorted(self._test_ends.items()):
            test = (key.of_first, repeat, variant)
            if outcome.cause is not None and test not in recorded:
                recorded.add(test)
                yield EndedTest(task=key.task, id=key.of_first.id, repeat=repeat, variant=variant, cause=outcome.cause)

    def to_run(self, metadata: RunMetadata) -> Run:
        """Return the run in its current state."""
        attempts = self.attempts
        keys = tuple(attempt.key for attempt in attempts)
        position = {key: number for number, key in enumerate(keys)}
        outcomes = sorted(
            self._outcomes.values(),
            key=lambda outcome: (
                position.get(outcome.key, len(position)),
                outcome.key,
                outcome.repeat,
                self._variant_position(outcome.variant),
            ),
        )
        faults = (report for key in sorted(self._fault_reports) for report in self._fault_reports[key])
        metadata = replace(
            metadata.with_plan(attempts), ended_tests=tuple(self._ended_tests()), fault_reports=tuple(faults)
        )
        return Run(
            metadata=add_served(metadata, outcomes),
            planned=keys,
            outcomes=tuple(outcomes),
            missing=tuple(
                # if no reason was reported, the session ended before the attempt
                self._missing.get(attempt) or Missing(**attempt._asdict(), reason=MissingReason.STOPPED)
                for attempt in attempts
                if attempt not in self._outcomes
            ),
            resumed=len(self._resumed),
        )
