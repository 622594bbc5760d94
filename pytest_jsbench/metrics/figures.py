"""Define each reported figure in one row; tables, gates, plots, exports and histories read these rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Protocol

from pytest_jsbench.core.text import dollars
from pytest_jsbench.records.records import Cause
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.metrics.statistics import Rate


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
#: Prefix of the names of custom metrics.
SCORES = "scores."
#: Rates of a field with expected values, as in `fields.total.accuracy`.
RATES_OF_FIELD = ("accuracy", "precision", "f1")
#: Largest k for pass@k and pass^k.
MOST_K = 32
#: Failure types that are counted; attempts with a broken schema are excluded instead.
COUNTED_FAILURES = tuple(kind for kind in FailureType if kind is not FailureType.INVALID_SCHEMA)
_BETTER = {RATE: Better.HIGHER, VALUES: Better.HIGHER, TIME: Better.LOWER}
_OPEN = ("errors", "unjudged")
_UNREPORTED = ("errors", "unreported")


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
    #: Names of counts of undecided attempts: those that the denominator includes (`counted_open`), and those that the
    #: denominator includes only after they are decided (`left_out`).
    counted_open: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
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


_LOWER = Better.LOWER
# fmt: off
#: Rates, in the order of their columns.
_RATES = (
    Figure("pass_rate", RATE, of="planned", counted_open=_OPEN, is_main=True,
           tables=VARIANTS | RUNS | GRAMMARS, wide_only=TASKS | GRAMMAR_RUNS),
    Figure("pass_rate_nontrivial", RATE, "Pass rate on cases that no constant answer passes", counted_open=_OPEN,
           of="nontrivial", left_out=("missing",)),
    Figure("floor", RATE, "Share of cases that the best constant answer passes", better_when=Better.NEITHER, of="cases",
           left_out=("missing",), heading="Floor", tables=RUNS, wide_only=TASKS | VARIANTS),
    Figure("pass_at_k", RATE, "Pass@k", of="cases", counted_open=_OPEN),
    Figure("pass_hat_k", RATE, "Pass^k", of="cases", counted_open=_OPEN, tables=VARIANTS),
    Figure("declared_coverage", RATE, of="planned", counted_open=("errors",), is_main=True,
           short="Decl. cov.", tables=TASKS | VARIANTS | GRAMMARS | GRAMMAR_RUNS),
    Figure("declared_coverage_excluding_errors", RATE, left_out=("errors",)),
    Figure("empirical_coverage", RATE, of="completions", counted_open=("unjudged",), left_out=("errors",), is_main=True,
           short="Emp. cov.", tables=TASKS | VARIANTS),
    Figure("error_rate", RATE, better_when=_LOWER, of="planned"),
    Figure("order_kept", RATE, counted_open=_OPEN),
    Figure("over_constraint", RATE, "Valid answers rejected", better_when=_LOWER, of="valid_instances",
           is_main=True, counted_open=_OPEN, heading="Valid, rejected", counted=True, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("under_constraint", RATE, "Invalid answers accepted", better_when=_LOWER, of="invalid_instances",
           is_main=True, counted_open=_OPEN, heading="Invalid, accepted", counted=True, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("value_accuracy", VALUES, is_main=True, heading="Values right", tables=TASKS | VARIANTS | RUNS),
    Figure("value_accuracy_conforming", VALUES, is_main=True),
    Figure("value_accuracy_mean", VALUES),
    Figure("value_precision", VALUES),
    Figure("value_f1", VALUES, "Value F1"),
    Figure("exact_match", VALUES, is_main=True),
    Figure("tests_passed", RATE, left_out=("errors",)),
)
#: Times; files contain all parts of their distributions, and tables only the medians.
_TIMES = (
    Figure("ttft", TIME, "Time to first token", "s", is_main=True, heading="TTFT (s)", tables=TASKS | VARIANTS),
    Figure("tpot", TIME, "Time per output token", "ms", is_main=True, heading="TPOT (ms)", tables=TASKS),
    Figure("tgt", TIME, "Total time", "s", is_main=True, heading="TGT (s)", tables=TASKS | VARIANTS | RUNS),
    Figure("gct", TIME, "First to last token", "s", heading="GCT (s)", tables=TASKS),
    Figure("reasoning_time", TIME, "Time of reasoning", "s", heading="Reasoning (s)", short="Reas. (s)", tables=TASKS),
    Figure("grammar_compilation", TIME, "Grammar compilation", "s", is_main=True,
           heading="Compile (ms)", scale=1e3, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("compile_time", TIME, "Grammar compilation without its first mask", "s",
           heading="without a mask (ms)", scale=1e3, wide_only=GRAMMARS),
    Figure("mask_time", TIME, "Time per mask", "s",
           heading="Mask (µs)", scale=1e6, digits=1, tables=GRAMMAR_RUNS, wide_only=GRAMMARS),
    Figure("queue", TIME, "Time in the queue", "s"),
)
_SUMS = (
    Figure("input_tokens", SUM, counted_open=_UNREPORTED),
    Figure("output_tokens", SUM, counted_open=_UNREPORTED, is_main=True,
           heading="Tokens out", digits=0, per="reported", tables=VARIANTS),
    *(Figure(f"{kind}_tokens", SUM, counted_open=_UNREPORTED)
      for kind in ("total", "cached", "cache_write", "reasoning")),
    Figure("cost", SUM, unit=DOLLARS, better_when=_LOWER, counted_open=("errors",), is_main=True,
           heading="Cost of 1,000", per="priced", many=1000, tables=VARIANTS | RUNS),
)
_COUNTS = (
    Figure("nontrivial", COUNT, "Attempts at cases that no constant answer passes"),
    *(Figure(name, COUNT) for name in ("cases", "excluded", "completions", "declined", "disputed", "judged")),
    *(Figure(name, COUNT) for name in ("called_again", "reported", "unreported", "priced", "unpriced")),
    *(Figure(name, COUNT, counted_open=_OPEN) for name in ("passed", "valid")),
    *(Figure(name, COUNT, better_when=_LOWER) for name in ("failed", "missing", "unjudged", "retries", "uncompared")),
    Figure("invented", COUNT, better_when=_LOWER),
    Figure("planned", COUNT, heading="Attempts", tables=RUNS | GRAMMAR_RUNS),
    Figure("errors", COUNT, better_when=_LOWER, tables=TASKS | VARIANTS | GRAMMARS),
)
# fmt: on
#: Titles of the parts of a distribution.
SPREAD = {
    "count": "count",
    "mean": "mean",
    "p50": "median",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "max",
}
RATES = tuple(row.name for row in _RATES)
COUNTS = tuple(row.name for row in _COUNTS)
TIMES: Mapping[str, Figure] = {row.name: row for row in _TIMES}
TOKENS = tuple(row.name for row in _SUMS if row.name != "cost")


def _all_figures() -> Iterator[Figure]:
    yield from _RATES
    for row in _TIMES:
        for part, words in SPREAD.items():
            words = f"{row.title}, {words}"
            if part == "count":
                yield Figure(f"{row.name}_count", COUNT, words, counted_open=("errors",))
            elif part == "p50":
                yield replace(row, name=f"{row.name}_p50", words=words)
            else:
                yield Figure(
                    f"{row.name}_{part}", TIME, words, row.unit, of=f"{row.name}_count" if part == "mean" else None
                )
    yield from (*_SUMS, *_COUNTS)
    for k in range(1, MOST_K + 1):
        yield Figure(f"pass_at.{k}", RATE, f"Pass@{k}", counted_open=_OPEN)
        yield Figure(f"pass_hat.{k}", RATE, f"Pass^{k}", counted_open=_OPEN)
    for kind in COUNTED_FAILURES:
        still_open = () if kind in NOT_THE_MODELS else _OPEN
        yield Figure(f"failure_rates.{kind}", RATE, better_when=_LOWER, of="planned", counted_open=still_open)
        yield Figure(f"failure_counts.{kind}", COUNT, better_when=_LOWER, counted_open=still_open)
    yield from (Figure(f"test_failures.{one}", COUNT, better_when=_LOWER, counted_open=("errors",)) for one in Cause)


#: All figures, by their names in run.json and in gates.
FIGURES: Mapping[str, Figure] = {row.name: row for row in _all_figures()}
#: Prefixes of further counts: counts whose names depend on the run, then counts of grammar decisions.
_OTHER_COUNTS = (
    *("fields.", "missing_reasons.", "fault_counts.", "note_counts.", "code_counts.", "trivial_counts."),
    *("valid_", "invalid_"),
)


def columns(table: Shown) -> tuple[Figure, ...]:
    """Return the figures that have a column in a table."""
    return tuple(row for row in FIGURES.values() if table in row.tables | row.wide_only)


def named(metric: str) -> Figure | None:
    """Return the figure with this name, including fields and custom metrics; None for another tool's metric."""
    if metric.startswith(SCORES):
        return Figure(metric, VALUES, metric.removeprefix(SCORES))
    if metric.startswith("fields.") and metric.rpartition(".")[2] in RATES_OF_FIELD:
        return Figure(metric, VALUES)
    return FIGURES.get(metric) or (Figure(metric, COUNT) if metric.startswith(_OTHER_COUNTS) else None)


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of these rates and of their bounds, as in run.json."""
    return tuple(f"{name}{end}" for name in names for end in ("", "_ci_low", "_ci_high"))
