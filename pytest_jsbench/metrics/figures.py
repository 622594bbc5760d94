"""List the rows of all figures in `Metrics` by name; tables, gates, plots, exports and histories read these rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_jsbench.metrics.figure import COUNT, RATES_OF_FIELD, SUM, TIME, VALUES, Figure, Shown
from pytest_jsbench.metrics.load_figures import NeedsLoad
from pytest_jsbench.metrics.metrics import Metrics

#: Prefix of the names of custom metrics.
SCORES = "scores."
#: Prefix of the names of the agreement on a field.
FIELD_AGREEMENT = "field_agreement."
#: Prefixes of the names of metrics whose last part may be any name, such as that of a tool.
OPEN_GROUPS = (SCORES, FIELD_AGREEMENT, "tool_precision.", "tool_recall.")
#: Figures and distributions that are not in a group.
_SINGLE = [each.row for each in Metrics.computed.values() if not each.is_group]
RATES = tuple(row.name for row in _SINGLE if row.is_rate)
COUNTS = tuple(row.name for row in _SINGLE if row.kind is COUNT)
TIMES: Mapping[str, Figure] = {row.name: row for row in _SINGLE if row.kind is TIME}
TOKENS = tuple(row.name for row in _SINGLE if row.kind is SUM and not row.unit)
#: All figures, by their names in run.json and in gates.
FIGURES: Mapping[str, Figure] = {row.name: row for each in Metrics.computed.values() for row in each.rows()}


def columns(table: Shown) -> tuple[Figure, ...]:
    """Return the figures that have a column in a table."""
    return tuple(row for row in FIGURES.values() if table in row.tables | row.wide_only)


def find_figure(metric: str) -> Figure | None:
    """Return the figure with this name, including fields and custom metrics; None for another tool's metric."""
    if metric in FIGURES:
        return FIGURES[metric]
    group, _, member = metric.partition(".")
    if not member or group not in Metrics.computed or not Metrics.computed[group].is_group:
        return None
    if group == "fields":
        return Figure(metric, VALUES if metric.rpartition(".")[2] in RATES_OF_FIELD else COUNT)
    return replace(Metrics.computed[group].row, name=metric, words=member if f"{group}." == SCORES else "")


def load_needed(metric: str) -> NeedsLoad | None:
    """Return the condition on the load of the run under which it has a metric; None without one."""
    name = metric.partition(".")[0]
    computed = Metrics.computed.get(name) or Metrics.computed.get(name.rpartition("_")[0])
    condition = None if computed is None else computed.only_if
    return condition if isinstance(condition, NeedsLoad) else None


def names_with_bounds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of these rates and of their bounds, as in run.json."""
    return tuple(f"{name}{end}" for name in names for end in ("", "_ci_low", "_ci_high"))
