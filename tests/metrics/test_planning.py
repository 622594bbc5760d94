from __future__ import annotations

import random

import pytest

from benchmarks.statistics import own_rate, passes, planned_power
from pytest_jsbench.metrics.planning import Design, correlation
from pytest_jsbench.metrics.statistics import SIGNIFICANCE, exact_interval, paired_difference


def test_design_has_an_interval_and_needs_more_cases_for_less() -> None:
    design = Design(cases=100, rate=0.9)

    assert design.interval == exact_interval(0.9, 100)
    assert design.cases_for(0.05, 0.8) > design.cases_for(0.1, 0.8)
    assert design.cases_for(0.05, 0.9) > design.cases_for(0.05, 0.8)
    assert Design(cases=100, rate=0.9, repeats=4).cases_for(0.05, 0.8) < design.cases_for(0.05, 0.8)


@pytest.mark.parametrize("repeats", [1, 5])
@pytest.mark.parametrize(("correlation", "below"), [(0.0, 0.08), (0.5, 0.08), (0.9, 0.17), (1.0, 0.08)])
def test_a_plan_has_the_power_of_simulated_runs(repeats: int, correlation: float, below: float) -> None:
    design = Design(cases=100, repeats=repeats, correlation=correlation)

    simulated = planned_power(design, 0.05, 250, random.Random(3))

    assert simulated - below <= design.power(0.05) <= simulated + 0.08


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.8, 0.99, 1.0])
def test_power_never_falls_with_the_difference_or_the_cases(rate: float, alike: float) -> None:
    differences = (1e-6, 1e-4, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9, 1.0)
    cases = (1, 3, 5, 6, 8, 20, 50, 100, 200, 1000, 100_000)
    for repeats in (1, 3, 20):
        designs = [Design(cases=n, rate=rate, correlation=alike, repeats=repeats) for n in cases]
        powers = [[design.power(difference) for difference in differences] for design in designs]

        for row in [*powers, *map(list, zip(*powers, strict=True))]:
            assert row == pytest.approx(sorted(row), abs=1e-9)
        # A tiny difference is detected as often as none is: in half of the test's false positives.
        assert max(row[0] for row in powers) < 0.03


def test_power_is_small_for_a_difference_that_no_case_shows() -> None:
    assert Design(cases=100, rate=1.0).power(0.0001) < 1e-6
    assert Design(cases=100, rate=0.8, correlation=1.0).power(0.0001) < 1e-6


def test_repeats_add_nothing_if_attempts_at_a_case_are_equal() -> None:
    alike = [Design(cases=1, repeats=repeats, correlation=1).cases_for(0.05, 0.8) for repeats in (1, 3, 5)]

    # With this number of cases, 6 of them change with a chance of 80 %.
    assert alike == [157] * 3
    assert Design(cases=50, rate=0.3, correlation=0.9, repeats=3).power(0.05) < 0.4


def test_the_correlation_of_attempts_is_estimated_from_a_run() -> None:
    chance = random.Random(5)
    rates = [own_rate(chance, 0.7, 0.4) for _ in range(3000)]

    assert correlation(passes(chance, rate, 2 + at % 3) for at, rate in enumerate(rates)) == pytest.approx(
        0.4, abs=0.05
    )
    assert correlation([(3, 3), (0, 3), (0, 0)]) == 1
    assert correlation([(1, 2), (1, 2)]) == 0
    assert [correlation(cases) for cases in ([(1, 1), (0, 1)], [(2, 2), (3, 3)], [(1, 2)], [])] == [None] * 4


@pytest.mark.parametrize("alike", [Design(cases=20, rate=1.0), Design(cases=20, correlation=1.0)])
def test_deterministic_runs_still_need_cases_to_show_a_difference(alike: Design) -> None:
    # The exact test needs 6 that differ, all in one direction.
    assert [paired_difference([((0, 1), (1, 1))] * n).p_value < SIGNIFICANCE for n in (5, 6)] == [False, True]
    assert alike.cases_for(0.05, 0.8) >= 6 / 0.05
    assert alike.power(0.05) < 0.2
