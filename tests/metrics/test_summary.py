from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics.metric_names import MetricName, read_metric
from pytest_jsbench.metrics.statistics import Proportion, proportion
from pytest_jsbench.metrics.summary import group_by_keyword, summarize
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Missing, MissingReason, Record
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests.support import examples
from tests.support.examples import record, replace


def timed(**times: Any) -> Record:
    return record(generation=replace(examples.completion(), timing=Timing(**times)))


def record_with_tokens(tokens: int | None, reasoning: int | None = None, ttft: float | None = 0.2) -> Record:
    answer = examples.completion(ttft=ttft, tgt=1.2, tokens=tokens)
    return record(generation=replace(answer, usage=replace(answer.usage, reasoning_tokens=reasoning)))


def broke(name: str, kind: FaultKind = FaultKind.TIMEOUT) -> Record:
    return record(name, verdict=examples.BROKEN, generation=examples.failed(kind))


UNSTREAMED = ("ttft_p50", "tpot_p50", "gct_p50")


@pytest.mark.parametrize(
    ("records", "figures"),
    [
        pytest.param(
            [
                record("passed"),
                record("violated", verdict=examples.VIOLATED),
                record("hallucinated", verdict=examples.HALLUCINATED),
                record("unsupported", verdict=examples.UNSUPPORTED, generation=examples.declined()),
            ],
            {"declared_coverage": (3, 4), "empirical_coverage": (2, 3), "pass_rate": (1, 4), "complete": True}
            | {"failure_counts.schema_violation": 1, "failure_counts.hallucination": 1},
            id="each rate has a denominator of its own",
        ),
        pytest.param(
            [record("a"), broke("b")],
            {"declared_coverage": (1, 2), "declared_coverage_excluding_errors": (1, 1), "errors": 1, "complete": False},
            id="a broken call lowers declared coverage, and is told apart",
        ),
        pytest.param(
            [record("a"), record("b", verdict=examples.EXCLUDED)],
            {"planned": 1, "excluded": 1, "pass_rate": (1, 1), "complete": True, "over_constraint": (0, 0)},
            id="a broken schema is in no denominator",
        ),
        pytest.param(
            [record("a"), record("b", verdict=examples.UNJUDGED)],
            {"pass_rate": (1, 2), "empirical_coverage": (1, 2), "unjudged": 1, "complete": False},
            id="an answer that is not judged is in no numerator",
        ),
        pytest.param(
            [record_with_tokens(11)],
            {"tpot_p50": 100.0, "gct_p50": 1.0},
            id="times per token leave the first token out",
        ),
        pytest.param(
            [record_with_tokens(511, 500)], {"tpot_p50": 100.0}, id="tokens of reasoning do not make an answer's faster"
        ),
        pytest.param(
            [timed(tgt=3.0, ttft=2.0, gct=1.0, reasoning_time=1.5)],
            {"tpot_p50": None, "gct_p50": 1.0, "reasoning_time_p50": 1.5},
            id="without the tokens of its reasoning a model has no time per token",
        ),
        pytest.param(
            [timed(tgt=1.2, ttft=0, gct=0.0)],
            dict.fromkeys(UNSTREAMED) | {"tgt_p50": 1.2},
            id="a time of zero is one that was not measured",
        ),
        pytest.param(
            [record_with_tokens(11, ttft=None)],
            dict.fromkeys(UNSTREAMED) | {"ttft_count": 0, "tgt_count": 1},
            id="without a stream",
        ),
        pytest.param(
            [record_with_tokens(None)],
            dict.fromkeys(("input_tokens", "output_tokens", "total_tokens")),
            id="no tokens are told",
        ),
        pytest.param(
            [record(generation=examples.batched())],
            dict.fromkeys((*UNSTREAMED, "tgt_p50")) | {"completions": 1, "passed": 1, "output_tokens": 11},
            id="answers out of a batch have no times",
        ),
        pytest.param(
            [broke("a", FaultKind.HANG), broke("b", FaultKind.HANG), broke("c", FaultKind.CRASH)],
            {"fault_counts": {FaultKind.HANG: 2, FaultKind.CRASH: 1}},
            id="broken calls are counted by whose fault they were",
        ),
    ],
)
def test_the_figures_of_a_run_are_those_of_its_records(records: list[Record], figures: dict[str, Any]) -> None:
    total = summarize(examples.run(*records)).total

    for name, expected in figures.items():
        found: Any = getattr(total, name) if hasattr(total, name) else total.figure(name)
        if isinstance(found, Proportion):
            found = found.successes, found.n
        if isinstance(found, dict):
            found = {kind: count for kind, count in found.items() if count}
        assert found == (pytest.approx(expected) if isinstance(expected, float) else expected), name


def test_a_planned_case_that_never_came_back_is_missing_and_not_forgotten() -> None:
    planned = (CaseKey(task="simple", id="a"), CaseKey(task="simple", id="b"), CaseKey(task="hard", id="c"))

    summary = summarize(examples.run(record("a"), planned=planned))

    assert summary.total.missing == 2
    assert summary.total.pass_rate.n == 3
    assert list(summary.tasks) == ["simple", "hard"]
    assert summary.tasks["hard"].missing == 1
    assert not summary.total.complete


def test_plan_includes_calls_of_own_tests_and_keeps_missing_cases() -> None:
    planned = (CaseKey(task="simple", id="a"), CaseKey(task="simple", id="b"))
    own = record("test_it", task="tests.test_one")

    summary = summarize(examples.run(record("a"), own, replace(own, repeat=1), planned=planned))

    assert (summary.total.planned, summary.total.missing, summary.total.pass_rate.successes) == (4, 1, 3)
    assert (summary.tasks["tests.test_one"].planned, summary.tasks["tests.test_one"].missing) == (2, 0)


def test_rates_of_an_empty_run_are_null() -> None:
    figures = summarize(examples.run()).total.to_dict()

    for name in ("declared_coverage", "empirical_coverage", "pass_rate", "ttft_p50", "input_tokens"):
        assert figures[name] is None
    assert figures["failure_rates"]["truncated"] is None
    assert figures["failure_counts"]["truncated"] == 0


def test_a_sum_over_some_of_the_answers_has_no_upper_end_and_is_of_as_many() -> None:
    told = [record("a"), record("b"), record("c", generation=examples.completion(tokens=None))]
    summary = summarize(examples.run(*told))

    assert (summary.total.reported, summary.total.unreported) == (2, 1)
    assert summary.total.to_dict()["unreported"] == 1
    sums = [
        read_metric(MetricName.parse("output_tokens"), one) for one in (summary, summarize(examples.run(*told[:2])))
    ]
    assert [(one.low, one.high) for one in sums] == [(22, math.inf), (22, 22)]


def test_decisions_about_labelled_answers_are_counted_by_their_labels() -> None:
    wrong = examples.DECIDED_WRONGLY
    total = summarize(
        examples.run(
            record("right", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided(seconds=0.01)),
            record("wrong", verdict=wrong, generation=examples.decided("v0", "v1", "i0", seconds=0.03)),
            record("unsupported", verdict=examples.UNSUPPORTED, generation=examples.declined()),
        )
    ).total

    assert (total.over_constraint.successes, total.over_constraint.n) == (2, 4)
    assert (total.under_constraint.successes, total.under_constraint.n) == (1, 4)
    assert (total.declared_coverage.successes, total.declared_coverage.n) == (2, 3)
    assert (total.pass_rate.successes, total.pass_rate.n) == (1, 3)
    assert total.empirical_coverage.value is None
    assert total.grammar_compilation.p50 == pytest.approx(0.02)
    figures = total.to_dict()
    assert (figures["valid_instances"], figures["valid_rejected"]) == (4, 2)
    assert (figures["invalid_instances"], figures["invalid_accepted"]) == (4, 1)
    assert (figures["over_constraint"], figures["under_constraint"]) == (0.5, 0.25)


def test_the_intervals_of_wrong_decisions_are_over_schemas() -> None:
    rightly = [record(f"c{at}", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided()) for at in range(30)]

    total = summarize(examples.run(*rightly)).total

    assert (total.over_constraint.successes, total.over_constraint.n) == (0, 60)
    assert total.over_constraint.ci_high == pytest.approx(proportion(0, 30).ci_high)
    assert total.under_constraint.ci_high == total.over_constraint.ci_high


def test_error_rate_mirrors_declared_coverage() -> None:
    made = [
        replace(
            record(
                f"c{at}",
                verdict=examples.BROKEN if at < 2 else examples.PASSED,
                generation=examples.failed() if at < 2 else None,
            ),
            repeat=number,
        )
        for at in range(4)
        for number in range(5)
    ]

    total = summarize(examples.run(*made)).total

    mirrored = 1 - (total.declared_coverage.ci_high or 0), 1 - (total.declared_coverage.ci_low or 0)
    assert (total.error_rate.ci_low, total.error_rate.ci_high) == pytest.approx(mirrored)
    assert total.error_rate.ci_low == pytest.approx(proportion(2, 4).ci_low)


def test_missing_attempts_are_counted_by_reason_and_task() -> None:
    keys = (CaseKey(task="simple", id="a"), CaseKey(task="simple", id="b"), CaseKey(task="hard", id="c"))
    missing = (
        Missing(key=keys[1], repeat=0, reason=MissingReason.LIMIT),
        Missing(key=keys[2], repeat=0, reason=MissingReason.WORKER_DIED),
    )

    summary = summarize(replace(examples.run(record("a"), planned=keys), missing=missing))

    assert summary.total.missing == 2
    assert {reason for reason, count in summary.total.missing_reasons.items() if count} == {"limit", "worker_died"}
    reasons: dict[str, int] = dict.fromkeys(MissingReason, 0)
    assert summary.tasks["hard"].to_dict()["missing_reasons"] == reasons | {"worker_died": 1}


def test_floor_is_the_best_constant_answer_and_other_cases_have_a_rate() -> None:
    wide, listed, narrow = (replace(examples.PASSED, trivial=texts) for texts in (("{}", "[]"), ("{}",), ()))
    failed = replace(examples.VIOLATED, trivial=())
    total = summarize(
        examples.run(
            record("a", verdict=wide),
            record("b", verdict=listed),
            record("c", verdict=narrow),
            record("d", verdict=failed),
            record("e"),
        )
    ).total

    assert (total.floor.successes, total.floor.n) == (2, 4)
    assert total.trivial_counts == {"{}": 2, "[]": 1}
    assert (total.pass_rate_nontrivial.successes, total.pass_rate_nontrivial.n) == (1, 2)
    assert total.to_dict()["nontrivial"] == 2
    assert total.pass_rate.value == 0.8


def test_order_kept_is_a_rate_over_answers_with_an_order() -> None:
    kept, lost = (replace(examples.PASSED, order_kept=one) for one in (True, False))
    total = summarize(
        examples.run(record("a", verdict=kept), record("b", verdict=lost), record("c"), record("d", verdict=kept))
    ).total

    assert (total.order_kept.successes, total.order_kept.n, total.passed) == (2, 3, 4)
    assert summarize(examples.run(record("c"))).total.order_kept.value is None


def broken(*keywords: str) -> Verdict:
    return Verdict(
        failure_type=FailureType.SCHEMA_VIOLATION,
        valid=False,
        violations=tuple(
            Violation(keyword=name, instance_path="$", schema_path=f"/{name}", message="no") for name in keywords
        ),
    )


def test_answer_counts_once_for_each_violated_keyword() -> None:
    found = group_by_keyword(
        AttemptFacts.of(one)
        for one in [
            record("a", schema={"type": "object", "minProperties": 1}, verdict=broken("type", "type", "minProperties")),
            record("b", schema={"type": "string"}, verdict=broken("type")),
            record("c", schema={"type": "string"}),
        ]
    )

    assert [(name, one.failures, one.pass_rate.successes, one.pass_rate.n) for name, one in found.items()] == [
        ("type", 2, 1, 3),
        ("minProperties", 1, 0, 1),
    ]


def test_violated_keyword_without_use_has_no_pass_rate() -> None:
    figures = group_by_keyword([AttemptFacts.of(record(schema=False, verdict=broken("false")))])["false"].to_dict()

    assert (figures["failures"], figures["attempts"], figures["pass_rate"]) == (1, 0, None)


def test_broken_schema_is_in_no_row() -> None:
    assert group_by_keyword([AttemptFacts.of(record(schema={"type": "strin"}, verdict=examples.EXCLUDED))]) == {}


def test_a_variant_has_the_figures_of_a_run_of_its_own() -> None:
    run = examples.compared(a="ppvb", b="pppm")

    whole = summarize(run)

    assert list(whole.variants) == ["b", "a"]
    for name, found in whole.variants.items():
        alone = summarize(run.of_variant(name))
        assert (found.total, found.outcomes, found.variants) == (alone.total, alone.outcomes, {})
    assert (whole.total.planned, whole.total.cases, whole.total.missing) == (8, 4, 1)
    assert whole.total.passed == 5


def test_variants_are_compared_by_case_in_order_of_declaration() -> None:
    summary = summarize(examples.compared(a="ppppvv", b="pppppp", c="vppppb"))

    assert [(pair.first, pair.second) for pair in summary.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    first = summary.pairs[0].comparison
    assert (first.difference.n, first.difference.fell, first.difference.rose) == (6, 0, 2)
    assert [one.name for one in first.settings] == ["model"]
    assert [key.id for key in summary.differing] == ["case05", "case00", "case04"]


def test_many_variants_are_each_compared_with_the_first() -> None:
    summary = summarize(examples.compared(a="v", b="p", c="v", d="v", e="v"))

    assert next(iter(summary.variants)) == "b"

    assert [(pair.first, pair.second) for pair in summary.pairs] == [("a", name) for name in "bcde"]


@pytest.mark.parametrize(("engine", "told"), [("local", ["ratios", "note"]), ("scripted", ["ratios"])])
def test_times_of_variants_that_share_a_machine_are_not_compared(engine: str, told: list[str]) -> None:
    metadata = examples.variants(a={"engine": engine}, b={"engine": engine, "model": "other"})
    made = [replace(record(f"c{at}"), variant=name) for name in "ab" for at in range(6)]

    (pair,) = summarize(examples.run_of_variants(metadata, *made)).pairs

    assert [word for word, _ in pair.comparison.ratio_sentences] == told
    assert ("tgt" in pair.comparison.ratios, "output_tokens" in pair.comparison.ratios) == (engine != "local", True)


def test_variant_without_measurements_is_last() -> None:
    assert list(summarize(examples.compared(a="mm", b="vv")).variants) == ["b", "a"]


def test_each_k_has_its_rates_without_bias_and_a_name() -> None:
    ends = {"a": [True, True, False], "b": [False, False, False]}
    records = [
        replace(record(name, verdict=examples.PASSED if passed else examples.VIOLATED), repeat=repeat)
        for name, attempts in ends.items()
        for repeat, passed in enumerate(attempts)
    ]
    total = summarize(examples.run(*records)).total

    assert [total.pass_at[k].value for k in (1, 2, 3)] == pytest.approx([1 / 3, 0.5, 0.5])
    assert [total.pass_hat[k].value for k in (1, 2, 3)] == pytest.approx([1 / 3, 1 / 6, 0])
    assert total.to_dict()["pass_at"].keys() >= {"1", "2_ci_low", "3_ci_high"}
    assert summarize(examples.run(record("a"))).total.pass_at == {}


def test_an_answer_that_lists_everything_loses_precision() -> None:
    # of four expected values three are right, one is missing, and two were invented
    found = Match(fields={"a": (3, 4)}, invented=2, missing=1)
    total = summarize(examples.run(replace(record("a"), match=found))).total

    assert (total.value_accuracy.value, total.value_precision.value) == (0.75, 0.6)
    assert total.value_f1.value == pytest.approx(2 * 0.75 * 0.6 / 1.35)
