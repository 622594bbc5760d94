"""The gates and the baseline of the run, and whether the run meets them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import JSBenchError

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import Gate, GateResult
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.reports.evaluations import Evaluation
    from pytest_jsbench.runs.records import RunMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What the gates and the baseline say of a run."""

    gates: tuple[GateResult, ...] = ()
    comparison: Comparison | None = None
    #: what was compared with
    baseline: Evaluation | None = None

    @property
    def met(self) -> bool:
        """Whether every gate is met."""
        return all(gate.met for gate in self.gates)

    def comparison_to_dict(self) -> dict[str, Any] | None:
        """The comparison as JSON values; None where there was none."""
        if self.comparison is None or self.baseline is None:
            return None
        return self.comparison.to_dict(source=self.baseline.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """The gates and the baseline, checked before any call."""

    gates: tuple[Gate, ...]
    baseline: Evaluation | None

    @classmethod
    def of(cls, context: RunContext) -> Expectations:
        """
        Read the baseline; pytest.UsageError where it, or a gate, has nothing to do with the cases of this run.

        What the project's tests will ask is not known yet: where they run, a gate may name any task.
        """
        settings = context.settings
        if not context.settings.targets.project:
            _check_tasks(settings.gates, {key.task for key in context.plan.keys})
        if settings.baseline is None:
            return cls(gates=settings.gates, baseline=None)
        from pytest_jsbench.reports.evaluations import with_cases

        try:
            baseline, outcomes = with_cases(settings.baseline)
        except JSBenchError as error:
            message = f"--jsbench-baseline: {error}"
            raise pytest.UsageError(message) from None
        if not context.settings.targets.project and outcomes.keys().isdisjoint(context.plan.keys):
            message = f"--jsbench-baseline: none of this run's cases in {settings.baseline}; give a run of this dataset"
            raise pytest.UsageError(message)
        return cls(gates=settings.gates, baseline=baseline)

    def decide(self, metadata: RunMetadata, summary: Summary) -> GateDecision:
        """Compare the run with the baseline, and check each gate."""
        from pytest_jsbench.metrics.gates import check
        from pytest_jsbench.reports.evaluations import against

        comparison = None if self.baseline is None else against(self.baseline, metadata, summary)
        gates = tuple(check(gate, summary, comparison) for gate in self.gates)
        return GateDecision(gates=gates, comparison=comparison, baseline=self.baseline)


def _check_tasks(gates: Iterable[Gate], tasks: Collection[str]) -> None:
    for gate in gates:
        try:
            gate.check_task(tasks)
        except JSBenchError as error:
            message = f"--jsbench-gate: {error}"
            raise pytest.UsageError(message) from None
