"""Report how late first tokens were read: with many calls in flight, a process measures more than the server's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.metrics.figure import HasFigures
    from pytest_jsbench.reports.blocks import Fact

#: Largest share of the median TTFT that the median lateness may be.
_LARGEST_SHARE = 0.1
#: Lateness in seconds up to which nothing is wrong, such as with a local server that answers at once.
_UNIMPORTANT = 0.001


def facts_of_lateness(figures: HasFigures) -> Iterator[Fact]:
    """Yield how late first tokens were read, and a warning if too late; nothing if that was not measured."""
    p50, p99 = _seconds(figures, "ttft_lateness_p50"), _seconds(figures, "ttft_lateness_p99")
    count = figures.figure("ttft_lateness_count")
    if p50 is None or p99 is None or not isinstance(count, int | float):
        return
    read = f"{format_count(int(count), 'first token')} read"
    yield "lateness", f"{read} {_milliseconds(p50)} late (median), {_milliseconds(p99)} (99th percentile)"
    if late := describe_lateness(figures):
        yield "warning", f"{late}: use fewer calls at a time (--jsbench-concurrency), or more processes (-n)"


def describe_lateness(figures: HasFigures) -> str:
    """Return how late first tokens were read if this is too large a part of TTFT; empty otherwise."""
    late, ttft = _seconds(figures, "ttft_lateness_p50"), _seconds(figures, "ttft_p50")
    if late is None or ttft is None or late <= max(_LARGEST_SHARE * ttft, _UNIMPORTANT):
        return ""
    part = f"{_milliseconds(late)} of the median TTFT, {_milliseconds(ttft)}"
    return f"{part}, are not the server's: the process was too busy to read tokens when they arrived"


def _seconds(figures: HasFigures, name: str) -> float | None:
    value = figures.figure(name)
    return value if isinstance(value, int | float) else None


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"
