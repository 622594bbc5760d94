from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.metrics.statistics import Distribution, clustered, proportion, quantile


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 857-872, table I, method 3 (Wilson, no correction)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons_as_published(successes: int, n: int, low: float, high: float) -> None:
    rate = proportion(successes, n)

    assert rate.value == pytest.approx(successes / n)
    assert rate.ci_low == pytest.approx(low, abs=5e-5)
    assert rate.ci_high == pytest.approx(high, abs=5e-5)


def test_a_rate_over_nothing_is_none_and_not_zero() -> None:
    rate = proportion(0, 0)

    assert (rate.value, rate.ci_low, rate.ci_high, rate.half_width) == (None, None, None, None)


@given(n=st.integers(1, 10_000), data=st.data())
def test_an_interval_holds_its_estimate_and_stays_a_probability(n: int, data: st.DataObject) -> None:
    rate = proportion(data.draw(st.integers(0, n)), n)

    assert rate.value is not None
    assert rate.ci_low is not None
    assert rate.ci_high is not None
    assert 0 <= rate.ci_low <= rate.value <= rate.ci_high <= 1


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200))
def test_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    ordered = sorted(values)

    quartiles = [quantile(ordered, q) for q in (0.25, 0.5, 0.75)]

    assert quartiles == pytest.approx(statistics.quantiles(ordered, n=4, method="inclusive"))


def test_a_distribution_of_nothing_has_no_figures() -> None:
    assert Distribution.of([]) == Distribution(count=0, mean=None, p50=None, p90=None, p95=None, p99=None, max=None)


def test_a_distribution_does_not_mind_the_order() -> None:
    spread = Distribution.of([3.0, 1.0, 2.0])

    assert (spread.count, spread.mean, spread.p50, spread.max) == (3, 2.0, 2.0, 3.0)


def test_clusters_of_one_are_a_simple_proportion() -> None:
    assert clustered([(1, 1), (0, 1), (1, 1), (0, 0)]) == proportion(2, 3)


def test_attempts_that_all_agree_within_their_cluster_count_once() -> None:
    repeated, once = clustered([(3, 3)] * 6 + [(0, 3)] * 4), proportion(6, 10)

    assert (repeated.successes, repeated.n, repeated.value) == (18, 30, once.value)
    assert repeated.ci_low == pytest.approx(once.ci_low)
    assert repeated.ci_high == pytest.approx(once.ci_high)


def test_attempts_that_do_not_depend_on_their_cluster_count_each() -> None:
    assert clustered([(1, 2)] * 50) == proportion(50, 100)


def test_clusters_that_all_passed_are_no_surer_than_their_number() -> None:
    assert clustered([(5, 5)] * 8).ci_low == pytest.approx(proportion(8, 8).ci_low)
    assert clustered([]).value is None


def test_measurements_that_never_came_count_as_never_ending() -> None:
    spread = Distribution.of([1.0, 2.0, 3.0]).with_others(1, float("inf"))

    assert (spread.count, spread.p50, spread.p95, spread.max) == (4, 2.5, float("inf"), float("inf"))
