"""Define the blocks of a report (headings, tables and facts), which `terminal`, `markdown` and `html` render."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mode

from pytest_jsbench.metrics.figure import Figure, HasFigures, Kind, Shown
from pytest_jsbench.metrics.figures import columns
from pytest_jsbench.metrics.statistics import Proportion, Rate

NOT_APPLICABLE = "n/a"
_WHOLE_NAMES = 20
#: A label and its text; with an empty label, the text continues the previous fact.
Fact = tuple[str, str]


def share_text(rate: Proportion) -> str:
    """Return the two counts of a rate with its value, for a sentence."""
    return NOT_APPLICABLE if rate.value is None else f"{rate.successes}/{rate.n} = {rate.value:.3f}"


@dataclass(frozen=True, slots=True)
class Marked:
    """A rate or a number in a table, followed by a mark such as `*`."""

    value: Rate | float
    mark: str


#: Value of a table's cell; None if the value is not applicable. A string may be untrusted.
Cell = Rate | Marked | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    heading: str
    #: Shorter heading for narrow terminals; empty if the heading cannot be shortened.
    short: str = ""
    #: Figure that defines the format of numbers in the column; None to use `form`.
    figure: Figure | None = None
    form: str = "{:,.0f}"
    #: Whether the column is omitted if the table is too wide.
    wide_only: bool = False
    #: Whether the column is omitted before rates are split into two lines.
    spare: bool = False
    #: Whether texts in the column are left-aligned.
    left: bool = False
    #: Whether the heading may be untrusted text.
    foreign: bool = False

    @classmethod
    def of(cls, figure: Figure, heading: str = "", *, wide_only: bool = False) -> Column:
        """Return a column for a figure, optionally with another heading."""
        default_heading = figure.heading or figure.title
        return cls(
            heading=heading or default_heading,
            short="" if heading else figure.short,
            figure=figure,
            wide_only=wide_only,
        )

    def text_of(self, value: float) -> str:
        """Return a number of the column as text."""
        return self.form.format(value) if self.figure is None else self.figure.text_of(value)

    def exact_text_of(self, value: Cell) -> str:
        """Return a cell of the column as text, with the exact interval and counts of a rate."""
        if isinstance(value, Marked):
            return f"{self.exact_text_of(value.value)}{value.mark}"
        if not isinstance(value, Rate):
            if value is None:
                return NOT_APPLICABLE
            return value if isinstance(value, str) else self.text_of(value)
        if value.value is None:
            return NOT_APPLICABLE
        counts = f"{value.successes}/{value.n} = " if self.counted and isinstance(value, Proportion) else ""
        if value.ci_low is None:
            return f"{counts}{value.value:.2f}"
        return f"{counts}{value.value:.3f} ({value.ci_low:.3f} to {value.ci_high:.3f})"

    @property
    def counted(self) -> bool:
        """Whether rates in the column are shown with their counts."""
        return self.figure is not None and self.figure.counted


#: Name of a row, and its cells.
Row = tuple[str, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """A table whose rows have a name and cells."""

    #: Heading of the column with the names.
    head: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    #: Whether the last row is the total.
    total: bool = False
    #: Length in characters up to which names are never truncated.
    whole_names: int = 0
    #: Title of the collapsed section with the table in Markdown; empty if the table is not collapsed.
    folded: str = ""

    @classmethod
    def of_texts(cls, head: str, headings: Sequence[str], rows: Iterable[Row]) -> TableBlock:
        """Return a table whose cells are texts."""
        return cls(
            head=head,
            columns=tuple(Column(heading=text, left=True) for text in headings),
            rows=tuple(rows),
            whole_names=_WHOLE_NAMES,
        )

    def part(self, places: Iterable[int]) -> TableBlock:
        """Return the table with only the columns at these indexes."""
        indexes = list(places)
        rows = tuple((name, tuple(cells[at] for at in indexes)) for name, cells in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in indexes), rows=rows)

    def beside(self, column: Column, cells: Sequence[Cell]) -> TableBlock:
        """Return the table with one more column at its end."""
        rows = tuple((name, (*before, cell)) for (name, before), cell in zip(self.rows, cells, strict=True))
        return replace(self, columns=(*self.columns, column), rows=rows)


@dataclass(frozen=True, slots=True)
class Heading:
    """Untrusted text as the heading of a section, and its label on a terminal."""

    label: str
    text: str


Block = Heading | TableBlock | list[Fact]


def table_of_figures(
    head: str, sources: Sequence[tuple[str, HasFigures]], shown: Shown, *, total: bool = False
) -> TableBlock:
    """
    Return a table with one row per source and one column per figure, without figures that no source has.

    After the medians, the column `n` contains the number of measurements that applies to most medians in a row. A
    median with another number of measurements is followed by this number.
    """
    table = TableBlock(head=head, columns=(), rows=tuple((name, ()) for name, _ in sources), total=total)
    all_figures: list[tuple[Figure, list[Cell]]] = [
        (figure, [figure.value_of(source) for _, source in sources]) for figure in columns(shown)
    ]
    shown_figures = [(figure, cells) for figure, cells in all_figures if _is_shown(figure, cells, sources)]
    medians = [figure for figure, _ in shown_figures if figure.count]
    by_source = [[count for figure in medians if (count := _count(figure, source))] for _, source in sources]
    counts = [mode(counts) if counts else 0 for counts in by_source]
    for figure, cells in shown_figures:
        if figure.count:
            own_counts = [_count(figure, source) for _, source in sources]
            cells = [
                Marked(cell, f" of {count:,}") if isinstance(cell, float) and count != usual else cell
                for cell, count, usual in zip(cells, own_counts, counts, strict=True)
            ]
        column = Column.of(figure, wide_only=shown in figure.wide_only)
        table = table.beside(replace(column, spare=bool(figure.count) and not figure.is_main), cells)
        if medians and figure is medians[-1] and any(counts):
            table = table.beside(Column(heading="n"), counts)
    return table


def _count(median: Figure, source: HasFigures) -> int:
    """Return the number of measurements behind a median; 0 if the source does not have this figure."""
    count = source.figure(median.count)
    return int(count) if isinstance(count, int | float) else 0


def _is_shown(figure: Figure, cells: Sequence[Cell], sources: Sequence[tuple[str, HasFigures]]) -> bool:
    """Return whether the table has a column for the figure: always for main rates, otherwise if it has a value."""
    applicable = [cell for cell in cells if not (cell is None or (isinstance(cell, Rate) and cell.value is None))]
    if figure.name == "pass_hat_k":
        return any(source.figure("planned") != source.figure("cases") for _, source in sources)
    if figure.name == "errors":
        return any(applicable)
    if figure.name == "floor":
        return any(isinstance(cell, Rate) and cell.value for cell in applicable)
    return bool(applicable) or (figure.is_main and figure.kind is Kind.RATE)
