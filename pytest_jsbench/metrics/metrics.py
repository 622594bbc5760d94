"""Define the metrics of a set of attempts. docs/metrics.md has each formula."""

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
    """Metrics of the values in one field, over all answers whose values were compared."""

    #: Right values / expected values.
    accuracy: Proportion
    #: Right values / values in the answers, and the harmonic mean of precision and accuracy; both have denominator 0 if
    #: the number of values in the answers is unknown.
    precision: Proportion
    f1: Proportion

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of right values, of expected values, and of values in the answers."""
        return {"right": self.accuracy.successes, "expected": self.accuracy.n, "given": self.precision.n}

    def to_dict(self) -> dict[str, float | None]:
        """Return the metrics as JSON values; a rate with denominator 0 is None."""
        return self.counts | {
            f"{name}{end}": value for name in RATES_OF_FIELD for end, value in _with_bounds(getattr(self, name))
        }


def _with_bounds(rate: Rate) -> tuple[tuple[str, float | None], ...]:
    """Return the rate and its bounds, each with the suffix of its name."""
    return ("", rate.value), ("_ci_low", rate.ci_low), ("_ci_high", rate.ci_high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of a set of attempts, such as those of one task or of a whole run."""

    #: Number of planned attempts, without attempts at cases with a broken schema.
    planned: int
    #: Number of planned cases.
    cases: int
    #: Attempts without information about the model (failed calls and missing attempts) / planned attempts.
    error_rate: Proportion
    #: Number of attempts at cases with a broken schema.
    excluded: int
    completions: int
    declined: int
    #: Number of failed calls.
    failed: int
    #: Number of planned attempts without a record.
    missing: int
    #: Number of planned attempts without a record, by reason; attempts that are missing for an unknown reason are not
    #: included.
    missing_reasons: Mapping[MissingReason, int]
    unjudged: int
    disputed: int
    declared_coverage: Proportion
    declared_coverage_excluding_errors: Proportion
    empirical_coverage: Proportion
    pass_rate: Proportion
    #: Pass rate over the cases that no constant answer passes.
    pass_rate_nontrivial: Proportion
    #: Cases that the best constant answer ({}, [], "", 0, true or null) passes / cases for which this is known.
    floor: Proportion
    #: For each constant answer, the number of cases that it passes, in descending order.
    trivial_counts: Mapping[str, int]
    #: Cases with at least one passed attempt / cases.
    pass_at_k: Proportion
    #: Cases in which all attempts passed / cases.
    pass_hat_k: Proportion
    #: For each k up to the smallest number of attempts per case, the mean over cases of the probability that at least
    #: one of k attempts passes; bounds are named `k_ci_low` and `k_ci_high`; empty without repeats.
    pass_at: Mapping[int, Rate]
    #: For each k, the mean over cases of the probability that all k attempts pass.
    pass_hat: Mapping[int, Rate]
    #: Conforming answers whose properties are in the order of the schema / conforming answers with an object that has
    #: at least two properties of the schema; does not affect verdicts.
    order_kept: Proportion
    failure_counts: Mapping[FailureType, int]
    #: Number of attempts with each code from the project's own classifiers, in descending order; only codes that
    #: occurred.
    code_counts: Mapping[str, int]
    #: Rate of each custom metric in use, computed from the summed counts of all answers; bounds are named `name_ci_low`
    #: and `name_ci_high`; empty without custom metrics.
    scores: Mapping[str, Proportion]
    #: Number of attempts with each of the judge's notes; notes do not affect verdicts.
    note_counts: Mapping[Note, int]
    #: Number of calls of an application that were followed by another call for the same answer; only the last call
    #: counts.
    called_again: int
    #: Number of failed calls that were retried.
    retries: int
    #: Number of failed calls by kind of fault; only kinds that occurred.
    fault_counts: Mapping[FaultKind, int]
    #: Valid labelled answers that the grammar rejects / valid labelled answers with a decision.
    over_constraint: Proportion
    #: Invalid labelled answers that the grammar accepts / invalid labelled answers with a decision.
    under_constraint: Proportion
    #: Right values / expected values; None if no values are expected.
    value_accuracy: Proportion
    #: Right values / expected values, over the answers that conform.
    value_accuracy_conforming: Proportion
    #: Mean over answers of the share of expected values that are right; all answers have the same weight.
    value_accuracy_mean: Rate
    #: Right values / values in the answers.
    value_precision: Proportion
    #: Harmonic mean of `value_precision` and `value_accuracy`.
    value_f1: Proportion
    #: Answers with every value right and no invented value / answers with expected values.
    exact_match: Proportion
    #: For each expected field, named as in `items.*.amount`: the counts `.right`, `.expected` and `.given`, and the
    #: rates `.accuracy` (right / expected), `.precision` (right / given) and `.f1` (2 right / (expected + given));
    #: bounds are named as in `.accuracy_ci_low` and `.accuracy_ci_high`; empty if no values are expected.
    fields: Mapping[str, FieldMetrics]
    #: Number of values in answers that are not expected.
    invented: int
    #: Project's own tests that passed / own tests that ended, without tests whose calls all failed.
    tests_passed: Proportion
    #: Number of answered attempts for which the project's own test failed, by cause.
    test_failures: Mapping[Cause, int]
    #: Number of answers whose values could not be compared, because the user's comparer raised an error or the values
    #: nest too deeply.
    uncompared: int
    ttft: Distribution
    tpot: Distribution
    tgt: Distribution
    gct: Distribution
    reasoning_time: Distribution
    grammar_compilation: Distribution
    #: Part of `grammar_compilation` before the first mask is computed.
    compile_time: Distribution
    #: Seconds from accepting a token to the mask for the next token, for each token of labelled answers.
    mask_time: Distribution
    #: Seconds that an attempt waited in the queue before it was sent.
    queue: Distribution
    tokens: Usage
    #: Number of attempts that reported their number of tokens.
    reported: int
    #: Number of answers that did not report their number of tokens.
    unreported: int
    #: Cost in US dollars over the attempts whose cost is known, at the prices published on the day of the run; None if
    #: no cost is known.
    cost: float | None
    #: Number of attempts whose cost is known.
    priced: int
    #: Number of answers from a paid provider whose cost is unknown.
    unpriced: int

    def figure(self, name: str) -> Rate | float | None:
        """Return the figure with this name in `figures.FIGURES`; None if the figure is not applicable."""
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
        """Number of attempts without information about the model: failed calls and missing attempts."""
        return self.failed + self.missing

    def failure_rate(self, kind: FailureType) -> Proportion:
        """
        Return the share of planned attempts that ended with this failure.

        If no attempt was judged, the denominator is 0, except for failures that can occur without a verdict.
        """
        if not self.judged and kind not in NOT_THE_MODELS:
            return proportion(0, 0)
        return proportion(self.failure_counts[kind], self.planned, design_effect=self.error_rate.design_effect)

    @property
    def judged(self) -> int:
        """Number of attempts that the engine answered or declined and that the judge could decide."""
        return self.completions + self.declined - self.unjudged

    @property
    def nontrivial(self) -> int:
        """Number of planned attempts at cases that, as far as is known, no constant answer passes."""
        return self.pass_rate_nontrivial.n

    @property
    def passed(self) -> int:
        """Number of attempts that passed."""
        return self.pass_rate.successes

    @property
    def valid(self) -> int:
        """Number of answers that conform to their schema."""
        return self.empirical_coverage.successes

    @property
    def complete(self) -> bool:
        """Whether every planned attempt was answered or declined, and judged."""
        return not (self.errors or self.unjudged)

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics by their names in docs/metrics.md; a rate with denominator 0 is None."""
        figures: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        figures["missing_reasons"] = {reason.value: self.missing_reasons[reason] for reason in MissingReason}
        figures["valid_instances"] = self.over_constraint.n
        figures["valid_rejected"] = self.over_constraint.successes
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
