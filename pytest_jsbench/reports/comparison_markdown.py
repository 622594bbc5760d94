"""Runs side by side as GitHub Markdown: for a page, or as one comment that a workflow keeps up to date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.reports import breakdown
from pytest_jsbench.reports.comparison_table import (
    beside_verdicts,
    named,
    not_compared,
    overview,
    pairs,
    settings_table,
    warnings,
)
from pytest_jsbench.reports.markdown import LONGEST_FACT, cell, code, folded, table, verdict_line
from pytest_jsbench.reports.published import published_table
from pytest_jsbench.runs.settings import differences

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Pair
    from pytest_jsbench.reports.breakdown import Breakdown
    from pytest_jsbench.reports.evaluations import Evaluation
    from pytest_jsbench.reports.published import BesidePublished

#: characters; GitHub takes 65,536
_LONGEST = 60_000
_NAME = re.compile(r"[A-Za-z0-9_.+]([A-Za-z0-9_.+-]{0,98}[A-Za-z0-9_.+])?")


def marker(name: str) -> str:
    """The hidden first line by which a workflow finds its comment again; ExportError where the name is none."""
    if _NAME.fullmatch(name) is None or "--" in name:
        message = (
            f"no name of a comment: '{printable(name, 60)}'; expected letters, digits and any of _ . + and single -"
        )
        raise ExportError(message, found=name, option="comment")
    return f"<!-- jsbench:{name} -->"


def comparison_markdown(
    evaluations: Sequence[Evaluation],
    names: Sequence[str],
    *,
    by: Breakdown | None = None,
    beside: Sequence[BesidePublished] = (),
    comment: str | None = None,
) -> str:
    """
    The runs side by side; all text of runs, models and files is in code spans, in which nothing is markup.

    Sections for which a comment has no room are left out, and that is said.
    """
    text = "" if comment is None else f"{marker(comment)}\n"
    left_out = 0
    for lines in _sections(evaluations, names, by, beside):
        section = "\n".join(lines) + "\n\n"
        if comment is not None and len(text) + len(section) > _LONGEST:
            left_out += 1
        else:
            text += section
    return text.rstrip("\n") + (f"\n\nno room here for {counted(left_out, 'more section')}" if left_out else "") + "\n"


def _sections(
    evaluations: Sequence[Evaluation], names: Sequence[str], by: Breakdown | None, beside: Sequence[BesidePublished]
) -> Iterator[list[str]]:
    newest = evaluations[-1]
    variants = sum(found.variant != "" and found.source == newest.source for found in evaluations)
    yield [f"### jsbench: {f'{variants} variants' if variants > 1 else code(names[-1])}"]
    if newest.verdict is not None:
        yield [verdict_line(newest.verdict)]
    headers, rows = overview(evaluations, names)
    yield table(headers, _cells(rows))
    found = pairs(evaluations, names)
    if told := [f"- **{word}**: {code(text, LONGEST_FACT)}" for word, text in warnings(evaluations, names, found)]:
        yield told
    for pair in found:
        yield list(_pair(pair))
    if len(found) > 1:
        yield [f"p-values are adjusted for {len(found)} comparisons (Holm)"]
    if by is not None:
        headers, rows = breakdown.table(by, names)
        yield [*table(_heads(headers), _cells(rows)), "", code(by.note(names), LONGEST_FACT)]
    for one in beside:
        headers, rows = published_table(one)
        rows = [[task, code(name), *figures] for task, name, *figures in rows]
        yield [f"[{one.table.title}]({one.table.source}):", "", *table(headers, _cells(rows))]
    if settings := differences([one.settings for one in evaluations]):
        summary = "1 setting differs" if len(settings) == 1 else f"{len(settings)} settings differ"
        headers, rows = settings_table(settings, names)
        yield folded(summary, _heads(headers), ([cell(one) for one in row] for row in rows))


def _pair(pair: Pair) -> Iterator[str]:
    found = pair.comparison
    yield f"- {code(pair.second)} against {code(pair.first)}: {found.sentence}"
    for word, keys in found.changes.items():
        yield f"  - {word} {named(keys, show=code)}"
    for word, text in beside_verdicts(found):
        yield f"  - {word}: {code(text, LONGEST_FACT)}"
    for word, text in not_compared(found, first="the first", second="the second"):
        yield f"  - {word}: {text}"


def _heads(headers: Sequence[str]) -> list[str]:
    """Two heads of ours, and the runs' names."""
    return [*headers[:2], *map(cell, headers[2:])]


def _cells(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """A name and figures."""
    return ([cell(name), *figures] for name, *figures in rows)
