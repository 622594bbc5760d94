"""Define the row of a figure: its name, unit, direction and display, and the function that computes it.

A subclass of `FigureSet`, such as `Metrics`, has a method for each figure; `figures` lists the rows of all figures by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto
from itertools import islice
from typing import Any, ClassVar, Generic, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from pytest_jsbench.core.text import dollars
from pytest_jsbench.metrics.attempt_groups import AttemptGroups
from pytest_jsbench.metrics.statistics import Distribution, Proportion, Rate


class Kind(Enum):
    """Kinds of figures."""

    #: Rate from 0 to 1 with an interval.
    RATE = auto()
    #: Rate over the values in answers; the number of values in a missing answer is unknown.
    VALUES = auto()
    COUNT = auto()
    #: Mean or quantile of a time.
    TIME = auto()
    #: Sum over the attempts that reported the quantity.
    SUM = auto()


class Better(Enum):
    """Direction in which a figure improves."""

    HIGHER = auto()
    LOWER = auto()
    NEITHER = auto()


class Shown(Flag):
    """Tables that have a column for a figure."""

    NOWHERE = 0
    #: Tables of one run of a model, with a row per task or a row per variant.
    TASKS = auto()
    VARIANTS = auto()
    #: Table of several runs.
    RUNS = auto()
    #: Tables of grammar decisions on labelled answers, for one run (a row per task or variant) and for several runs.
    GRAMMARS = auto()
    GRAMMAR_RUNS = auto()


RATE, VALUES, COUNT, TIME, SUM = Kind
TASKS, VARIANTS, RUNS, GRAMMARS, GRAMMAR_RUNS = Shown
DOLLARS = "US dollars"
_BETTER = {RATE: Better.HIGHER, VALUES: Better.HIGHER, TIME: Better.LOWER}
#: Rates of a field with expected values, as in `fields.total.accuracy`.
RATES_OF_FIELD = ("accuracy", "precision", "f1")
#: Parts of a distribution, with their titles.
SPREAD = {
    "count": "count",
    "mean": "mean",
    "p50": "median",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "max",
}


class HasFigures(Protocol):
    """An object with named figures: metrics in memory, or an evaluation that was read from a file."""

    def figure(self, name: str) -> Rate | float | None:
        """Return the figure with this name; None if the figure is not applicable."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A reported figure and how it is displayed; its name is the same in files, gates, plots and tables."""

    name: str
    kind: Kind
    #: Title of the figure; if empty, the title is made from the name.
    words: str = ""
    #: Unit of the stored value.
    unit: str = ""
    #: Direction in which the figure improves; None for the default direction of its kind.
    better_when: Better | None = None
    #: Name of the count that is the denominator of this share or mean.
    of: str | None = None
    #: Names of counts of what is not known yet: attempts that the denominator, or the sum, includes (`counted_open`),
    #: and those that the denominator, or the distribution, includes only after they are decided (`left_out`; for a
    #: time, failed calls and missing attempts by default). They are figures, or cached properties that are in no file.
    counted_open: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    #: Names of counts of attempts that can also lower this sum, because it is divided by something that they raise.
    lowered_by: tuple[str, ...] = ()
    #: Whether the figure is plotted and kept in a history.
    is_main: bool = False
    #: Column heading, its short form for narrow tables, and the scale and the number of decimals of the values in
    #: tables.
    heading: str = ""
    short: str = ""
    scale: float = 1.0
    digits: int = 2
    #: Name of a count; tables show the value divided by this count, times `many`.
    per: str = ""
    many: int = 1
    #: Whether tables also show the two counts of a rate if they are known, as in 1/4 = 0.250.
    counted: bool = False
    tables: Shown = Shown.NOWHERE
    #: Tables that have the column only if there is enough width.
    wide_only: Shown = Shown.NOWHERE

    @property
    def title(self) -> str:
        """Title of the figure."""
        return self.words or self.name.replace(".", ": ", 1).replace("_", " ").capitalize()

    @property
    def better(self) -> Better:
        """Direction in which the figure improves."""
        return self.better_when or _BETTER.get(self.kind, Better.NEITHER)

    @property
    def count(self) -> str:
        """Name of the figure that counts the measurements of this median; empty for other figures."""
        return f"{self.name.removesuffix('_p50')}_count" if self.name.endswith("_p50") else ""

    @property
    def is_rate(self) -> bool:
        """Whether the figure is a rate from 0 to 1 with an interval."""
        return self.kind in {Kind.RATE, Kind.VALUES}

    def value_of(self, source: HasFigures) -> Rate | float | None:
        """Return the value of the figure as displayed in tables; None if the figure is not applicable."""
        value = source.figure(self.name)
        if value is None or not self.per:
            return value
        count = source.figure(self.per)
        assert isinstance(value, int | float)
        return value / count * self.many if isinstance(count, int | float) and count else None

    def text_of(self, value: float) -> str:
        """Return a value of the figure as text."""
        if self.unit == DOLLARS:
            return dollars(value)
        return f"{value * self.scale:,.{0 if self.kind is Kind.COUNT else self.digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMetrics:
    """Metrics of the values in one field, over all answers whose values were compared."""

    #: Right values / expected values.
    accuracy: Proportion
    #: Right values / values in the answers, and the harmonic mean of precision and accuracy; both have denominator 0 if
    #: the number of values in the answers is unknown.
    precision: Proportion
    f1: Proportion

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of right values, of expected values, and of values in the answers."""
        return {"right": self.accuracy.successes, "expected": self.accuracy.n, "given": self.precision.n}

    def figures(self) -> dict[str, Value]:
        """Return the counts and the rates by name."""
        return {**self.counts, **{name: getattr(self, name) for name in RATES_OF_FIELD}}


class Display(TypedDict, total=False):
    """Fields of `Figure` that the decorator `metric` accepts."""

    words: str
    unit: str
    better_when: Better
    of: str
    counted_open: tuple[str, ...]
    left_out: tuple[str, ...]
    lowered_by: tuple[str, ...]
    is_main: bool
    heading: str
    short: str
    scale: float
    digits: int
    per: str
    many: int
    counted: bool
    tables: Shown
    wide_only: Shown


V = TypeVar("V")
#: Value of a figure, as displayed.
Value = Rate | float | None


class Computed(Generic[V]):
    """
    A figure, a distribution or a group of figures, with the function that computes it from the attempts.

    As an attribute of an object, this is the value, which is computed when it is first read. A distribution has a row
    for each of its parts, and a group has a row for each of its known members.
    """

    def __init__(
        self,
        compute: Callable[[Any], V],
        row: Figure,
        *,
        members: Mapping[str, Display] | None,
        absent: Value,
        has_bounds: bool,
        most_in_files: int | None,
        only_if: Callable[[AttemptGroups], bool] | None,
    ) -> None:
        self.__doc__ = compute.__doc__
        self._compute = compute
        self.row = row
        self.name = row.name
        self._members = members
        #: Value of a member that does not occur in these attempts.
        self.absent = absent
        #: Returns whether files contain the figure for these attempts; None if all files contain it.
        self.only_if = only_if
        self._has_bounds = has_bounds
        self._most_in_files = most_in_files

    @overload
    def __get__(self, metrics: None, owner: type) -> Self: ...
    @overload
    def __get__(self, metrics: object, owner: type) -> V: ...
    def __get__(self, metrics: object | None, owner: type) -> Self | V:
        """Return the value for these metrics, or the figure itself if it is read from the class."""
        if metrics is None:
            return self
        value = metrics.__dict__[self.name] = self._compute(metrics)
        return value

    @property
    def is_group(self) -> bool:
        """Whether this is a group of figures, which are named as in `failure_counts.truncated`."""
        return self._members is not None

    def rows(self) -> Iterator[Figure]:
        """Yield a row for each figure; members whose names cannot be listed in advance have no row."""
        row = self.row
        if self._members is not None:
            for member, display in self._members.items():
                yield replace(row, name=f"{self.name}.{member}", **display)
        elif row.kind is Kind.TIME:
            yield from _rows_of_distribution(row)
        else:
            yield row

    def to_dict(self, value: V) -> dict[str, Any]:
        """Return a value as JSON values by name; a group is an object of its members, or of the first of them."""
        if not isinstance(value, Mapping):
            return _with_bounds(parts_of(self.name, value))
        members = islice(value.items(), self._most_in_files)
        parts = (part for member, inner in members for part in parts_of(str(member), inner))
        if not self._has_bounds:
            return {self.name: {name: getattr(part, "value", part) for name, part in parts}}
        return {self.name: _with_bounds(parts)}


def _rows_of_distribution(row: Figure) -> Iterator[Figure]:
    """Yield the rows of a distribution; only the median keeps the display of the whole distribution."""
    for part, words in SPREAD.items():
        name = f"{row.name}_{part}"
        title = f"{row.title}, {words}"
        if part == "count":
            yield Figure(name, COUNT, title, counted_open=row.left_out)
        elif part == "p50":
            yield replace(row, name=name, words=title)
        else:
            of = f"{row.name}_count" if part == "mean" else None
            yield Figure(name, TIME, title, row.unit, of=of, left_out=row.left_out)


def metric(
    kind: Kind,
    *,
    members: Mapping[str, Display] | None = None,
    absent: Value = None,
    has_bounds: bool = True,
    most_in_files: int | None = None,
    only_if: Callable[[AttemptGroups], bool] | None = None,
    **display: Unpack[Display],
) -> Callable[[Callable[[Any], V]], Computed[V]]:
    """
    Return a decorator that makes a figure of the method that computes it.

    The method returns a rate, a count or a sum; for a time, a distribution; for a group, a mapping with a value for
    each member.

    Args:
        kind: Kind of the figure, or of the members of a group.
        members: Known members of a group, with the display of each; empty if no member is known in advance; None if
            the figure is not a group.
        absent: Value of a member that does not occur.
        has_bounds: Whether files contain the bounds of the rates.
        most_in_files: Maximum number of members of a group in a file, the first ones; None for all.
        only_if: Returns whether files contain the figure for these attempts; None if all files contain it.
        display: Fields of the figure's row.

    """
    if kind is TIME:
        display.setdefault("left_out", ("errors",))

    def decorate(compute: Callable[[Any], V]) -> Computed[V]:
        return Computed(
            compute,
            Figure(compute.__name__, kind, **display),
            members=members,
            absent=absent,
            has_bounds=has_bounds,
            most_in_files=most_in_files,
            only_if=only_if,
        )

    return decorate


#: Order of the figures in files and tables.
_ORDER = (RATE, VALUES), (TIME,), (SUM,), (COUNT,)


class FigureSet:
    """Figures of a set of attempts; each is a method with the decorator `metric`, which reads the attempts' groups."""

    #: Whether the figures of this class follow those of the classes that inherit from it.
    comes_last: ClassVar[bool] = False
    #: Each figure, distribution and group by name: rates first, then times, sums, counts, and groups.
    computed: ClassVar[Mapping[str, Computed[Any]]] = {}
    #: Names of the counts that the rows of the figures need.
    _open_counts: ClassVar[frozenset[str]] = frozenset()
    #: The attempts, only while the figures are computed.
    _groups: AttemptGroups
    #: Each figure by its name, as in `failure_rates.truncated` or `ttft_p50`.
    _figures: Mapping[str, Value]
    #: Names of the figures that files do not contain, because the run does not use their feature.
    _unused: frozenset[str]

    def __init_subclass__(cls) -> None:
        """List the figures of the class and its bases."""
        owners = list(reversed(cls.__mro__))
        owners.sort(key=lambda owner: vars(owner).get("comes_last", False))
        every = [each for owner in owners for each in vars(owner).values() if isinstance(each, Computed)]
        cls.computed = {each.name: each for each in sorted(every, key=_position)}
        rows = [row for each in every for row in each.rows()]
        cls._open_counts = frozenset(
            count for row in rows for count in (*row.counted_open, *row.left_out, *row.lowered_by)
        )

    def __init__(self, groups: AttemptGroups) -> None:
        """Compute all figures now, so that the groups need not stay in memory."""
        values = vars(self)
        values["_groups"] = groups
        values["_figures"] = {
            name: value
            for each in self.computed.values()
            for name, value in parts_of(each.name, getattr(self, each.name))
        }
        for count in self._open_counts:
            getattr(self, count)  # cached while the attempts are in memory
        values["_unused"] = frozenset(
            each.name for each in self.computed.values() if each.only_if is not None and not each.only_if(groups)
        )
        del values["_groups"]

    def __setattr__(self, name: str, value: object) -> None:
        """Reject changes, since the figures belong together."""
        raise AttributeError(f"metrics cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        """Return whether all figures are equal."""
        return isinstance(other, FigureSet) and self._figures == other._figures

    __hash__ = None  # type: ignore[assignment]

    def figure(self, name: str) -> Value:
        """Return the figure with this name in `figures.FIGURES`; None if the figure is not applicable."""
        if name in self._figures:
            return self._figures[name]
        return self.computed[name.partition(".")[0]].absent

    def to_dict(self, *, every: bool = False) -> dict[str, Any]:
        """
        Return the figures by their names in docs/metrics.md; a rate with denominator 0 is None.

        Figures of a feature that the run does not use are left out, unless `every` is set.
        """
        return {
            name: value
            for each in self.computed.values()
            if every or each.name not in self._unused
            for name, value in each.to_dict(getattr(self, each.name)).items()
        }


def _position(computed: Computed[Any]) -> tuple[bool, int]:
    """Return the sort key of a figure: groups last, and by kind."""
    place = next(place for place, kinds in enumerate(_ORDER) if computed.row.kind in kinds)
    return computed.is_group, place


def parts_of(name: str, value: object) -> Iterator[tuple[str, Value]]:
    """Yield each figure in a value by its dotted name: parts of a distribution, members of a group."""
    match value:
        case None | Rate() | int() | float():
            yield name, value
        case Distribution():
            for part in SPREAD:
                yield f"{name}_{part}", getattr(value, part)
        case FieldMetrics():
            yield from parts_of(name, value.figures())
        case Mapping():
            for member, inner in value.items():
                yield from parts_of(f"{name}.{member}", inner)
        case _:
            raise TypeError(f"not the value of a figure: {name} is of type {type(value).__name__}")


def _with_bounds(parts: Iterable[tuple[str, Value]]) -> dict[str, float | None]:
    """Return figures as JSON values by name; each rate also has its bounds."""
    values: dict[str, float | None] = {}
    for name, part in parts:
        if isinstance(part, Rate):
            values |= {name: part.value, f"{name}_ci_low": part.ci_low, f"{name}_ci_high": part.ci_high}
        else:
            values[name] = part
    return values
