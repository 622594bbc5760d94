"""Check the gates and the baseline of a run before its calls, and evaluate them at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import GateError, JSBenchError, errors_about, nearest
from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import Gate, GateResult
    from pytest_jsbench.metrics.metric_names import MetricName
    from pytest_jsbench.metrics.quarantine import Quarantine, QuarantineReport
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.reports.blocks import Fact
    from pytest_jsbench.reports.run_json import Evaluation
    from pytest_jsbench.run.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """Results of a run's gates, and its comparison with the baseline."""

    gates: tuple[GateResult, ...] = ()
    #: Comparisons with the baseline by variant; in a run without variants, the key is empty.
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    #: Evaluation with which the run was compared; None without a baseline.
    baseline: Evaluation | None = None
    #: What became of the quarantined cases; None without a quarantine.
    quarantine: QuarantineReport | None = None
    #: The part of the run that decides its gates and its verdict: without quarantined cases; None for the whole run.
    deciding: Summary | None = None

    def facts(self) -> Iterator[Fact]:
        """Yield the facts of the comparisons with the baseline, and of the quarantine."""
        if self.baseline is not None:
            from pytest_jsbench.reports.comparison_report import facts_of_comparison

            for name, comparison in self.comparisons.items():
                source = ", variant ".join(map(printable, filter(None, (self.baseline.source, name))))
                yield from facts_of_comparison(comparison, source)
        yield from self.facts_of_quarantine()

    @property
    def quarantined(self) -> int:
        """Number of cases that do not decide the run."""
        return 0 if self.quarantine is None else len(self.quarantine.left_out)

    def facts_of_quarantine(self) -> Iterator[Fact]:
        """Yield the facts of the quarantine."""
        if self.quarantine is not None:
            from pytest_jsbench.reports.quarantine_report import facts_of_quarantine

            yield from facts_of_quarantine(self.quarantine)

    def excused(self, run: Run) -> Run:
        """Return the run without the quarantined cases."""
        if self.quarantine is None:
            return run
        from pytest_jsbench.metrics.quarantine import leave_out

        return leave_out(run, self.quarantine.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Gates and baseline of a run, checked before its calls."""

    gates: tuple[Gate, ...]
    baseline: Evaluation | None = None
    #: Problems with the baseline, one line each.
    warnings: tuple[str, ...] = ()
    #: List of quarantined cases, which is not read again at the end of the run; and the cases of the dataset, which are
    #: those that the list may name.
    quarantine: Quarantine | None = None
    keys: Collection[CaseKey] = ()

    @classmethod
    def of(cls, plan: Plan, *, more_tasks: bool = False) -> Expectations:
        """
        Read the baseline and check the gates; raise JSBenchError if either does not match the cases of the run.

        With `more_tasks`, the run may have tasks outside its dataset, and a gate may name any task.
        """
        return cls.read(
            plan.gates,
            plan.spec.gates.baseline,
            quarantine=plan.spec.gates.quarantine,
            keys=plan.keys,
            variants=[name for name in plan.variants if name],
            metrics=[classifier.name for classifier in plan.classifiers if classifier.counts],
            repeats=None if more_tasks else plan.spec.execution.repeats,
            load=plan.load.pick(plan.load.options),
            more_tasks=more_tasks,
        )

    @classmethod
    def read(
        cls,
        gates: Sequence[Gate],
        path: Path | None,
        *,
        keys: Sequence[CaseKey],
        variants: Sequence[str],
        metrics: Sequence[str],
        repeats: int | None,
        load: Collection[str] = (),
        more_tasks: bool = False,
        quarantine: Path | None = None,
    ) -> Expectations:
        """
        Read the baseline and check the gates for a run with these cases, variants and custom metrics.

        Args:
            gates: the gates to check.
            path: file or directory of the baseline; None without a baseline.
            keys: the cases of the run.
            variants: names of the run's variants.
            metrics: names of the custom metrics in use.
            repeats: number of attempts per case; None if the number is unknown before the run.
            load: names of the options of the load that the run sets.
            more_tasks: whether the run may have tasks that are not among `keys`.
            quarantine: file with the list of quarantined cases; None without a list.

        """
        tasks = None if more_tasks else {key.task for key in keys}
        with errors_about("--jsbench-gate"):
            gates = tuple(gate.resolve(tasks, variants) for gate in gates)
            for name in (name for gate in gates for name in (gate.name, gate.less) if name is not None):
                _check_measured(name, metrics, repeats, load)
        listed: dict[str, Any] = {}
        if quarantine is not None:
            from pytest_jsbench.metrics.quarantine import Quarantine

            with errors_about("--jsbench-quarantine"):
                listed = {"quarantine": Quarantine.read(quarantine), "keys": frozenset(keys)}
        if path is None:
            return cls(gates=gates, **listed)
        from pytest_jsbench.reports.baselines import counterparts
        from pytest_jsbench.reports.run_json import with_cases

        with errors_about("--jsbench-baseline"):
            baseline, outcomes = with_cases(path)
            compared = counterparts(baseline, variants)
        if not more_tasks and outcomes.keys().isdisjoint(keys):
            message = f"--jsbench-baseline: {path} has no case of this run; choose a run of the same dataset"
            raise JSBenchError(message, option="baseline")
        alone = (
            f"variant {name} is not compared: {baseline.source} has no variant of this name"
            for name in variants
            if name not in compared
        )
        return cls(gates=gates, baseline=baseline, warnings=(*baseline.warnings, *alone), **listed)

    def excuses(self, metadata: RunMetadata) -> dict[CaseKey, str]:
        """Return the reason of each quarantined case whose failures are excused on the day of the run."""
        active = {} if self.quarantine is None else self.quarantine.of_run(metadata).active
        return {key: entry.excuse for key, entry in active.items()}

    def decide(self, run: Run, summary: Summary) -> GateDecision:
        """Compare the run with the baseline, and check each gate; quarantined cases are left out of both."""
        from pytest_jsbench.metrics.gates import check_all
        from pytest_jsbench.reports.baselines import against

        report = deciding = None
        left_out: Collection[CaseKey] = ()
        if self.quarantine is not None:
            from pytest_jsbench.metrics.quarantine import leave_out
            from pytest_jsbench.metrics.summary import summarize

            report = self.quarantine.of_run(run.metadata).report(summary.outcomes, self.keys)
            left_out = report.left_out
            deciding = summarize(leave_out(run, left_out))
        judged = deciding or summary
        comparisons = {}
        if self.baseline is not None:
            comparisons = against(self.baseline, run.metadata, judged, without=left_out)
        gates = check_all(self.gates, judged, comparisons)
        return GateDecision(
            gates=gates, comparisons=comparisons, baseline=self.baseline, quarantine=report, deciding=deciding
        )


def _check_measured(name: MetricName, metrics: Sequence[str], repeats: int | None, load: Collection[str]) -> None:
    """Raise GateError if a run with these custom metrics, repeats and options of the load does not have the metric."""
    from pytest_jsbench.metrics.figures import load_needed
    from pytest_jsbench.settings.options import BY_NAME

    group, _, ending = name.metric.partition(".")
    if group == "scores" and ending not in metrics:
        offer = nearest(ending, metrics) if metrics else "give it as --jsbench-classify"
        message = f"{name.text!r}: this run has no metric {printable(ending)!r}: {offer}"
        raise GateError(message, found=ending, expected=sorted(metrics), where=name.text)
    fewest = 1
    if group in {"pass_at", "pass_hat"}:
        fewest = max(2, int(ending))
    elif group in {"agreement", "field_agreement"}:
        fewest = 2
    if (needed := None if name.baseline else load_needed(name.metric)) is not None:
        if not set(needed.options).intersection(load):
            flags = [BY_NAME[option].flag for option in needed.options]
            message = f"{name.text!r}: only a run with {' or '.join(flags)} has this metric; set it, or remove the gate"
            raise GateError(message, found=sorted(load), expected=list(needed.options), where=name.text)
        fewest = 2 if needed.repeats else fewest
    if repeats is not None and repeats < fewest:
        message = f"{name.text!r} needs {fewest} attempts per case: found {repeats}; use --jsbench-repeats={fewest}"
        raise GateError(message, found=repeats, expected=fewest, where=name.text)
