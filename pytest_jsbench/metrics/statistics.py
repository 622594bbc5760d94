"""
Compute intervals, quantiles and tests from plain numbers.

This module does not depend on runs. Each function names the published method that it implements.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean
from typing import Annotated, TypedDict

from msgspec import Meta, Struct

from pytest_jsbench.core.json_values import Fraction, Natural

#: Significance level: a difference with a p-value below it is significant.
SIGNIFICANCE = 0.05
#: Probability below a 95 % interval.
_TAIL = 0.025
#: Normal quantile of a 95 % interval.
_Z = NormalDist().inv_cdf(0.975)
#: Precision of iterative computations.
_PRECISION = 1e-9
#: Maximum number of iterations; with a large n, rounding errors can prevent reaching the precision.
_MOST_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate or a median with its 95 % interval; the value is None without items, a bound is None if unknown."""

    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: Number of items over which the rate is computed; None if unknown.
    n: int | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the rate as JSON values."""
        return {"value": self.value, "ci_low": self.ci_low, "ci_high": self.ci_high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion(Rate):
    """A rate of `successes` among `n`, with its interval; the rate and its bounds are None if n is 0."""

    successes: int
    n: int
    #: Variance relative to the variance of `n` independent attempts; 1 if each attempt is its own cluster.
    design_effect: float = 1.0


def proportion(successes: int, n: int, *, design_effect: float = 1.0) -> Proportion:
    """Return the proportion and its 95 % interval, computed for `n / design_effect` attempts."""
    if n == 0:
        return Proportion(successes=successes, n=0, value=None, ci_low=None, ci_high=None)
    low, high = exact_interval(successes / n, n / design_effect)
    return Proportion(
        successes=successes, n=n, value=successes / n, ci_low=low, ci_high=high, design_effect=design_effect
    )


def exact_interval(rate: float, n: float) -> tuple[float, float]:
    """
    Return the exact 95 % interval of a rate over n independent trials; its coverage is at least 95 %.

    The interval of the complementary rate is its mirror image, and a higher rate never lowers a bound. The interval is
    also valid for the mean of any values from 0 to 1, since their variance is at most that of a proportion. Sources:
    Clopper and Pearson, Biometrika 26 (1934), 404-413; for fractional n, Korn and Graubard, Survey Methodology 24
    (1998), 193-201.
    """
    low = 0.0 if rate <= 0 else _lower_bound(rate * n, n)
    return low, 1.0 if rate >= 1 else 1.0 - _lower_bound((1 - rate) * n, n)


@functools.lru_cache(maxsize=4096)
def _lower_bound(successes: float, n: float) -> float:
    """
    Return the 0.025 quantile of the beta distribution with parameters `successes` and `n - successes + 1`.

    Newton's method converges here, since the logarithm of the distribution is concave in the logarithm of x.
    """
    a = successes
    b = n - successes + 1
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_x = math.log(a / (a + b))
    step = 1.0
    for _ in range(_MOST_STEPS):
        x = math.exp(log_x)
        rest = -math.expm1(log_x)
        front = math.exp(scale + a * log_x + b * math.log(rest))
        # of the two equivalent series, use the one that converges faster
        below = front / a * _beta_series(x, a, b) if a < b else 1 - front / b * _beta_series(rest, b, a)
        step = math.log(below / _TAIL) * below * rest / front
        log_x -= step
        if abs(step) <= _PRECISION * max(1.0, -log_x):
            break
    # drop the digits beyond the precision, so that 1 success of 1 has the bound 0.025
    return round(math.exp(log_x), 12)


def _beta_series(x: float, a: float, b: float) -> float:
    """
    Return the sum of the series for the incomplete beta function.

    Source: NIST Digital Library of Mathematical Functions, 8.17.8.
    """
    term = series = 1.0
    for at in itertools.count():
        term *= x * (a + b + at) / (a + 1 + at)
        series += term
        if term < _PRECISION**2 * series:
            break
    return series


def clustered(clusters: Iterable[tuple[int, int]]) -> Proportion:
    """
    Return the proportion over clusters of (successes, n), with an interval that assumes fully correlated clusters.

    Therefore m clusters count as at most m attempts, and more successes never lower a bound. Source: Kish, Survey
    Sampling (1965), sections 5.4 and 8.2: the design effect of unequal clusters at an intraclass correlation of 1.
    """
    pairs = list(clusters)
    successes = sum(count for count, _ in pairs)
    n = sum(size for _, size in pairs)
    return proportion(successes, n, design_effect=sum(size * size for _, size in pairs) / n if n else 1.0)


def mean_rate(clusters: Iterable[Sequence[float]]) -> Rate:
    """Return the unweighted mean of rates in independent clusters; the bounds are None for a single cluster."""
    measured = [rates for rates in clusters if rates]
    n = sum(map(len, measured))
    value = math.fsum(rate for rates in measured for rate in rates) / n if n else None
    low = high = None
    if value is not None and len(measured) > 1:
        low, high = exact_interval(value, n * n / sum(len(rates) ** 2 for rates in measured))
    return Rate(value=value, ci_low=low, ci_high=high, n=n)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """
    Return the q-quantile of values in ascending order by linear interpolation; None if there are no values.

    Source: type 7 of Hyndman and Fan, The American Statistician 50 (1996), 361-365; NumPy's default.
    """
    if not ordered:
        return None
    position = (len(ordered) - 1) * q
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    if position == below or ordered[below] == ordered[above]:
        return ordered[below]
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def quantile_interval(ordered: Sequence[float], q: float) -> tuple[float, float] | None:
    """
    Return the distribution-free 95 % interval of the q-quantile, whose bounds are two of the values in ascending order.

    None if there are too few values. Source: Conover, Practical Nonparametric Statistics (1999), section 3.2.
    """
    n = len(ordered)
    scale = math.lgamma(n + 1)
    chances = [
        math.exp(scale - math.lgamma(at + 1) - math.lgamma(n - at + 1) + at * math.log(q) + (n - at) * math.log1p(-q))
        for at in range(n + 1)
    ]
    below = sum(total <= _TAIL for total in itertools.accumulate(chances))
    above = sum(total <= _TAIL for total in itertools.accumulate(reversed(chances)))
    return (ordered[below - 1], ordered[n - above]) if below and above else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of measurements; all figures except the count are None if there are no measurements."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    #: The measurements in ascending order.
    ordered: tuple[float, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """Return the distribution of these values, in any order."""
        ordered = tuple(sorted(values))
        return cls(
            count=len(ordered),
            mean=fmean(ordered) if ordered else None,
            p50=quantile(ordered, 0.50),
            p90=quantile(ordered, 0.90),
            p95=quantile(ordered, 0.95),
            p99=quantile(ordered, 0.99),
            max=ordered[-1] if ordered else None,
            ordered=ordered,
        )


class DifferenceFigures(TypedDict):
    """Paired difference as written to files."""

    #: Number of cases that have attempts in both runs.
    n: Natural
    #: Mean over cases of the share of attempts that succeed in this run minus the share in the other run; None without
    #: cases.
    difference: float | None
    #: Lower bound of the 95 % interval; docs/metrics.md describes the method.
    difference_ci_low: float | None
    #: Upper bound of the 95 % interval.
    difference_ci_high: float | None
    #: Two-sided p-value of the sign-flip test, which is McNemar's exact test if each case has one attempt.
    p_value: Fraction


class DifferenceOfSeveral(DifferenceFigures):
    """Paired difference that is tested together with other differences."""

    #: p-value adjusted for the number of tests that are made together (Holm).
    p_value_adjusted: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean over n subjects of the share of attempts that succeed in the second run minus the share in the first run."""

    n: int
    #: Number of subjects whose share is lower in the second run.
    fell: int
    #: Number of subjects whose share is higher in the second run.
    rose: int
    #: Whether some subject has several attempts.
    repeated: bool
    #: Second share minus first share; the value and its bounds are None if n is 0.
    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: Two-sided p-value; 1 if no share differs.
    p_value: float
    #: p-value adjusted for the number of comparisons by `adjust_p_values`.
    p_adjusted: float
    comparisons: int = 1

    @property
    def real(self) -> bool:
        """Whether the difference is significant, given the number of comparisons."""
        return self.p_adjusted < SIGNIFICANCE

    def to_dict(self) -> DifferenceFigures:
        """Return the difference as JSON values."""
        return {
            "n": self.n,
            "difference": self.value,
            "difference_ci_low": self.ci_low,
            "difference_ci_high": self.ci_high,
            "p_value": self.p_value,
        }

    def to_dict_of_several(self) -> DifferenceOfSeveral:
        """Return the difference as JSON values, with the p-value that is adjusted for several comparisons."""
        return {**self.to_dict(), "p_value_adjusted": self.p_adjusted}


_Ratio = Annotated[float, Meta(ge=0)]
#: Minimum number of differing subjects for which Student's interval is reliable.
_MANY = 10


class PairedRatio(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"value": "ratio", "ci_low": "ratio_ci_low", "ci_high": "ratio_ci_high"},
):
    """Median over n subjects of the mean measurement in the second run divided by the mean in the first run."""

    #: Number of subjects; each subject is a case.
    n: Natural
    #: Median of the ratios; None if n is 0.
    value: _Ratio | None
    #: Lower bound of the 95 % interval; None for fewer than six subjects.
    ci_low: _Ratio | None
    #: Upper bound of the 95 % interval.
    ci_high: _Ratio | None
    #: Two-sided p-value of the sign test.
    p_value: Fraction


def paired_ratio(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> PairedRatio:
    """Return the median ratio over all subjects that have a mean measurement above zero in both runs."""
    means = [(fmean(before), fmean(after)) for before, after in pairs if before and after]
    ratios = sorted(after / before for before, after in means if before > 0 and after > 0)
    low, high = quantile_interval(ratios, 0.5) or (None, None)
    return PairedRatio(
        n=len(ratios),
        value=quantile(ratios, 0.5),
        ci_low=low,
        ci_high=high,
        p_value=sign_flips([(ratio > 1) - (ratio < 1) for ratio in ratios]),
    )


#: Number of a subject's successful attempts, and number of all its attempts.
Share = tuple[int, int]


def paired_difference(pairs: Iterable[tuple[Share, Share]]) -> PairedDifference:
    """
    Return the difference between shares over all subjects that have attempts in both runs.

    The test is `sign_flips`, which is McNemar's exact test if each subject has one attempt. The interval is Student's
    if subjects have several attempts and enough subjects differ; otherwise `combine_intervals` computes it, as if all
    attempts of a subject had the same outcome.
    """
    measured = [pair for pair in pairs if pair[0][1] and pair[1][1]]
    n = len(measured)
    whole = math.lcm(*(size for pair in measured for _, size in pair))
    gained = [after * whole // size - before * whole // was for (before, was), (after, size) in measured]
    repeated = whole > 1
    fell = sum(gain < 0 for gain in gained)
    rose = sum(gain > 0 for gain in gained)
    low = high = None
    if n and repeated and fell + rose >= _MANY:
        low, high = student([gain / whole for gain in gained])
    elif n:
        ups, downs = (sum(max(sign * gain, 0) for gain in gained) / (n * whole) for sign in (1, -1))
        low, high = combine_intervals(ups, downs, n)
    p_value = sign_flips(gained)
    return PairedDifference(
        n=n,
        fell=fell,
        rose=rose,
        repeated=repeated,
        value=sum(gained) / (n * whole) if n else None,
        ci_low=low,
        ci_high=high,
        p_value=p_value,
        p_adjusted=p_value,
    )


def adjust_p_values(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Return the differences, in the same order, with p-values adjusted for the number of differences."""
    p_values = holm([difference.p_value for difference in differences])
    return [
        replace(difference, p_adjusted=p_value, comparisons=len(differences))
        for difference, p_value in zip(differences, p_values, strict=True)
    ]


def combine_intervals(rose: float, fell: float, n: int) -> tuple[float, float]:
    """
    Return the 95 % interval of the difference between two disjoint shares of the same n.

    The interval is conservative, since it combines the exact interval of each share. The correlation between the shares
    is estimated from two counts of one multinomial, with half a count added to each. Source: Zou and Donner, Statistics
    in Medicine 27 (2008), 1693-1702.
    """
    low, high = exact_interval(rose, n)
    low_of_fell, high_of_fell = exact_interval(fell, n)
    odds = [(share * n + 0.5) / (n - share * n + 0.5) for share in (rose, fell)]
    correlation = math.sqrt(odds[0] * odds[1])
    down = (rose - low, high_of_fell - fell)
    up = (high - rose, fell - low_of_fell)
    below, above = (math.sqrt(a * a + 2 * correlation * a * b + b * b) for a, b in (down, up))
    return max(-1.0, rose - fell - below), min(1.0, rose - fell + above)


#: Expansion of Student's 0.975 quantile around the normal quantile, in powers of 1 / degrees of freedom.
_STUDENT = (_Z, 2.3722712, 2.8224986, 2.5558497, 1.5895341)


def student(differences: Sequence[float]) -> tuple[float, float]:
    """
    Return Student's 95 % interval of the mean of differences from -1 to 1, with pseudo-observations added.

    Half an observation at -1, half at 1 and one at 0 keep the interval from being too narrow when a few differences
    agree by chance. Sources: Agresti and Min, Statistics in Medicine 24 (2005), 729-740, who add these to the cells
    of two paired proportions; for the quantile, Fisher and Cornish, Technometrics 2 (1960), 209-225. The error of the
    quantile is below 1 % from 2 degrees of freedom, the minimum, which a single case has.
    """
    n = len(differences) + 2
    mean = math.fsum(differences) / n
    variance = (math.fsum(value * value for value in differences) + 1 - n * mean * mean) / (n - 1)
    quantile = sum(term / (n - 1) ** power for power, term in enumerate(_STUDENT))
    half = quantile * math.sqrt(variance / n)
    return max(-1.0, mean - half), min(1.0, mean + half)


#: Maximum number of sums that are enumerated.
_MOST_SUMS = 200_000
#: Number of random draws if there are too many sums to enumerate.
_DRAWS = 10_000


def sign_flips(differences: Sequence[int]) -> float:
    """
    Return the two-sided p-value of the sign-flip test: the chance that random signs give a sum at least as extreme.

    The p-value is exact if the sums can be enumerated; otherwise it is estimated from deterministic draws. If all
    differences have the same size, the test is that of McNemar, Psychometrika 12 (1947), 153-157, by the binomial
    distribution. Sources: Fisher, The Design of Experiments (1935), section 21; for draws, Phipson and Smyth,
    Statistical Applications in Genetics and Molecular Biology 9 (2010), article 39.
    """
    sizes = Counter(abs(value) for value in differences if value)
    far = abs(sum(differences))
    sums = {0: 1}
    for size, count in sizes.items():
        if len(sums) * count > _MOST_SUMS:
            coins = random.Random(0)  # noqa: S311
            drawn = (
                sum(size * (2 * coins.getrandbits(count).bit_count() - count) for size, count in sizes.items())
                for _ in range(_DRAWS)
            )
            return (1 + sum(abs(value) >= far for value in drawn)) / (1 + _DRAWS)
        before = sums
        sums = Counter[int]()
        combinations = 1
        for heads in range(count + 1):
            for total, many in before.items():
                sums[total + size * (2 * heads - count)] += many * combinations
            combinations = combinations * (count - heads) // (heads + 1)
    return sum(combinations for total, combinations in sums.items() if abs(total) >= far) / (1 << sizes.total())


def one_sided_fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """
    Return the probability of at least as many successes in the first sample if both samples have the same rate.

    Samples are (successes, n). Source: Fisher, Journal of the Royal Statistical Society 98 (1935), 39-82: the exact
    test, one-sided.
    """
    count, n = first
    others, m = second
    successes = count + others
    tail = sum(math.comb(n, k) * math.comb(m, successes - k) for k in range(count, min(n, successes) + 1))
    return tail / math.comb(n + m, successes)


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Return the p-values adjusted for the number of tests, in the same order.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979), 65-70.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = largest
    return adjusted


def pass_at_k(n: int, passed: int, k: int) -> float:
    """
    Return the unbiased estimate of the probability that at least one of k attempts passes.

    Source: Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    """
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def pass_hat_k(n: int, passed: int, k: int) -> float:
    """
    Return the unbiased estimate of the probability that all of k attempts pass.

    Source: Yao et al., tau-bench (2024), section 4.
    """
    return math.comb(passed, k) / math.comb(n, k)
