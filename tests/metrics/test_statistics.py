from __future__ import annotations

import itertools
import math
import random
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics import (
    called_different,
    coverage_of_differences,
    coverage_of_means,
    coverage_of_rates,
    coverage_of_single_differences,
    coverage_of_single_rates,
)
from pytest_jsbench.metrics.statistics import (
    Distribution,
    PairedDifference,
    Rate,
    clustered,
    exact_interval,
    holm,
    mean_rate,
    paired_difference,
    paired_ratio,
    pass_at_k,
    pass_hat_k,
    proportion,
    quantile,
    quantile_interval,
    sign_flips,
    student,
)
from tests.support.fuzzing import examples


def bounds(rate: Rate | PairedDifference) -> tuple[float, float]:
    assert rate.ci_low is not None
    assert rate.ci_high is not None
    return rate.ci_low, rate.ci_high


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 857-872, table I, method 5 (Clopper and Pearson)
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ],
)
def test_exact_interval_agrees_with_published_values(successes: int, n: int, low: float, high: float) -> None:
    rate = proportion(successes, n)

    assert rate.value == pytest.approx(successes / n)
    assert bounds(rate) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 1.3, 17.7, 100, 5000, 100_000])
def test_exact_interval_agrees_with_scipy_for_fractional_n(n: float) -> None:
    beta = pytest.importorskip("scipy.stats", reason="needs scipy").beta
    for rate in (1e-12, 1e-4, 0.03, 0.5, 0.8, 0.9999):
        low, high = exact_interval(rate, n)
        expected = beta.ppf(0.025, rate * n, n - rate * n + 1), beta.ppf(0.975, rate * n + 1, n - rate * n)
        assert (low, high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [10_000, 3_000_000])
def test_bound_of_a_rate_of_one_is_fast_for_large_n(n: int) -> None:
    start = time.process_time()
    low, high = exact_interval(1.0, n)

    assert time.process_time() - start < 0.05
    assert (low, high) == pytest.approx((0.025 ** (1 / n), 1.0), abs=1e-12)
    assert exact_interval(0.0, n) == pytest.approx((0.0, 1 - low), abs=1e-12)


def test_rate_over_nothing_is_none() -> None:
    rate = proportion(0, 0)

    assert (rate.value, rate.ci_low, rate.ci_high) == (None, None, None)


@examples(200)
@given(n=st.integers(1, 10_000), data=st.data())
def test_interval_contains_its_estimate_and_stays_in_0_to_1(n: int, data: st.DataObject) -> None:
    rate = proportion(data.draw(st.integers(0, n)), n)

    low, high = bounds(rate)
    assert rate.value is not None
    assert 0 <= low <= rate.value <= high <= 1


@examples(200)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200))
def test_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    ordered = sorted(values)

    quartiles = [quantile(ordered, q) for q in (0.25, 0.5, 0.75)]

    assert quartiles == pytest.approx(statistics.quantiles(ordered, n=4, method="inclusive"))


def test_distribution_ignores_order_and_is_empty_without_values() -> None:
    spread = Distribution.of([3.0, 1.0, 2.0])

    assert (spread.count, spread.mean, spread.p50, spread.max) == (3, 2.0, 2.0, 3.0)
    assert Distribution.of([]) == Distribution(count=0, mean=None, p50=None, p90=None, p95=None, p99=None, max=None)


def test_clusters_of_one_are_a_simple_proportion() -> None:
    assert clustered([(1, 1), (0, 1), (1, 1), (0, 0)]) == proportion(2, 3)


def test_attempts_that_all_agree_within_their_cluster_count_once() -> None:
    repeated, once = clustered([(3, 3)] * 6 + [(0, 3)] * 4), proportion(6, 10)

    assert (repeated.successes, repeated.n, repeated.value) == (18, 30, once.value)
    assert bounds(repeated) == pytest.approx(bounds(once))


def test_passed_clusters_count_as_their_number_of_attempts() -> None:
    assert clustered([(5, 5)] * 8).ci_low == pytest.approx(proportion(8, 8).ci_low)
    assert clustered([]).value is None


SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=8)


@examples(200)
@given(SIZES, st.data())
def test_one_more_success_never_lowers_a_bound(sizes: list[int], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, size)) for size in sizes]
    more = [min(count + data.draw(st.integers(0, 1)), size) for count, size in zip(counts, sizes, strict=True)]

    before, after = (bounds(clustered(zip(passed, sizes, strict=True))) for passed in (counts, more))

    assert before[0] <= after[0] + 1e-12
    assert before[1] <= after[1] + 1e-12


@examples(200)
@given(SIZES, st.data())
def test_a_rate_and_its_complement_mirror_each_other(sizes: list[int], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, size)) for size in sizes]

    mirrored = bounds(clustered(zip(counts, sizes, strict=True)))
    low, high = bounds(clustered((size - count, size) for count, size in zip(counts, sizes, strict=True)))

    assert mirrored == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(("right", "of"), [(20, 20), (19, 20), (1, 50), (50, 50)])
def test_one_cluster_counts_as_one_attempt(right: int, of: int) -> None:
    rate = clustered([(right, of)])

    assert bounds(rate)[0] <= bounds(proportion(1, 1))[0]
    assert bounds(rate)[1] >= bounds(proportion(0, 1))[1]
    assert rate.design_effect == of


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 30])
def test_intervals_of_single_attempts_have_their_coverage_at_any_rate(n: int) -> None:
    assert coverage_of_single_rates(n, steps=100) >= 0.95
    assert coverage_of_single_differences(min(n, 10)) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "times"), [(1, 200), (2, 200), (5, 100), (20, 60)])
def test_the_intervals_over_cases_hold_the_truth(cases: int, times: int) -> None:
    chance = random.Random(1)
    # In this small number of simulated runs, a coverage of 95 % can look like this.
    least = 0.95 - 2 * math.sqrt(0.95 * 0.05 / times)
    assert coverage_of_rates(cases, (2, 5, 10, 40), times, chance) >= least
    assert coverage_of_means(cases, times, chance) >= least
    assert coverage_of_differences(cases, 4, times, chance) >= least


def test_comparison_rarely_reports_equal_runs_and_often_better_ones() -> None:
    chance = random.Random(2)

    assert called_different(30, 4, 0.0, 200, chance) <= 0.08
    assert called_different(100, 4, 0.1, 100, chance) >= 0.8


def test_measurements_that_never_came_count_as_never_ending() -> None:
    spread = Distribution.of([1.0, 2.0, 3.0, float("inf")])

    assert (spread.count, spread.p50, spread.p95, spread.max) == (4, 2.5, float("inf"), float("inf"))


COUNTS = st.integers(0, 60)


def difference(*, both: int, first_only: int, second_only: int, neither: int) -> PairedDifference:
    """Return the difference of subjects with one attempt each."""
    ends = {(1, 1): both, (1, 0): first_only, (0, 1): second_only, (0, 0): neither}
    return paired_difference(((was, 1), (now, 1)) for (was, now), count in ends.items() for _ in range(count))


def mcnemar(first_only: int, second_only: int) -> float:
    return sign_flips([-1] * first_only + [1] * second_only)


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
def test_mcnemars_exact_test_agrees_with_published_values(first_only: int, second_only: int, p_value: float) -> None:
    assert mcnemar(first_only, second_only) == pytest.approx(p_value, rel=1e-4)


@examples(200)
@given(st.lists(st.integers(-4, 4), max_size=10))
def test_sign_flips_enumerates_all_signs(differences: list[int]) -> None:
    sums = [sum(signs) for signs in itertools.product(*((-change, change) for change in differences))]

    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(sums)

    assert sign_flips(differences) == pytest.approx(expected)


@pytest.mark.slow
def test_sign_flips_draws_deterministically_if_sums_are_too_many() -> None:
    stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    chance = random.Random(3)
    differences = [chance.choice((-1, 1, 1)) * 7**at for at in range(6) for _ in range(300)]

    p_value = sign_flips(differences)

    spread = math.sqrt(sum(change**2 for change in differences))
    assert p_value == sign_flips(differences)
    assert p_value == pytest.approx(2 * stats.norm.sf(abs(sum(differences)) / spread), abs=0.02)
    assert sign_flips([7**at for at in range(6)] * 300) == pytest.approx(1 / 10_001)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
def test_the_interval_over_cases_is_students_with_two_cases_more(count: int) -> None:
    stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    differences = [0.1 * (at % 3) for at in range(count)]
    n = count + 2
    mean = sum(differences) / n
    variance = (sum(change**2 for change in differences) + 1 - n * mean**2) / (n - 1)

    low, high = student(differences)

    half = stats.t.ppf(0.975, n - 1) * math.sqrt(variance / n)
    assert (low, high) == pytest.approx((max(-1, mean - half), min(1, mean + half)), rel=0.02)


@examples(200)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=30), st.data())
def test_interval_over_repeats_contains_its_estimate(counts: list[int], data: st.DataObject) -> None:
    pairs = [((data.draw(st.integers(0, 4)), 4), (count, 4)) for count in counts]

    paired = paired_difference(pairs)

    assert paired.repeated
    low, high = bounds(paired)
    assert paired.value is not None
    assert -1 <= low <= paired.value <= high <= 1


def test_the_difference_is_of_shares_and_not_of_the_cases_that_always_pass() -> None:
    first, second = [(4, 4)] * 5 + [(0, 4)] * 5, [(3, 4)] * 10

    paired = paired_difference(zip(first, second, strict=True))

    assert (paired.n, paired.fell, paired.rose, paired.value) == (10, 5, 5, 0.25)
    # For five 1 and five 3, the signs (of 1,024) whose sum is as far from 0 as 10.
    sums = [sum(signs) for signs in itertools.product(*[(-1, 1)] * 5, *[(-3, 3)] * 5)]
    assert paired.p_value == pytest.approx(sum(abs(total) >= 10 for total in sums) / 1024)


def test_difference_skips_undecided_attempts_and_cases_without_any() -> None:
    paired = paired_difference([((1, 2), (1, 1)), ((0, 0), (1, 1)), ((2, 3), (0, 0))])

    assert (paired.n, paired.value, paired.rose) == (1, 0.5, 1)


def test_thousands_of_discordant_pairs_are_no_trouble() -> None:
    assert 0 <= mcnemar(4000, 6000) < 1e-50


@examples(200)
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_paired_interval_contains_its_estimate_and_is_antisymmetric(a: int, b: int, c: int, d: int) -> None:
    paired = difference(both=a, first_only=b, second_only=c, neither=d)
    swapped = difference(both=a, first_only=c, second_only=b, neither=d)

    if a + b + c + d == 0:
        assert (paired.value, paired.ci_low, paired.ci_high) == (None, None, None)
        return
    low, high = bounds(paired)
    assert paired.value is not None
    assert -1 - 1e-9 <= low <= paired.value <= high <= 1 + 1e-9
    assert bounds(swapped)[1] == pytest.approx(-low)


def test_p_values_are_adjusted_as_holm_does() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") and p.adjust(c(0.04, 0.005, 0.03), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.04, 0.005, 0.03]) == pytest.approx([0.06, 0.015, 0.06])
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs statsmodels")
    p_values = [0.2, 0.001, 0.04, 0.04, 0.9, 0.03]
    assert holm(p_values) == pytest.approx(multitest.multipletests(p_values, method="holm")[1])


@pytest.mark.parametrize("n", [1, 5, 10])
def test_pass_at_k_is_the_product_that_its_paper_prints(n: int) -> None:
    for passed in range(n + 1):
        for k in range(1, n + 1):
            # Chen et al. (2021), figure 3
            factors = [1 - k / i for i in range(n - passed + 1, n + 1)]
            expected = 1.0 if n - passed < k else 1.0 - math.prod(factors)
            assert pass_at_k(n, passed, k) == pytest.approx(expected)


def test_pass_at_n_means_any_passed_and_pass_hat_n_all() -> None:
    assert [pass_at_k(3, passed, 3) for passed in range(4)] == [0, 1, 1, 1]
    assert [pass_hat_k(3, passed, 3) for passed in range(4)] == [0, 0, 0, 1]
    assert pass_at_k(4, 2, 1) == pass_hat_k(4, 2, 1) == 0.5
    assert pass_hat_k(4, 2, 2) == pytest.approx(1 / 6)


def test_a_mean_of_rates_is_exact_and_its_interval_is_that_of_its_clusters() -> None:
    mean = mean_rate([[1 / 3], [0.7, 0.1], []])

    assert mean.value == pytest.approx((1 / 3 + 0.7 + 0.1) / 3, abs=1e-15)
    assert mean.n == 3
    of_cases, of_attempts = mean_rate([[1.0, 1.0]] * 4), proportion(4, 4)
    assert (of_cases.ci_low, of_cases.ci_high) == pytest.approx((of_attempts.ci_low, 1.0))
    assert (mean_rate([]).value, mean_rate([[]]).ci_low) == (None, None)


def test_a_mean_over_one_document_has_no_interval() -> None:
    mean = mean_rate([[0.5, 0.5]])

    assert (mean.value, mean.ci_low, mean.ci_high) == (0.5, None, None)
    assert mean_rate([[0.5], [0.5]]).ci_low == pytest.approx(proportion(1, 2).ci_low)


@pytest.mark.parametrize(("n", "q"), [(6, 0.5), (25, 0.5), (400, 0.5), (73, 0.95), (200, 0.95)])
def test_quantile_interval_has_the_coverage_of_the_binomial_distribution(n: int, q: float) -> None:
    binom = pytest.importorskip("scipy.stats", reason="needs scipy").binom
    interval = quantile_interval(list(range(1, n + 1)), q)

    assert interval is not None
    low, high = int(interval[0]), int(interval[1])
    assert binom.cdf(high - 1, n, q) - binom.cdf(low - 1, n, q) >= 0.95
    assert binom.cdf(low, n, q) > 0.025
    assert quantile_interval([1.0] * (5 if q == 0.5 else 71), q) is None


def test_ratio_is_a_median_over_cases_and_needs_six_for_an_interval() -> None:
    pairs = [([2.0], [4.0]), ([1.0, 3.0], [2.0]), ([5.0], [15.0]), ([], [1.0]), ([0.0], [1.0])]

    ratio = paired_ratio(pairs)

    assert (ratio.n, ratio.value, ratio.ci_low, ratio.p_value) == (3, 2.0, None, 0.5)
    more = paired_ratio([*pairs, *[([1.0], [2.5])] * 4])
    assert (more.n, more.value, more.ci_low, more.ci_high) == (7, 2.5, 1.0, 3.0)
    assert paired_ratio([]).value is None
