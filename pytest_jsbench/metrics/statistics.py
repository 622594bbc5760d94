"""Intervals, quantiles and tests: statistics of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean

#: the p-value below which a difference is called real
SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate with the bounds of its interval; None where it is over nothing, and where they are not known."""

    value: float | None
    ci_low: float | None
    ci_high: float | None

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width."""
        if self.ci_low is None or self.ci_high is None:
            return None
        return (self.ci_high - self.ci_low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion(Rate):
    """`successes` of `n`, with its Wilson interval; every figure is None when n is 0."""

    successes: int
    n: int
    #: how much wider the interval's variance is than that of `n` independent attempts
    design_effect: float = 1.0


def proportion(successes: int, n: int, *, confidence: float = 0.95, design_effect: float = 1.0) -> Proportion:
    """
    The proportion and its Wilson score interval, without continuity correction, over `n / design_effect` attempts.

    Source: Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    if n == 0:
        return Proportion(successes=successes, n=0, value=None, ci_low=None, ci_high=None)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p, effective = successes / n, n / design_effect
    scale = 1 + z * z / effective
    centre = (p + z * z / (2 * effective)) / scale
    half = z * math.sqrt(p * (1 - p) / effective + z * z / (4 * effective * effective)) / scale
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Proportion(successes=successes, n=n, value=p, ci_low=low, ci_high=high, design_effect=design_effect)


def clustered(clusters: Iterable[tuple[int, int]]) -> Proportion:
    """
    The proportion over clusters of (successes, n), whose attempts are not independent of each other.

    Wilson's interval over the effective sample size that the clusters' variance gives; that of a simple proportion
    where every cluster holds one attempt. Source: Dean and Pagano, Survey Methodology 41 (2015), 221-241.
    """
    pairs = [pair for pair in clusters if pair[1]]
    successes, n = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if n == len(pairs):
        return proportion(successes, n)
    p = successes / n
    if successes in {0, n}:
        return proportion(successes, n, design_effect=n / len(pairs))
    variance = sum((passed - p * size) ** 2 for passed, size in pairs) / (n * n)
    return proportion(successes, n, design_effect=max(1.0, variance * n / (p * (1 - p))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanRate(Rate):
    """The mean of `n` rates; every figure is None when n is 0."""

    n: int


#: into how many parts a rate is cut, so that the mean is exact to a double's last digit
_PARTS = 1 << 52


def mean_rate(clusters: Iterable[Sequence[float]]) -> MeanRate:
    """The mean of rates, each of which counts as much as any other, over clusters that are independent."""
    known = [rates for rates in clusters if rates]
    found = clustered((sum(round(rate * _PARTS) for rate in rates), len(rates) * _PARTS) for rates in known)
    return MeanRate(value=found.value, ci_low=found.ci_low, ci_high=found.ci_high, n=sum(map(len, known)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How a set of measurements is spread; every figure but the count is None when there are none."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    #: the measurements themselves, in ascending order
    ordered: tuple[float, ...] = field(default=(), repr=False, compare=False)

    def with_others(self, count: int, value: float) -> Distribution:
        """The distribution as it would be with so many more measurements of this value."""
        return Distribution.of([*self.ordered, *[value] * count]) if count else self

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The second of two proportions over the same n subjects, less the first, with its interval and its test."""

    n: int
    #: subjects that succeed in the first only
    first_only: int
    #: subjects that succeed in the second only
    second_only: int
    #: second less first; None when n is 0, as are its bounds
    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: McNemar's exact test, two-sided; 1 where nothing differs
    p_value: float
    #: the same for as many tests as were made together; see `adjusted`
    p_adjusted: float

    @property
    def real(self) -> bool:
        """Whether the difference is significant, given the number of tests."""
        return self.p_adjusted < SIGNIFICANCE


def paired_difference(*, both: int, first_only: int, second_only: int, neither: int) -> PairedDifference:
    """
    The difference of two paired proportions, with the 95 % hybrid score interval and McNemar's exact test.

    Source: Newcombe, Statistics in Medicine 17 (1998), 2635-2650, method 10.
    """
    n = both + first_only + second_only + neither
    p_value = mcnemar(first_only, second_only)
    if n == 0:
        return PairedDifference(
            n=0, first_only=0, second_only=0, value=None, ci_low=None, ci_high=None, p_value=p_value, p_adjusted=p_value
        )
    one, two = proportion(both + first_only, n), proportion(both + second_only, n)
    below_one, above_one = _distances(one.value, one.ci_low, one.ci_high)
    below_two, above_two = _distances(two.value, two.ci_low, two.ci_high)
    phi = _correlation(both, first_only, second_only, neither)
    difference = (second_only - first_only) / n
    down = below_two**2 - 2 * phi * below_two * above_one + above_one**2
    up = below_one**2 - 2 * phi * below_one * above_two + above_two**2
    return PairedDifference(
        n=n,
        first_only=first_only,
        second_only=second_only,
        value=difference,
        ci_low=difference - math.sqrt(max(0.0, down)),
        ci_high=difference + math.sqrt(max(0.0, up)),
        p_value=p_value,
        p_adjusted=p_value,
    )


def adjusted(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with p-values for their number, in the order in which they came."""
    p_values = holm([one.p_value for one in differences])
    return [replace(one, p_adjusted=p_value) for one, p_value in zip(differences, p_values, strict=True)]


def _distances(value: float | None, low: float | None, high: float | None) -> tuple[float, float]:
    assert value is not None
    assert low is not None
    assert high is not None
    return value - low, high - value


def _correlation(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Newcombe's corrected phi; 0 where a margin is empty."""
    margins = (both + first_only) * (second_only + neither) * (both + second_only) * (first_only + neither)
    if margins == 0:
        return 0.0
    numerator = float(both * neither - first_only * second_only)
    if numerator > 0:
        numerator = max(numerator - (both + first_only + second_only + neither) / 2, 0.0)
    return numerator / math.sqrt(margins)


def mcnemar(first_only: int, second_only: int) -> float:
    """McNemar's exact test of the discordant pairs, two-sided: the binomial test of one half."""
    discordant = first_only + second_only
    tail = ways = 1
    for count in range(min(first_only, second_only)):
        ways = ways * (discordant - count) // (count + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << discordant))


def one_sided_fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """
    The chance of so many successes or more in the first (successes, n), if both have the same rate.

    Source: Fisher, Journal of the Royal Statistical Society 98 (1935), 39-82: the exact test, one-sided.
    """
    (found, n), (others, m) = first, second
    successes = found + others
    tail = sum(math.comb(n, k) * math.comb(m, successes - k) for k in range(found, min(n, successes) + 1))
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
