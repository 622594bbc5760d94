"""Plot evaluations with one panel per metric and one bar per file; a metric without a value is `n/a`, not 0."""

from __future__ import annotations

import functools
import importlib.util
import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import ExportError, MissingRequirement, nearest
from pytest_jsbench.core.files import unwritable
from pytest_jsbench.core.text import distinct, printable
from pytest_jsbench.metrics.figure import Better, Figure, Kind
from pytest_jsbench.metrics.figures import FIGURES, RATES, find_figure
from pytest_jsbench.reports.run_json import settings_apart

if TYPE_CHECKING:
    from datetime import datetime

    from pytest_jsbench.reports.history import Series
    from pytest_jsbench.reports.run_json import Evaluation

#: Names of counts in the metrics of other tools.
_COUNT = re.compile(r"^(num|n)_|_count$|_?tokens$")
_LOWER = re.compile(r"(^|[_.])(errors?|err|loss|latency|cost|failures?|failed|missing|rmse|mae)([_.]|$)")
_HIGHER = re.compile(r"(rate|accuracy|exact_match|score|progress|coverage|success|precision|recall|f1)")
#: The palette of Okabe and Ito, whose colours colour-blind readers can distinguish.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_HATCHES = ("", "//", "..", "xx")
_MARKERS = "osD^"
#: Maximum number of points of a line that have whiskers; longer lines have a band.
_MOST_WHISKERS = 60
_COLUMNS = (4, 3, 5)
_LONGEST_LABEL = 40
#: Maximum number of bars in a panel whose values are written horizontally.
_MOST_UPRIGHT = 8


def picture_of_history(series: Sequence[Series], metric: str = "pass_rate") -> Any:
    """
    Return a plot of a metric over time as a matplotlib Figure, with one line per label and intervals as whiskers.

    A line is interrupted between two runs that are not comparable.
    """
    figure = _empty_figure(9.0, 4.2 + 0.25 * len(series))
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    metrics = {name for each in series for line in each.lines for name in line.metrics}
    if metric not in metrics:
        offer = printable(nearest(metric, metrics), 600)
        message = f"no metric '{printable(metric, 60)}' in any line of the history: {offer}"
        raise ExportError(message, found=metric, expected=sorted(metrics))
    axis = figure.subplots()
    for at, each in enumerate(series):
        lines = [line for line in each.lines if metric in line.metrics]
        points: list[tuple[datetime, float, tuple[float, float] | None]] = []
        for before, line in zip((None, *lines), lines, strict=False):
            if before is not None and not line.is_comparable(before):
                points.append((line.started_at, math.nan, None))  # a point without a value interrupts the line
            points.append((line.started_at, line.metrics[metric], line.evaluation.interval(metric)))
        _draw_line(axis, at, points)
    row = _row(metric)
    interval = ", with 95 % intervals" if f"{metric}_ci_low" in metrics else ""
    axis.set_title(f"{row.title} over time{interval}\n{_direction(row)}", fontsize=11)
    axis.set_ylabel(row.unit, fontsize=9)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(AutoDateLocator()))
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_ylim(0, 1.05) if metric in RATES else axis.set_ylim(bottom=0)
    by_label = {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    # matplotlib would list all lines before all whiskers
    handles = [by_label[f"line {at}"] for at in range(len(series))]
    figure.legend(
        handles, _escape_dollars([each.label for each in series], 100), loc="outside lower center", frameon=False
    )
    return figure


def _draw_line(axis: Any, at: int, points: Sequence[tuple[datetime, float, tuple[float, float] | None]]) -> None:
    """Draw the line for one label, with its intervals as whiskers, or as a band if there are many points."""
    ends = [(value, value) if interval is None else interval for _, value, interval in points]
    days = [when for when, _, _ in points]
    values = [value for _, value, _ in points]
    low = [low for low, _ in ends]
    high = [high for _, high in ends]
    style = {"color": _COLOURS[at % len(_COLOURS)], "linewidth": 1.2, "label": f"line {at}"}
    if len(points) > _MOST_WHISKERS:
        axis.plot(days, values, **style)
        axis.fill_between(days, low, high, color=style["color"], alpha=0.2, linewidth=0)
        return
    below = [max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    marker = _MARKERS[at // len(_COLOURS) % len(_MARKERS)]
    axis.errorbar(days, values, yerr=[below, above], marker=marker, capsize=4, **style)


def picture(evaluations: Sequence[Evaluation], names: Sequence[str], metrics: Sequence[str] = ()) -> Any:
    """Return the plot of evaluations as a matplotlib Figure."""
    panels = [_row(name) for name in _panels(evaluations, metrics)]
    columns = _columns(len(panels))
    rows = -(-len(panels) // columns)
    figure = _empty_figure(max(6.0, 3.2 * columns), 2.9 * rows + 0.35 * len(names) + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    ours = all("pass_rate" in evaluation.metrics for evaluation in evaluations)
    titles = [row.title if ours else row.name for row in panels]
    for axis, row, title in zip(axes, panels, _escape_dollars(titles), strict=False):
        _draw(axis, row, evaluations)
        axis.set_title(f"{title}\n{_direction(row)}", fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.legend(
        handles=[_patch(at) for at in range(len(names))],
        labels=_escape_dollars(names),
        loc="outside lower center",
        ncols=2 if len(names) > 3 else 1,
        frameon=False,
        title=_settings_text(evaluations),
    )
    return figure


def _empty_figure(width: float, height: float) -> Any:
    """Return a Figure that notebooks display; matplotlib itself provides this only after `pyplot` is imported."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingRequirement("a plot needs matplotlib: pip install 'pytest-jsbench[plot]'", expected="matplotlib")
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), layout="constrained")
    figure._repr_png_ = functools.partial(_png, figure)
    return figure


def _png(figure: Any) -> bytes:
    """Return the figure as PNG; not a nested function, since figures have to be picklable."""
    output = io.BytesIO()
    figure.savefig(output, format="png")
    return output.getvalue()


def _settings_text(evaluations: Sequence[Evaluation]) -> str | None:
    """Return a legend title with the settings that differ between the runs; None if no setting differs."""
    names = [setting.name for setting in settings_apart(evaluations)]
    title = f"differing in {', '.join(names)}"
    return textwrap.fill(_escape_dollars([title], 400)[0], 90) if names else None


def _columns(panels: int) -> int:
    """Return a number of columns so that the last row has more than one panel, preferring four or three over five."""
    if panels <= _COLUMNS[0]:
        return panels
    return min(_COLUMNS, key=lambda columns: (panels % columns == 1, columns > _COLUMNS[0], -panels % columns))


def _row(metric: str) -> Figure:
    """Return the figure with this name; for a metric of another tool, guess a figure from the name."""
    if (row := find_figure(metric)) is not None:
        return row
    if _COUNT.search(metric):
        return Figure(metric, Kind.COUNT)
    kind = Kind.RATE if _HIGHER.search(metric) else Kind.SUM
    return Figure(metric, kind, better_when=Better.LOWER if _LOWER.search(metric) else None)


def _direction(row: Figure) -> str:
    match row.better:
        case Better.LOWER:
            return "↓ lower is better"
        case Better.HIGHER:
            return "↑ higher is better"
        case Better.NEITHER:
            return "(a count)" if row.kind is Kind.COUNT else "(direction not known)"


def _panels(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> list[str]:
    """
    Return the metrics to draw: the selected metrics, otherwise the main metrics, or all metrics if a file
    is from another tool.
    """
    all_names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.figures))
    drawable = [name for name in all_names if not name.endswith(("_ci_low", "_ci_high"))]
    if list(metrics) == ["all"]:
        return drawable
    if metrics:
        if unknown := [name for name in metrics if name not in all_names]:
            offer = printable(nearest(unknown[0], drawable), 600)
            message = f"no metric '{printable(unknown[0], 60)}' in any of the files: {offer}"
            raise ExportError(message, found=unknown[0], expected=drawable)
        return list(metrics)
    if all("pass_rate" in evaluation.metrics and "planned" in evaluation.metrics for evaluation in evaluations):
        main = [name for name, row in FIGURES.items() if row.is_main]
        available = [
            name for name in main if any(evaluation.figures.get(name) is not None for evaluation in evaluations)
        ]
        failures = [name for name in drawable if name.startswith("failure_rates.")]
        return available + [
            name for name in failures if any(evaluation.figures.get(name) for evaluation in evaluations)
        ]
    return drawable


def _draw(axis: Any, row: Figure, evaluations: Sequence[Evaluation]) -> None:
    values = [evaluation.figures.get(row.name) for evaluation in evaluations]
    numbers = [value for value in values if value is not None]
    size = 8 if len(values) <= 6 else 6
    turned = 90 if len(values) > _MOST_UPRIGHT else 0
    for at, (value, evaluation) in enumerate(zip(values, evaluations, strict=True)):
        if value is None:
            axis.text(at, 0.02, "n/a", ha="center", va="bottom", color="0.35", transform=axis.get_xaxis_transform())
            continue
        style = _style(at)
        axis.bar(at, value, width=0.75, **style)
        top = value
        if (interval := evaluation.interval(row.name)) is not None:
            low, high = interval
            ends = [[max(0.0, value - low)], [max(0.0, high - value)]]
            axis.errorbar(at, value, yerr=ends, color="black", capsize=4, linewidth=1)
            top = max(top, high)
        axis.annotate(
            f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}",
            (at, top),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=size,
            rotation=turned,
        )
    axis.set_xlim(-0.6, len(evaluations) - 0.4)
    axis.set_xticks([])
    axis.set_ylabel(row.unit, fontsize=8)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    if not numbers:
        axis.set_yticks([])
        axis.set_ylim(0, 1)
    elif row.is_rate and min(numbers) >= 0 and max(numbers) <= 1:
        axis.set_ylim(0, 1.15)
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
    elif min(numbers) >= 0:
        axis.set_ylim(0, max(numbers) * 1.2 or 1)


def _style(at: int) -> dict[str, Any]:
    hatch = _HATCHES[at // len(_COLOURS) % len(_HATCHES)]
    return {"color": _COLOURS[at % len(_COLOURS)], "hatch": hatch, "edgecolor": "white" if hatch else "none"}


def _patch(at: int) -> Any:
    from matplotlib.patches import Patch

    style = _style(at)
    return Patch(facecolor=style["color"], hatch=style["hatch"], edgecolor=style["edgecolor"])


def _escape_dollars(names: Sequence[str], longest: int = _LONGEST_LABEL) -> list[str]:
    """Return distinct names with `$` escaped, since matplotlib would start a formula there."""
    return [name.replace("$", r"\$") for name in distinct(names, longest)]


def save(figure: Any, output: Path) -> None:
    """Save the plot in the format that the file's suffix names; raise ExportError if this fails."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(output, dpi=150)
    except OSError as error:
        raise ExportError(f"cannot write {output}: {unwritable(output, error)}", where=output) from error
    except ValueError as error:
        message = f"{output} cannot be drawn: {str(error).splitlines()[0]}; expected a name that ends in .png"
        raise ExportError(message, found=output.suffix, where=output) from error
