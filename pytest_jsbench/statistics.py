"""Intervals and quantiles: pure numbers, no domain word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion:
    """`successes` of `n`, with its Wilson interval; every figure is None when n is 0."""

    successes: int
    n: int
    value: float | None
    ci_low: float | None
    ci_high: float | None
    #: how much wider the interval's variance is than that of `n` independent attempts
    design_effect: float = 1.0

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width."""
        if self.ci_low is None or self.ci_high is None:
            return None
        return (self.ci_high - self.ci_low) / 2


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
