"""What changed from one run to another, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import printable
from pytest_jsbench.exports.table import detail

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey
    from pytest_jsbench.comparisons import Comparison

_MOST_NAMED = 10


def changes(comparison: Comparison, source: str) -> list[str]:
    """The comparison with the run in `source`, one subject a line, within 80 columns."""
    return [line for name, text in _changes(comparison, source) for line in detail(name, text)]


def _changes(comparison: Comparison, source: str) -> Iterator[tuple[str, str]]:
    yield "baseline", f"{printable(source)}: {comparison.sentence}"
    if comparison.newly_failing:
        yield "broke", named(comparison.newly_failing)
    if comparison.newly_passing:
        yield "mended", named(comparison.newly_passing)
    yield from not_compared(comparison, first="the baseline", second="this run")


def not_compared(comparison: Comparison, *, first: str, second: str) -> Iterator[tuple[str, str]]:
    """What of the two runs has no part in the comparison."""
    left_out = {
        "undecided in one run": len(comparison.undecided),
        "whose schema changed": len(comparison.changed),
        f"only in {first}": comparison.first_alone,
        f"only in {second}": comparison.second_alone,
    }
    if parts := [f"{count} {reason}" for reason, count in left_out.items() if count]:
        yield "not shared", f"cases left out of the comparison: {', '.join(parts)}"
    if count := comparison.shortened:
        cases = "1 case was" if count == 1 else f"{count} cases were"
        yield "repeats", f"{cases} asked more often in one run: compared by the first attempts, as many as both made"


def named(keys: Sequence[CaseKey], most: int = _MOST_NAMED) -> str:
    """The cases' names, and how many more there are."""
    names = ", ".join(printable(str(key)) for key in keys[:most])
    return f"{len(keys)}: {names}" + (f", and {len(keys) - most} more" if len(keys) > most else "")
