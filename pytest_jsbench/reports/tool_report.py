"""Report the calls of the tools that cases offer: a table by tool, and a line about all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.metrics.figure import Figure, Kind
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.reports.blocks import Column, TableBlock, share_text

if TYPE_CHECKING:
    from pytest_jsbench.metrics.metrics import Metrics

#: Maximum number of tools in the table.
_MOST_TOOLS = 50
#: Maximum number of pairs of tools in a line.
_MOST_NAMED = 5


def table_of_tools(total: Metrics) -> TableBlock:
    """Return a table with precision and recall of each tool, those with the lowest recall first."""
    names = sorted(total.tool_recall, key=lambda name: total.tool_recall[name].value or 0.0)[:_MOST_TOOLS]
    table = TableBlock(head="Tool", columns=(), rows=tuple((name, ()) for name in names), folded="Calls by tool")
    precision = Column.of(Figure("precision", Kind.RATE, counted=True))
    table = table.beside(precision, [total.tool_precision[name] for name in names])
    recall = Column.of(Figure("recall", Kind.RATE, counted=True))
    return table.beside(recall, [total.tool_recall[name] for name in names])


def describe_calls(total: Metrics) -> str:
    """Return how many calls conform, how often the model rightly calls a tool, and the most frequent confusions."""
    parts = []
    if total.call_pass_rate.n:
        parts.append(f"{share_text(total.call_pass_rate)} with conforming arguments")
    if total.trigger_f1.n:
        for name in ("trigger_precision", "trigger_recall", "trigger_f1"):
            title = FIGURES[name].title
            parts.append(f"{title[0].lower()}{title[1:]} {share_text(getattr(total, name))}")
    if total.reasoning_only.successes:
        parts.append(f"{share_text(total.reasoning_only)} without text and calls")
    parts += [
        f"{printable(pair)} {format_count(count, 'time')}"
        for pair, count in list(total.wrong_calls.items())[:_MOST_NAMED]
    ]
    return "; ".join(parts)
