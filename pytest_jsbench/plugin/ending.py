"""The session's own ending, of which the verdict on the run is made: how its tests ended, and what stopped it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.plugin import transport
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.metrics.gates import Ending

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

    def to_ending(self, session: pytest.Session, deselected: int) -> Ending:
        """Give the verdict on the run what it is decided from."""
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
            deselected=deselected,
        )

    def _is_of_subtests(self, report: pytest.TestReport | pytest.CollectReport) -> bool:
        """Say whether only subtests of the test failed, which have been reported already."""
        count = self._subtests[report.nodeid]
        return count > 0 and report.longrepr == f"contains {count} failed subtest{'s' if count > 1 else ''}"
