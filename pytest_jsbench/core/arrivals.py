"""Define the rate at which the calls of a run begin, whatever the answers do, and the gaps between these calls."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Self

from pytest_jsbench.core.text import printable

_RATE = re.compile(r"(?P<number>\d{1,6}(?:\.\d{1,6})?)/s(?P<pattern>:poisson)?", re.ASCII)
#: Seed of the random gaps; with it, the means of the first 10, 100 and 1,000 gaps are within 5 % of the expected mean.
_SEED = 737
_EXPECTED = "a number of calls per second above 0, such as 8/s, or 8/s:poisson for random gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRate:
    """The rate at which calls begin: with equal gaps, or with the random gaps of a Poisson process."""

    #: Mean number of calls per second.
    per_second: float
    is_poisson: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rate such as 8/s or 0.5/s:poisson; raise a ValueError for any other text."""
        found = _RATE.fullmatch(text)
        per_second = float(found["number"]) if found else 0.0
        if found is None or not per_second:
            raise ValueError(f"expected {_EXPECTED}, found {printable(text, 60)!r}")
        return cls(per_second=per_second, is_poisson=found["pattern"] is not None)

    def __str__(self) -> str:
        """Return the rate as a value of --jsbench-rate."""
        number = f"{self.per_second:.6f}".rstrip("0").rstrip(".")
        return f"{number}/s{':poisson' if self.is_poisson else ''}"

    def gap(self, number: int) -> float:
        """
        Return the seconds between calls `number` and `number + 1`.

        The random gaps are the same in each run, so that the runs that are compared have the same arrivals.
        """
        if not self.is_poisson:
            return 1 / self.per_second
        return random.Random(f"arrival {_SEED} {number}").expovariate(self.per_second)  # noqa: S311  no secret
