"""
Define the metrics of a set of attempts: one method per figure, which computes it from the attempts.

The decorator of a method describes the figure; tables, gates, plots, exports and histories read it from there. A method
added here adds a figure to all of them. docs/metrics.md has each formula.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.metrics.agreement_figures import AgreementFigures
from pytest_jsbench.metrics.attempt_groups import cluster_by_case, count_by_case
from pytest_jsbench.metrics.figure import (
    COUNT,
    GRAMMAR_RUNS,
    GRAMMARS,
    RATE,
    RUNS,
    TASKS,
    VALUES,
    VARIANTS,
    Better,
    Display,
    FieldMetrics,
    metric,
)
from pytest_jsbench.metrics.load_figures import LoadFigures
from pytest_jsbench.metrics.measurements import Measurements
from pytest_jsbench.metrics.repair_figures import RepairFigures
from pytest_jsbench.metrics.statistics import (
    Proportion,
    Rate,
    clustered,
    mean_rate,
    pass_at_k,
    pass_hat_k,
    proportion,
)
from pytest_jsbench.metrics.tool_calls import count_confusions, precision_by_tool, recall_by_tool
from pytest_jsbench.metrics.transit_figures import TransitFigures
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.fault_reports import Coping
from pytest_jsbench.records.records import Cause, MissingReason
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType, Note

#: Largest k for pass@k and pass^k.
MOST_K = 32
#: Failure types that are counted; attempts with a broken schema are excluded instead.
COUNTED_FAILURES = tuple(kind for kind in FailureType if kind is not FailureType.INVALID_SCHEMA)
_OPEN = ("errors", "unjudged")
_UNREPORTED = ("errors", "unreported")
_LOWER = Better.LOWER


def _each_k(title: str) -> dict[str, Display]:
    """Return the display of pass@k, or of pass^k, for each k."""
    return {str(k): {"words": f"{title}{k}"} for k in range(1, MOST_K + 1)}


#: Failure types with their display: of these counts, only failures of the model can change as attempts are decided.
_FAILURES: dict[str, Display] = {
    kind: {"counted_open": () if kind in NOT_THE_MODELS else _OPEN} for kind in COUNTED_FAILURES
}
#: How applications coped with injected faults: returning after a broken answer, and hanging, may be mistakes.
_COPING: dict[str, Display] = {
    coping: {"better_when": _LOWER} if coping in {Coping.RETURNED, Coping.HUNG} else {} for coping in Coping
}


class Metrics(Measurements, RepairFigures, AgreementFigures, TransitFigures, LoadFigures):
    """Metrics of a set of attempts, such as those of one task or of a whole run."""

    @property
    def complete(self) -> bool:
        """Whether every planned attempt was answered or declined, and judged."""
        return not (self.errors or self.unjudged)

    def __repr__(self) -> str:
        """Return the main counts."""
        return f"<Metrics: {self.passed} of {self.planned} attempts passed>"

    # Rates, in the order of their columns.

    @metric(
        RATE,
        of="planned",
        counted_open=_OPEN,
        is_main=True,
        tables=VARIANTS | RUNS | GRAMMARS,
        wide_only=TASKS | GRAMMAR_RUNS,
    )
    def pass_rate(self) -> Proportion:
        """Passed attempts / planned attempts."""
        groups = self._groups
        return clustered((groups.passed[key], n) for key, n in groups.decided_plan.items())

    @metric(
        RATE,
        words="Pass rate on cases that no constant answer passes",
        of="nontrivial",
        counted_open=_OPEN,
        left_out=("missing",),
    )
    def pass_rate_nontrivial(self) -> Proportion:
        """Pass rate over the cases that no constant answer passes."""
        groups = self._groups
        return clustered(
            (groups.passed[key], n) for key, n in groups.decided_plan.items() if groups.trivial.get(key) == ()
        )

    @metric(
        RATE,
        words="Share of cases that the best constant answer passes",
        better_when=Better.NEITHER,
        of="cases",
        left_out=("missing",),
        heading="Floor",
        tables=RUNS,
        wide_only=TASKS | VARIANTS,
    )
    def floor(self) -> Proportion:
        """Cases that the best constant answer ({}, [], "", 0, true or null) passes / cases for which this is known."""
        groups = self._groups
        return proportion(max(groups.constants.values(), default=0), len(groups.trivial))

    @metric(RATE, words="Pass@k", of="cases", counted_open=_OPEN)
    def pass_at_k(self) -> Proportion:
        """Cases with at least one passed attempt / cases."""
        groups = self._groups
        return proportion(sum(groups.passed[key] > 0 for key in groups.decided_plan), len(groups.decided_plan))

    @metric(RATE, words="Pass^k", of="cases", counted_open=_OPEN, tables=VARIANTS)
    def pass_hat_k(self) -> Proportion:
        """Cases in which all attempts passed / cases."""
        groups = self._groups
        all_passed = sum(groups.passed[key] == n for key, n in groups.decided_plan.items())
        return proportion(all_passed, len(groups.decided_plan))

    @metric(
        RATE,
        of="planned",
        counted_open=("errors",),
        is_main=True,
        short="Decl. cov.",
        tables=TASKS | VARIANTS | GRAMMARS | GRAMMAR_RUNS,
    )
    def declared_coverage(self) -> Proportion:
        """Answered attempts / planned attempts."""
        answered = count_by_case(self._groups.answered)
        return clustered((answered[key], n) for key, n in self._groups.informative_plan.items())

    @metric(RATE, left_out=("errors",))
    def declared_coverage_excluding_errors(self) -> Proportion:
        """Answered attempts / attempts whose call did not fail."""
        answered = count_by_case(self._groups.answered)
        return clustered((answered[key], n) for key, n in self._groups.reached.items())

    @metric(
        RATE,
        of="completions",
        counted_open=("unjudged",),
        left_out=("errors",),
        is_main=True,
        short="Emp. cov.",
        tables=TASKS | VARIANTS,
    )
    def empirical_coverage(self) -> Proportion:
        """Answers that conform to their schema / answers."""
        completions = self._groups.completions
        valid = count_by_case(attempt for attempt in completions if attempt.valid is True)
        return clustered((valid[key], n) for key, n in count_by_case(completions).items())

    @metric(RATE, better_when=_LOWER, of="planned")
    def error_rate(self) -> Proportion:
        """Attempts without information about the model (failed calls and missing attempts) / planned attempts."""
        groups = self._groups
        return clustered((n - groups.reached[key], n) for key, n in groups.plan.items())

    @metric(RATE, left_out=_OPEN)
    def order_kept(self) -> Proportion:
        """
        Conforming answers whose properties are in the order of the schema / conforming answers with an object that has
        at least two properties of the schema; does not affect verdicts.
        """
        completions = self._groups.completions
        kept = count_by_case(attempt for attempt in completions if attempt.order_kept)
        ordered = count_by_case(attempt for attempt in completions if attempt.order_kept is not None)
        return clustered((kept[key], n) for key, n in ordered.items())

    @metric(
        RATE,
        words="Valid answers rejected",
        better_when=_LOWER,
        of="valid_instances",
        is_main=True,
        counted_open=_OPEN,
        heading="Valid, rejected",
        counted=True,
        tables=GRAMMARS | GRAMMAR_RUNS,
    )
    def over_constraint(self) -> Proportion:
        """Valid labelled answers that the grammar rejects / valid labelled answers with a decision."""
        return cluster_by_case((key, made.valid_rejected, made.valid) for key, made in self._groups.decisions)

    @metric(
        RATE,
        words="Invalid answers accepted",
        better_when=_LOWER,
        of="invalid_instances",
        is_main=True,
        counted_open=_OPEN,
        heading="Invalid, accepted",
        counted=True,
        tables=GRAMMARS | GRAMMAR_RUNS,
    )
    def under_constraint(self) -> Proportion:
        """Invalid labelled answers that the grammar accepts / invalid labelled answers with a decision."""
        return cluster_by_case((key, made.invalid_accepted, made.invalid) for key, made in self._groups.decisions)

    @metric(VALUES, is_main=True, heading="Values right", tables=TASKS | VARIANTS | RUNS)
    def value_accuracy(self) -> Proportion:
        """Right values / expected values; None if no values are expected."""
        return self._groups.cluster_matches(lambda match: (match.right, match.expected))

    @metric(VALUES, is_main=True)
    def value_accuracy_conforming(self) -> Proportion:
        """Right values / expected values, over the answers that conform."""
        return self._groups.cluster_matches(lambda match: (match.right, match.expected), conforming=True)

    @metric(VALUES)
    def value_accuracy_mean(self) -> Rate:
        """Mean over answers of the share of expected values that are right; all answers have the same weight."""
        shares: dict[CaseKey, list[float]] = {}
        for attempt, match in self._groups.compared:
            if match.expected:
                shares.setdefault(attempt.key, []).append(match.right / match.expected)
        return mean_rate(shares.values())

    @metric(VALUES)
    def value_precision(self) -> Proportion:
        """Right values / values in the answers."""
        return self._groups.cluster_matches(lambda match: (match.right, match.given))

    @metric(VALUES, words="Value F1")
    def value_f1(self) -> Proportion:
        """Harmonic mean of `value_precision` and `value_accuracy`."""
        return self._groups.cluster_matches(lambda match: (2 * match.right, match.expected + match.given))

    @metric(VALUES, is_main=True)
    def exact_match(self) -> Proportion:
        """Answers with every value right and no invented value / answers with expected values."""
        return self._groups.cluster_matches(lambda match: (int(match.exact), 1))

    @metric(VALUES, is_main=True, heading="Calls conform", tables=TASKS | VARIANTS | RUNS)
    def call_pass_rate(self) -> Proportion:
        """Calls of offered tools with conforming arguments / calls in answers to cases that offer tools."""
        return cluster_by_case(
            (key, calls.conforming, len(calls.called)) for key, calls in self._groups.tool_calls if calls.called
        )

    @metric(VALUES)
    def trigger_precision(self) -> Proportion:
        """Answers that rightly call a tool / answers that call a tool, where the model decides if it calls one."""
        decisions = self._groups.trigger_decisions
        return cluster_by_case((key, int(expected), 1) for key, called, expected in decisions if called)

    @metric(VALUES)
    def trigger_recall(self) -> Proportion:
        """Answers that rightly call a tool / answers that should call a tool, where the model decides."""
        decisions = self._groups.trigger_decisions
        return cluster_by_case((key, int(called), 1) for key, called, expected in decisions if expected)

    @metric(
        VALUES,
        words="Trigger F1",
        is_main=True,
        heading="Trigger F1",
        tables=TASKS | VARIANTS | RUNS,
    )
    def trigger_f1(self) -> Proportion:
        """Harmonic mean of `trigger_precision` and `trigger_recall`."""
        decisions = self._groups.trigger_decisions
        return cluster_by_case(
            (key, 2 * (called and expected), called + expected) for key, called, expected in decisions
        )

    @metric(VALUES, better_when=_LOWER)
    def reasoning_only(self) -> Proportion:
        """Answers with reasoning, but without text and calls / answers to cases that offer tools."""
        return cluster_by_case((key, int(calls.only_reasoning), 1) for key, calls in self._groups.tool_calls)

    @metric(RATE, left_out=("errors",))
    def tests_passed(self) -> Proportion:
        """Project's own tests that passed / own tests that ended, without tests whose calls all failed."""
        return cluster_by_case((key, int(passed), 1) for key, passed in self._groups.test_results)

    # Counts.

    @metric(COUNT, words="Attempts at cases that no constant answer passes")
    def nontrivial(self) -> int:
        """Number of planned attempts at cases that, as far as is known, no constant answer passes."""
        return self.pass_rate_nontrivial.n

    @metric(COUNT)
    def cases(self) -> int:
        """Number of planned cases."""
        return len(self._groups.plan)

    @metric(COUNT)
    def excluded(self) -> int:
        """Number of attempts at cases with a broken schema."""
        return len(self._groups.excluded)

    @metric(COUNT)
    def completions(self) -> int:
        """Number of attempts with an answer, or with decisions about labelled answers."""
        return len(self._groups.answered)

    @metric(COUNT)
    def declined(self) -> int:
        """Number of attempts that the engine declined."""
        return sum(attempt.generation_type == "declined" for attempt in self._groups.counted)

    @metric(COUNT, counted_open=_OPEN)
    def disputed(self) -> int:
        """Number of answers on which the two validators disagree."""
        return sum(attempt.disputed for attempt in self._groups.counted)

    @metric(COUNT)
    def judged(self) -> int:
        """Number of attempts that the engine answered or declined and that the judge could decide."""
        return self.completions + self.declined - self.unjudged

    @metric(COUNT)
    def called_again(self) -> int:
        """
        Number of calls of an application that were followed by another call for the same answer; only the last call
        counts.
        """
        return sum(bool(attempt.called_again) for attempt in self._groups.attempts)

    @metric(COUNT, counted_open=_OPEN)
    def passed(self) -> int:
        """Number of attempts that passed."""
        return self.pass_rate.successes

    @metric(COUNT, counted_open=_OPEN)
    def valid(self) -> int:
        """Number of answers that conform to their schema."""
        return self.empirical_coverage.successes

    @metric(COUNT, better_when=_LOWER)
    def failed(self) -> int:
        """Number of failed calls."""
        return self._groups.failed.total()

    @metric(COUNT, better_when=_LOWER)
    def missing(self) -> int:
        """Number of planned attempts without a record."""
        return self._groups.missing

    @metric(COUNT, better_when=_LOWER)
    def unjudged(self) -> int:
        """Number of answers that the judge could not judge."""
        return self._groups.failure_types[FailureType.UNJUDGED]

    @metric(COUNT, better_when=_LOWER)
    def uncompared(self) -> int:
        """
        Number of answers whose values could not be compared, because the user's comparer raised an error or the values
        nest too deeply.
        """
        return len(self._groups.matches) - len(self._groups.compared)

    @metric(COUNT, better_when=_LOWER)
    def invented(self) -> int:
        """Number of values in answers that are not expected."""
        return sum(match.invented for _, match in self._groups.compared)

    @metric(COUNT, heading="Attempts", tables=RUNS | GRAMMAR_RUNS)
    def planned(self) -> int:
        """Number of planned attempts, without attempts at cases with a broken schema."""
        return self._groups.plan.total()

    @metric(COUNT, better_when=_LOWER, tables=TASKS | VARIANTS | GRAMMARS)
    def errors(self) -> int:
        """Number of attempts without information about the model: failed calls and missing attempts."""
        return self.failed + self.missing

    @metric(COUNT)
    def valid_instances(self) -> int:
        """Number of valid labelled answers with a decision."""
        return self.over_constraint.n

    @metric(COUNT, better_when=_LOWER, counted_open=_OPEN)
    def valid_rejected(self) -> int:
        """Number of valid labelled answers that the grammar rejects."""
        return self.over_constraint.successes

    @metric(COUNT)
    def invalid_instances(self) -> int:
        """Number of invalid labelled answers with a decision."""
        return self.under_constraint.n

    @metric(COUNT, better_when=_LOWER, counted_open=_OPEN)
    def invalid_accepted(self) -> int:
        """Number of invalid labelled answers that the grammar accepts."""
        return self.under_constraint.successes

    # Groups; their members are named as in `failure_rates.truncated`.

    @metric(RATE, counted_open=_OPEN, members=_each_k("Pass@"), absent=mean_rate(()))
    def pass_at(self) -> Mapping[int, Rate]:
        """
        For each k up to the smallest number of attempts per case, the mean over cases of the probability that at least
        one of k attempts passes; bounds are named `k_ci_low` and `k_ci_high`; empty without repeats.
        """
        return self._mean_for_each_k(pass_at_k)

    @metric(RATE, counted_open=_OPEN, members=_each_k("Pass^"), absent=mean_rate(()))
    def pass_hat(self) -> Mapping[int, Rate]:
        """For each k, the mean over cases of the probability that all k attempts pass."""
        return self._mean_for_each_k(pass_hat_k)

    @metric(RATE, better_when=_LOWER, of="planned", members=_FAILURES, has_bounds=False)
    def failure_rates(self) -> Mapping[FailureType, Proportion]:
        """
        Attempts that ended with each failure type / planned attempts.

        If no attempt was judged, the denominator is 0, except for failures that can occur without a verdict.
        """
        effect = self.error_rate.design_effect
        return {
            kind: proportion(self.failure_counts[kind], self.planned, design_effect=effect)
            if self.judged or kind in NOT_THE_MODELS
            else proportion(0, 0)
            for kind in COUNTED_FAILURES
        }

    @metric(COUNT, better_when=_LOWER, members=_FAILURES)
    def failure_counts(self) -> Mapping[FailureType, int]:
        """Number of attempts that ended with each failure type."""
        return {kind: self._groups.failure_types[kind] for kind in COUNTED_FAILURES}

    @metric(COUNT, better_when=_LOWER, counted_open=("errors",), members={cause: {} for cause in Cause})
    def test_failures(self) -> Mapping[Cause, int]:
        """Number of answered attempts for which the project's own test failed, by cause."""
        causes = self._groups.test_causes
        return {cause: causes[cause] for cause in Cause}

    @metric(COUNT, members=_COPING)
    def coping(self) -> Mapping[Coping, int]:
        """
        Number of faults that `jsbench.endpoint` injected, by how the application coped; empty without faults. Calls
        with a fault are no attempts.
        """
        reports = self._groups.fault_reports
        ends = Counter(report.coping for report in reports)
        return {coping: ends[coping] for coping in Coping} if reports else {}

    @metric(VALUES, members={}, absent=proportion(0, 0))
    def scores(self) -> Mapping[str, Proportion]:
        """
        Rate of each custom metric in use, computed from the summed counts of all answers; bounds are named
        `name_ci_low` and `name_ci_high`; empty without custom metrics.
        """
        counted = self._groups.counted
        return {
            name: cluster_by_case((attempt.key, *attempt.scores[name]) for attempt in counted if name in attempt.scores)
            for name in dict.fromkeys(name for attempt in counted for name in attempt.scores)
        }

    @metric(VALUES, members={})
    def fields(self) -> Mapping[str, FieldMetrics]:
        """
        For each expected field, named as in `items.*.amount`: the counts `.right`, `.expected` and `.given`, and the
        rates `.accuracy` (right / expected), `.precision` (right / given) and `.f1` (2 right / (expected + given));
        bounds are named as in `.accuracy_ci_low` and `.accuracy_ci_high`; empty if no values are expected.
        """
        return _fields(self._groups.compared)

    @metric(RATE, left_out=("errors",), members={}, absent=proportion(0, 0))
    def tool_precision(self) -> Mapping[str, Proportion]:
        """
        For each tool, expected calls / calls, over the answers to cases that say which calls are right; bounds are
        named as for `scores`; empty without such cases.
        """
        return precision_by_tool(self._groups.tool_calls)

    @metric(RATE, left_out=("errors",), members={}, absent=proportion(0, 0))
    def tool_recall(self) -> Mapping[str, Proportion]:
        """For each tool, expected calls that were made / expected calls."""
        return recall_by_tool(self._groups.tool_calls)

    @metric(COUNT, members={})
    def wrong_calls(self) -> Mapping[str, int]:
        """
        How often a tool was called instead of an expected one, as `called instead of expected`, in descending order;
        only pairs that occurred.
        """
        return count_confusions(self._groups.tool_calls)

    @metric(COUNT, members={})
    def missing_reasons(self) -> Mapping[MissingReason, int]:
        """
        Number of planned attempts without a record, by reason; attempts that are missing for an unknown reason are not
        included.
        """
        return {reason: self._groups.missing_reasons.get(reason, 0) for reason in MissingReason}

    @metric(COUNT, members={})
    def fault_counts(self) -> Mapping[FaultKind, int]:
        """Number of failed calls by kind of fault; only kinds that occurred."""
        faults = Counter(attempt.fault for attempt in self._groups.counted)
        return {kind: faults[kind] for kind in FaultKind if faults[kind]}

    @metric(COUNT, members={})
    def note_counts(self) -> Mapping[Note, int]:
        """Number of attempts with each of the judge's notes; notes do not affect verdicts."""
        notes = Counter(note for attempt in self._groups.counted for note in attempt.notes)
        return {note: notes[note] for note in Note}

    @metric(COUNT, members={})
    def code_counts(self) -> Mapping[str, int]:
        """
        Number of attempts with each code from the project's own classifiers, in descending order; only codes that
        occurred.
        """
        return dict(Counter(code for attempt in self._groups.counted for code in attempt.codes).most_common())

    @metric(COUNT, members={})
    def trivial_counts(self) -> Mapping[str, int]:
        """For each constant answer, the number of cases that it passes, in descending order."""
        return dict(self._groups.constants.most_common())

    def _mean_for_each_k(self, chance: Callable[[int, int, int], float]) -> dict[int, Rate]:
        """Return, for each k, the mean over cases of `chance` for k attempts at a case; empty without repeats."""
        groups = self._groups
        most = min(groups.decided_plan.values(), default=1)
        if most == 1:
            return {}
        return {
            k: mean_rate([[chance(n, groups.passed.get(key, 0), k)] for key, n in groups.decided_plan.items()])
            for k in range(1, min(most, MOST_K) + 1)
        }


def _fields(compared: Iterable[tuple[AttemptFacts, Match]]) -> dict[str, FieldMetrics]:
    """Return the metrics of each field that is expected in any case, in the order of first occurrence."""
    by_field: dict[str, list[tuple[CaseKey, int, int, int | None]]] = {}
    for attempt, match in compared:
        for name in dict.fromkeys((*match.fields, *(match.surplus or ()))):
            right, expected = match.fields.get(name, (0, 0))
            given = None if match.surplus is None else expected + match.surplus.get(name, 0)
            by_field.setdefault(name, []).append((attempt.key, right, expected, given))
    return {
        name: FieldMetrics(
            accuracy=cluster_by_case((key, right, expected) for key, right, expected, _ in counts),
            precision=cluster_by_case((key, right, given) for key, right, _, given in counts if given is not None),
            f1=cluster_by_case(
                (key, 2 * right, expected + given) for key, right, expected, given in counts if given is not None
            ),
        )
        for name, counts in by_field.items()
        if any(expected for _, _, expected, _ in counts)
    }
