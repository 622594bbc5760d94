"""Build the table of the tools that cases offer, with the precision and recall of their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.metrics.figure import Figure, Kind
from pytest_jsbench.reports.blocks import Column, TableBlock

if TYPE_CHECKING:
    from pytest_jsbench.metrics.metrics import Metrics

#: Maximum number of tools in the table.
_MOST_TOOLS = 50


def table_of_tools(total: Metrics) -> TableBlock:
    """Return a table with precision and recall of each tool, those with the lowest recall first."""
    names = sorted(total.tool_recall, key=lambda name: total.tool_recall[name].value or 0.0)[:_MOST_TOOLS]
    table = TableBlock(head="Tool", columns=(), rows=tuple((name, ()) for name in names), folded="Calls by tool")
    precision = Column.of(Figure("precision", Kind.RATE, counted=True))
    table = table.beside(precision, [total.tool_precision[name] for name in names])
    recall = Column.of(Figure("recall", Kind.RATE, counted=True))
    return table.beside(recall, [total.tool_recall[name] for name in names])
