"""Summaries: a run's metrics, per task and overall. Every formula is in docs/metrics.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_jsbench import prices
from pytest_jsbench.cases import CaseKey
from pytest_jsbench.generations import Completion, Decided, Declined, Failed, FaultKind
from pytest_jsbench.keywords import KeywordMetrics, by_keyword
from pytest_jsbench.missing import MissingReason
from pytest_jsbench.outcomes import Outcome, outcomes
from pytest_jsbench.prices import Costs
from pytest_jsbench.records import Record, Run
from pytest_jsbench.statistics import Distribution, Proportion, clustered, proportion
from pytest_jsbench.verdicts import FailureType

#: the failure types that can be held against an attempt; a broken schema excludes its case instead
COUNTED_FAILURES = tuple(kind for kind in FailureType if kind is not FailureType.INVALID_SCHEMA)

#: the proportions among the metrics
RATES = (
    "declared_coverage",
    "declared_coverage_excluding_errors",
    "empirical_coverage",
    "pass_rate",
    "pass_at_k",
    "pass_hat_k",
    "error_rate",
    "over_constraint",
    "under_constraint",
)
COUNTS = (
    "cases",
    "planned",
    "excluded",
    "completions",
    "declined",
    "failed",
    "missing",
    "unjudged",
    "disputed",
    "errors",
    "judged",
    "priced",
    "passed",
    "valid",
)
TIMES = ("ttft", "tpot", "tgt", "gct", "grammar_compilation")
SPREAD = ("count", "mean", "p50", "p90", "p95", "p99", "max")
TOKENS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Sums over the attempts that reported them; None where none did."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None when either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of a set of attempts: one task's, or a whole run's."""

    #: attempts that were to be made, less those whose own schema is broken
    planned: int
    #: attempts whose case's own schema is broken
    excluded: int
    completions: int
    declined: int
    #: calls that broke
    failed: int
    #: planned, and without a record
    missing: int
    #: of these, those of which it is known why
    missing_reasons: Mapping[MissingReason, int]
    unjudged: int
    disputed: int
    declared_coverage: Proportion
    declared_coverage_excluding_errors: Proportion
    empirical_coverage: Proportion
    pass_rate: Proportion
    #: cases of which at least one attempt passed, and of which all did
    pass_at_k: Proportion
    pass_hat_k: Proportion
    failure_counts: Mapping[FailureType, int]
    #: attempts by the codes that the project's own classifiers gave them, most first; only codes that occurred
    code_counts: Mapping[str, int]
    #: broken calls, by whose fault they were
    fault_counts: Mapping[FaultKind, int]
    #: valid labelled answers that the grammar rejects, of those it was asked about
    over_constraint: Proportion
    #: invalid labelled answers that the grammar accepts, of those it was asked about
    under_constraint: Proportion
    ttft: Distribution
    tpot: Distribution
    tgt: Distribution
    gct: Distribution
    grammar_compilation: Distribution
    tokens: Tokens
    #: US dollars, over the attempts whose cost is known; None where none is
    cost: float | None
    #: answered attempts whose cost is known
    priced: int

    @property
    def cases(self) -> int:
        """The cases that were to be attempted."""
        return self.pass_hat_k.n

    @property
    def errors(self) -> int:
        """Attempts that say nothing about the model: broken calls and missing ones."""
        return self.failed + self.missing

    @property
    def error_rate(self) -> Proportion:
        """Attempts that say nothing about the model / planned attempts."""
        return proportion(self.errors, self.planned)

    @property
    def judged(self) -> int:
        """Attempts that were answered or declined, and decided."""
        return self.completions + self.declined - self.unjudged

    @property
    def passed(self) -> int:
        """Attempts that passed."""
        return self.pass_rate.successes

    @property
    def valid(self) -> int:
        """Answers that conform to their schema."""
        return self.empirical_coverage.successes

    @property
    def complete(self) -> bool:
        """Whether every planned attempt was answered or declined, and judged."""
        return not (self.errors or self.unjudged)

    def to_dict(self) -> dict[str, Any]:
        """The metrics by the names of docs/metrics.md; a rate over nothing is None."""
        figures: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        figures["missing_reasons"] = {reason.value: self.missing_reasons[reason] for reason in MissingReason}
        figures["valid_instances"], figures["valid_rejected"] = self.over_constraint.n, self.over_constraint.successes
        figures["invalid_instances"] = self.under_constraint.n
        figures["invalid_accepted"] = self.under_constraint.successes
        figures["fault_counts"] = {kind.value: count for kind, count in self.fault_counts.items() if count}
        for name in RATES:
            rate: Proportion = getattr(self, name)
            figures |= {name: rate.value, f"{name}_ci_low": rate.ci_low, f"{name}_ci_high": rate.ci_high}
        figures["failure_counts"] = {kind.value: self.failure_counts[kind] for kind in COUNTED_FAILURES}
        figures["failure_rates"] = {
            kind.value: proportion(self.failure_counts[kind], self.planned).value for kind in COUNTED_FAILURES
        }
        figures["code_counts"] = dict(self.code_counts)
        for name in TIMES:
            spread: Distribution = getattr(self, name)
            figures |= {f"{name}_{part}": getattr(spread, part) for part in SPREAD}
        figures |= {name: getattr(self.tokens, name) for name in TOKENS}
        figures["cost"] = self.cost
        return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run's metrics: per task in the order of the plan, overall, and by keyword."""

    tasks: Mapping[str, Metrics]
    total: Metrics
    #: by keyword, most failures first
    keywords: Mapping[str, KeywordMetrics]
    #: how each case ended, in the order of the plan
    outcomes: Mapping[CaseKey, Outcome]
    #: the attempts on whose answer the two validators disagree
    disputed: tuple[CaseKey, ...]
    #: why there is no cost though a provider was paid; empty otherwise
    cost_problem: str


def summarize(run: Run) -> Summary:
    """The summary of a run; denominators come from its plan, never from what happened to return."""
    planned: dict[str, list[CaseKey]] = {}
    for key in run.planned:
        planned.setdefault(key.task, []).append(key)
    by_task: dict[str, list[Record]] = {task: [] for task in planned}
    for record in run.records:
        by_task.setdefault(record.key.task, []).append(record)
    costs = prices.costs(run)
    missing = Counter((entry.key.task, entry.reason) for entry in run.missing)
    reasons = {task: {reason: missing[task, reason] for reason in MissingReason} for task in by_task}
    return Summary(
        tasks={
            task: metrics(records, planned=planned.get(task, ()), costs=costs, reasons=reasons[task])
            for task, records in by_task.items()
        },
        total=metrics(
            run.records, planned=run.planned, costs=costs, reasons=Counter(entry.reason for entry in run.missing)
        ),
        keywords=by_keyword(run.records),
        outcomes=outcomes(run.planned, run.records),
        disputed=tuple(record.key for record in run.records if record.verdict.disputed),
        cost_problem=costs.problem,
    )


def metrics(
    records: Sequence[Record], *, planned: Sequence[CaseKey], costs: Costs, reasons: Mapping[MissingReason, int]
) -> Metrics:
    """The metrics of these records; `planned` names the case of each attempt that was to be made."""
    counted = [record for record in records if not record.excluded]
    completions = [record for record in counted if isinstance(record.generation, Completion)]
    answered = [record for record in counted if isinstance(record.generation, Completion | Decided)]
    broken = [record for record in counted if isinstance(record.generation, Failed)]
    plan, made = _plan(planned, records), _by_case(counted)
    missing = plan.total() - len(counted)
    replied, completed, failed = _by_case(answered), _by_case(completions), _by_case(broken)
    valid = _by_case(record for record in completions if record.verdict.valid is True)
    passed = _by_case(record for record in counted if record.verdict.passed)
    heard = made - failed
    kinds = Counter(record.verdict.failure_type for record in counted)
    faults = Counter(record.generation.kind for record in counted if isinstance(record.generation, Failed))
    return Metrics(
        planned=plan.total(),
        excluded=sum(record.excluded for record in records),
        completions=len(answered),
        declined=sum(isinstance(record.generation, Declined) for record in counted),
        failed=len(broken),
        missing=missing,
        missing_reasons={reason: reasons.get(reason, 0) for reason in MissingReason},
        unjudged=kinds[FailureType.UNJUDGED],
        disputed=sum(record.verdict.disputed for record in counted),
        declared_coverage=clustered((replied[key], n) for key, n in plan.items()),
        declared_coverage_excluding_errors=clustered((replied[key], n) for key, n in heard.items()),
        empirical_coverage=clustered((valid[key], n) for key, n in completed.items()),
        pass_rate=clustered((passed[key], n) for key, n in plan.items()),
        pass_at_k=proportion(sum(passed[key] > 0 for key in plan), len(plan)),
        pass_hat_k=proportion(sum(passed[key] == n for key, n in plan.items()), len(plan)),
        failure_counts={kind: kinds[kind] for kind in COUNTED_FAILURES},
        code_counts=dict(Counter(code for record in counted for code in record.codes).most_common()),
        fault_counts={kind: faults[kind] for kind in FaultKind},
        over_constraint=_wrong(answered, valid=True),
        under_constraint=_wrong(answered, valid=False),
        ttft=_spread(completions, "ttft"),
        tpot=Distribution.of(
            value
            for generation in _generations(completions)
            if generation.timing is not None
            and (value := generation.timing.tpot_ms(generation.usage.output_tokens)) is not None
        ),
        tgt=_spread(completions, "tgt"),
        gct=_spread(completions, "gct"),
        grammar_compilation=_spread(answered, "grammar_compilation"),
        tokens=_tokens(counted),
        cost=_cost(counted, costs),
        priced=sum((record.key, record.repeat) in costs.attempts for record in counted),
    )


def _by_case(records: Iterable[Record]) -> Counter[CaseKey]:
    return Counter(record.key for record in records)


def _plan(planned: Sequence[CaseKey], records: Iterable[Record]) -> Counter[CaseKey]:
    """How many attempts each case was to have, at least those it had; a case whose schema is broken has none."""
    plan = Counter(planned) | _by_case(records)
    for record in records:
        if record.excluded:
            plan.pop(record.key, None)
    return plan


def _generations(records: Iterable[Record]) -> list[Completion]:
    return [record.generation for record in records if isinstance(record.generation, Completion)]


def _wrong(records: Iterable[Record], *, valid: bool) -> Proportion:
    """The wrong decisions about answers of that label, of all that were made about them."""
    decisions = [
        decision
        for record in records
        if isinstance(record.generation, Decided)
        for decision in record.generation.decisions
        if decision.valid is valid and decision.accepted is not None
    ]
    return proportion(sum(decision.wrong for decision in decisions), len(decisions))


def _spread(records: Iterable[Record], name: str) -> Distribution:
    timings = (record.generation.timing for record in records if isinstance(record.generation, Completion | Decided))
    values = (getattr(timing, name) for timing in timings if timing is not None)
    return Distribution.of(value for value in values if value is not None)


def _tokens(records: Iterable[Record]) -> Tokens:
    usages = [record.generation.usage for record in records if isinstance(record.generation, Completion | Declined)]

    def total(name: str) -> int | None:
        known = [value for usage in usages if (value := getattr(usage, name)) is not None]
        return sum(known) if known else None

    return Tokens(
        input_tokens=total("input_tokens"),
        output_tokens=total("output_tokens"),
        cached_tokens=total("cached_tokens"),
        reasoning_tokens=total("reasoning_tokens"),
    )


def _cost(records: Iterable[Record], costs: Costs) -> float | None:
    attempts = ((record.key, record.repeat) for record in records)
    known = [costs.attempts[attempt] for attempt in attempts if attempt in costs.attempts]
    return sum(known) if known else None
