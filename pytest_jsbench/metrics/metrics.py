"""The metrics of a set of attempts. Each formula is in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.generations import FaultKind, Usage
from pytest_jsbench.metrics.figures import COUNTED_FAILURES, COUNTS, RATES, RATES_OF_FIELD, SPREAD, TIMES, TOKENS
from pytest_jsbench.metrics.statistics import Distribution, Proportion, Rate, mean_rate, proportion
from pytest_jsbench.records.records import Cause, MissingReason
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType, Note


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMetrics:
    """The values of one field, over all answers that are compared."""

    #: right values / values that are expected
    accuracy: Proportion
    #: right values / values that answers have, and the harmonic mean of both; over nothing where that is not known
    precision: Proportion
    f1: Proportion

    @property
    def counts(self) -> dict[str, int]:
        """The values of the field that are right, that are expected, and that answers have."""
        return {"right": self.accuracy.successes, "expected": self.accuracy.n, "given": self.precision.n}

    def to_dict(self) -> dict[str, float | None]:
        """The metrics as JSON values; a rate over nothing is None."""
        return self.counts | {
            f"{name}{end}": value for name in RATES_OF_FIELD for end, value in _with_bounds(getattr(self, name))
        }


def _with_bounds(rate: Rate) -> tuple[tuple[str, float | None], ...]:
    """The rate and its bounds, each under the end of its name."""
    return ("", rate.value), ("_ci_low", rate.ci_low), ("_ci_high", rate.ci_high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of a set of attempts: one task's, or a whole run's."""

    #: planned attempts, without those with a broken schema
    planned: int
    #: cases that were to be attempted
    cases: int
    #: attempts that say nothing about the model / planned attempts
    error_rate: Proportion
    #: attempts with a broken schema
    excluded: int
    completions: int
    declined: int
    #: calls that failed
    failed: int
    #: planned, and without a record
    missing: int
    #: why planned attempts have no record, as far as that is known
    missing_reasons: Mapping[MissingReason, int]
    unjudged: int
    disputed: int
    declared_coverage: Proportion
    declared_coverage_excluding_errors: Proportion
    empirical_coverage: Proportion
    pass_rate: Proportion
    #: the pass rate over the cases that no constant answer passes
    pass_rate_nontrivial: Proportion
    #: cases that the best constant answer passes ({}, [], "", 0, true or null) / those of which it is known
    floor: Proportion
    #: cases by the constant answers that pass them, most first
    trivial_counts: Mapping[str, int]
    #: cases of which at least one attempt passed / cases
    pass_at_k: Proportion
    #: cases of which all attempts passed / cases
    pass_hat_k: Proportion
    #: by k, up to the fewest attempts at a case: the mean over cases of the chance that at least one of k attempts
    #: passes, and its bounds as `k_ci_low` and `k_ci_high`; empty without repeats
    pass_at: Mapping[int, Rate]
    #: the same of all k attempts
    pass_hat: Mapping[int, Rate]
    #: conforming answers whose properties come in the schema's order / those with two of them in an object; it decides
    #: nothing
    order_kept: Proportion
    failure_counts: Mapping[FailureType, int]
    #: attempts by the codes of the project's own classifiers, most first; only codes that occurred
    code_counts: Mapping[str, int]
    #: by the name of each metric of the project's own that was asked for, its rate (the counts of all answers
    #: together), and its bounds as `name_ci_low` and `name_ci_high`; empty where none was
    scores: Mapping[str, Proportion]
    #: notes of the judge, which decide no verdict
    note_counts: Mapping[Note, int]
    #: calls of applications that went on to call again for the same; the last one counts
    called_again: int
    #: calls that failed and were made again
    retries: int
    #: broken calls by whose fault they were; only kinds that occurred
    fault_counts: Mapping[FaultKind, int]
    #: valid labelled answers that the grammar rejects / those it decided on
    over_constraint: Proportion
    #: invalid labelled answers that the grammar accepts / those it decided on
    under_constraint: Proportion
    #: right values / values that are expected; None where none are
    value_accuracy: Proportion
    #: the same of answers that conform
    value_accuracy_conforming: Proportion
    #: the mean over answers of what part of the values of each is right, so that each answer counts alike
    value_accuracy_mean: Rate
    #: right values / values that answers have
    value_precision: Proportion
    #: the harmonic mean of `value_precision` and `value_accuracy`
    value_f1: Proportion
    #: answers with every value right and none invented / those of which a value is expected
    exact_match: Proportion
    #: by the name of each field that is expected (`items.*.amount`), `.right`, `.expected` and `.given` values,
    #: `.accuracy` (right / expected), `.precision` (right / given) and `.f1` (2 right / (expected + given)), each with
    #: the bounds of its interval, as in `.accuracy_ci_low` and `.accuracy_ci_high`; empty where none are expected
    fields: Mapping[str, FieldMetrics]
    #: values that were not expected
    invented: int
    #: tests of a project's own that passed / those that ended, and that did not only meet broken calls
    tests_passed: Proportion
    #: answered attempts whose test failed, by why
    test_failures: Mapping[Cause, int]
    #: answers whose values could not be compared: a comparer of the user's raised, or they nest too deeply
    uncompared: int
    ttft: Distribution
    tpot: Distribution
    tgt: Distribution
    gct: Distribution
    reasoning_time: Distribution
    grammar_compilation: Distribution
    #: of it, before the first mask is asked for
    compile_time: Distribution
    #: seconds from one mask of a grammar to the next, of each token of labelled answers
    mask_time: Distribution
    #: seconds from when an attempt is queued to when it is sent
    queue: Distribution
    tokens: Usage
    #: attempts that told their tokens
    reported: int
    #: answers that did not tell their tokens
    unreported: int
    #: US dollars, by the published prices of the run's day, over the attempts whose cost is known; None where none is
    cost: float | None
    #: answered attempts whose cost is known
    priced: int
    #: answers of a paid provider whose cost is not known
    unpriced: int

    def figure(self, name: str) -> Rate | float | None:
        """The figure that `figures.FIGURES` names so; None where it is not applicable."""
        group, _, kind = name.partition(".")
        time, _, part = name.rpartition("_")
        value: Rate | float | None
        if group == "failure_rates":
            return self.failure_rate(FailureType(kind))
        if group == "failure_counts":
            return self.failure_counts[FailureType(kind)]
        if group == "test_failures":
            return self.test_failures[Cause(kind)]
        if group == "scores":
            return self.scores.get(kind, proportion(0, 0))
        if group in {"pass_at", "pass_hat"}:
            rates: Mapping[int, Rate] = getattr(self, group)
            return rates.get(int(kind), mean_rate([]))
        if time in TIMES:
            value = getattr(getattr(self, time), part)
        else:
            value = getattr(self.tokens if name in TOKENS else self, name)
        return value

    @property
    def errors(self) -> int:
        """Attempts that say nothing about the model: failed calls and missing attempts."""
        return self.failed + self.missing

    def failure_rate(self, kind: FailureType) -> Proportion:
        """The planned attempts that ended so; over nothing where only an answer could, and none was judged."""
        if not self.judged and kind not in NOT_THE_MODELS:
            return proportion(0, 0)
        return proportion(self.failure_counts[kind], self.planned, design_effect=self.error_rate.design_effect)

    @property
    def judged(self) -> int:
        """Attempts that were answered or declined, and decided."""
        return self.completions + self.declined - self.unjudged

    @property
    def nontrivial(self) -> int:
        """Planned attempts at cases that, as is known, no constant answer passes."""
        return self.pass_rate_nontrivial.n

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
        """True where every planned attempt was answered or declined, and judged."""
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
            figures |= {f"{name}{end}": value for end, value in _with_bounds(getattr(self, name))}
        for name in ("pass_at", "pass_hat"):
            of_k: Mapping[int, Rate] = getattr(self, name)
            figures[name] = {f"{k}{end}": value for k, rate in of_k.items() for end, value in _with_bounds(rate)}
        figures["failure_counts"] = {kind.value: self.failure_counts[kind] for kind in COUNTED_FAILURES}
        figures["failure_rates"] = {kind.value: self.failure_rate(kind).value for kind in COUNTED_FAILURES}
        figures["fields"] = {
            f"{name}.{part}": value for name, field in self.fields.items() for part, value in field.to_dict().items()
        }
        figures["scores"] = {
            f"{name}{end}": value for name, rate in self.scores.items() for end, value in _with_bounds(rate)
        }
        figures["test_failures"] = {cause.value: self.test_failures[cause] for cause in Cause}
        figures["note_counts"] = {note.value: self.note_counts[note] for note in Note}
        figures["trivial_counts"] = dict(self.trivial_counts)
        figures["code_counts"] = dict(self.code_counts)
        for name in TIMES:
            spread: Distribution = getattr(self, name)
            figures |= {f"{name}_{part}": getattr(spread, part) for part in SPREAD}
        figures |= {name: getattr(self.tokens, name) for name in TOKENS}
        figures["cost"] = self.cost
        return figures
