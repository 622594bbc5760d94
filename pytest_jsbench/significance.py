"""Whether a difference is real: paired proportions, and attempts that are repeated. Pure numbers, no domain word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_jsbench.statistics import proportion


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


def paired_difference(*, both: int, first_only: int, second_only: int, neither: int) -> PairedDifference:
    """
    The difference of two paired proportions, with the 95 % hybrid score interval and McNemar's exact test.

    Source: Newcombe, Statistics in Medicine 17 (1998), 2635-2650, method 10.
    """
    n = both + first_only + second_only + neither
    p_value = mcnemar(first_only, second_only)
    if n == 0:
        return PairedDifference(
            n=0, first_only=0, second_only=0, value=None, ci_low=None, ci_high=None, p_value=p_value
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
    )


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
