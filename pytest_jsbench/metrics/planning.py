"""The plan of a run: its interval, the difference that it tells from chance, and what that takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

from pytest_jsbench.metrics.statistics import SIGNIFICANCE, Share, exact_interval

_NORMAL = NormalDist()
_CRITICAL = -_NORMAL.inv_cdf(SIGNIFICANCE / 2)
#: cases that have to differ, all in one direction, before the exact test calls that more than chance
_FEWEST = math.ceil(math.log2(2 / SIGNIFICANCE))
#: of a variance, below which it is rounding
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """
    Two runs over the same cases, as many attempts at each.

    A case has its own rate, from a beta distribution, and a difference moves the log odds of all cases alike. Of the
    variance of the difference of a case's shares repeats divide the part of its attempts, and not that of the change
    of its rate. Sources: of the two parts Miller, Adding Error Bars to Evals (2024); of the rates
    Williams, Biometrics 31 (1975), 949-952; of single attempts the result is Connor's, Biometrics 43 (1987), 207-211.
    """

    cases: int
    repeats: int = 1
    #: the pass rate that is expected
    rate: float = 0.8
    #: of attempts at a case within a run, from 0 (they end as chance has it) to 1 (all alike: repeats bring nothing)
    correlation: float = 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval that such a pass rate will have."""
        return exact_interval(self.rate, self.cases)

    def power(self, difference: float) -> float:
        """
        The chance that a difference of the pass rates is told from none; more of it, or of the cases, never lowers it.

        Some cases change their rate, all by as much, and attempts differ by chance beside them. The test holds the sum
        of differences against the root of the sum of their squares; it asks for a step more, since sums come in steps,
        and for cases enough that differ.
        """
        change, alike = abs(difference), self.correlation
        of_attempts = self.rate * (1 - self.rate) * (1 - alike)
        uneven = (alike + of_attempts * (1 - alike)) / of_attempts if of_attempts else math.inf
        size = max(change, math.tanh(change * uneven / (1 + alike) / (1 + 2 * alike)))
        noise = 2 * self.cases * of_attempts / self.repeats
        power = 0.0
        for changed, chance in _binomial(self.cases, change / size):
            if min(self.cases, changed + noise * self.repeats) >= _FEWEST:
                above = changed * size - 1 / self.repeats - _CRITICAL * math.sqrt(changed * size**2 + noise)
                power += chance * _NORMAL.cdf(above / math.sqrt(max(noise, _PRECISION)))
        return power

    def cases_for(self, difference: float, power: float) -> int:
        """
        The cases that tell such a difference with that power.

        As many show of two equal runs that the second is no worse than by so much (Piaggio and others, JAMA 308 (2012),
        2594-2604), as the lower bound of a two-sided interval has to be above the margin.
        """
        most = 1
        while replace(self, cases=most).power(difference) < power:
            most *= 2
        return bisect_left(range(most), power, 1, key=lambda cases: replace(self, cases=cases).power(difference))


def _binomial(n: int, share: float) -> list[tuple[int, float]]:
    """The successes of n trials, each number with its chance; where they spread wide, every so many-th number."""
    mean, spread = n * share, math.sqrt(n * share * (1 - share))
    most = min(n, int(mean + 6 * spread + 12))
    counts = range(max(0, int(mean - 6 * spread)), most + 1, max(1, int(spread / 10)))
    success, failure = math.log(share), math.log1p(-share) if share < 1 else 0.0
    logs = [k * success + (n - k) * failure - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in counts]
    largest = max(logs)
    weights = [math.exp(log - largest) for log in logs]
    total = math.fsum(weights)
    return [(count, weight / total) for count, weight in zip(counts, weights, strict=True)]


def correlation(cases: Iterable[Share]) -> float | None:
    """
    Estimate how alike attempts at a case end, from 0 to 1; None where no case repeats, or all attempts end alike.

    Source: the estimate by an analysis of variance of Ridout, Demétrio and Firth, Biometrics 55 (1999), 137-148.
    """
    made = [(count, n) for count, n in cases if n]
    successes, attempts = sum(count for count, _ in made), sum(n for _, n in made)
    if attempts == len(made) or len(made) < 2 or successes in {0, attempts}:
        return None
    within = sum(count * (n - count) / n for count, n in made) / (attempts - len(made))
    between = (sum(count**2 / n for count, n in made) - successes**2 / attempts) / (len(made) - 1)
    size = (attempts - sum(n * n for _, n in made) / attempts) / (len(made) - 1)
    return max(0.0, (between - within) / (between + (size - 1) * within))
