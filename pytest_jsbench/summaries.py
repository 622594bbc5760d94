"""Summaries: a run's metrics, per task and overall. Every formula is in README.md, section Metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_jsbench import prices
from pytest_jsbench.cases import CaseKey
from pytest_jsbench.generations import Completion, Declined, Failed
from pytest_jsbench.keywords import KeywordMetrics, by_keyword
from pytest_jsbench.prices import Costs
from pytest_jsbench.records import Record, Run
from pytest_jsbench.statistics import Distribution, Proportion, proportion
from pytest_jsbench.verdicts import FailureType

#: the failure types that can be held against an attempt; a broken schema excludes its case instead
COUNTED_FAILURES = tuple(kind for kind in FailureType if kind is not FailureType.INVALID_SCHEMA)


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
    #: planned, and never heard of
    missing: int
    unjudged: int
    disputed: int
    declared_coverage: Proportion
    declared_coverage_excluding_errors: Proportion
    empirical_coverage: Proportion
    pass_rate: Proportion
    failure_counts: Mapping[FailureType, int]
    ttft: Distribution
    tpot: Distribution
    tgt: Distribution
    gct: Distribution
    grammar_compilation: Distribution
    tokens: Tokens
    #: US dollars, over the attempts whose cost is known; None where none is
    cost: float | None

    @property
    def errors(self) -> int:
        """Attempts that say nothing about the model: broken calls and missing ones."""
        return self.failed + self.missing

    @property
    def complete(self) -> bool:
        """Whether every planned attempt was answered or declined, and judged."""
        return not (self.errors or self.unjudged)

    def to_dict(self) -> dict[str, Any]:
        """The metrics by the names of README.md, section Metrics; a rate over nothing is None."""
        rates = {
            name: getattr(self, name)
            for name in (
                "declared_coverage",
                "declared_coverage_excluding_errors",
                "empirical_coverage",
                "pass_rate",
            )
        }
        figures: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "planned",
                "excluded",
                "completions",
                "declined",
                "failed",
                "missing",
                "unjudged",
                "disputed",
            )
        }
        figures["passed"] = self.pass_rate.successes
        figures["valid"] = self.empirical_coverage.successes
        for name, rate in rates.items():
            figures |= {name: rate.value, f"{name}_ci_low": rate.ci_low, f"{name}_ci_high": rate.ci_high}
        figures["failure_counts"] = {kind.value: self.failure_counts[kind] for kind in COUNTED_FAILURES}
        figures["failure_rates"] = {
            kind.value: proportion(self.failure_counts[kind], self.planned).value for kind in COUNTED_FAILURES
        }
        for name in ("ttft", "tpot", "tgt", "gct", "grammar_compilation"):
            spread: Distribution = getattr(self, name)
            figures |= {
                f"{name}_{part}": getattr(spread, part) for part in ("count", "mean", "p50", "p90", "p95", "p99", "max")
            }
        for name in ("input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"):
            figures[name] = getattr(self.tokens, name)
        figures["cost"] = self.cost
        return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run's metrics: per task in the order of the plan, overall, and by keyword."""

    tasks: Mapping[str, Metrics]
    total: Metrics
    #: by keyword, most failures first
    keywords: Mapping[str, KeywordMetrics]
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
    repeats, costs = run.metadata.repeats, prices.costs(run)
    # what a project's own tests ask for is planned by being asked
    known = frozenset(run.planned)
    beyond = sum(record.key not in known for record in run.records)
    return Summary(
        tasks={
            task: metrics(records, planned=len(planned.get(task, ())) * repeats, costs=costs)
            for task, records in by_task.items()
        },
        total=metrics(run.records, planned=len(run.planned) * repeats + beyond, costs=costs),
        keywords=by_keyword(run.records),
        disputed=tuple(record.key for record in run.records if record.verdict.disputed),
        cost_problem=costs.problem,
    )


def metrics(records: Sequence[Record], *, planned: int, costs: Costs) -> Metrics:
    """The metrics of these records, of which `planned` were to be made (those of broken schemas included)."""
    excluded = sum(record.excluded for record in records)
    counted = [record for record in records if not record.excluded]
    planned = max(planned - excluded, len(counted))
    completions = [record for record in counted if isinstance(record.generation, Completion)]
    failed = sum(isinstance(record.generation, Failed) for record in counted)
    missing = planned - len(counted)
    kinds = Counter(record.verdict.failure_type for record in counted)
    return Metrics(
        planned=planned,
        excluded=excluded,
        completions=len(completions),
        declined=sum(isinstance(record.generation, Declined) for record in counted),
        failed=failed,
        missing=missing,
        unjudged=kinds[FailureType.UNJUDGED],
        disputed=sum(record.verdict.disputed for record in counted),
        declared_coverage=proportion(len(completions), planned),
        declared_coverage_excluding_errors=proportion(len(completions), planned - failed - missing),
        empirical_coverage=proportion(sum(record.verdict.valid is True for record in completions), len(completions)),
        pass_rate=proportion(sum(record.verdict.passed for record in counted), planned),
        failure_counts={kind: kinds[kind] for kind in COUNTED_FAILURES},
        ttft=_spread(completions, "ttft"),
        tpot=Distribution.of(
            value
            for generation in _generations(completions)
            if (value := generation.timing.tpot_ms(generation.usage.output_tokens)) is not None
        ),
        tgt=_spread(completions, "tgt"),
        gct=_spread(completions, "gct"),
        grammar_compilation=_spread(completions, "grammar_compilation"),
        tokens=_tokens(counted),
        cost=_cost(counted, costs),
    )


def _generations(records: Iterable[Record]) -> list[Completion]:
    return [record.generation for record in records if isinstance(record.generation, Completion)]


def _spread(records: Iterable[Record], name: str) -> Distribution:
    values = (getattr(generation.timing, name) for generation in _generations(records))
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
