"""The state of a run: its attempts, their outcomes, what is missing and why, and what went wrong beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.outcomes import AttemptOutcome, Place, Run
from pytest_jsbench.records.records import Attempt, EndedTest, Missing, MissingReason, OwnOutcome

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.run.record_keeper import AttemptResult

#: reasons that hold for all attempts of a process, and that none of them shows
_WARNED = frozenset({MissingReason.EXHAUSTED, MissingReason.ERROR})


class RunState:
    """
    The attempts of the run, and the outcomes that have been reported; the records stay on disk.

    Whoever drives a run makes one, in the process that sums it up, and fills it in one thread: with the plan, then with
    each result. When the run ends, `add_from` adds what was written and not reported, and `to_run` makes the run of it.
    """

    def __init__(self, keys: Sequence[CaseKey], *, variants: Iterable[str] = ("",)) -> None:
        #: of the dataset, in its order
        self._keys = keys
        #: the place of each of the run's variants among them
        self._variants = {name: place for place, name in enumerate(variants)}
        #: the suite's attempts, in the dataset's order; empty until they are collected
        self.planned: tuple[Attempt, ...] = ()
        #: attempts of the project's tests, which are known only when they are made
        self._of_project: set[Attempt] = set()
        self._outcomes: dict[Attempt, AttemptOutcome] = {}
        self._missing: dict[Attempt, Missing] = {}
        #: How the project's tests ended of which an attempt is missing, or which made none.
        self._test_ends: dict[Attempt, OwnOutcome] = {}
        self._resumed: set[Attempt] = set()
        #: one line each: what could not be written or read
        self.warnings: list[str] = []
        #: by the error of a classifier or a metric: the first attempt that it broke at, and how many
        self._broken: dict[str, tuple[Attempt, int]] = {}
        #: by what kept them off the disk: the first of the records that are not there, and the warning that counts them
        self._unwritten: dict[str, tuple[AttemptOutcome, int, str]] = {}

    def plan(self, attempts: Iterable[Attempt]) -> None:
        """Set the suite's attempts, in any order."""
        position = {key: number for number, key in enumerate(self._keys)}
        self.planned = tuple(
            sorted(attempts, key=lambda attempt: (position[attempt.key], attempt.repeat, self._place(attempt.variant)))
        )

    def _place(self, variant: str) -> int:
        return self._variants.get(variant, len(self._variants))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the suite and of the project's tests."""
        return (*self.planned, *sorted(self._of_project))

    @property
    def count(self) -> int:
        """The number of attempts, as far as they are known."""
        return len(self.planned) + len(self._of_project)

    @property
    def complete(self) -> bool:
        """True once each of the suite's attempts has its record."""
        return self.has_all(self.planned)

    def has_all(self, attempts: Iterable[Attempt]) -> bool:
        """Say whether all these attempts have records."""
        return all(attempt in self._outcomes for attempt in attempts)

    def warn(self, *messages: str) -> None:
        """Add these lines to the warnings, each once; an empty one is none."""
        self.warnings += [line for line in dict.fromkeys(messages) if line and line not in self.warnings]

    def take(self, made: AttemptResult, *, of_project: bool = False) -> AttemptOutcome | None:
        """Note the result of an attempt; its outcome, or None if the attempt has one already or is missing."""
        result = made.result
        attempt = result.attempt
        if isinstance(result, Missing) and result.test_outcome is not None:
            self._test_ends[attempt] = result.test_outcome
            if not result.is_planned:
                return None
        if of_project:
            self._of_project.add(attempt)
        if isinstance(result, Missing):
            self._missing[attempt] = result
            if result.reason in _WARNED and not of_project:
                self.warn(result.message)
            return None
        before = self._outcomes.get(attempt)
        if before is not None and (before == result or not before.failed):
            # a test was run again: the first answer stands, and only a broken call and the test's own outcome do not
            if structs.replace(result, test_outcome=before.test_outcome, source=before.source) == before:
                self._outcomes[attempt] = result
            return None
        self._outcomes[attempt] = result
        (self._resumed.add if made.resumed else self._resumed.discard)(attempt)
        if made.journal_error:
            self._warn_unwritten(made.journal_error, result)
        for error in made.classifier_errors:
            first, count = self._broken.get(error, (attempt, 0))
            self._broken[error] = first, count + 1
        self.warn(made.recording_error)
        return result

    @property
    def failures(self) -> list[str]:
        """Name each error of a classifier or a metric, with the first attempt that it broke at, and how many more."""
        several = any(attempt.repeat for attempt in self.attempts)
        return [
            f"{error}, at {first.name(several=several)}" + (f" and {count - 1:,} more" if count > 1 else "")
            for error, (first, count) in self._broken.items()
        ]

    def _warn_unwritten(self, problem: str, outcome: AttemptOutcome) -> None:
        """Warn that a record is not on disk; all that one problem kept off it are one warning."""
        first, count, before = self._unwritten.get(problem, (outcome, 0, ""))
        others = f" and {count:,} more are" if count else " is"
        warning = f"{problem}; the record of {first.key}{others} not on disk"
        self._unwritten[problem] = first, count + 1, warning
        if before in self.warnings:
            self.warnings[self.warnings.index(before)] = warning
        else:
            self.warn(warning)

    def miss(self, attempt: Attempt, reason: MissingReason) -> None:
        """Note why an attempt of the suite is missing."""
        self._missing[attempt] = Missing(**attempt._asdict(), reason=reason)

    def miss_project_tests(self, first_attempts: Iterable[Missing]) -> None:
        """Note that tests of the project would have asked, by their first attempts; those that did ask are left out."""
        made = {(attempt.key, attempt.variant) for attempt in self._of_project}
        for missing in first_attempts:
            if (missing.key, missing.variant) not in made:
                self._of_project.add(missing.attempt)
                self._missing.setdefault(missing.attempt, missing)

    def add_from(self, folder: Path) -> None:
        """Add what the processes of the run have written and not reported; a file that cannot be read is put aside."""
        for path in sorted(folder.glob("records*.jsonl")):
            # not judged by this run where it was not reported; or of no part of this run
            if path.name in (journal.RESUMED, journal.LATE):
                continue
            try:
                content = journal.read(path)
            except JSBenchError as error:
                self.warn(f"{error}; {self._put_aside(path)}")
                continue
            self.warn(*content.warnings)
            self.add(content.outcomes)

    def add(self, outcomes: Iterable[AttemptOutcome]) -> None:
        """Add attempts whose records were found on disk, where they have not been reported."""
        planned = frozenset(self.planned)
        for outcome in outcomes:
            if outcome.asked_by is not None:
                self._of_project.add(outcome.attempt)
            if outcome.asked_by is not None or outcome.attempt in planned:
                self._outcomes.setdefault(outcome.attempt, outcome)

    def _put_aside(self, path: Path) -> str:
        """Rename a file that cannot be read whole, so that it is kept and not overwritten; what was done, in words."""
        try:
            aside = path.rename(path.with_name(f"{path.name}.unreadable"))
        except OSError as error:
            return f"it stays where it is: {error}"
        # what was reported of it stands before the line that is broken, or after it
        for outcome in tuple(self._outcomes.values()):
            if isinstance(outcome.source, Place) and outcome.source.path == path:
                source = structs.replace(outcome.source, path=aside)
                self._outcomes[outcome.attempt] = structs.replace(outcome, source=source)
        return f"it is kept as {aside.name}"

    def _ended_tests(self) -> Iterator[EndedTest]:
        """Yield the project's tests that failed without a recorded call."""
        recorded = {(made.key.of_first, made.repeat, made.variant) for made in self._outcomes.values()}
        for (key, repeat, variant), outcome in sorted(self._test_ends.items()):
            test = (key.of_first, repeat, variant)
            if outcome.cause is not None and test not in recorded:
                recorded.add(test)
                yield EndedTest(task=key.task, id=key.of_first.id, repeat=repeat, variant=variant, cause=outcome.cause)

    def to_run(self, metadata: RunMetadata) -> Run:
        """Make the run as it is known."""
        attempts = self.attempts
        keys = tuple(attempt.key for attempt in attempts)
        position = {key: number for number, key in enumerate(keys)}
        outcomes = sorted(
            self._outcomes.values(),
            key=lambda outcome: (
                position.get(outcome.key, len(position)),
                outcome.key,
                outcome.repeat,
                self._place(outcome.variant),
            ),
        )
        return Run(
            metadata=replace(metadata.with_plan(attempts), ended_tests=tuple(self._ended_tests())),
            planned=keys,
            outcomes=tuple(outcomes),
            missing=tuple(
                # without a reported reason the session ended first
                self._missing.get(attempt) or Missing(**attempt._asdict(), reason=MissingReason.STOPPED)
                for attempt in attempts
                if attempt not in self._outcomes
            ),
            resumed=len(self._resumed),
        )
