"""Summarize a run: compute its metrics per task, overall and by keyword from its records and its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict

from pytest_jsbench.core.arguments import arguments, one_of
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import FaultKind, Usage, tpot_ms
from pytest_jsbench.core.json_values import Fraction, Natural
from pytest_jsbench.metrics import prices
from pytest_jsbench.metrics.case_outcomes import CaseOutcome, outcomes
from pytest_jsbench.metrics.comparison import Pair, differing, pairs
from pytest_jsbench.metrics.figures import COUNTED_FAILURES, MOST_K
from pytest_jsbench.metrics.metrics import FieldMetrics, Metrics
from pytest_jsbench.metrics.prices import Costs
from pytest_jsbench.metrics.statistics import (
    Distribution,
    Proportion,
    Rate,
    clustered,
    mean_rate,
    pass_at_k,
    pass_hat_k,
    proportion,
)
from pytest_jsbench.records.outcomes import AttemptOutcome, Run
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.records import Cause, EndedTest, MissingReason
from pytest_jsbench.records.setting_differences import ON_THIS_MACHINE, RECORDED, settings_of
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import FailureType, Note


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


def by_keyword(attempts: Iterable[AttemptOutcome]) -> dict[str, KeywordMetrics]:
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
        if _is_informative(attempt) and attempt.failure_type is not FailureType.UNJUDGED:
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
    compared = pairs([(name, variants[name].outcomes, settings[name]) for name in run.variants])
    ends = {name: summary.outcomes for name, summary in ranked.items()}
    return replace(
        whole,
        variants=ranked,
        pairs=tuple(
            replace(pair, comparison=pair.comparison.without_times()) if {pair.first, pair.second} <= here else pair
            for pair in compared
        ),
        differing=differing(ends),
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
    by_task: dict[str, list[AttemptOutcome]] = {task: [] for task in planned}
    for attempt in run.outcomes:
        by_task.setdefault(attempt.key.task, []).append(attempt)
    costs = prices.costs(run)
    broken = frozenset(outcome.key for outcome in run.outcomes if run.breaks(outcome))
    missing = Counter((entry.key.task, entry.reason) for entry in run.missing)
    missing.update((outcome.key.task, MissingReason.SCHEMA) for outcome in run.outcomes if run.breaks(outcome))
    reasons = {task: {reason: missing[task, reason] for reason in MissingReason} for task in by_task}
    return Summary(
        tasks={
            task: metrics(
                attempts,
                planned=planned.get(task, ()),
                costs=costs,
                reasons=reasons[task],
                broken=broken,
                ended_tests=[test for test in run.metadata.ended_tests if test.task == task],
            )
            for task, attempts in by_task.items()
        },
        total=metrics(
            run.outcomes,
            planned=run.planned,
            costs=costs,
            reasons=sum(map(Counter, reasons.values()), Counter()),
            broken=broken,
            ended_tests=run.metadata.ended_tests,
        ),
        keywords=by_keyword(run.outcomes),
        outcomes=outcomes(run.planned, run.outcomes, None if run.metadata.engine in RECORDED else costs.attempts),
        disputed=tuple(attempt.key for attempt in run.outcomes if attempt.disputed),
        cost_problem=costs.problem,
    )


def metrics(
    attempts: Sequence[AttemptOutcome],
    *,
    planned: Sequence[CaseKey],
    costs: Costs,
    reasons: Mapping[MissingReason, int],
    broken: Collection[CaseKey] = (),
    ended_tests: Sequence[EndedTest] = (),
) -> Metrics:
    """
    Return the metrics of these attempts; `planned` contains the case of each planned attempt.

    Attempts at `broken` cases, where the user's own schema is invalid, count as missing; attempts at other cases
    without a valid schema are excluded.
    """
    counted = [attempt for attempt in attempts if attempt.counted]
    again = sum(bool(attempt.called_again) for attempt in attempts)
    completions = [attempt for attempt in counted if attempt.generation == "completion"]
    answered = [attempt for attempt in counted if attempt.answered]
    left_out = [attempt for attempt in attempts if attempt.excluded and attempt.key not in broken]
    plan = _planned_attempts(planned, attempts, left_out)
    made = _by_case(counted)
    missing = plan.total() - len(counted)
    replied = _by_case(answered)
    completed = _by_case(completions)
    failed = _by_case(attempt for attempt in counted if attempt.failed)
    valid = _by_case(attempt for attempt in completions if attempt.valid is True)
    passed = _by_case(attempt for attempt in counted if attempt.passed)
    reached = made - failed
    # If every call failed, nothing is known about the model and the engine, so rates have denominator 0.
    known_plan = plan if any(map(_is_informative, counted)) else Counter[CaseKey]()
    any_decided = any(
        _is_informative(attempt) and attempt.failure_type is not FailureType.UNJUDGED for attempt in counted
    )
    decided = known_plan if any_decided else Counter[CaseKey]()
    trivial = {attempt.key: attempt.trivial for attempt in counted if attempt.trivial is not None}
    constants = Counter(text for texts in trivial.values() for text in texts)
    ordered = _by_case(attempt for attempt in completions if attempt.order_kept is not None)
    kept = _by_case(attempt for attempt in completions if attempt.order_kept)
    matches = [(attempt, attempt.match) for attempt in counted if attempt.match is not None]
    compared = [(attempt, match) for attempt, match in matches if not match.problem]
    # The test of a failed call gives no information about the model.
    tested = {
        (attempt.asked_by and attempt.asked_by.test, attempt.repeat, attempt.variant): (
            attempt.key.of_first,
            attempt.test_outcome,
        )
        for attempt in counted
        if attempt.test_outcome is not None and not attempt.failed
    }
    ended = [(key, test.passed) for key, test in tested.values() if test.passed is not None]
    ended += [(CaseKey(task=test.task, id=test.id), False) for test in ended_tests]
    causes = Counter(test.cause for _, test in tested.values())
    causes.update(test.cause for test in ended_tests)
    kinds = Counter(attempt.failure_type for attempt in counted)
    faults = Counter(attempt.fault for attempt in counted)
    notes = Counter(note for attempt in counted for note in attempt.notes)
    priced = [costs.attempts[attempt.attempt] for attempt in attempts if attempt.attempt in costs.attempts]
    decisions = [(attempt.key, attempt.decisions) for attempt in answered if attempt.decisions is not None]
    reporting = [
        attempt for attempt in attempts if attempt.usage is not None and attempt.usage.output_tokens is not None
    ]
    return Metrics(
        planned=plan.total(),
        cases=len(plan),
        error_rate=clustered((n - reached[key], n) for key, n in plan.items()),
        excluded=len(left_out),
        completions=len(answered),
        declined=sum(attempt.generation == "declined" for attempt in counted),
        failed=failed.total(),
        missing=missing,
        missing_reasons={reason: reasons.get(reason, 0) for reason in MissingReason},
        unjudged=kinds[FailureType.UNJUDGED],
        disputed=sum(attempt.disputed for attempt in counted),
        declared_coverage=clustered((replied[key], n) for key, n in known_plan.items()),
        declared_coverage_excluding_errors=clustered((replied[key], n) for key, n in reached.items()),
        empirical_coverage=clustered((valid[key], n) for key, n in completed.items()),
        pass_rate=clustered((passed[key], n) for key, n in decided.items()),
        pass_rate_nontrivial=clustered((passed[key], n) for key, n in decided.items() if trivial.get(key) == ()),
        floor=proportion(max(constants.values(), default=0), len(trivial)),
        trivial_counts=dict(constants.most_common()),
        pass_at_k=proportion(sum(passed[key] > 0 for key in decided), len(decided)),
        pass_hat_k=proportion(sum(passed[key] == n for key, n in decided.items()), len(decided)),
        pass_at=_mean_for_each_k(pass_at_k, passed, decided),
        pass_hat=_mean_for_each_k(pass_hat_k, passed, decided),
        order_kept=clustered((kept[key], n) for key, n in ordered.items()),
        failure_counts={kind: kinds[kind] for kind in COUNTED_FAILURES},
        code_counts=dict(Counter(code for attempt in counted for code in attempt.codes).most_common()),
        scores={
            name: _clustered_by_case(
                (attempt.key, *attempt.scores[name]) for attempt in counted if name in attempt.scores
            )
            for name in dict.fromkeys(name for attempt in counted for name in attempt.scores)
        },
        note_counts={note: notes[note] for note in Note},
        called_again=again,
        retries=sum(attempt.retries for attempt in counted),
        fault_counts={kind: faults[kind] for kind in FaultKind},
        over_constraint=_clustered_by_case(
            (key, decision.valid_rejected, decision.valid) for key, decision in decisions
        ),
        under_constraint=_clustered_by_case(
            (key, decision.invalid_accepted, decision.invalid) for key, decision in decisions
        ),
        value_accuracy=_clustered_by_case((attempt.key, match.right, match.expected) for attempt, match in compared),
        value_accuracy_conforming=_clustered_by_case(
            (attempt.key, match.right, match.expected) for attempt, match in compared if attempt.valid
        ),
        value_accuracy_mean=_mean_accuracy(compared),
        value_precision=_clustered_by_case((attempt.key, match.right, match.given) for attempt, match in compared),
        value_f1=_clustered_by_case(
            (attempt.key, 2 * match.right, match.expected + match.given) for attempt, match in compared
        ),
        exact_match=_clustered_by_case((attempt.key, int(match.exact), 1) for attempt, match in compared),
        fields=_fields(compared),
        invented=sum(match.invented for _, match in compared),
        uncompared=len(matches) - len(compared),
        tests_passed=_clustered_by_case((key, int(passed), 1) for key, passed in ended),
        test_failures={cause: causes[cause] for cause in Cause},
        ttft=_distribution(completions, "ttft"),
        tpot=Distribution.of(
            value for attempt in completions if (value := tpot_ms(attempt.timing, attempt.usage)) is not None
        ),
        tgt=_distribution(completions, "tgt"),
        gct=_distribution(completions, "gct"),
        reasoning_time=_distribution(completions, "reasoning_time"),
        grammar_compilation=_distribution(answered, "grammar_compilation"),
        compile_time=_distribution(answered, "compile_time"),
        mask_time=Distribution.of(
            seconds for attempt in answered if attempt.timing is not None for seconds in attempt.timing.masks
        ),
        queue=Distribution.of(attempt.queue_s for attempt in counted if attempt.queue_s is not None),
        # An application's answers without a schema are not judged, but also cost tokens.
        tokens=Usage.total([attempt.usage for attempt in attempts if attempt.usage is not None]),
        reported=len(reporting),
        unreported=sum(attempt.answered for attempt in attempts) - sum(attempt.answered for attempt in reporting),
        cost=sum(priced) if priced else None,
        priced=len(priced),
        unpriced=sum(attempt.attempt in costs.unknown for attempt in attempts),
    )


def _mean_for_each_k(
    chance: Callable[[int, int, int], float], passed: Mapping[CaseKey, int], attempts: Mapping[CaseKey, int]
) -> dict[int, Rate]:
    """Return, for each k, the mean over cases of `chance` for k attempts at a case; empty without repeats."""
    most = min(attempts.values(), default=1)
    return {
        k: mean_rate([[chance(n, passed.get(key, 0), k)] for key, n in attempts.items()])
        for k in range(1, min(most, MOST_K) + 1)
        if most > 1
    }


def _mean_accuracy(compared: Iterable[tuple[AttemptOutcome, Match]]) -> Rate:
    of_case: dict[CaseKey, list[float]] = {}
    for attempt, match in compared:
        if match.expected:
            of_case.setdefault(attempt.key, []).append(match.right / match.expected)
    return mean_rate(of_case.values())


def _fields(compared: Iterable[tuple[AttemptOutcome, Match]]) -> dict[str, FieldMetrics]:
    """Return the metrics of each field that is expected in any case, in the order of first occurrence."""
    by_field: dict[str, list[tuple[CaseKey, int, int, int | None]]] = {}
    for attempt, match in compared:
        for name in dict.fromkeys((*match.fields, *(match.surplus or ()))):
            right, expected = match.fields.get(name, (0, 0))
            given = None if match.surplus is None else expected + match.surplus.get(name, 0)
            by_field.setdefault(name, []).append((attempt.key, right, expected, given))
    return {
        name: FieldMetrics(
            accuracy=_clustered_by_case((key, right, expected) for key, right, expected, _ in counts),
            precision=_clustered_by_case((key, right, given) for key, right, _, given in counts if given is not None),
            f1=_clustered_by_case(
                (key, 2 * right, expected + given) for key, right, expected, given in counts if given is not None
            ),
        )
        for name, counts in by_field.items()
        if any(expected for _, _, expected, _ in counts)
    }


def _clustered_by_case(counts: Iterable[tuple[CaseKey, int, int]]) -> Proportion:
    """Return the proportion with cases as clusters, since the values and answers in one case are not independent."""
    totals: dict[CaseKey, tuple[int, int]] = {}
    for key, right, expected in counts:
        before = totals.get(key, (0, 0))
        totals[key] = (before[0] + right, before[1] + expected)
    return clustered(totals.values())


def _is_informative(attempt: AttemptOutcome) -> bool:
    """Return whether an attempt tests the system: the engine answered, or a decoding library failed."""
    return not attempt.failed or attempt.fault in {FaultKind.HANG, FaultKind.CRASH}


def _by_case(attempts: Iterable[AttemptOutcome]) -> Counter[CaseKey]:
    return Counter(attempt.key for attempt in attempts)


def _planned_attempts(
    planned: Sequence[CaseKey], attempts: Sequence[AttemptOutcome], left_out: Iterable[AttemptOutcome]
) -> Counter[CaseKey]:
    """Return the number of planned or, if larger, of recorded attempts for each case that is not left out."""
    plan = Counter(planned) | _by_case(attempts)
    for attempt in left_out:
        plan.pop(attempt.key, None)
    plan.subtract(attempt.key for attempt in attempts if attempt.called_again)
    return +plan


def _distribution(attempts: Iterable[AttemptOutcome], name: str) -> Distribution:
    values = (getattr(attempt.timing, name) for attempt in attempts if attempt.timing is not None)
    return Distribution.of(value for value in values if value is not None)
