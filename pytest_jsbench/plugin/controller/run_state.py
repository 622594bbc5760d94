"""The state of a run as reports tell it: its attempts, their records, what is missing, and how the session ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.plugin.session import transport
from pytest_jsbench.plugin.worker.items import attempt_of
from pytest_jsbench.runs.outcomes import AttemptOutcome, Place, Run
from pytest_jsbench.runs.records import Attempt, Missing, MissingReason, RunMetadata
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_jsbench.metrics.gates import Ending
    from pytest_jsbench.plugin.worker.items import Collected
    from pytest_jsbench.runner.record_keeper import AttemptResult


class RunState:
    """
    The attempts of the run, and the outcomes that have been reported; the records stay on disk.

    The controller makes one, in the only process or in xdist's controller, and fills it in the main thread: with the
    plan when the tests are collected, then with each report. When the session ends, `to_run` makes the run of it.
    """

    def __init__(self, keys: Sequence[CaseKey], *, variants: Sequence[str] = ("",), repeats: int = 1) -> None:
        #: of the dataset, in its order
        self._keys = keys
        #: the place of each of the run's variants among them
        self._variants = {name: place for place, name in enumerate(variants)}
        self._repeats = repeats
        #: the suite's attempts, in the dataset's order; empty until they are collected
        self.planned: tuple[Attempt, ...] = ()
        #: attempts of the project's tests, which are known only when they are made
        self._of_project: set[Attempt] = set()
        self._outcomes: dict[Attempt, AttemptOutcome] = {}
        self._missing: dict[Attempt, Missing] = {}
        self._resumed: set[Attempt] = set()

    def plan(self, attempts: Iterable[Attempt]) -> None:
        """Set the suite's attempts, in any order."""
        position = {key: number for number, key in enumerate(self._keys)}
        order = self._variants
        self.planned = tuple(
            sorted(attempts, key=lambda one: (position[one.key], one.repeat, order.get(one.variant, len(order))))
        )

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the suite and of the project's tests."""
        return (*self.planned, *sorted(self._of_project))

    @property
    def count(self) -> int:
        """The number of attempts, as far as they are known."""
        return len(self.planned) + len(self._of_project)

    @property
    def keys(self) -> tuple[CaseKey, ...]:
        """The case of each attempt."""
        return tuple(attempt.key for attempt in self.attempts)

    @property
    def complete(self) -> bool:
        """Whether each of the suite's attempts has its record."""
        return all(attempt in self._outcomes for attempt in self.planned)

    def take(self, outcome: AttemptResult, *, of_project: bool = False) -> AttemptOutcome | None:
        """Note the result of an attempt; its outcome, or None if the attempt has one already or is missing."""
        result = outcome.result
        attempt = result.attempt
        if of_project:
            self._of_project.add(attempt)
        if isinstance(result, Missing):
            self._missing[attempt] = result
            return None
        known = self._outcomes.get(attempt)
        if known is not None and (known == result or not known.failed):
            # a test was run again: the first answer stands, and only a broken call and the test's own outcome do not
            if replace(result, test_outcome=known.test_outcome, source=known.source) == known:
                self.keep(result)
            return None
        self._outcomes[attempt] = result
        (self._resumed.add if outcome.resumed else self._resumed.discard)(attempt)
        return result

    def miss_project_tests(self, first_attempts: Iterable[Missing]) -> None:
        """Note that tests of the project would have asked, by their first attempts; those that did ask are left out."""
        asked = {(attempt.key, attempt.variant) for attempt in self._of_project}
        for missing in first_attempts:
            if (missing.key, missing.variant) not in asked:
                self._of_project.add(missing.attempt)
                self._missing.setdefault(missing.attempt, missing)

    def miss(self, nodeid: str, reason: MissingReason) -> None:
        """Note why the attempt of a broken test is missing, if it is a test of the suite."""
        if (attempt := attempt_of(nodeid, repeats=self._repeats)) is not None:
            self._missing[attempt] = Missing(**attempt._asdict(), reason=reason)

    def keep(self, outcome: AttemptOutcome) -> None:
        """Put an outcome in the place of the one that stands, because its record is elsewhere now."""
        self._outcomes[outcome.attempt] = outcome

    def follow(self, path: Path, to: Path) -> None:
        """Read the records of a file from where it has been moved to."""
        for outcome in tuple(self._outcomes.values()):
            if isinstance(outcome.source, Place) and outcome.source.path == path:
                self.keep(replace(outcome, source=replace(outcome.source, path=to)))

    def add(self, outcomes: Iterable[AttemptOutcome]) -> None:
        """Add attempts whose records were found on disk, where they have not been reported."""
        planned = frozenset(self.planned)
        for outcome in outcomes:
            if outcome.asked_by is not None:
                self._of_project.add(outcome.attempt)
            if outcome.asked_by is not None or outcome.attempt in planned:
                self._outcomes.setdefault(outcome.attempt, outcome)

    def has_all(self, outcomes: Iterable[AttemptOutcome]) -> bool:
        """Whether all these attempts have records."""
        return all(outcome.attempt in self._outcomes for outcome in outcomes)

    def to_run(self, metadata: RunMetadata) -> Run:
        """The run as it is known."""
        return Run(
            metadata=metadata.with_plan(self.attempts),
            planned=self.keys,
            outcomes=tuple(sorted(self._outcomes.values(), key=self._order())),
            missing=tuple(self._find_missing()),
            resumed=len(self._resumed),
        )

    def _find_missing(self) -> Iterator[Missing]:
        """Each attempt without a record, with its reason; without a reported reason, the session ended first."""
        for attempt in self.attempts:
            if attempt not in self._outcomes:
                stopped = Missing(**attempt._asdict(), reason=MissingReason.STOPPED)
                yield self._missing.get(attempt, stopped)

    def _order(self) -> Callable[[AttemptOutcome], tuple[int, CaseKey, int, int]]:
        position = {key: number for number, key in enumerate(self.keys)}
        variants = self._variants
        return lambda outcome: (
            position.get(outcome.key, len(position)),
            outcome.key,
            outcome.repeat,
            variants.get(outcome.variant, len(variants)),
        )


_PHASES = {
    "setup": "failed in its setup",
    "call": "failed",
    "teardown": "failed in its teardown",
    "collect": "could not be collected",
}


class SessionEnding:
    """
    What has failed in the session, and what stopped it.

    The controller makes one, and adds each report to it in the main thread; when the session ends, `to_ending` gives
    the verdict what it needs.
    """

    def __init__(self) -> None:
        #: tests that failed because of an answer, which gates may allow
        self._answers: dict[str, None] = {}
        self._broken_schemas: list[str] = []
        self._failures: list[str] = []
        #: failed reports, each of which pytest counts too
        self._failed = 0
        #: by test, how many of its subtests failed
        self._subtests: Counter[str] = Counter()
        self._stopped = ""
        #: tests that ran to their end
        self.ended: set[str] = set()
        #: tests with a report that is no success: failed, skipped, or made again
        self._not_passed: set[str] = set()
        #: whether some tests were not collected at all: a module that skipped itself, or could not be read
        self.lacks_tests = False
        #: tests during which their process died
        self.crashed: list[str] = []

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Take note of a report."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            self.ended.add(report.nodeid)
        if not report.passed:
            self._not_passed.add(report.nodeid)
            self.lacks_tests = self.lacks_tests or report.when == "collect"
        if not report.failed:
            return
        self._failed += 1
        kind = transport.failure_type_of(report)
        of_subtests = self._is_of_subtests(report)
        if hasattr(report, "context"):
            self._subtests[report.nodeid] += 1
        if kind == FailureType.INVALID_SCHEMA:
            self._broken_schemas.append(report.nodeid)
        elif kind and kind not in NOT_THE_MODELS:
            self._answers[report.nodeid] = None
        elif not kind and not of_subtests:
            self._failures.append(f"{report.nodeid} {_PHASES.get(str(report.when), 'ended its process')}")
        if not kind and str(report.when) not in _PHASES:  # xdist's word for it is "???"
            self.crashed.append(report.nodeid)

    @property
    def finished(self) -> set[str]:
        """The tests that passed."""
        return self.ended - self._not_passed

    def stop(self, reason: str) -> None:
        """The session was stopped before its end."""
        self._stopped = f"the session was stopped: {reason}"

    def fail(self, reason: str) -> None:
        """Note another failure, which no gate allows."""
        self._failures.append(reason)

    def to_ending(self, session: pytest.Session, collected: Collected) -> Ending:
        """What the verdict on the run is decided from."""
        from pytest_jsbench.metrics.gates import Ending

        failures = list(self._failures)
        if (more := session.testsfailed - self._failed) > 0:
            failures.append(f"{more} more failures than tests failed, such as --cov-fail-under counts")
        if not self._stopped and (reason := session.shouldfail or session.shouldstop):
            self.stop(str(reason))
        return Ending(
            exit_status=int(session.exitstatus),
            answers=tuple(self._answers),
            broken_schemas=tuple(self._broken_schemas),
            failures=tuple(failures),
            lacking=(self._stopped,) if self._stopped else (),
            deselected=collected.deselected,
        )

    def _is_of_subtests(self, report: pytest.TestReport | pytest.CollectReport) -> bool:
        """Whether only subtests of the test failed, which have been reported already."""
        count = self._subtests[report.nodeid]
        return count > 0 and report.longrepr == f"contains {count} failed subtest{'s' if count > 1 else ''}"
