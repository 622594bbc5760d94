"""The gates and the baseline of the run, and whether the run meets them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
    #: with the baseline, by variant, or that of no name
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    #: what was compared with
    baseline: Evaluation | None = None

    @property
    def met(self) -> bool:
        """Whether every gate is met."""
        return all(gate.met for gate in self.gates)

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
        from pytest_jsbench.reports.evaluations import against

        comparisons = {} if self.baseline is None else against(self.baseline, metadata, summary)
        gates = check_all(self.gates, summary, comparisons)
        return GateDecision(gates=gates, comparisons=comparisons, baseline=self.baseline)


def _resolved(gates: Iterable[Gate], tasks: Collection[str] | None, variants: Collection[str]) -> Iterator[Gate]:
    for gate in gates:
        try:
            yield gate.resolve(tasks, variants)
        except JSBenchError as error:
            message = f"--jsbench-gate: {error}"
            raise pytest.UsageError(message) from None
