"""What a run will be able to say: its interval, the difference that it tells from chance, and what that takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from pytest_jsbench.metrics.statistics import SIGNIFICANCE, exact_interval

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """
    Two runs over the same cases, as many attempts at each.

    The power is that of a normal approximation to the paired test; the test itself is exact, and asks for a little more
    where few cases differ. Source: Connor, Biometrics 43 (1987), 207-211; the discordant share is that of attempts at
    one case, over so many of them.
    """

    cases: int
    repeats: int = 1
    #: the pass rate that is expected
    rate: float = 0.8
    #: how alike attempts at a case end, from 0 (as chance has it) to 1 (all alike)
    correlation: float = 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval that such a pass rate will have."""
        return exact_interval(self.rate, self.cases)

    def _variance(self, difference: float) -> float:
        """Of the difference of a case's shares: of two equal runs, and no less than of so many cases that differ."""
        equal = 2 * self.rate * (1 - self.rate) * (1 - self.correlation)
        return max(equal, abs(difference) * (1 - abs(difference))) / self.repeats

    def power(self, difference: float) -> float:
        """The chance that a difference of the pass rates is told from none."""
        error = math.sqrt(self._variance(difference) / self.cases)
        return 1.0 if error == 0 else _NORMAL.cdf(abs(difference) / error + _NORMAL.inv_cdf(SIGNIFICANCE / 2))

    def cases_for(self, difference: float, power: float) -> int:
        """
        The cases that tell such a difference with that power.

        As many show of two equal runs that the second is no worse than by so much (Piaggio and others, JAMA 308 (2012),
        2594-2604), as the lower bound of a two-sided interval has to be above the margin.
        """
        quantiles = _NORMAL.inv_cdf(power) - _NORMAL.inv_cdf(SIGNIFICANCE / 2)
        return max(1, math.ceil(quantiles**2 * self._variance(difference) / difference**2))
