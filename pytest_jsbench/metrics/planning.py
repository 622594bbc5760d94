"""
Plan the size of a run: the width of its interval, and its power to detect a difference.

The results are computed from expected rates, without reading records. `jsbench plan` prints them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

from pytest_jsbench.metrics.statistics import SIGNIFICANCE, Share, exact_interval

_NORMAL = NormalDist()
_CRITICAL = -_NORMAL.inv_cdf(SIGNIFICANCE / 2)
#: Minimum number of cases that must differ, all in one direction, before the exact test can be significant.
_FEWEST = math.ceil(math.log2(2 / SIGNIFICANCE))
#: Smallest variance that is not considered a rounding error.
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """
    A plan for two runs over the same cases with the same number of attempts per case.

    Each case has its own pass rate from a beta distribution, and a difference shifts the log odds of all cases by the
    same amount. Repeats reduce the variance between attempts, but not the variance in how much the rates of cases
    change. Sources: for these two parts of the variance, Miller, Adding Error Bars to Evals (2024); for the rates,
    Williams, Biometrics 31 (1975), 949-952; for single attempts the result equals that of Connor, Biometrics 43 (1987),
    207-211.
    """

    cases: int
    repeats: int = 1
    #: Expected pass rate.
    rate: float = 0.8
    #: Correlation between attempts at a case, from 0 (independent) to 1 (same outcome, so repeats add nothing).
    correlation: float = 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """Expected 95 % interval of the pass rate in one run."""
        return exact_interval(self.rate, self.cases)

    def power(self, difference: float) -> float:
        """
        Return the power to detect this difference; a larger difference or more cases never lower the power.

        The model is that some cases change their rate, all by the same amount, while attempts at other cases differ by
        chance. The test compares the sum of differences with the square root of the sum of their squares. Since sums
        are discrete, the sum has to exceed this limit by one attempt. A minimum number of cases also has to differ.
        """
        change = abs(difference)
        correlated = self.correlation
        between_attempts = self.rate * (1 - self.rate) * (1 - correlated)
        uneven = (correlated + between_attempts * (1 - correlated)) / between_attempts if between_attempts else math.inf
        size = max(change, math.tanh(change * uneven / (1 + correlated) / (1 + 2 * correlated)))
        noise = 2 * self.cases * between_attempts / self.repeats
        power = 0.0
        for changed, chance in _binomial(self.cases, change / size):
            if min(self.cases, changed + noise * self.repeats) >= _FEWEST:
                above = changed * size - 1 / self.repeats - _CRITICAL * math.sqrt(changed * size**2 + noise)
                power += chance * _NORMAL.cdf(above / math.sqrt(max(noise, _PRECISION)))
        return power

    def cases_for(self, difference: float, power: float) -> int:
        """
        Return the number of cases that are needed to detect this difference with this power.

        The number also suffices to show that the second of two equal runs is not worse by this difference (Piaggio and
        others, JAMA 308 (2012), 2594-2604), since the lower bound of a two-sided interval has to be above the margin.
        """
        most = 1
        while replace(self, cases=most).power(difference) < power:
            most *= 2
        return bisect_left(range(most), power, 1, key=lambda cases: replace(self, cases=cases).power(difference))


def _binomial(n: int, share: float) -> list[tuple[int, float]]:
    """Return numbers of successes in n trials with their probabilities; a wide range is sampled at equal steps."""
    mean = n * share
    spread = math.sqrt(n * share * (1 - share))
    most = min(n, int(mean + 6 * spread + 12))
    counts = range(max(0, int(mean - 6 * spread)), most + 1, max(1, int(spread / 10)))
    success = math.log(share)
    failure = math.log1p(-share) if share < 1 else 0.0
    logs = [k * success + (n - k) * failure - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in counts]
    largest = max(logs)
    weights = [math.exp(log - largest) for log in logs]
    total = math.fsum(weights)
    return [(count, weight / total) for count, weight in zip(counts, weights, strict=True)]


def correlation(cases: Iterable[Share]) -> float | None:
    """
    Estimate the correlation between attempts at a case, from 0 to 1.

    None without repeats, or if all outcomes are equal. Source: the analysis-of-variance estimate of Ridout, Demétrio
    and Firth, Biometrics 55 (1999), 137-148.
    """
    made = [(count, n) for count, n in cases if n]
    successes = sum(count for count, _ in made)
    attempts = sum(n for _, n in made)
    if attempts == len(made) or len(made) < 2 or successes in {0, attempts}:
        return None
    within = sum(count * (n - count) / n for count, n in made) / (attempts - len(made))
    between = (sum(count**2 / n for count, n in made) - successes**2 / attempts) / (len(made) - 1)
    size = (attempts - sum(n * n for _, n in made) / attempts) / (len(made) - 1)
    return max(0.0, (between - within) / (between + (size - 1) * within))
