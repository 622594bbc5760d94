"""How the session ends, as reports tell it: what failed beside answers, and what stopped it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.metrics.comparison import UNDECIDED
from pytest_jsbench.metrics.gates import Ending
from pytest_jsbench.plugin.session import transport

if TYPE_CHECKING:
    from pytest_jsbench.plugin.worker.collected import Collected

_PHASES = {
    "setup": "failed in its setup",
    "call": "failed",
    "teardown": "failed in its teardown",
    "collect": "could not be collected",
}


class SessionEnding:
    """What has failed so far, and what was said of the end."""

    def __init__(self) -> None:
        #: tests that failed of an answer, which a gate may forgive
        self._answers: dict[str, None] = {}
        self._failures: list[str] = []
        #: failed reports, each of which pytest counts too
        self._failed = 0
        #: by test, how many of its subtests failed
        self._subtests: Counter[str] = Counter()
        self._stopped = ""
        #: tests that have come to an end of their own
        self.ended: set[str] = set()
        #: tests that took their process with them
        self.crashed: list[str] = []

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Take note of a report."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            self.ended.add(report.nodeid)
        if not report.failed:
            return
        self._failed += 1
        kind = transport.failure_type_of(report)
        of_subtests = self._is_of_subtests(report)
        self._subtests[report.nodeid] += hasattr(report, "context")
        if kind and kind not in UNDECIDED:
            self._answers[report.nodeid] = None
        elif not kind and not of_subtests:
            self._failures.append(f"{report.nodeid} {_PHASES.get(str(report.when), 'ended its process')}")
        if not kind and str(report.when) not in _PHASES:  # xdist's word for it is "???"
            self.crashed.append(report.nodeid)

    def stop(self, reason: str) -> None:
        """The session was stopped before its end."""
        self._stopped = f"the session was stopped: {reason}"

    def fail(self, reason: str) -> None:
        """Something else failed, which no gate forgives."""
        self._failures.append(reason)

    def to_ending(self, session: pytest.Session, collected: Collected) -> Ending:
        """What a verdict is made of."""
        failures = list(self._failures)
        if (more := session.testsfailed - self._failed) > 0:
            failures.append(f"{more} more failures than tests failed, such as --cov-fail-under counts")
        if not self._stopped and (reason := session.shouldfail or session.shouldstop):
            self.stop(str(reason))
        return Ending(
            exit_status=int(session.exitstatus),
            answers=tuple(self._answers),
            failures=tuple(failures),
            lacking=(self._stopped,) if self._stopped else (),
            deselected=collected.deselected,
        )

    def _is_of_subtests(self, report: pytest.TestReport | pytest.CollectReport) -> bool:
        """Whether the test failed of nothing but its subtests, each of which has been reported."""
        count = self._subtests[report.nodeid]
        return count > 0 and report.longrepr == f"contains {count} failed subtest{'s' if count > 1 else ''}"
