"""Draw the tables of a report as pictures for a page, with the same numbers as in the tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_jsbench.core.text import distinct, format_count
from pytest_jsbench.metrics.figures import FIGURES, TIMES
from pytest_jsbench.metrics.statistics import Proportion, Rate
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.reports.blocks import NOT_APPLICABLE, Cell, TableBlock
from pytest_jsbench.reports.html.canvas import Canvas, Picture
from pytest_jsbench.reports.overview import (
    ATTEMPTS,
    REAL,
    SPREAD_TIMES,
    matrix_of_cases,
    table_of_differences,
    table_of_failures,
    table_of_ratios,
    table_of_spread,
)
from pytest_jsbench.reports.run_report import main_table, rates_by_task, table_of_keywords

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.runs import Run

T = TypeVar("T")

#: Maximum number of rows in a picture, of bars in groups, and of columns in a matrix; tables are complete.
_MOST_ROWS, _MOST_BARS, _MOST_COLUMNS = 14, 24, 10
_LONGEST_NAME = 60
_RATES = "Bar: rate. Line: its 95 % interval."
_FLOOR = " Triangle: the floor, the share of cases that pass with one constant answer such as {} for all."


def pictures_of_run(run: Run, summary: Summary, comparisons: Mapping[str, Comparison] | None = None) -> list[Picture]:
    """Return the pictures of a run; `comparisons` are by variant, with an empty key in a run without variants."""
    return list(filter(None, _pictures_of_run(run, summary, comparisons or {})))


def _pictures_of_run(run: Run, summary: Summary, comparisons: Mapping[str, Comparison]) -> Iterator[Picture | None]:
    title = FIGURES["pass_rate"].title
    yield draw_rates(main_table(run, summary), f"{title} by {'variant' if summary.variants else 'task'}")
    if (by_task := rates_by_task(summary)) is not None:
        yield draw_rates_in_groups(by_task, f"{title} by task and variant")
    if summary.variants:
        yield draw_matrix(matrix_of_cases(summary), "Cases by variant")
        pairs = [(f"{pair.second} against {pair.first}", pair.comparison) for pair in summary.pairs]
        yield draw_differences(table_of_differences(pairs), "Differences of the variants, case by case")
        yield draw_ratios(table_of_ratios(pairs), "Ratios of the variants, case by case")
    against = [(f"{name or 'this run'} against the baseline", each) for name, each in comparisons.items()]
    yield draw_differences(table_of_differences(against), "Difference from the baseline, case by case")
    yield draw_ratios(table_of_ratios(against), "Ratio to the baseline, case by case")
    failures = table_of_failures(summary.total)
    yield draw_counts(failures, ATTEMPTS, "Failures by type", "Bar: attempts with this failure.")
    keywords = table_of_keywords(summary)
    title = "Failures by schema keyword"
    if run.metadata.labelled:
        yield draw_counts(keywords, "Wrong decisions", title, "Bar: wrong decisions about answers.")
    else:
        legend = "Bar: answers that violate the keyword, out of the attempts whose schema uses it."
        yield draw_counts(keywords, "Broken by", title, legend, of="Used in")
    whose = " of the recording" if run.metadata.engine in RECORDED else ""
    for time in SPREAD_TIMES:
        yield draw_spread(table_of_spread(time, summary), f"{TIMES[time].title}{whose}", TIMES[time].unit)


def draw_rates(table: TableBlock, title: str) -> Picture | None:
    """Draw the pass rate of each row, and its floor if the table has it; None if no row has a rate."""
    rates = _cells_of(table, "pass_rate")
    floors = _cells_of(table, "floor") or [None] * len(rates)
    rows = [row for row in zip(_names(table), rates, floors, strict=True) if isinstance(row[1], Rate)] if rates else []
    if not any(isinstance(rate, Rate) and rate.value is not None for _, rate, _ in rows):
        return None
    shown = _first(rows, total=table.total)
    canvas = Canvas()
    for name, rate, floor in shown:
        assert isinstance(rate, Rate)
        canvas.add_row(name, _rate_text(rate), total=table.total and name == rows[-1][0])
        canvas.add_rate(rate, floor if isinstance(floor, Rate) and floor.value else None)
    canvas.add_scale(("0", "0.5", "1"))
    has_floor = any(isinstance(floor, Rate) and floor.value for _, _, floor in shown)
    return canvas.picture(title, f"{_RATES}{_FLOOR if has_floor else ''}{_omitted(len(rows) - len(shown))}")


def draw_rates_in_groups(table: TableBlock, title: str) -> Picture | None:
    """Draw the rates of each row below its name, one for each column; None without rates."""
    heads = distinct([column.heading for column in table.columns], _LONGEST_NAME)
    rows = list(zip(_names(table), (cells for _, cells in table.rows), strict=True))
    shown = rows[: max(1, _MOST_BARS // max(1, len(heads)))]
    canvas = Canvas()
    for name, cells in shown:
        canvas.add_heading(name)
        for head, cell in zip(heads[:_MOST_BARS], cells, strict=False):
            if isinstance(cell, Rate):
                canvas.add_row(head, _rate_text(cell))
                canvas.add_rate(cell, None)
    canvas.add_scale(("0", "0.5", "1"))
    return canvas.picture(title, _RATES + _omitted(len(rows) - len(shown))) if heads and rows else None


def draw_counts(table: TableBlock, heading: str, title: str, legend: str, *, of: str = "") -> Picture | None:
    """
    Draw the counts in the column with this heading; rows with the count 0 are left out; None if no row is left.

    `of` is the heading of the column with the totals.
    """
    counts, wholes = _cells_under(table, heading), _cells_under(table, of)
    rows = [
        (name, _count(cell), _count(whole))
        for name, cell, whole in zip(_names(table), counts, wholes, strict=True)
        if _count(cell)
    ]
    if not rows:
        return None
    shown = _first(rows)
    canvas = Canvas()
    for name, count, whole in shown:
        canvas.add_row(name, f"{count:,} of {whole:,}" if whole else f"{count:,}")
        canvas.add_count(count / max(count for _, count, _ in shown))
    return canvas.picture(title, legend + _omitted(len(rows) - len(shown)))


def draw_spread(table: TableBlock, title: str, unit: str) -> Picture | None:
    """Draw the quantiles of each row; the last cell is the number of measurements; None without measurements."""
    rows = [
        (name, [cell for cell in cells[:-1] if isinstance(cell, float)])
        for name, (_, cells) in zip(_names(table), table.rows, strict=True)
        if cells[-1]
    ]
    if not rows:
        return None
    shown = _first(rows, total=table.total)
    longest = max(quantiles[-1] for _, quantiles in shown)
    text_of = table.columns[0].text_of
    canvas = Canvas()
    for name, quantiles in shown:
        low, first, middle, third, last = quantiles
        text = f"{text_of(middle)} ({text_of(low)} to {text_of(last)}) {unit}"
        canvas.add_row(name, text, total=table.total and name == rows[-1][0])
        canvas.add_spread(*(value / (longest or 1.0) for value in (low, first, middle, third, last)))
    canvas.add_scale(("0", f"{text_of(longest)} {unit}"))
    legend = "Upright line: median. Box: middle half of the answers. Line: 5th to 95th percentile."
    return canvas.picture(title, legend + _omitted(len(rows) - len(shown)))


def draw_matrix(table: TableBlock, title: str) -> Picture | None:
    """Draw the outcomes of each row, a column per variant; None without rows."""
    heads = distinct([column.heading for column in table.columns], _LONGEST_NAME)[:_MOST_COLUMNS]
    if not (heads and table.rows):
        return None
    canvas = Canvas()
    canvas.add_columns(heads)
    for name, (_, cells) in zip(_names(table), table.rows, strict=True):
        canvas.add_outcomes(name, [str(cell) for cell in cells[: len(heads)]])
    left = len(table.columns) - len(heads)
    more = f" The table has {format_count(left, 'more variant')}." if left else ""
    legend = "Full: passed. Crossed: not passed. Half full: passed in some attempts. Dash: no answer."
    return canvas.picture(title, legend + more)


def draw_differences(table: TableBlock, title: str) -> Picture | None:
    """Draw the difference of each row of `table_of_differences` with its interval; None without rows."""
    if not table.rows:
        return None
    shown = _first(list(zip(_names(table), (cells for _, cells in table.rows), strict=True)))
    ends = [[cell for cell in cells[:3] if isinstance(cell, float)] for _, cells in shown]
    reach = min(1.0, -(-max(abs(end) for three in ends for end in three) // 0.1) / 10 or 0.1)
    columns = table.columns
    canvas = Canvas()
    for (name, cells), (value, low, high) in zip(shown, ends, strict=True):
        texts = [column.exact_text_of(cell) for column, cell in zip(columns, cells, strict=True)]
        canvas.add_row(name, f"{texts[4]} down, {texts[5]} up")
        canvas.add_row(
            f"{texts[0]} ({texts[1]} to {texts[2]})", f"{format_count(_count(cells[3]), 'case')}, p = {texts[6]}"
        )
        canvas.describe(texts[7])
        places = ((end + reach) / (2 * reach) for end in (low, value, high))
        canvas.add_difference(*places, real=texts[7] == REAL)
    canvas.add_scale((f"{-reach:+.1f}", "0", f"{reach:+.1f}"))
    legend = (
        "Circle: difference of the rates, filled if it is significant. Line: its 95 % interval. Right of 0: the run or "
        "variant named first has the higher rate. Down and up: cases that pass less often and more often."
    )
    return canvas.picture(title, legend + _omitted(len(table.rows) - len(shown)))


def draw_ratios(table: TableBlock, title: str) -> Picture | None:
    """Draw the ratio of each row of `table_of_ratios` with its interval, on a logarithmic scale; None without rows."""
    rows = [(name, cells, [cell for cell in cells[1:4] if isinstance(cell, float)]) for name, cells in table.rows]
    rows = [row for row in rows if len(row[2]) == len(row[1][1:4]) and min(row[2]) > 0]
    if not rows:
        return None
    shown = _first(rows)
    reach = max(1, math.ceil(max(abs(math.log2(end)) for _, _, ends in shown for end in ends)))
    canvas = Canvas()
    before = ""
    for name, cells, (value, low, high) in shown:
        if name != before:
            canvas.add_heading(before := name)
        texts = [column.exact_text_of(cell) for column, cell in zip(table.columns, cells, strict=True)]
        canvas.add_row(texts[0], f"{texts[1]} ({texts[2]} to {texts[3]}), {format_count(_count(cells[4]), 'case')}")
        places = (0.5 + math.log2(end) / (2 * reach) for end in (low, value, high))
        canvas.add_difference(*places, real=texts[5] == REAL)
        canvas.describe(texts[5])
    canvas.add_scale((f"1/{2**reach}", "1", f"{2**reach}"))
    legend = "Circle: median over cases, filled if the whole interval is outside of the range of chance and drift."
    return canvas.picture(
        title,
        f"{legend} Left of 1: lower values in the run or variant named first.{_omitted(len(rows) - len(shown))}",
    )


def _names(table: TableBlock) -> list[str]:
    return distinct([name for name, _ in table.rows], _LONGEST_NAME)


def _cells_of(table: TableBlock, figure: str) -> list[Cell]:
    """Return the cells in the column of a figure; empty if the table has no such column."""
    places = [at for at, column in enumerate(table.columns) if column.figure == FIGURES[figure]]
    return [cells[at] for _, cells in table.rows for at in places[:1]]


def _cells_under(table: TableBlock, heading: str) -> list[Cell]:
    """Return the cells under a heading; None for each row if the table has no such column."""
    places = [at for at, column in enumerate(table.columns) if column.heading == heading]
    return [cells[places[0]] if places else None for _, cells in table.rows]


def _count(cell: Cell) -> int:
    if isinstance(cell, Proportion):
        return cell.successes
    return int(cell) if isinstance(cell, int | float) else 0


def _rate_text(rate: Rate) -> str:
    if rate.value is None:
        return NOT_APPLICABLE
    counts = f"{rate.successes:,}/{rate.n:,} = " if isinstance(rate, Proportion) else ""
    interval = "" if rate.ci_low is None else f" ({rate.ci_low:.2f} to {rate.ci_high:.2f})"
    return f"{counts}{rate.value:.2f}{interval}"


def _first(rows: Sequence[T], *, total: bool = False) -> list[T]:
    """Return the rows that fit in a picture, including the last row if it is the total."""
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    return [*rows[: _MOST_ROWS - 1], rows[-1]] if total else list(rows[:_MOST_ROWS])


def _omitted(rows: int) -> str:
    return f" The table has {format_count(rows, 'more row')}." if rows > 0 else ""
