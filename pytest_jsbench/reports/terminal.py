"""Render tables and facts as lines for a terminal; untrusted text contains no control characters and no commands."""

from __future__ import annotations

import itertools
import os
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import assert_never

from pytest_jsbench.core.text import distinct, printable
from pytest_jsbench.metrics.statistics import Proportion, Rate
from pytest_jsbench.reports.blocks import NOT_APPLICABLE, Block, Cell, Column, Fact, Heading, Marked, TableBlock

#: Width in columns if the width of the terminal is unknown.
WIDTH = 80
#: Minimum length of a truncated name; if names would be shorter, columns are omitted.
_SHORT_NAME = 16
#: Minimum length of a truncated name in the narrowest layout; if names would be shorter, the table is split.
_SHORTER_NAME = 12
#: Minimum length of a truncated heading.
_SHORTEST_HEAD = 6
#: Width of the column with the labels of facts, in characters.
LABEL = 11
_NARROWEST_TEXT = 8
#: Length in characters up to which a word in a cell is never split, so that it can be copied.
_WHOLE_WORD = 20
#: Terminals that open links, by TERM_PROGRAM and by the start of TERM, and the last version of VTE without links.
_PROGRAMS_WITH_LINKS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "rio"})
_TERMS_WITH_LINKS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
_VTE_WITHOUT_LINKS = 5000
#: Layouts of a table, the widest first.
_Form = IntEnum("_Form", "WHOLE SHORT_HEADS BOUNDS_BELOW")


def width_of(*, is_terminal: bool) -> int:
    """
    Return the width of reports in columns: COLUMNS or the width of the terminal, but at least the default.

    If the output is redirected and COLUMNS is not set, the default is used.
    """
    return max(WIDTH, shutil.get_terminal_size().columns) if is_terminal or "COLUMNS" in os.environ else WIDTH


def report_lines(blocks: Iterable[Block], width: int = WIDTH) -> list[str]:
    """Return the lines of all blocks, separated by empty lines."""
    lines: list[str] = []
    for block in blocks:
        match block:
            case Heading():
                block_lines = detail(block.label, printable(block.text, None), width)
            case TableBlock():
                block_lines = table_lines(block, width)
            case list():
                block_lines = fact_lines(block, width)
            case _:
                assert_never(block)
        lines += ["", *block_lines] if block_lines else []
    return lines[1:]


def fact_lines(facts: Iterable[Fact], width: int = WIDTH) -> list[str]:
    """Return the lines of the facts, each wrapped next to its label."""
    return [line for label, text in facts for line in detail(label, text, width)]


def detail(label: str, text: str, width: int = WIDTH) -> list[str]:
    """Return the lines of a label and its text, wrapped next to the label."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=f"{label} ".ljust(LABEL),
        subsequent_indent=" " * LABEL,
        break_long_words=False,
        break_on_hyphens=False,  # paths should be easy to copy
    )
    # checked again, since wrapping may move a command of a CI system to the start of a line
    return [printable(line, None) for line in lines]


def link(path: Path, text: str, *, has_links: bool) -> str:
    """Return a link to a file: an OSC 8 sequence with the text, or the plain address if the terminal has no links."""
    address = path.resolve().as_uri()  # quotes every character that is not printable ASCII
    return f"\x1b]8;;{address}\x1b\\{printable(text, None)}\x1b]8;;\x1b\\" if has_links else address


def supports_links(environment: Mapping[str, str]) -> bool:
    """
    Return whether these variables name a terminal that opens links to files of this machine.

    If set, FORCE_HYPERLINK takes precedence, as in other programs. Terminals do not report whether they open links.
    """
    if (forced := environment.get("FORCE_HYPERLINK")) is not None:
        return forced != "0"
    if "SSH_CONNECTION" in environment:  # the file and the terminal are on different machines
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM", "") in _PROGRAMS_WITH_LINKS
        or environment.get("TERM", "").startswith(_TERMS_WITH_LINKS)
        or "WT_SESSION" in environment
        or (vte.isascii() and vte.isdecimal() and int(vte) > _VTE_WITHOUT_LINKS)
    )


def table_lines(table: TableBlock, width: int = WIDTH) -> list[str]:
    """
    Return the lines of the table within a width, with as many columns as fit.

    If the width is too small, columns for wide tables are omitted first. Then headings are shortened, less important
    columns are omitted, and bounds are moved below their rates. Names are truncated last, in the widest layout that
    leaves them enough space. A table that is still too wide is split into two. Untrusted headings are truncated to the
    average width of a column.
    """
    table = _with_shorter_heads(table, width)
    narrow = table.part(at for at, column in enumerate(table.columns) if not column.wide_only)
    count = len(narrow.columns)
    essential = narrow.part(at for at, column in enumerate(narrow.columns) if not column.spare)
    forms = (
        (table, _Form.WHOLE, _SHORT_NAME),
        (narrow, _Form.WHOLE, _SHORT_NAME),
        (narrow, _Form.SHORT_HEADS, _SHORT_NAME),
        (essential, _Form.SHORT_HEADS, _SHORT_NAME),
        (essential, _Form.BOUNDS_BELOW, _SHORTER_NAME),
    )
    longest = max(len(table.head), *(len(printable(name, None)) for name, _ in table.rows), 0)
    for layout, form, _ in forms:
        if lines := _fit(layout, width, longest, form):
            return lines
    for layout, form, shortest in forms:
        if lines := _fit(layout, width, shortest, form):
            return lines
    if count < 2:
        return _fit(narrow, 10 * width, width, _Form.SHORT_HEADS)
    half = (count + 1) // 2
    return [*table_lines(narrow.part(range(half)), width), "", *table_lines(narrow.part(range(half, count)), width)]


def _with_shorter_heads(table: TableBlock, width: int) -> TableBlock:
    """Return the table with untrusted headings truncated to the average width of a column, and distinct."""
    foreign = [column.heading for column in table.columns if column.foreign]
    longest = max((len(printable(name, width // 4)) for name, _ in table.rows), default=0)
    room = max(_SHORTEST_HEAD, (width - longest) // max(len(table.columns), 1) - 2)
    heads = iter(distinct(foreign, room))
    columns = (replace(column, heading=next(heads)) if column.foreign else column for column in table.columns)
    return replace(table, columns=tuple(columns))


def _fit(table: TableBlock, width: int, shortest: int, form: _Form) -> list[str]:
    """Return the lines of the table in a layout; empty if names would have to be shorter than `shortest`."""
    cells = _texts(table, width, form)
    heads = [_head(column, texts, form) for column, texts in zip(table.columns, cells, strict=True)]
    other_width = sum(
        2 + max(map(len, [*head, *itertools.chain(*texts)])) for head, texts in zip(heads, cells, strict=True)
    )
    names = [name for name, _ in table.rows]
    longest = max(map(len, [table.head, *(printable(name, None) for name in names)]))
    room = min(longest, width - other_width)
    if room < min(longest, max(shortest, table.whole_names)):
        return []
    name_column = [[table.head[:room]], *([name] for name in distinct(names, room))]
    columns = [name_column, *([head, *texts] for head, texts in zip(heads, cells, strict=True))]
    widths = [max(map(len, itertools.chain(*column))) for column in columns]
    left = [True, *(column.left for column in table.columns)]
    rule = "  ".join("-" * size for size in widths)
    lines = [list(_lines_of_row(row, widths, left)) for row in zip(*columns, strict=True)]
    ruled = [lines[0], [rule], *lines[1:-1], *([[rule]] if table.total else []), *lines[1:][-1:]]
    return list(itertools.chain(*ruled))


def _texts(table: TableBlock, width: int, form: _Form) -> list[list[list[str]]]:
    """Return the lines of each cell, by column and row."""
    shortest = max(_SHORT_NAME, table.whole_names)
    names = max((len(printable(name, shortest)) for name, _ in table.rows), default=0)
    cells_of = [[cells[at] for _, cells in table.rows] for at in range(len(table.columns))]
    texts_of = [[cell for cell in cells if isinstance(cell, str)] for cells in cells_of]
    share = _share(sorted(max(map(len, texts)) for texts in texts_of if texts), width - names)
    columns = []
    for column, cells, texts in zip(table.columns, cells_of, texts_of, strict=True):
        longest_word = max((len(word) for text in texts for word in text.split()), default=0)
        widest = max(_NARROWEST_TEXT, share, min(longest_word, _WHOLE_WORD))
        columns.append([_cell(column, cell, widest, form) for cell in cells])
    return columns


def _share(longest: Sequence[int], room: int) -> int:
    """Return the width of a text column; columns that need less leave space for the others."""
    share = 0
    for at, needed in enumerate(longest):
        share = room // (len(longest) - at) - 2
        if needed > share:
            break
        room -= needed + 2
    return share


def _cell(column: Column, value: Cell, widest: int, form: _Form) -> list[str]:
    if isinstance(value, str):
        return textwrap.wrap(printable(value, None), widest) or [""]
    if isinstance(value, Marked):
        return [f"{_cell(column, value.value, widest, form)[0]}{value.mark}"]
    if isinstance(value, Rate):
        return _rate(column, value, form)
    return [NOT_APPLICABLE if value is None else column.text_of(value)]


def _rate(column: Column, rate: Rate, form: _Form) -> list[str]:
    """Return a rate as lines with its interval, as in `1.00 (.21-1)`, after its counts if the column shows these."""
    if rate.value is None:
        return [column.exact_text_of(rate)]
    text = f"{rate.value:.2f}"
    if column.counted and isinstance(rate, Proportion):
        text = f"{rate.successes}/{rate.n} = {rate.value:.3f}"
    if rate.ci_low is None or rate.ci_high is None:
        return [text]
    bounds = f"({_bound(rate.ci_low)}-{_bound(rate.ci_high)})"
    return [text, bounds] if form is _Form.BOUNDS_BELOW else [f"{text} {bounds}"]


def _bound(value: float) -> str:
    text = f"{value:.2f}"
    return {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))


def _head(column: Column, texts: Sequence[Sequence[str]], form: _Form) -> list[str]:
    """Return the heading in at most two lines, no wider than necessary."""
    text = printable(column.heading, None)
    cells = max([1, *map(len, itertools.chain(*texts))])
    if form >= _Form.SHORT_HEADS and column.short and max(map(len, text.split(" "))) > cells:
        text = printable(column.short, None)
    whole = column.left and not column.foreign
    least = len(text) if whole else max(cells, *map(len, text.split(" ")))
    wrapped = (textwrap.wrap(text, width) for width in range(least, least + len(text) + 1))
    return next(lines for lines in wrapped if len(lines) < 3) or [""]


def _lines_of_row(cells: Sequence[Sequence[str]], widths: Sequence[int], left: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a row, whose cells may have several lines."""
    for parts in itertools.zip_longest(*cells, fillvalue=""):
        texts = [
            part.ljust(width) if at_left else part.rjust(width)
            for part, width, at_left in zip(parts, widths, left, strict=True)
        ]
        yield "  ".join(texts).rstrip()
