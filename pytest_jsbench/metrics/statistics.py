"""Intervals, quantiles and tests: statistics of plain numbers."""

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

#: the p-value below which a difference is called real
SIGNIFICANCE = 0.05
#: of 95 % intervals, the chance below each, and the normal quantile
_TAIL, _Z = 0.025, NormalDist().inv_cdf(0.975)
#: of what is computed by steps
_PRECISION = 1e-9
#: of a large n, rounding alone may keep the steps from becoming that small
_MOST_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate, or a median, with its bounds; None where it is over nothing, and where they are not known."""

    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: what it is over; None where that is not known
    n: int | None = None

    def to_dict(self) -> dict[str, float | None]:
        """The rate as JSON values."""
        return {"value": self.value, "ci_low": self.ci_low, "ci_high": self.ci_high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion(Rate):
    """`successes` of `n`, with its interval; every figure is None when n is 0."""

    successes: int
    n: int
    #: how much wider the interval's variance is than that of `n` independent attempts: 1 where each is its own cluster
    design_effect: float = 1.0


def proportion(successes: int, n: int, *, design_effect: float = 1.0) -> Proportion:
    """The proportion and its 95 % interval, over `n / design_effect` attempts."""
    if n == 0:
        return Proportion(successes=successes, n=0, value=None, ci_low=None, ci_high=None)
    low, high = exact_interval(successes / n, n / design_effect)
    return Proportion(
        successes=successes, n=n, value=successes / n, ci_low=low, ci_high=high, design_effect=design_effect
    )


def exact_interval(rate: float, n: float) -> tuple[float, float]:
    """
    The 95 % interval of a rate over n that are independent, which holds the truth at least so often whatever it is.

    It mirrors that of the complement, and a higher rate never lowers a bound. It holds for the mean of any values from
    0 to 1, as none varies more than a proportion. Sources: Clopper and Pearson, Biometrika 26 (1934), 404-413; where n
    is no whole number, Korn and Graubard, Survey Methodology 24 (1998), 193-201.
    """
    low = 0.0 if rate <= 0 else _lower_bound(rate * n, n)
    return low, 1.0 if rate >= 1 else 1.0 - _lower_bound((1 - rate) * n, n)


@functools.lru_cache(maxsize=4096)
def _lower_bound(successes: float, n: float) -> float:
    """
    The 0.025 quantile of the beta distribution with `successes` and `n - successes + 1`.

    Newton's method on logarithms, where the distribution is concave, so that it cannot miss.
    """
    a, b = successes, n - successes + 1
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_x, step = math.log(a / (a + b)), 1.0
    for _ in range(_MOST_STEPS):
        x, rest = math.exp(log_x), -math.expm1(log_x)
        front = math.exp(scale + a * log_x + b * math.log(rest))
        # of the two series the one that is short, however large n is
        below = front / a * _beta_series(x, a, b) if a < b else 1 - front / b * _beta_series(rest, b, a)
        step = math.log(below / _TAIL) * below * rest / front
        log_x -= step
        if abs(step) <= _PRECISION * max(1.0, -log_x):
            break
    # what the steps leave open is no part of it, so that 1 of 1 has the bound 0.025
    return round(math.exp(log_x), 12)


def _beta_series(x: float, a: float, b: float) -> float:
    """The series of the incomplete beta function. Source: NIST Digital Library of Mathematical Functions, 8.17.8."""
    term = series = 1.0
    for at in itertools.count():
        term *= x * (a + b + at) / (a + 1 + at)
        series += term
        if term < _PRECISION**2 * series:
            break
    return series


def clustered(clusters: Iterable[tuple[int, int]]) -> Proportion:
    """
    The proportion over clusters of (successes, n), with an interval as if the attempts of a cluster all ended alike.

    So m clusters carry at most what m attempts do, and more successes never lower a bound. Source: Kish, Survey
    Sampling (1965), sections 5.4 and 8.2: the design effect of unequal clusters at an intraclass correlation of 1.
    """
    pairs = list(clusters)
    successes, n = sum(count for count, _ in pairs), sum(size for _, size in pairs)
    return proportion(successes, n, design_effect=sum(size * size for _, size in pairs) / n if n else 1.0)


def mean_rate(clusters: Iterable[Sequence[float]]) -> Rate:
    """The mean of rates, each of which counts as much as any other, over independent clusters; one has no bounds."""
    measured = [rates for rates in clusters if rates]
    n = sum(map(len, measured))
    value = math.fsum(rate for rates in measured for rate in rates) / n if n else None
    low, high = (None, None)
    if value is not None and len(measured) > 1:
        low, high = exact_interval(value, n * n / sum(len(rates) ** 2 for rates in measured))
    return Rate(value=value, ci_low=low, ci_high=high, n=n)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """
    The q-quantile of values in ascending order by linear interpolation; None when there are none.

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
    The 95 % interval of the q-quantile, between two of the values, whatever their distribution; None of too few.

    Source: Conover, Practical Nonparametric Statistics (1999), section 3.2.
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
    """The spread of a set of measurements; every figure but the count is None when there are none."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    #: the measurements themselves, in ascending order
    ordered: tuple[float, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """The distribution of these values, in any order."""
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
    """A paired difference, as files have it."""

    #: cases of both runs that say something about it
    n: Natural
    #: the mean over them of the share of attempts that succeed, now less then; None over no case
    difference: float | None
    #: lower bound of its 95 % interval; docs/metrics.md says which
    difference_ci_low: float | None
    #: upper bound
    difference_ci_high: float | None
    #: two-sided: the test of sign flips, which for one attempt at each case is McNemar's exact test
    p_value: Fraction


class DifferenceOfSeveral(DifferenceFigures):
    """A paired difference among several."""

    #: the p-value for as many tests as were made together (Holm)
    p_value_adjusted: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The mean over n subjects of the share of a second's attempts that succeed, less the share of a first's."""

    n: int
    #: subjects whose share is less in the second, and more
    fell: int
    rose: int
    #: whether a subject has several attempts
    repeated: bool
    #: second less first; None when n is 0, as are its bounds
    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: two-sided; 1 where nothing differs
    p_value: float
    #: the same for as many comparisons as were made together; see `adjusted`
    p_adjusted: float
    comparisons: int = 1

    @property
    def real(self) -> bool:
        """True where the difference is significant, given the number of comparisons."""
        return self.p_adjusted < SIGNIFICANCE

    def to_dict(self) -> DifferenceFigures:
        """The difference as JSON values."""
        return {
            "n": self.n,
            "difference": self.value,
            "difference_ci_low": self.ci_low,
            "difference_ci_high": self.ci_high,
            "p_value": self.p_value,
        }

    def to_dict_of_several(self) -> DifferenceOfSeveral:
        """The same of one of several comparisons."""
        return {**self.to_dict(), "p_value_adjusted": self.p_adjusted}


_Ratio = Annotated[float, Meta(ge=0)]
#: subjects that differ, from which on Student's interval is not narrow by chance
_MANY = 10


class PairedRatio(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"value": "ratio", "ci_low": "ratio_ci_low", "ci_high": "ratio_ci_high"},
):
    """The median over n subjects of the ratio of a second's mean measurement to a first's."""

    #: subjects: cases
    n: Natural
    #: the median; None when n is 0
    value: _Ratio | None
    #: lower bound of its 95 % interval; None of fewer than six
    ci_low: _Ratio | None
    #: upper bound
    ci_high: _Ratio | None
    #: of the sign test, two-sided
    p_value: Fraction


def paired_ratio(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> PairedRatio:
    """The ratio of measurements of each subject, without those of which one has none, or only zeros."""
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


#: the attempts of a subject that succeeded, and all of them
Share = tuple[int, int]


def paired_difference(pairs: Iterable[tuple[Share, Share]]) -> PairedDifference:
    """
    The difference of the shares of each subject, without those of which one has no attempts.

    Its test is `sign_flips`, which is McNemar's exact test where each subject has one attempt. Its interval is
    Student's where subjects have several and enough of them differ; else that of `combined`, as if all attempts at a
    subject ended alike.
    """
    measured = [pair for pair in pairs if pair[0][1] and pair[1][1]]
    n, whole = len(measured), math.lcm(*(size for pair in measured for _, size in pair))
    gained = [after * whole // size - before * whole // was for (before, was), (after, size) in measured]
    repeated = whole > 1
    fell, rose = sum(gain < 0 for gain in gained), sum(gain > 0 for gain in gained)
    low, high = None, None
    if n and repeated and fell + rose >= _MANY:
        low, high = student([gain / whole for gain in gained])
    elif n:
        ups, downs = (sum(max(sign * gain, 0) for gain in gained) / (n * whole) for sign in (1, -1))
        low, high = combined(ups, downs, n)
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


def adjusted(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with p-values for their number, in the order in which they came."""
    p_values = holm([difference.p_value for difference in differences])
    return [
        replace(difference, p_adjusted=p_value, comparisons=len(differences))
        for difference, p_value in zip(differences, p_values, strict=True)
    ]


def combined(rose: float, fell: float, n: int) -> tuple[float, float]:
    """
    The 95 % interval of the difference of two shares of the same n, of which none is in both.

    It is conservative: each share has its exact interval. Their correlation is that of two counts of one multinomial
    with half a count more in each. Source: Zou and Donner, Statistics in Medicine 27 (2008), 1693-1702.
    """
    (low, high), (low_of_fell, high_of_fell) = exact_interval(rose, n), exact_interval(fell, n)
    odds = [(share * n + 0.5) / (n - share * n + 0.5) for share in (rose, fell)]
    correlation = math.sqrt(odds[0] * odds[1])
    down = rose - low, high_of_fell - fell
    up = high - rose, fell - low_of_fell
    below, above = (math.sqrt(one * one + 2 * correlation * one * two + two * two) for one, two in (down, up))
    return max(-1.0, rose - fell - below), min(1.0, rose - fell + above)


#: the expansion of Student's 0.975 quantile round the normal one, in powers of 1 / degrees of freedom
_STUDENT = (_Z, 2.3722712, 2.8224986, 2.5558497, 1.5895341)


def student(differences: Sequence[float]) -> tuple[float, float]:
    """
    The 95 % interval of the mean of differences from -1 to 1: Student's, over them, a half at each end and one at 0.

    What is added keeps it from being narrow where the few that there are agree by chance. Sources: Agresti and Min,
    Statistics in Medicine 24 (2005), 729-740, who add the same to the cells of two paired proportions; of the quantile
    Fisher and Cornish, Technometrics 2 (1960), 209-225: within 1 % from 2 degrees of freedom up, which one case has.
    """
    n = len(differences) + 2
    mean = math.fsum(differences) / n
    variance = (math.fsum(value * value for value in differences) + 1 - n * mean * mean) / (n - 1)
    quantile = sum(term / (n - 1) ** power for power, term in enumerate(_STUDENT))
    half = quantile * math.sqrt(variance / n)
    return max(-1.0, mean - half), min(1.0, mean + half)


#: sums that are counted one by one; draws where there are more
_MOST_SUMS, _DRAWS = 200_000, 10_000


def sign_flips(differences: Sequence[int]) -> float:
    """
    The chance of a sum as far from 0 as that of these, if each had either sign by the toss of a coin: two-sided.

    Exact where the sums can be counted, and else of draws that are the same each time. Where all are of one size it is
    the test of McNemar, Psychometrika 12 (1947), 153-157, by the binomial distribution. Sources: Fisher, The Design of
    Experiments (1935), section 21; of draws Phipson and Smyth, Statistical Applications in Genetics and Molecular
    Biology 9 (2010), article 39.
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
        before, sums, ways = sums, Counter[int](), 1
        for heads in range(count + 1):
            for total, many in before.items():
                sums[total + size * (2 * heads - count)] += many * ways
            ways = ways * (count - heads) // (heads + 1)
    return sum(ways for total, ways in sums.items() if abs(total) >= far) / (1 << sizes.total())


def one_sided_fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """
    The chance of so many successes or more in the first (successes, n), if both have the same rate.

    Source: Fisher, Journal of the Royal Statistical Society 98 (1935), 39-82: the exact test, one-sided.
    """
    (count, n), (others, m) = first, second
    successes = count + others
    tail = sum(math.comb(n, k) * math.comb(m, successes - k) for k in range(count, min(n, successes) + 1))
    return tail / math.comb(n + m, successes)


def holm(p_values: Sequence[float]) -> list[float]:
    """
    The p-values adjusted for their number, in the order in which they came.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979), 65-70.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = largest
    return adjusted


def pass_at_k(n: int, passed: int, k: int) -> float:
    """
    The chance that at least one of k of these n attempts passed, without bias.

    Source: Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    """
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def pass_hat_k(n: int, passed: int, k: int) -> float:
    """
    The chance that all of k of these n attempts passed, without bias.

    Source: Yao et al., tau-bench (2024), section 4.
    """
    return math.comb(passed, k) / math.comb(n, k)
