"""Define the service level of a run: the longest times within which an answer is useful."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pytest_jsbench.core.generations import Usage, tpot_ms
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.timing import Timing

#: Times that a service level can limit, with their units.
TIMES = {"ttft": "s", "tgt": "s", "tpot": "ms"}
_LIMIT = re.compile(r"\s*(?P<name>[a-z]+)\s*<=\s*(?P<most>\d{1,6}(?:\.\d{1,6})?)\s*", re.ASCII)
_EXPECTED = "limits on ttft and tgt (seconds) and tpot (milliseconds), such as ttft<=0.5,tgt<=4"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """The longest times of an answer that is in time."""

    #: Maximum of each limited time, by name, in the unit of the time.
    most: tuple[tuple[str, float], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse limits such as ttft<=0.5,tgt<=4; raise a ValueError for any other text."""
        found = [_LIMIT.fullmatch(part) for part in text.split(",")]
        limits = {limit["name"]: float(limit["most"]) for limit in found if limit is not None}
        if len(limits) < len(found) or not limits.keys() <= TIMES.keys():
            raise ValueError(f"expected {_EXPECTED}, found {printable(text, 60)!r}")
        return cls(most=tuple((name, limits[name]) for name in TIMES if name in limits))

    def __str__(self) -> str:
        """Return the service level as a value of --jsbench-slo."""
        return ",".join(f"{name}<={_number_text(most)}" for name, most in self.most)

    def is_met(self, timing: Timing | None, usage: Usage | None, late: float = 0.0) -> bool | None:
        """
        Return whether an answer is in time; None if a limited time was not measured, and no other time is too long.

        `late` are the seconds by which the call began after its scheduled start, from which the times count.
        """
        values = dict(_times(timing, usage, late))
        if any(name in values and values[name] > most for name, most in self.most):
            return False
        return True if all(name in values for name, _ in self.most) else None


def _number_text(number: float) -> str:
    """Return a number without an exponent, which `parse` would reject."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _times(timing: Timing | None, usage: Usage | None, late: float) -> Iterator[tuple[str, float]]:
    """Yield the measured times by name."""
    if timing is None:
        return
    yield "tgt", timing.tgt + late
    if timing.ttft is not None:
        yield "ttft", timing.ttft + late
    per_token = tpot_ms(timing, usage)
    if per_token is not None:
        yield "tpot", per_token
