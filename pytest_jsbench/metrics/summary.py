"""The summary of a run: its metrics per task, overall and by keyword, from its records and its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import Completion, Decided, Declined, Failed, FaultKind
from pytest_jsbench.metrics import prices
from pytest_jsbench.metrics.comparison import CaseOutcome, outcomes
from pytest_jsbench.metrics.metrics import COUNTED_FAILURES, Metrics, Tokens
from pytest_jsbench.metrics.prices import Costs
from pytest_jsbench.metrics.statistics import Distribution, Proportion, clustered, proportion
from pytest_jsbench.runs.records import MissingReason, Record, Run
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.verdicts import FailureType, Note


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordMetrics:
    """The metrics of one keyword of JSON Schema."""

    #: violations of it in answers; None for labelled answers, since a decision does not name a keyword
    failures: int | None
    #: wrong decisions / decisions about labelled answers whose schema uses it
    wrong_decisions: Proportion
    #: passed attempts / attempts whose schema uses it; attempts without a record are in neither
    pass_rate: Proportion

    @property
    def faults(self) -> int:
        """Violations of it, or wrong decisions where there are decisions."""
        return self.wrong_decisions.successes if self.failures is None else self.failures

    def to_dict(self) -> dict[str, Any]:
        """The metrics as JSON values; a rate over nothing is None."""
        rate = self.pass_rate
        return {
            "failures": self.failures,
            "decisions": self.wrong_decisions.n,
            "wrong_decisions": self.wrong_decisions.successes,
            "attempts": rate.n,
            "passed": rate.successes,
            "pass_rate": rate.value,
            "pass_rate_ci_low": rate.ci_low,
            "pass_rate_ci_high": rate.ci_high,
        }


def by_keyword(records: Iterable[Record]) -> dict[str, KeywordMetrics]:
    """The metrics of each keyword, most failures first, without the cases with a broken schema."""
    used: dict[CaseKey, frozenset[str]] = {}
    attempts: Counter[CaseKey] = Counter()
    passed: Counter[CaseKey] = Counter()
    failures: Counter[str] = Counter()
    wrong: Counter[CaseKey] = Counter()
    decisions: Counter[CaseKey] = Counter()
    for record in records:
        if record.excluded:
            continue
        if record.key not in used:
            kept = record.redacted
            used[record.key] = used_keywords(record.schema) if kept is None else frozenset(kept.keywords)
        attempts[record.key] += 1
        passed[record.key] += record.verdict.passed
        if isinstance(record.generation, Decided):
            made = [decision for decision in record.generation.decisions if decision.accepted is not None]
            wrong[record.key] += sum(decision.wrong for decision in made)
            decisions[record.key] += len(made)
        failures.update({violation.keyword for violation in record.verdict.violations})
    users: dict[str, list[CaseKey]] = {name: [] for name in failures}
    for key, names in used.items():
        for name in names:
            users.setdefault(name, []).append(key)
    found = {
        name: KeywordMetrics(
            failures=None if decisions else failures[name],
            wrong_decisions=proportion(sum(wrong[key] for key in keys), sum(decisions[key] for key in keys)),
            pass_rate=clustered((passed[key], attempts[key]) for key in keys),
        )
        for name, keys in users.items()
    }
    ranked = sorted(found.items(), key=lambda pair: (-pair[1].faults, -pair[1].pass_rate.n, pair[0]))
    return dict(ranked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run's metrics: per task in the order of the plan, overall, and by keyword."""

    tasks: Mapping[str, Metrics]
    total: Metrics
    #: by keyword, most failures first
    keywords: Mapping[str, KeywordMetrics]
    #: the outcome of each case, in the order of the plan
    outcomes: Mapping[CaseKey, CaseOutcome]
    #: the attempts on whose answer the two validators disagree
    disputed: tuple[CaseKey, ...]
    #: why there is no cost though a provider was paid; empty otherwise
    cost_problem: str


def summarize(run: Run) -> Summary:
    """The summary of a run; each denominator comes from the plan, never from the number of answers."""
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
        note_counts=_notes(counted),
        retries=sum(record.retries for record in counted),
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
        queue=Distribution.of(record.queue_s for record in counted if record.queue_s is not None),
        tokens=_tokens(counted),
        cost=_cost(counted, costs),
        priced=sum((record.key, record.repeat) in costs.attempts for record in counted),
    )


def _notes(records: Iterable[Record]) -> dict[Note, int]:
    found = Counter(note for record in records for note in record.verdict.notes)
    return {note: found[note] for note in Note}


def _by_case(records: Iterable[Record]) -> Counter[CaseKey]:
    return Counter(record.key for record in records)


def _plan(planned: Sequence[CaseKey], records: Iterable[Record]) -> Counter[CaseKey]:
    """The number of attempts planned for each case, at least those it had; none for a case with a broken schema."""
    plan = Counter(planned) | _by_case(records)
    for record in records:
        if record.excluded:
            plan.pop(record.key, None)
    return plan


def _generations(records: Iterable[Record]) -> list[Completion]:
    return [record.generation for record in records if isinstance(record.generation, Completion)]


def _wrong(records: Iterable[Record], *, valid: bool) -> Proportion:
    """The wrong decisions about answers with this label / all decisions about them."""
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
