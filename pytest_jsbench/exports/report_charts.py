"""How times are spread, as bars for a page to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.metrics import Metrics
    from pytest_jsbench.statistics import Distribution

_BINS = 24
_PITCH = 10
_HEIGHT = 55
#: how far beyond the 95th percentile each bar still is as wide as the others
_REACH = 2
_TITLES = (
    ("ttft", "Time to first token", "s"),
    ("tpot", "Time per output token", "ms"),
    ("tgt", "Total time", "s"),
    ("grammar_compilation", "Grammar compilation", "s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The measurements from `start` up to `end`."""

    start: float
    end: float
    count: int
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A histogram of one time; the last bar holds all that is beyond, so that one outlier does not flatten the rest."""

    title: str
    unit: str
    low: float
    #: where the last bar begins to hold all up to `high`
    edge: float
    high: float
    spread: Distribution
    bars: tuple[Bar, ...]
    width: int = _BINS * _PITCH


def charts(metrics: Metrics) -> list[Chart]:
    """A chart for each time that was measured."""
    spreads = [(getattr(metrics, name), title, unit) for name, title, unit in _TITLES]
    return [_chart(spread, title, unit) for spread, title, unit in spreads if spread.count]


def _chart(spread: Distribution, title: str, unit: str) -> Chart:
    low, high = spread.ordered[0], spread.ordered[-1]
    common = _REACH * ((spread.p95 or low) - low)
    edge = low + common if 0 < common < high - low else high
    width = (edge - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in spread.ordered:
        counts[min(_BINS - 1, int((value - low) / width))] += 1
    tallest = max(counts)
    bars = tuple(
        Bar(
            start=low + at * width,
            end=high if at == _BINS - 1 else low + (at + 1) * width,
            count=count,
            x=at * _PITCH,
            y=round(_HEIGHT * (1 - count / tallest), 2),
            height=round(_HEIGHT * count / tallest, 2),
        )
        for at, count in enumerate(counts)
        if count
    )
    return Chart(title=title, unit=unit, low=low, edge=edge, high=high, spread=spread, bars=bars)
