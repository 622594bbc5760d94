"""Summarize a run: compute its metrics per task, overall and by keyword from its records and its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict

from pytest_jsbench.core.arguments import arguments, one_of
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.json_values import Fraction, Natural
from pytest_jsbench.metrics import prices
from pytest_jsbench.metrics.attempt_groups import AttemptGroups, is_decided
from pytest_jsbench.metrics.case_outcomes import CaseOutcome, outcomes
from pytest_jsbench.metrics.comparison import Pair, find_differing_cases
from pytest_jsbench.metrics.load_terms import LoadTerms
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.rewriting_effects import pairs_of_variants
from pytest_jsbench.metrics.statistics import (
    Proportion,
    clustered,
)
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.setting_differences import ON_THIS_MACHINE, RECORDED, settings_of


class KeywordFigures(TypedDict):
    """Metrics of one keyword, as written to files."""

    #: Number of answers that violate the keyword; null if a grammar decided about labelled answers and the violations
    #: cannot be assigned to keywords.
    failures: Natural | None
    #: Number of decisions about labelled answers whose schema uses the keyword.
    decisions: NotRequired[Natural]
    #: Number of wrong decisions among `decisions`.
    wrong_decisions: NotRequired[Natural]
    #: Number of attempts whose schema uses the keyword.
    attempts: Natural
    #: Number of passed attempts among `attempts`.
    passed: Natural
    #: Share of `attempts` that passed.
    pass_rate: Fraction | None
    #: Lower bound of the 95 % interval.
    pass_rate_ci_low: Fraction | None
    #: Upper bound of the 95 % interval.
    pass_rate_ci_high: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordMetrics:
    """Metrics of one JSON Schema keyword."""

    #: Number of attempts in which the answer, or an invalid labelled answer that the grammar accepted, violates the
    #: keyword; None if an accepted answer has unknown violations.
    failures: int | None
    #: Wrong decisions / decisions about labelled answers whose schema uses the keyword.
    wrong_decisions: Proportion
    #: Passed attempts / recorded attempts whose schema uses the keyword.
    pass_rate: Proportion

    @property
    def faults(self) -> int:
        """Number of violations, or number of wrong decisions if a grammar decided."""
        return self.wrong_decisions.successes if self.wrong_decisions.n else self.failures or 0

    def to_dict(self) -> KeywordFigures:
        """Return the metrics as JSON values; a rate with denominator 0 is None."""
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


def group_by_keyword(attempts: Iterable[AttemptFacts]) -> dict[str, KeywordMetrics]:
    """Return the metrics of each keyword, those with most failures first; cases with a broken schema are left out."""
    used: dict[CaseKey, tuple[str, ...]] = {}
    attempts_of: Counter[CaseKey] = Counter()
    passed: Counter[CaseKey] = Counter()
    failures: Counter[str] = Counter()
    wrong: Counter[CaseKey] = Counter()
    decisions: Counter[CaseKey] = Counter()
    decided: set[CaseKey] = set()
    has_unknown = False
    for attempt in attempts:
        if not attempt.counted:
            continue
        if is_decided(attempt):
            decided.add(attempt.key)
        used.setdefault(attempt.key, attempt.keywords)
        attempts_of[attempt.key] += 1
        passed[attempt.key] += attempt.passed
        if attempt.decisions is not None:
            wrong[attempt.key] += attempt.decisions.wrong
            decisions[attempt.key] += attempt.decisions.made
            has_unknown |= bool(attempt.decisions.invalid_accepted) and not attempt.broken
        failures.update(attempt.broken)
    users: dict[str, list[CaseKey]] = {name: [] for name in failures}
    for key, names in used.items():
        for name in names:
            users.setdefault(name, []).append(key)
    rows = {
        name: KeywordMetrics(
            failures=None if has_unknown else failures[name],
            wrong_decisions=clustered((wrong[key], decisions[key]) for key in keys),
            pass_rate=clustered((passed[key], attempts_of[key]) for key in keys if not decided.isdisjoint(keys)),
        )
        for name, keys in users.items()
    }
    ranked = sorted(rows.items(), key=lambda pair: (-pair[1].faults, -pair[1].pass_rate.n, pair[0]))
    return dict(ranked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Metrics of a run: per task in the order of the plan, overall, by keyword, and for each variant."""

    tasks: Mapping[str, Metrics]
    total: Metrics
    #: Metrics of each keyword, those with most failures first.
    keywords: Mapping[str, KeywordMetrics]
    #: Outcome of each case, in the order of the plan.
    outcomes: Mapping[CaseKey, CaseOutcome]
    #: Cases without an attempt, because their schema cannot be rewritten as the run, or one of its variants, demands.
    not_rewritten: frozenset[CaseKey]
    #: Case of each attempt on whose answer the two validators disagree; a case appears once per attempt.
    disputed: tuple[CaseKey, ...]
    #: Reason why the cost is unknown although a paid provider was called; otherwise empty.
    cost_problem: str
    #: Summary of each variant, the highest pass rate first; empty in a run without variants.
    variants: Mapping[str, Summary] = field(default_factory=dict)
    #: Comparison of the variants in pairs, case by case.
    pairs: tuple[Pair, ...] = ()
    #: Cases that some variants pass and others fail.
    differing: tuple[CaseKey, ...] = ()


@arguments(run=one_of("a run", Run))
def summarize(run: Run) -> Summary:
    """Return the summary of a run; denominators come from the plan, not from the number of answers."""
    whole = _summarize_part(run)
    variants = {name: _summarize_part(part) for name, part in run.each().items()}
    ranked = dict(sorted(variants.items(), key=lambda pair: _rank(pair[1].total)))
    settings = {variant.variant: settings_of(variant.to_dict()) for variant in each(run.metadata)}
    here = {variant.variant for variant in each(run.metadata) if variant.engine in ON_THIS_MACHINE}
    rewritings = {variant.variant: variant.rewrite for variant in each(run.metadata)}
    outcomes_of = [(name, variants[name].outcomes, settings[name]) for name in run.variants]
    compared = pairs_of_variants(outcomes_of, rewritings)
    ends = {name: summary.outcomes for name, summary in ranked.items()}
    return replace(
        whole,
        variants=ranked,
        pairs=tuple(
            replace(pair, comparison=pair.comparison.without_times()) if {pair.first, pair.second} <= here else pair
            for pair in compared
        ),
        differing=find_differing_cases(ends),
    )


def _rank(total: Metrics) -> tuple[float, float, float]:
    """Return a sort key that puts the highest pass rate first, then the fewest errors, then the shortest time."""
    rate = total.pass_rate.value
    time = total.tgt.p50
    return 1.0 if rate is None else -rate, total.errors, float("inf") if time is None else time


def _summarize_part(run: Run) -> Summary:
    planned: dict[str, list[CaseKey]] = {}
    for key in run.planned:
        planned.setdefault(key.task, []).append(key)
    by_task: dict[str, list[AttemptFacts]] = {task: [] for task in planned}
    for attempt in run.outcomes:
        by_task.setdefault(attempt.key.task, []).append(attempt)
    costs = prices.costs(run)
    load = LoadTerms.of(run.metadata)
    broken = frozenset(outcome.key for outcome in run.outcomes if run.breaks(outcome))
    missing = Counter((entry.key.task, entry.reason) for entry in run.missing)
    missing.update((outcome.key.task, MissingReason.SCHEMA) for outcome in run.outcomes if run.breaks(outcome))
    reasons = {task: {reason: missing[task, reason] for reason in MissingReason} for task in by_task}
    return Summary(
        tasks={
            task: Metrics(
                AttemptGroups(
                    attempts=attempts,
                    planned=planned.get(task, ()),
                    costs=costs,
                    missing_reasons=reasons[task],
                    broken=broken,
                    ended_tests=[test for test in run.metadata.ended_tests if test.task == task],
                    fault_reports=[report for report in run.metadata.fault_reports if report.task == task],
                    load=load,
                )
            )
            for task, attempts in by_task.items()
        },
        total=Metrics(
            AttemptGroups(
                attempts=run.outcomes,
                planned=run.planned,
                costs=costs,
                missing_reasons=sum(map(Counter, reasons.values()), Counter()),
                broken=broken,
                ended_tests=run.metadata.ended_tests,
                fault_reports=run.metadata.fault_reports,
                load=load,
            )
        ),
        keywords=group_by_keyword(run.outcomes),
        outcomes=outcomes(run.planned, run.outcomes, None if run.metadata.engine in RECORDED else costs.attempts),
        not_rewritten=frozenset(attempt.key for attempt in run.outcomes if attempt.not_rewritten),
        disputed=tuple(attempt.key for attempt in run.outcomes if attempt.disputed),
        cost_problem=costs.problem,
    )
