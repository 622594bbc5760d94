"""Render tables and facts as GitHub Markdown, and failed attempts as annotations of a GitHub workflow."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from pytest_jsbench.core.text import printable
from pytest_jsbench.records.runs import Records
from pytest_jsbench.reports.blocks import Block, Cell, Column, Fact, Heading, TableBlock

if TYPE_CHECKING:
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.runs import Run, RunVerdict

#: Maximum length in characters of the text of a fact.
_LONGEST_FACT = 2000
#: Maximum length of text in a code span, which is longer than the name of any attempt.
_LONGEST_NAME = 700
#: Maximum number of annotations that GitHub shows per step.
_MOST_ANNOTATIONS = 10


def code(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return untrusted text as a code span, so that none of it is markup."""
    shown = printable(text, longest) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def verdict_line(verdict: RunVerdict) -> str:
    """Return the run verdict with all its reasons."""
    return f"**{verdict.status.upper()}**: {'; '.join(code(reason, _LONGEST_FACT) for reason in verdict.because)}"


def sections(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield each block that is not empty, followed by an empty line."""
    for block in blocks:
        match block:
            case Heading():
                lines = [f"### {code(block.text)}"]
            case TableBlock():
                lines = table_lines(block)
            case list():
                lines = fact_lines(block)
            case _:
                assert_never(block)
        if lines:
            yield "\n".join([*lines, "", ""])


def report(blocks: Iterable[Block]) -> str:
    """Return the blocks as one text."""
    return "".join(sections(blocks)).rstrip("\n") + "\n"


def fact_lines(facts: Iterable[Fact]) -> list[str]:
    """Return the facts as list items, with texts in code spans; an item without a label repeats the previous label."""
    lines = []
    word = ""
    for label, text in facts:
        word = label or word
        lines.append(f"- {word.strip()}: {code(text, _LONGEST_FACT)}")
    return lines


def table_lines(table: TableBlock) -> list[str]:
    """
    Return the lines of the table, with names and texts in code spans; collapsed if the table has a
    title for this.
    """
    heads = [table.head, *(_in_table(column.heading) if column.foreign else column.heading for column in table.columns)]
    rows = [[_in_table(name), *map(_cell, table.columns, cells)] for name, cells in table.rows]
    if table.total:
        rows[-1][0] = f"**{table.rows[-1][0]}**"
    lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
    return [f"<details><summary>{table.folded}</summary>", "", *lines, "", "</details>"] if table.folded else lines


def _cell(column: Column, value: Cell) -> str:
    if value == "":
        return ""
    return _in_table(value) if isinstance(value, str) else column.exact_text_of(value)


def _in_table(text: str) -> str:
    return code(text).replace("|", "\\|")


def workflow_commands(run: Run, *, folder: str = "") -> list[str]:
    """
    Return workflow commands that annotate the verdict and the failed attempts, as many as GitHub shows.

    If a project's own test made the call, the annotation names the file and line of the test. `folder` is the directory
    in the repository to which the paths of tests are relative.
    """
    passed = run.verdict is None or run.verdict.passed
    commands = []
    if run.verdict is not None:
        commands.append(f"::{'notice' if passed else 'error'} title=jsbench::{_data(run.verdict.text)}")
    level, room = ("warning", _MOST_ANNOTATIONS) if passed else ("error", _MOST_ANNOTATIONS - len(commands))
    failing = run.failed()
    for record in Records(failing[:room]):
        name = run.name_of(record.attempt)
        message = _data(": ".join(map(printable, record.failure)))
        commands.append(f"::{level} {_place(record, folder)}title={_property(f'jsbench {name}')}::{message}")
    return commands


def _place(record: Record, folder: str) -> str:
    if record.asked_by is None:
        return ""
    path = posixpath.normpath(posixpath.join(folder, record.asked_by.test.partition("::")[0]))
    line = "" if record.asked_by.line is None else f"line={record.asked_by.line},"
    return f"file={_property(path)},{line}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
