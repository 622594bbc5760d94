from __future__ import annotations

import random

import pytest

from benchmarks.statistics import family_wise_error
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.metrics.case_outcomes import CaseOutcome, outcomes
from pytest_jsbench.metrics.comparison import ValueComparison, adjust_together, compare
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts.verdicts import NOT_REWRITTEN
from tests.support import examples
from tests.support.examples import record, replace


def key(name: str) -> CaseKey:
    return CaseKey(task="simple", id=name)


def case_outcome(*attempts: str, schema: str = "aa") -> CaseOutcome:
    return CaseOutcome(schema=schema, attempts=attempts)


def test_outcome_of_a_case_has_its_attempts_and_missing_ones() -> None:
    made = examples.run(record("a", verdict=examples.VIOLATED), record("x", verdict=examples.EXCLUDED)).outcomes

    comparison = outcomes([key("a"), key("a"), key("b"), key("x")], made)

    assert {str(name): outcome.attempts for name, outcome in comparison.items()} == {
        "simple::a": ("schema_violation", "missing"),
        "simple::b": ("missing",),
    }
    assert len(comparison[key("a")].schema) == 12


def test_case_that_a_variant_cannot_rewrite_keeps_the_attempts_of_others() -> None:
    left_out = replace(examples.EXCLUDED, reason=NOT_REWRITTEN)
    found = examples.variants(whole={}, inline={"rewrite": "inline"})
    records = [
        replace(record("a"), variant="whole"),
        replace(record("a", verdict=left_out), variant="inline"),
        replace(record("b", verdict=left_out), variant="inline"),
    ]

    summary = summarize(examples.run_of_variants(found, *records))

    assert {str(name): outcome.attempts for name, outcome in summary.outcomes.items()} == {"simple::a": ("passed",)}
    assert summary.outcomes[key("a")].schema
    assert summary.variants["inline"].outcomes == {}


def test_comparison_names_broken_and_fixed_cases() -> None:
    before = {key("a"): case_outcome("passed"), key("b"): case_outcome("truncated"), key("c"): case_outcome("passed")}
    now = {key("a"): case_outcome("refusal"), key("b"): case_outcome("passed"), key("c"): case_outcome("passed")}

    comparison = compare(before, now)

    assert (comparison.newly_failing, comparison.newly_passing) == ((key("a"),), (key("b"),))
    assert comparison.sentence == (
        "equally many of 3 cases pass (+0.000, 95 % interval -0.810 to +0.810): "
        "not distinguishable from no change (exact test: p = 1)"
    )


def test_a_difference_that_chance_would_rarely_make_is_called_real() -> None:
    before = {key(f"c{number}"): case_outcome("passed") for number in range(20)}
    now = {name: case_outcome("passed" if number < 10 else "truncated") for number, name in enumerate(before)}

    comparison = compare(before, now)

    assert comparison.real
    assert comparison.sentence.startswith("10 fewer of 20 cases pass (-0.500, 95 % interval -0.")
    assert comparison.sentence.endswith("a real difference (exact test: p = 0.002)")
    assert compare(now, now).sentence == "the same verdict on each of 20 cases"


def test_comparison_skips_undecided_attempts_and_counts_them_at_worst() -> None:
    before = {key("a"): case_outcome("passed"), key("b"): case_outcome("passed"), key("c"): case_outcome("api_error")}
    now = {key("a"): case_outcome("api_error"), key("b"): case_outcome("passed"), key("c"): case_outcome("passed")}

    comparison = compare(before, now)

    assert (comparison.difference.n, comparison.difference.value) == (1, 0)
    assert (comparison.worst.n, comparison.worst.value) == (2, -0.5)
    assert comparison.undecided == (key("a"), key("c"))
    assert comparison.newly_failing == ()


def test_a_case_whose_schema_changed_is_another_case() -> None:
    comparison = compare(
        {key("a"): case_outcome("passed", schema="aa")}, {key("a"): case_outcome("truncated", schema="bb")}
    )

    assert comparison.changed == (key("a"),)
    assert comparison.sentence == "no case was decided on both sides: nothing can be compared"


def test_cases_of_one_run_alone_are_counted() -> None:
    comparison = compare(
        {key("a"): case_outcome("passed"), key("b"): case_outcome("passed")}, {key("a"): case_outcome("passed")}
    )

    assert (comparison.first_alone, comparison.second_alone) == (1, 0)


def test_runs_with_different_repeats_are_compared_by_common_attempts() -> None:
    comparison = compare({key("a"): case_outcome("passed")}, {key("a"): case_outcome("passed", "truncated")})

    assert comparison.newly_failing == ()
    assert compare(
        {key("a"): case_outcome("passed", "passed")}, {key("a"): case_outcome("passed", "truncated")}
    ).newly_failing


def test_outcome_rejects_missing_attempts_and_unknown_ends() -> None:
    with pytest.raises(RecordError, match="not the outcome of a case: attempts is an array: expected array of length"):
        CaseOutcome.from_dict({"attempts": []})
    with pytest.raises(
        RecordError, match=r"unknown outcome of an attempt: 'won'; expected passed, missing or a failure type"
    ):
        CaseOutcome.from_dict({"attempts": ["won"]})
    assert CaseOutcome.from_dict(case_outcome("passed", "unjudged").to_dict()) == case_outcome("passed", "unjudged")


def test_sentence_explains_an_interval_that_disagrees_with_the_test() -> None:
    before = {key(f"c{number}"): case_outcome("truncated") for number in range(12)}
    now = {name: case_outcome("passed" if number < 5 else "truncated") for number, name in enumerate(before)}

    comparison = compare(before, now)

    assert comparison.difference.ci_low is not None
    assert comparison.difference.ci_low > 0
    assert comparison.sentence.endswith(
        "not distinguishable from no change (exact test: p = 0.062; the interval excludes 0, but is approximate)"
    )
    assert adjust_together([comparison] * 3)[0].sentence.endswith(
        "(exact test: p = 0.19, adjusted for 3 comparisons; the interval is not adjusted)"
    )


def outcome_with_values(*totals: int | None, invented: int = 0, compared_with: str = "") -> CaseOutcome:
    """Return whether the total is right in each attempt, None for a failed call; the vendor is always right."""
    matches = [
        None
        if right is None
        else Match(fields={"total": (right, 1), "vendor": (1, 1)}, invented=invented, compared_with=compared_with)
        for right in totals
    ]
    return CaseOutcome(schema="aa", attempts=("passed",) * len(totals), matches=tuple(matches))


def values(before: dict[CaseKey, CaseOutcome], now: dict[CaseKey, CaseOutcome]) -> ValueComparison:
    comparison = compare(before, now).values
    assert comparison is not None
    return comparison


def test_wrong_values_are_tested_by_field_even_if_verdicts_are_the_same() -> None:
    before = {key(f"c{number}"): outcome_with_values(1) for number in range(20)}
    now = {name: outcome_with_values(int(number >= 9)) for number, name in enumerate(before)}

    comparison = values(before, now)

    assert compare(before, now).sentence == "the same verdict on each of 20 cases"
    assert (comparison.worse, comparison.better) == (tuple(before)[:9], ())
    whole, field = comparison.sentences
    assert whole[1].startswith("9 fewer of 20 cases have every value right (-0.450, 95 % interval -0.")
    assert whole[1].endswith("a real difference (exact test: p = 0.012) (adjusted for 3 tests, Holm)")
    assert field[0] == "total"
    assert field[1].startswith("9 fewer of 20 cases have it right (-0.450")
    assert comparison.fields["vendor"].p_value == 1.0


def test_values_are_compared_over_known_cases_with_the_same_expectation() -> None:
    before = {
        key("a"): outcome_with_values(1, 1, compared_with="x"),
        key("b"): outcome_with_values(1, compared_with="x"),
        key("c"): outcome_with_values(1),
        key("d"): outcome_with_values(1),
        key("e"): case_outcome("passed"),
    }
    now = {
        key("a"): outcome_with_values(1, 0, compared_with="x"),
        key("b"): outcome_with_values(0, compared_with="y"),
        key("c"): outcome_with_values(None),
        key("d"): outcome_with_values(1, invented=1),
        key("e"): case_outcome("passed"),
    }

    comparison = values(before, now)

    assert (comparison.difference.n, comparison.difference.fell, comparison.fields["total"].fell) == (2, 2, 1)
    assert (comparison.worse, comparison.changed, comparison.undecided_now) == ((key("a"),), (key("b"),), 1)
    assert compare({key("e"): case_outcome("passed")}, {key("e"): case_outcome("passed")}).values is None


def test_p_values_of_values_are_adjusted_for_all_their_tests() -> None:
    before = {key(f"c{number}"): outcome_with_values(1) for number in range(9)}
    one = compare(before, {name: outcome_with_values(0) for name in before})

    first, _, third = adjust_together([one, compare({}, {}), one])

    assert first.values is not None
    assert third.values is not None
    assert first.values.difference.p_adjusted == pytest.approx(6 / 2**8)
    assert list(third.values.fields) == ["total", "vendor"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([{"fields": {"n": [2, 1]}, "invented": 0, "problem": ""}], "more fields right than expected"),
        ([None, None], "values of a case: found 2; expected 1, one per attempt"),
    ],
)
def test_values_of_a_case_round_trip_and_invalid_ones_are_rejected(values: object, problem: str) -> None:
    outcome = outcome_with_values(1, None, 0)

    assert CaseOutcome.from_dict(outcome.to_dict()) == outcome
    assert "values" not in case_outcome("passed").to_dict()
    with pytest.raises(RecordError, match=problem):
        CaseOutcome.from_dict({"schema": "", "attempts": ["passed"], "values": values})


def shares(*counts: int, attempts: int = 4) -> dict[CaseKey, CaseOutcome]:
    """Return cases in which this number of attempts pass, the first ones."""
    return {
        key(f"c{at}"): case_outcome(*["passed"] * count, *["truncated"] * (attempts - count))
        for at, count in enumerate(counts)
    }


def test_higher_pass_rate_is_not_worse_though_fewer_cases_always_pass() -> None:
    comparison = compare(shares(4, 4, 4, 4, 4, 0, 0, 0, 0, 0), shares(*[3] * 10))

    assert comparison.difference.value == 0.25
    assert comparison.sentence == (
        "the share of attempts that pass is 0.250 higher over 10 cases (+0.250, 95 % interval -0.155 to +0.572; "
        "5 cases up, 5 down): not distinguishable from no change (sign-flip test: p = 0.22)"
    )
    assert {word: len(keys) for word, keys in comparison.changes.items()} == {"down": 5, "up": 5}


def test_order_of_attempts_does_not_matter_if_as_many_pass() -> None:
    comparison = compare(shares(3, 1), shares(3, 1))

    assert comparison.sentence == "the same number of attempts pass in each of 2 cases"
    assert compare(shares(1, 2), shares(2, 1)).sentence.startswith(
        "the share of attempts that pass is the same over 2 cases (+0.000, "
    )


def test_undecided_attempts_leave_their_case_decided_and_count_at_worst() -> None:
    before = {key("a"): case_outcome("passed", "passed"), key("b"): case_outcome("missing", "passed")}
    now = {key("a"): case_outcome("passed", "api_error"), key("b"): case_outcome("truncated", "passed")}

    comparison = compare(before, now)

    assert (comparison.difference.value, comparison.worst.value, comparison.undecided_now) == (-0.25, -0.5, 1)
    assert (comparison.newly_failing, comparison.undecided) == ((key("b"),), ())


def test_tests_and_values_are_compared_by_the_shares_of_attempts_too() -> None:
    before = {
        key("a"): replace(outcome_with_values(1, 1), tests=(True, True)),
        key("b"): replace(outcome_with_values(0, 0), tests=(False,) * 2),
    }
    now = {
        key("a"): replace(outcome_with_values(1, 0), tests=(True, False)),
        key("b"): replace(outcome_with_values(1, 1), tests=(True,) * 2),
    }

    comparison = compare(before, now)

    assert comparison.tests is not None
    assert (comparison.tests.difference.value, comparison.tests.worse) == (0.25, (key("a"),))
    assert comparison.tests.sentence.startswith(
        "the share of attempts that pass their test is 0.250 higher over 2 cases"
    )
    assert comparison.values is not None
    assert (comparison.values.difference.value, comparison.values.fields["total"].value) == (0.25, 0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "attempts", "times", "most"), [(2, 1, 200, 17), (5, 1, 100, 10), (4, 3, 100, 10), (20, 3, 40, 5)]
)
def test_equal_variants_are_rarely_called_different(variants: int, attempts: int, times: int, most: int) -> None:
    # Chance alone exceeds 5 % by this much once in a hundred times.
    assert family_wise_error(variants, 40, attempts, times, random.Random(4)) <= most / times


def ten_cases(factor: float = 1.0, **measures: float) -> dict[CaseKey, CaseOutcome]:
    """Return ten cases of different lengths, with times and tokens in proportion."""
    return {
        key(f"c{at}"): replace(
            case_outcome("passed"),
            measures={name: (value * (at + 1) * factor ** (name == "tpot"),) for name, value in measures.items()},
        )
        for at in range(10)
    }


TIMES = {"ttft": 0.1, "tpot": 20.0, "input_tokens": 100.0, "cached_tokens": 10.0}


def test_only_ratios_of_times_show_a_server_that_stalls() -> None:
    comparison, same = compare(ten_cases(**TIMES), ten_cases(2.5, **TIMES)), "(1.00 to 1.00 over 10 cases)"

    assert comparison.ratio_sentences == [
        ("ratios", f"TTFT 1.00 {same}; TPOT 2.50 (2.50 to 2.50 over 10 cases): longer; input tokens 1.00 {same}")
    ]
    assert comparison.to_dict(source="b")["ratios"]["tpot"]["ratio"] == pytest.approx(2.5)
    assert compare(ten_cases(2.5, **TIMES), ten_cases(**TIMES)).ratio_sentences[0][1].count(": shorter") == 1


def test_ratios_warn_if_shares_of_cached_tokens_differ() -> None:
    words = [
        word for word, _ in compare(ten_cases(**TIMES), ten_cases(**{**TIMES, "cached_tokens": 60.0})).ratio_sentences
    ]

    assert words == ["ratios", "warning"]
    assert len(compare(ten_cases(**TIMES), ten_cases(**TIMES)).ratio_sentences) == 1
    assert compare({key("a"): case_outcome("passed")}, {key("a"): case_outcome("passed")}).ratio_sentences == []


def test_measurements_round_trip_and_invalid_ones_are_rejected() -> None:
    outcome = ten_cases(**TIMES)[key("c1")]

    assert CaseOutcome.from_dict(outcome.to_dict()) == outcome
    for odd in ([-1], [1, 2], [float("inf")]):
        with pytest.raises(RecordError, match=r"(measures.*expected|ttft of a case: found 2; expected 1)"):
            CaseOutcome.from_dict({**outcome.to_dict(), "measures": {"ttft": odd}})


def test_no_worse_is_shown_only_by_the_interval() -> None:
    many = {key(f"c{number}"): case_outcome("passed") for number in range(200)}
    few = dict(list(many.items())[:10])

    assert compare(many, many).no_worse_sentence(0.02).startswith("shown for a margin of 0.02 (at worst -0.018,")
    assert compare(few, few).no_worse_sentence(0.02).startswith("not shown for a margin of 0.02 (at worst -0.3")
    assert "nothing can be compared" in compare({}, {}).no_worse_sentence(0.02)


def test_same_server_twice_is_rarely_called_slower() -> None:
    """Check 20 pairs of runs, each with a drift of up to 3 % and with widely spread cases: 19 show no difference."""
    chance, claims = random.Random(6), 0

    def run() -> dict[CaseKey, CaseOutcome]:
        drift = 1 + 0.03 * chance.random()
        times = {key(f"c{at}"): drift * (at + 1) * chance.lognormvariate(0, 0.2) for at in range(40)}
        return {
            name: replace(case_outcome("passed"), measures=dict.fromkeys(("ttft", "tpot", "tgt", "gct"), (time,)))
            for name, time in times.items()
        }

    for _ in range(60):
        (_, words), *_ = compare(run(), run()).ratio_sentences
        claims += ": " in words

    assert claims <= 3
