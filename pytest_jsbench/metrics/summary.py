"""The summary of a run: its metrics per task, overall and by keyword, from its records and its plan."""

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
    """The metrics of one keyword, as files have them."""

    #: answers that broke it; None where a grammar was asked about labelled answers, whose decisions are of no one
    #: keyword
    failures: Natural | None
    #: decisions about labelled answers whose schema uses it
    decisions: NotRequired[Natural]
    #: of these, the wrong ones
    wrong_decisions: NotRequired[Natural]
    #: attempts whose schema uses it
    attempts: Natural
    #: those that passed
    passed: Natural
    #: their share of the attempts
    pass_rate: Fraction | None
    #: lower bound of its 95 % interval
    pass_rate_ci_low: Fraction | None
    #: upper bound
    pass_rate_ci_high: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordMetrics:
    """The metrics of one keyword of JSON Schema."""

    #: attempts with an answer that breaks it, or of which the grammar took such a labelled one; None where an answer
    #: was taken of which nobody can say what it breaks
    failures: int | None
    #: wrong decisions / decisions about labelled answers whose schema uses it
    wrong_decisions: Proportion
    #: passed attempts / attempts whose schema uses it; attempts without a record are in neither
    pass_rate: Proportion

    @property
    def faults(self) -> int:
        """Violations of it, or wrong decisions where there are decisions."""
        return self.wrong_decisions.successes if self.wrong_decisions.n else self.failures or 0

    def to_dict(self) -> KeywordFigures:
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


def by_keyword(attempts: Iterable[AttemptOutcome]) -> dict[str, KeywordMetrics]:
    """The metrics of each keyword, most failures first, without the cases with a broken schema."""
    used: dict[CaseKey, tuple[str, ...]] = {}
    attempts_of: Counter[CaseKey] = Counter()
    passed: Counter[CaseKey] = Counter()
    failures: Counter[str] = Counter()
    wrong: Counter[CaseKey] = Counter()
    decisions: Counter[CaseKey] = Counter()
    decided: set[CaseKey] = set()
    unsaid = False
    for attempt in attempts:
        if not attempt.counted:
            continue
        if _tells(attempt) and attempt.failure_type is not FailureType.UNJUDGED:
            decided.add(attempt.key)
        used.setdefault(attempt.key, attempt.keywords)
        attempts_of[attempt.key] += 1
        passed[attempt.key] += attempt.passed
        if attempt.decisions is not None:
            wrong[attempt.key] += attempt.decisions.wrong
            decisions[attempt.key] += attempt.decisions.made
            unsaid |= bool(attempt.decisions.invalid_accepted) and not attempt.broken
        failures.update(attempt.broken)
    users: dict[str, list[CaseKey]] = {name: [] for name in failures}
    for key, names in used.items():
        for name in names:
            users.setdefault(name, []).append(key)
    rows = {
        name: KeywordMetrics(
            failures=None if unsaid else failures[name],
            wrong_decisions=clustered((wrong[key], decisions[key]) for key in keys),
            pass_rate=clustered((passed[key], attempts_of[key]) for key in keys if not decided.isdisjoint(keys)),
        )
        for name, keys in users.items()
    }
    ranked = sorted(rows.items(), key=lambda pair: (-pair[1].faults, -pair[1].pass_rate.n, pair[0]))
    return dict(ranked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run's metrics: per task in the order of the plan, overall, by keyword, and of each of its variants."""

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
    #: of each variant alone, the one with the highest pass rate first; empty in a run without variants
    variants: Mapping[str, Summary] = field(default_factory=dict)
    #: the variants, compared case by case
    pairs: tuple[Pair, ...] = ()
    #: the cases that some variants pass and others fail
    differing: tuple[CaseKey, ...] = ()


@arguments(run=one_of("a run", Run))
def summarize(run: Run) -> Summary:
    """The summary of a run; each denominator comes from the plan, never from the number of answers."""
    whole = _summarize(run)
    variants = {name: _summarize(part) for name, part in run.each().items()}
    ranked = dict(sorted(variants.items(), key=lambda pair: _rank(pair[1].total)))
    settings = {variant.variant: settings_of(variant.to_dict()) for variant in each(run.metadata)}
    here = {variant.variant for variant in each(run.metadata) if variant.engine in ON_THIS_MACHINE}
    compared = pairs([(name, variants[name].outcomes, settings[name]) for name in run.variants])
    ends = {name: summary.outcomes for name, summary in ranked.items()}
    return replace(
        whole,
        variants=ranked,
        pairs=tuple(
            replace(pair, comparison=pair.comparison.asked_at_once()) if {pair.first, pair.second} <= here else pair
            for pair in compared
        ),
        differing=differing(ends),
    )


def _rank(total: Metrics) -> tuple[float, float, float]:
    """The highest pass rate first; of equal ones that with fewer errors, and then the faster one."""
    rate, time = total.pass_rate.value, total.tgt.p50
    return 1.0 if rate is None else -rate, total.errors, float("inf") if time is None else time


def _summarize(run: Run) -> Summary:
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
    The metrics of these attempts; `planned` names the case of each attempt that was to be made.

    Cases whose schema is `broken`, and the user's own, are missing; others without a schema are excluded.
    """
    counted = [attempt for attempt in attempts if attempt.counted]
    again = sum(bool(attempt.called_again) for attempt in attempts)
    completions = [attempt for attempt in counted if attempt.generation == "completion"]
    answered = [attempt for attempt in counted if attempt.answered]
    left_out = [attempt for attempt in attempts if attempt.excluded and attempt.key not in broken]
    plan, made = _plan(planned, attempts, left_out), _by_case(counted)
    missing = plan.total() - len(counted)
    replied, completed = _by_case(answered), _by_case(completions)
    failed = _by_case(attempt for attempt in counted if attempt.failed)
    valid = _by_case(attempt for attempt in completions if attempt.valid is True)
    passed = _by_case(attempt for attempt in counted if attempt.passed)
    heard = made - failed
    # where every call broke on its way nothing is known of model and engine, and a rate over nothing is null
    heard_of = plan if any(map(_tells, counted)) else Counter[CaseKey]()
    decided = heard_of if any(_tells(one) and one.failure_type is not FailureType.UNJUDGED for one in counted) else {}
    trivial = {attempt.key: attempt.trivial for attempt in counted if attempt.trivial is not None}
    taken = Counter(text for texts in trivial.values() for text in texts)
    ordered = _by_case(attempt for attempt in completions if attempt.order_kept is not None)
    kept = _by_case(attempt for attempt in completions if attempt.order_kept)
    matches = [(attempt, attempt.match) for attempt in counted if attempt.match is not None]
    compared = [(attempt, match) for attempt, match in matches if not match.problem]
    # a broken call says nothing of the model, and so its test does not
    tested = {
        (one.asked_by and one.asked_by.test, one.repeat, one.variant): (one.key.of_first, one.test_outcome)
        for one in counted
        if one.test_outcome is not None and not one.failed
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
    return Metrics(
        planned=plan.total(),
        cases=len(plan),
        error_rate=clustered((n - heard[key], n) for key, n in plan.items()),
        excluded=len(left_out),
        completions=len(answered),
        declined=sum(attempt.generation == "declined" for attempt in counted),
        failed=failed.total(),
        missing=missing,
        missing_reasons={reason: reasons.get(reason, 0) for reason in MissingReason},
        unjudged=kinds[FailureType.UNJUDGED],
        disputed=sum(attempt.disputed for attempt in counted),
        declared_coverage=clustered((replied[key], n) for key, n in heard_of.items()),
        declared_coverage_excluding_errors=clustered((replied[key], n) for key, n in heard.items()),
        empirical_coverage=clustered((valid[key], n) for key, n in completed.items()),
        pass_rate=clustered((passed[key], n) for key, n in decided.items()),
        pass_rate_nontrivial=clustered((passed[key], n) for key, n in decided.items() if trivial.get(key) == ()),
        floor=proportion(max(taken.values(), default=0), len(trivial)),
        trivial_counts=dict(taken.most_common()),
        pass_at_k=proportion(sum(passed[key] > 0 for key in decided), len(decided)),
        pass_hat_k=proportion(sum(passed[key] == n for key, n in decided.items()), len(decided)),
        pass_at=_of_each_k(pass_at_k, passed, decided),
        pass_hat=_of_each_k(pass_hat_k, passed, decided),
        order_kept=clustered((kept[key], n) for key, n in ordered.items()),
        failure_counts={kind: kinds[kind] for kind in COUNTED_FAILURES},
        code_counts=dict(Counter(code for attempt in counted for code in attempt.codes).most_common()),
        scores={
            name: _sum((attempt.key, *attempt.scores[name]) for attempt in counted if name in attempt.scores)
            for name in dict.fromkeys(name for attempt in counted for name in attempt.scores)
        },
        note_counts={note: notes[note] for note in Note},
        called_again=again,
        retries=sum(attempt.retries for attempt in counted),
        fault_counts={kind: faults[kind] for kind in FaultKind},
        over_constraint=_sum((key, one.valid_rejected, one.valid) for key, one in decisions),
        under_constraint=_sum((key, one.invalid_accepted, one.invalid) for key, one in decisions),
        value_accuracy=_sum((attempt.key, match.right, match.expected) for attempt, match in compared),
        value_accuracy_conforming=_sum(
            (attempt.key, match.right, match.expected) for attempt, match in compared if attempt.valid
        ),
        value_accuracy_mean=_mean(compared),
        value_precision=_sum((attempt.key, match.right, match.given) for attempt, match in compared),
        value_f1=_sum((attempt.key, 2 * match.right, match.expected + match.given) for attempt, match in compared),
        exact_match=_sum((attempt.key, int(match.exact), 1) for attempt, match in compared),
        fields=_fields(compared),
        invented=sum(match.invented for _, match in compared),
        uncompared=len(matches) - len(compared),
        tests_passed=_sum((key, int(passed), 1) for key, passed in ended),
        test_failures={cause: causes[cause] for cause in Cause},
        ttft=_spread(completions, "ttft"),
        tpot=Distribution.of(
            value for attempt in completions if (value := tpot_ms(attempt.timing, attempt.usage)) is not None
        ),
        tgt=_spread(completions, "tgt"),
        gct=_spread(completions, "gct"),
        reasoning_time=_spread(completions, "reasoning_time"),
        grammar_compilation=_spread(answered, "grammar_compilation"),
        compile_time=_spread(answered, "compile_time"),
        mask_time=Distribution.of(
            seconds for attempt in answered if attempt.timing is not None for seconds in attempt.timing.masks
        ),
        queue=Distribution.of(attempt.queue_s for attempt in counted if attempt.queue_s is not None),
        # an answer to an application that no schema describes costs what it costs
        tokens=Usage.total([attempt.usage for attempt in attempts if attempt.usage is not None]),
        reported=len(
            reporting := [one for one in attempts if one.usage is not None and one.usage.output_tokens is not None]
        ),
        unreported=sum(one.answered for one in attempts) - sum(one.answered for one in reporting),
        cost=sum(priced) if priced else None,
        priced=len(priced),
        unpriced=sum(attempt.attempt in costs.unknown for attempt in attempts),
    )


def _of_each_k(
    chance: Callable[[int, int, int], float], passed: Mapping[CaseKey, int], attempts: Mapping[CaseKey, int]
) -> dict[int, Rate]:
    """The mean over cases of the chance with k of a case's attempts, for each k; nothing where none is repeated."""
    most = min(attempts.values(), default=1)
    return {
        k: mean_rate([[chance(n, passed.get(key, 0), k)] for key, n in attempts.items()])
        for k in range(1, min(most, MOST_K) + 1)
        if most > 1
    }


def _mean(compared: Iterable[tuple[AttemptOutcome, Match]]) -> Rate:
    of_case: dict[CaseKey, list[float]] = {}
    for attempt, match in compared:
        if match.expected:
            of_case.setdefault(attempt.key, []).append(match.right / match.expected)
    return mean_rate(of_case.values())


def _fields(compared: Iterable[tuple[AttemptOutcome, Match]]) -> dict[str, FieldMetrics]:
    """The metrics of each field that is expected in any answer, in the order in which they were met."""
    by_field: dict[str, list[tuple[CaseKey, int, int, int | None]]] = {}
    for attempt, match in compared:
        for name in dict.fromkeys((*match.fields, *(match.surplus or ()))):
            right, expected = match.fields.get(name, (0, 0))
            given = None if match.surplus is None else expected + match.surplus.get(name, 0)
            by_field.setdefault(name, []).append((attempt.key, right, expected, given))
    return {
        name: FieldMetrics(
            accuracy=_sum((key, right, expected) for key, right, expected, _ in counts),
            precision=_sum((key, right, given) for key, right, _, given in counts if given is not None),
            f1=_sum((key, 2 * right, expected + given) for key, right, expected, given in counts if given is not None),
        )
        for name, counts in by_field.items()
        if any(expected for _, _, expected, _ in counts)
    }


def _sum(counts: Iterable[tuple[CaseKey, int, int]]) -> Proportion:
    """The proportion over cases: the values of one answer, and the answers to one case, are not independent."""
    totals: dict[CaseKey, tuple[int, int]] = {}
    for key, right, expected in counts:
        before = totals.get(key, (0, 0))
        totals[key] = (before[0] + right, before[1] + expected)
    return clustered(totals.values())


def _tells(attempt: AttemptOutcome) -> bool:
    """The attempt says something of what is tested: an answer came, or a decoding library broke."""
    return not attempt.failed or attempt.fault in {FaultKind.HANG, FaultKind.CRASH}


def _by_case(attempts: Iterable[AttemptOutcome]) -> Counter[CaseKey]:
    return Counter(attempt.key for attempt in attempts)


def _plan(
    planned: Sequence[CaseKey], attempts: Sequence[AttemptOutcome], left_out: Iterable[AttemptOutcome]
) -> Counter[CaseKey]:
    """The number of attempts planned for each case, at least those it had; none for a case that is left out."""
    plan = Counter(planned) | _by_case(attempts)
    for attempt in left_out:
        plan.pop(attempt.key, None)
    plan.subtract(attempt.key for attempt in attempts if attempt.called_again)
    return +plan


def _spread(attempts: Iterable[AttemptOutcome], name: str) -> Distribution:
    values = (getattr(attempt.timing, name) for attempt in attempts if attempt.timing is not None)
    return Distribution.of(value for value in values if value is not None)
