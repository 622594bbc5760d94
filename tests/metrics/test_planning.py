from __future__ import annotations

import random

import pytest

from benchmarks.statistics import own_rate, passes
from pytest_jsbench.metrics.planning import Design
from pytest_jsbench.metrics.statistics import SIGNIFICANCE, exact_interval, paired_difference


def test_a_design_says_its_interval_and_needs_more_cases_for_less() -> None:
    design = Design(cases=100, rate=0.9)

    assert design.interval == exact_interval(0.9, 100)
    assert design.cases_for(0.05, 0.8) > design.cases_for(0.1, 0.8)
    assert design.cases_for(0.05, 0.9) > design.cases_for(0.05, 0.8)
    assert Design(cases=100, rate=0.9, repeats=4).cases_for(0.05, 0.8) < design.cases_for(0.05, 0.8)


@pytest.mark.parametrize("repeats", [1, 4])
def test_so_many_cases_have_the_power_that_was_asked_for(repeats: int) -> None:
    planned = Design(cases=1, repeats=repeats, rate=0.6, correlation=0.3)
    cases = planned.cases_for(0.1, 0.8)
    chance, told = random.Random(3), 0
    for _ in range(150):
        rates = [own_rate(chance, 0.6, 0.3) for _ in range(cases)]
        # as many cases go up as make the mean difference 0.1
        better = [rate + 0.25 * (1 - rate) for rate in rates]
        pairs = zip(rates, better, strict=True)
        drawn = [(passes(chance, was, repeats), passes(chance, now, repeats)) for was, now in pairs]
        told += paired_difference(drawn).p_value < SIGNIFICANCE

    assert 0.65 <= told / 150 <= 0.97
    assert Design(cases=cases, repeats=repeats, rate=0.6, correlation=0.3).power(0.1) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("alike", [Design(cases=20, rate=1.0), Design(cases=20, correlation=1.0)])
def test_runs_that_never_differ_need_cases_all_the_same_to_show_a_difference(alike: Design) -> None:
    # the exact test needs 6 that differ, all in one direction
    assert [paired_difference([((0, 1), (1, 1))] * n).p_value < SIGNIFICANCE for n in (5, 6)] == [False, True]
    assert alike.cases_for(0.05, 0.8) >= 6 / 0.05
    assert alike.power(0.05) < 0.2
