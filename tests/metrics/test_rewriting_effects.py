from __future__ import annotations

from collections.abc import Mapping

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import RunOutcomes, compare
from pytest_jsbench.metrics.rewriting_effects import effect_sentence, pairs_of_variants


def outcomes(passed: int, of: int = 10) -> Mapping[CaseKey, CaseOutcome]:
    ends = ["passed"] * passed + ["truncated"] * (of - passed)
    return {CaseKey(task="t", id=f"{at:02}"): CaseOutcome(schema="aa", attempts=(end,)) for at, end in enumerate(ends)}


def variants(**passed: int) -> list[RunOutcomes]:
    return [(name, outcomes(count), {}) for name, count in passed.items()]


def test_rewritten_variant_is_compared_only_with_its_original() -> None:
    rewritings = {"a": "", "a-order": "order", "a-inline": "inline", "b": "", "b-order": "order"}
    made = variants(**{"a": 9, "a-order": 8, "a-inline": 1, "b": 5, "b-order": 5})

    compared = pairs_of_variants(made, rewritings)

    assert [(pair.first, pair.second, pair.rewriting) for pair in compared] == [
        ("a", "b", ""),
        ("a", "a-order", "order"),
        ("a", "a-inline", "inline"),
        ("b", "b-order", "order"),
    ]
    assert {pair.comparison.difference.comparisons for pair in compared} == {4}
    assert [pair.comparison.real for pair in compared] == [False, False, True, False]
    assert compared[2].to_dict()["rewriting"] == "inline"
    assert "rewriting" not in compared[0].to_dict()


def test_rewritten_variant_without_its_original_is_not_compared() -> None:
    assert pairs_of_variants(variants(a=1), {"a": "order"}) == []


def test_effect_is_in_percentage_points_with_the_exact_test() -> None:
    lost = effect_sentence(compare(outcomes(9), outcomes(3)), "inline")
    gained = effect_sentence(compare(outcomes(3), outcomes(4)), "order:7")

    assert lost.startswith("loses 60.0 points if $ref is inlined: 6 fewer of 10 cases pass (-0.600, 95 % interval ")
    assert lost.endswith("): a real difference (exact test: p = 0.031)")
    assert gained.startswith(
        "gains 10.0 points if properties, required names and enum values have another order (seed 7): 1 more of "
    )


def test_no_effect_and_unknown_effect_are_different() -> None:
    same = effect_sentence(compare(outcomes(3), outcomes(3)), "inline")
    unknown = effect_sentence(compare(outcomes(3), {}), "inline")

    assert same == "neither gains nor loses if $ref is inlined: the same verdict on each of 10 cases"
    assert unknown.startswith("unknown effect if $ref is inlined: no case was decided on both sides")
