from __future__ import annotations

from random import Random

import pytest

from pytest_jsbench.run.reduction.sequential_test import (
    MOST_ANSWERS,
    OneAnswer,
    SequentialTest,
    confirming,
    needs_more_baseline,
    rule_for,
)


def decided(rule: SequentialTest, share: float, random: Random) -> tuple[bool, int]:
    """Return the decision on a candidate that fails with this probability, and the number of answers."""
    failures = others = 0
    while (decision := rule.decide(failures, others)) is None:
        if random.random() < share:
            failures += 1
        else:
            others += 1
    return decision, failures + others


def test_case_that_always_fails_needs_two_failures_or_one_answer_that_conforms() -> None:
    rule = rule_for(3, 0)

    assert [rule.decide(1, 0), rule.decide(2, 0), rule.decide(0, 1), rule.decide(1, 1)] == [None, True, False, None]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_error_rates_are_as_documented(share: float) -> None:
    rule = SequentialTest(share=share)
    random = Random(1)
    rare = [decided(rule, share / 5, random) for _ in range(4000)]
    same = [decided(rule, share, random) for _ in range(4000)]

    assert sum(accepted for accepted, _ in rare) / 4000 <= 0.05
    assert sum(not accepted for accepted, _ in same) / 4000 <= 0.12
    assert max(count for _, count in rare + same) <= MOST_ANSWERS


def test_result_needs_more_evidence_than_a_step() -> None:
    rule = rule_for(3, 0)

    assert rule.decide(2, 0) is True
    assert confirming(rule).decide(2, 0) is None
    assert confirming(rule).decide(3, 0) is True
    assert isinstance(confirming(OneAnswer()), OneAnswer)


def test_one_result_decides_if_results_are_deterministic() -> None:
    rule = OneAnswer()

    assert [rule.decide(0, 0), rule.decide(1, 0), rule.decide(0, 1)] == [None, True, False]


@pytest.mark.parametrize(("counts", "needed"), [((2, 0), True), ((3, 0), False), ((0, 9), True), ((0, 10), False)])
def test_baseline_ends_after_three_failures_or_ten_answers(counts: tuple[int, int], needed: bool) -> None:
    assert needs_more_baseline(*counts) is needed
