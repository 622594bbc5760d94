"""A history for people: a table for each label, and what of its newest line is more than chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.comparison import told
from pytest_jsbench.reports.comparison_table import apart, overview
from pytest_jsbench.reports.history import HistoryEntry, Series, SinceBefore, before
from pytest_jsbench.reports.markdown import code, fact, table
from pytest_jsbench.reports.summary_table import Table, aligned, detail

#: the last as the names of runs begin
_TIMES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y%m%dT%H%M%S")
#: what the column of changes counts
LEGEND = "since: cases that pass more often than in the line before with the same cases, and cases that pass less often"


def lines(found: Sequence[Series], *, last: int) -> Iterator[str]:
    """The series for a terminal, one after the other, each with its newest lines."""
    for one in found:
        yield from detail("label", printable(one.label, None))
        yield ""
        yield from aligned(*_table(one, last))
        yield ""
        if facts := [line for word, text in _newest(one) for line in detail(word, text)]:
            yield from (*facts, "")
    if any(len(one.entries) > 1 for one in found):
        yield from detail("", LEGEND)


def markdown(found: Sequence[Series], *, last: int) -> str:
    """The series as GitHub Markdown; what a stranger may have named is in code spans."""
    parts: list[str] = []
    for one in found:
        parts += [f"### {code(one.label)}", "", *table(*_table(one, last)), ""]
        if facts := [f"- {fact(word, text)}" for word, text in _newest(one)]:
            parts += [*facts, ""]
    legend = [LEGEND] if any(len(one.entries) > 1 for one in found) else []
    return "\n".join([*parts, *legend]) + "\n"


def to_dict(found: Sequence[Series]) -> dict[str, Any]:
    """The series as JSON values."""
    return {"series": [_series_to_dict(one) for one in found]}


def _series_to_dict(one: Series) -> dict[str, Any]:
    return {
        "label": one.label,
        "lines": [entry.to_dict() for entry in one.entries],
        "since": [_since_to_dict(found) for found in one.since],
    }


def _since_to_dict(found: SinceBefore) -> dict[str, Any]:
    return {
        "run_id": found.before.run["run_id"],
        **found.difference.to_dict_of_several(),
        "real": found.difference.real,
        "settings": [setting.to_dict() for setting in found.settings],
        "sentence": told(found.difference),
    }


def _table(one: Series, last: int) -> Table:
    """Head and rows of the newest lines of a series."""
    first = max(0, len(one.entries) - last)
    entries = one.entries[first:]
    headers, rows = overview([entry.evaluation for entry in entries], _times(entries))
    lacking = [sum(entry.metrics.get(name, 0) for name in ("errors", "unjudged")) for entry in entries]
    ends = [(f"{count:.0f}", _change(one.entries[: at + 1])) for at, count in enumerate(lacking, start=first)]
    return [*headers[:-1], "Errors", "Since"], [[*row[:-1], *end] for row, end in zip(rows, ends, strict=True)]


def _times(entries: Sequence[HistoryEntry], forms: Sequence[str] = _TIMES) -> list[str]:
    """When each of them was, as exactly as it takes to tell them apart."""
    times: list[str] = []
    for form in forms:
        times = [f"{entry.started_at:{form}}" for entry in entries]
        if len(set(times)) == len(times):
            break
    return times


def _change(entries: Sequence[HistoryEntry]) -> str:
    """What the last of these has changed of the line before it."""
    then = before(entries)
    if then is None:
        return "" if len(entries) == 1 else "other cases"
    found = entries[-1].cases.difference(then.cases)
    return f"+{found.rose} -{found.fell}"


def _newest(one: Series) -> Iterator[tuple[str, str]]:
    """What the newest line has changed of the one before it, and of the first one."""
    if not one.since and len(one.entries) > 1:
        yield "newest", "its cases or their schemas are not those of any line before: nothing can be compared"
    times = _times(one.entries, _TIMES[1:])
    for word, found in zip(("newest", "and"), one.since, strict=False):
        when = times[one.entries.index(found.before)]
        tests = found.difference.comparisons
        holm = f" (adjusted for {tests} tests, Holm)" if tests > 1 else ""
        yield word, f"since {when}: {told(found.difference)}{holm}"
        yield from apart(found.settings)
