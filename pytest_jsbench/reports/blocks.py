"""Define the blocks of a report (headings, tables and facts), which `terminal`, `markdown` and `html` render."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mode

from pytest_jsbench.metrics.figures import Figure, HasFigures, Kind, Shown, columns
from pytest_jsbench.metrics.statistics import Proportion, Rate

NOT_APPLICABLE = "n/a"
_WHOLE_NAMES = 20
#: A label and its text; an empty label continues the fact before it.
Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Marked:
    """A rate or a number followed by a mark."""

    value: Rate | float
    mark: str


#: None is not applicable; a string may be untrusted.
Cell = Rate | Marked | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    heading: str
    #: Shorter heading for narrow terminals; empty if there is none.
    short: str = ""
    #: How to format its numbers; None for the default.
    figure: Figure | None = None
    form: str = "{:,.0f}"
    #: Whether it is omitted in narrow tables.
    wide_only: bool = False
    #: Whether it is omitted before bounds move below their rates.
    spare: bool = False
    #: Whether its texts are left-aligned.
    left: bool = False
    #: Whether its heading may be untrusted text.
    foreign: bool = False

    @classmethod
    def of(cls, figure: Figure, heading: str = "", *, wide_only: bool = False) -> Column:
        """Create the column of a figure, optionally with another heading."""
        own = figure.heading or figure.title
        return cls(heading=heading or own, short="" if heading else figure.short, figure=figure, wide_only=wide_only)

    def text_of(self, value: float) -> str:
        """Format a number of the column for people."""
        return self.form.format(value) if self.figure is None else self.figure.text_of(value)

    def exact_text_of(self, value: Cell) -> str:
        """Format a cell of the column with everything that is known about it."""
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
        """Whether its rates are shown with their counts."""
        return self.figure is not None and self.figure.counted


#: A name and the cells next to it.
Row = tuple[str, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """Rows of a name and cells."""

    #: Heading above the names.
    head: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    #: Whether the last row is the total.
    total: bool = False
    #: Names of at most this length are not cut.
    whole_names: int = 0
    #: Title under which Markdown folds it; empty to show it.
    folded: str = ""

    @classmethod
    def of_texts(cls, head: str, headings: Sequence[str], rows: Iterable[Row]) -> TableBlock:
        """Create a table of texts."""
        return cls(
            head=head,
            columns=tuple(Column(heading=one, left=True) for one in headings),
            rows=tuple(rows),
            whole_names=_WHOLE_NAMES,
        )

    def part(self, places: Iterable[int]) -> TableBlock:
        """Return the table with only the columns at these places."""
        kept = list(places)
        rows = tuple((name, tuple(cells[at] for at in kept)) for name, cells in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in kept), rows=rows)

    def beside(self, column: Column, cells: Sequence[Cell]) -> TableBlock:
        """Return the table with another column at its end."""
        rows = tuple((name, (*before, cell)) for (name, before), cell in zip(self.rows, cells, strict=True))
        return replace(self, columns=(*self.columns, column), rows=rows)


@dataclass(frozen=True, slots=True)
class Heading:
    """Untrusted text above a section, and its label on a terminal."""

    label: str
    text: str


Block = Heading | TableBlock | list[Fact]


def table_of_figures(
    head: str, sources: Sequence[tuple[str, HasFigures]], shown: Shown, *, total: bool = False
) -> TableBlock:
    """
    Create a row for each source with the figures of a kind of table, without those that none of them has.

    Next to the medians is the number of measurements that most of a row have, and next to any other its own number.
    """
    table = TableBlock(head=head, columns=(), rows=tuple((name, ()) for name, _ in sources), total=total)
    every: list[tuple[Figure, list[Cell]]] = [
        (figure, [figure.value_of(source) for _, source in sources]) for figure in columns(shown)
    ]
    chosen = [(figure, cells) for figure, cells in every if _is_shown(figure, cells, sources)]
    medians = [figure for figure, _ in chosen if figure.count]
    by_source = [[count for figure in medians if (count := _count(figure, source))] for _, source in sources]
    counts = [mode(counts) if counts else 0 for counts in by_source]
    for figure, cells in chosen:
        if figure.count:
            own = [_count(figure, source) for _, source in sources]
            cells = [
                Marked(cell, f" of {count:,}") if isinstance(cell, float) and count != usual else cell
                for cell, count, usual in zip(cells, own, counts, strict=True)
            ]
        column = Column.of(figure, wide_only=shown in figure.wide_only)
        table = table.beside(replace(column, spare=bool(figure.count) and not figure.is_main), cells)
        if medians and figure is medians[-1] and any(counts):
            table = table.beside(Column(heading="n"), counts)
    return table


def _count(median: Figure, source: HasFigures) -> int:
    """Return the number of measurements of a median: 0 if the source does not have it."""
    count = source.figure(median.count)
    return int(count) if isinstance(count, int | float) else 0


def _is_shown(figure: Figure, cells: Sequence[Cell], sources: Sequence[tuple[str, HasFigures]]) -> bool:
    """Return whether to show a figure: the main rates always, errors if there are any, repeat rates if cases repeat."""
    applicable = [cell for cell in cells if not (cell is None or (isinstance(cell, Rate) and cell.value is None))]
    if figure.name == "pass_hat_k":
        return any(source.figure("planned") != source.figure("cases") for _, source in sources)
    if figure.name == "errors":
        return any(applicable)
    if figure.name == "floor":
        return any(isinstance(cell, Rate) and cell.value for cell in applicable)
    return bool(applicable) or (figure.is_main and figure.kind is Kind.RATE)
