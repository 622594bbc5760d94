"""What decides the run's verdict: how its tests ended, its gates, its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.plugin import transport
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import Ending, Gate, GateResult
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.records import RunMetadata
    from pytest_jsbench.reports.evaluations import Evaluation

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What the gates and the baseline say of a run."""

    gates: tuple[GateResult, ...] = ()
    #: with the baseline, by variant, or that of no name
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    #: what was compared with
    baseline: Evaluation | None = None

    def comparisons_to_dict(self) -> dict[str, dict[str, Any]]:
        """The comparisons as JSON values."""
        if self.baseline is None:
            return {}
        return {name: one.to_dict(source=self.baseline.source) for name, one in self.comparisons.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """The gates and the baseline, checked before any call."""

    gates: tuple[Gate, ...]
    baseline: Evaluation | None
    #: what is to be said of the baseline beside the comparisons, one line each
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: RunContext) -> Expectations:
        """
        Read the baseline; pytest.UsageError where it, or a gate, has nothing to do with the cases of this run.

        What the project's tests will ask is not known yet: where they run, a gate may name any task.
        """
        settings = context.settings
        tasks = None if settings.targets.project else {key.task for key in context.plan.keys}
        variants = [one.variant for one in context.handover.metadata.variants]
        gates = tuple(_resolved(context.plan.gates, tasks, variants))
        path = context.plan.baseline
        if path is None:
            return cls(gates=gates, baseline=None)
        from pytest_jsbench.reports.evaluations import counterparts, with_cases

        try:
            baseline, outcomes = with_cases(path)
            compared = counterparts(baseline, variants)
        except JSBenchError as error:
            message = f"--jsbench-baseline: {error}"
            raise pytest.UsageError(message) from None
        if not context.settings.targets.project and outcomes.keys().isdisjoint(context.plan.keys):
            message = f"--jsbench-baseline: none of this run's cases in {path}; give a run of this dataset"
            raise pytest.UsageError(message)
        alone = (
            f"variant {name} is compared with nothing: {baseline.source} has no variant of this name"
            for name in variants
            if name not in compared
        )
        return cls(gates=gates, baseline=baseline, warnings=(*baseline.warnings, *alone))

    def decide(self, metadata: RunMetadata, summary: Summary) -> GateDecision:
        """Compare the run with the baseline, and check each gate."""
        from pytest_jsbench.metrics.gates import check_all

        comparisons: Mapping[str, Comparison] = {}
        if self.baseline is not None:
            from pytest_jsbench.reports.evaluations import against

            comparisons = against(self.baseline, metadata, summary)
        gates = check_all(self.gates, summary, comparisons)
        return GateDecision(gates=gates, comparisons=comparisons, baseline=self.baseline)


def _resolved(gates: Iterable[Gate], tasks: Collection[str] | None, variants: Collection[str]) -> Iterator[Gate]:
    for gate in gates:
        try:
            yield gate.resolve(tasks, variants)
        except JSBenchError as error:
            message = f"--jsbench-gate: {error}"
            raise pytest.UsageError(message) from None
