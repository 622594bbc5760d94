from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.metrics.statistics import (
    Distribution,
    clustered,
    holm,
    mcnemar,
    mean_rate,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    proportion,
    quantile,
)


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


COUNTS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 2635-2650, table III, method 10
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((53, 0, 0, 1), -0.0729, 0.0729),
        ((0, 30, 0, 0), 0.8395, 1.0),
    ],
)
def test_the_interval_of_a_paired_difference_is_newcombes_as_published(
    table: tuple[int, int, int, int], low: float, high: float
) -> None:
    both, second_only, first_only, neither = table

    found = paired_difference(both=both, first_only=first_only, second_only=second_only, neither=neither)

    assert found.value == pytest.approx((second_only - first_only) / sum(table))
    assert found.ci_low == pytest.approx(low, abs=5e-5)
    assert found.ci_high == pytest.approx(high, abs=5e-5)


@pytest.mark.parametrize(
    ("first_only", "second_only", "p_value"),
    [
        # Fay, the R package exact2x2, mcnemar.exact: of R's own approval ratings, and of matrix(c(21, 9, 2, 12))
        (150, 86, 3.716e-05),
        (9, 2, 0.06543),
        (0, 0, 1.0),
        (5, 5, 1.0),
        (0, 6, 0.03125),
    ],
)
def test_mcnemars_test_is_the_exact_one_as_published(first_only: int, second_only: int, p_value: float) -> None:
    assert mcnemar(first_only, second_only) == pytest.approx(p_value, rel=1e-4)


def test_mcnemars_test_is_statsmodels_own() -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs statsmodels")
    for first_only, second_only in [(1, 0), (0, 7), (3, 9), (40, 41), (120, 300)]:
        expected = tables.mcnemar([[5, first_only], [second_only, 8]], exact=True).pvalue
        assert mcnemar(first_only, second_only) == pytest.approx(expected, rel=1e-9)


def test_holms_adjustment_is_statsmodels_own() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs statsmodels")
    given_values = [0.2, 0.001, 0.04, 0.04, 0.9, 0.03]
    assert holm(given_values) == pytest.approx(multitest.multipletests(given_values, method="holm")[1])


def test_thousands_of_discordant_pairs_are_no_trouble() -> None:
    assert 0 <= mcnemar(4000, 6000) < 1e-50


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_paired_interval_holds_its_estimate_and_swaps_with_its_sides(a: int, b: int, c: int, d: int) -> None:
    found = paired_difference(both=a, first_only=b, second_only=c, neither=d)
    swapped = paired_difference(both=a, first_only=c, second_only=b, neither=d)

    if a + b + c + d == 0:
        assert (found.value, found.ci_low, found.ci_high) == (None, None, None)
        return
    assert found.value is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert swapped.ci_high is not None
    assert -1 - 1e-9 <= found.ci_low <= found.value <= found.ci_high <= 1 + 1e-9
    assert swapped.ci_high == pytest.approx(-found.ci_low)


def test_p_values_are_adjusted_as_holm_does() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") and p.adjust(c(0.04, 0.005, 0.03), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.04, 0.005, 0.03]) == pytest.approx([0.06, 0.015, 0.06])


@pytest.mark.parametrize("n", [1, 5, 10])
def test_pass_at_k_is_the_product_that_its_paper_prints(n: int) -> None:
    for passed in range(n + 1):
        for k in range(1, n + 1):
            # Chen et al. (2021), figure 3
            factors = [1 - k / i for i in range(n - passed + 1, n + 1)]
            expected = 1.0 if n - passed < k else 1.0 - math.prod(factors)
            assert pass_at_k(n, passed, k) == pytest.approx(expected)


def test_of_all_attempts_pass_at_k_is_any_and_pass_hat_k_is_all() -> None:
    assert [pass_at_k(3, passed, 3) for passed in range(4)] == [0, 1, 1, 1]
    assert [pass_hat_k(3, passed, 3) for passed in range(4)] == [0, 0, 0, 1]
    assert pass_at_k(4, 2, 1) == pass_hat_k(4, 2, 1) == 0.5
    assert pass_hat_k(4, 2, 2) == pytest.approx(1 / 6)


def test_a_mean_of_rates_is_exact_over_nothing_is_nothing_and_its_interval_is_that_of_its_clusters() -> None:
    found = mean_rate([[1 / 3], [0.7, 0.1], []])

    assert found.value == pytest.approx((1 / 3 + 0.7 + 0.1) / 3, abs=1e-15)
    assert found.n == 3
    of_cases, of_attempts = mean_rate([[1.0, 1.0]] * 4), proportion(4, 4)
    assert of_cases.ci_low == pytest.approx(of_attempts.ci_low)
    assert (mean_rate([]).value, mean_rate([[]]).ci_low) == (None, None)
