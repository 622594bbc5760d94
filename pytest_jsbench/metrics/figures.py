"""Each figure that is reported, in one row: tables, gates, pictures, exports and histories take it from here."""

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
    """The nature of a figure."""

    #: from 0 to 1, with an interval
    RATE = auto()
    #: the same over values of answers, of which one that never came may have any number
    VALUES = auto()
    COUNT = auto()
    #: a part of a spread of times
    TIME = auto()
    #: over the answers that reported it
    SUM = auto()


class Better(Enum):
    """The direction in which a figure improves."""

    HIGHER = auto()
    LOWER = auto()
    NEITHER = auto()


class Shown(Flag):
    """The tables that have a column of a figure."""

    NOWHERE = 0
    #: of a run whose model was asked: a row per task, and a row per variant
    TASKS = auto()
    VARIANTS = auto()
    #: of several runs
    RUNS = auto()
    #: of grammars that decided on labelled answers: a row per task or variant, and of several such runs
    GRAMMARS = auto()
    GRAMMAR_RUNS = auto()


RATE, VALUES, COUNT, TIME, SUM = Kind
TASKS, VARIANTS, RUNS, GRAMMARS, GRAMMAR_RUNS = Shown
DOLLARS = "US dollars"
#: before the name of a metric of a project's own
SCORES = "scores."
#: the rates of each field of expected values, by the ends of their names
RATES_OF_FIELD = ("accuracy", "precision", "f1")
#: attempts at a case of which the rates of any k are told
MOST_K = 32
#: the failure types that count as failures; a case with a broken schema is excluded instead
COUNTED_FAILURES = tuple(kind for kind in FailureType if kind is not FailureType.INVALID_SCHEMA)
_BETTER = {RATE: Better.HIGHER, VALUES: Better.HIGHER, TIME: Better.LOWER}
_OPEN, _UNTOLD = ("errors", "unjudged"), ("errors", "unreported")


class HasFigures(Protocol):
    """Metrics in memory, or an evaluation that was read."""

    def figure(self, name: str) -> Rate | float | None:
        """The figure of that name; None where it is not applicable."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as data, gates, pictures and tables name it."""

    name: str
    kind: Kind
    #: for people; by default its name in words
    words: str = ""
    #: as it is stored
    unit: str = ""
    #: by default what is usual of its kind
    better_when: Better | None = None
    #: the count that it is a share or a mean of
    of: str | None = None
    #: attempts that are counted though they are open, and those that are left out until they are decided
    counted_open: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    #: drawn, and kept in a history
    chief: bool = False
    #: the head of its column, also where there is little room, and how its values are written there
    heading: str = ""
    short: str = ""
    scale: float = 1.0
    digits: int = 2
    #: in a table it is told of so many of this count
    per: str = ""
    many: int = 1
    #: told with its counts where they are known, as 1/4 = 0.250
    counted: bool = False
    tables: Shown = Shown.NOWHERE
    #: tables that have it only where there is room
    roomy: Shown = Shown.NOWHERE

    @property
    def title(self) -> str:
        """The figure for people."""
        return self.words or self.name.replace(".", ": ", 1).replace("_", " ").capitalize()

    @property
    def better(self) -> Better:
        """The direction in which it improves."""
        return self.better_when or _BETTER.get(self.kind, Better.NEITHER)

    @property
    def count(self) -> str:
        """The name of the count of the measurements that a quantile is of; empty of anything else."""
        return f"{self.name.removesuffix('_p50')}_count" if self.name.endswith("_p50") else ""

    @property
    def is_rate(self) -> bool:
        """True where it is between 0 and 1, and has an interval."""
        return self.kind in {Kind.RATE, Kind.VALUES}

    def value_of(self, source: HasFigures) -> Rate | float | None:
        """The figure as a table tells it; None where it is not applicable."""
        value = source.figure(self.name)
        if value is None or not self.per:
            return value
        count = source.figure(self.per)
        assert isinstance(value, int | float)
        return value / count * self.many if isinstance(count, int | float) and count else None

    def text_of(self, value: float) -> str:
        """The number for people."""
        if self.unit == DOLLARS:
            return dollars(value)
        return f"{value * self.scale:,.{0 if self.kind is Kind.COUNT else self.digits}f}"


_LOWER = Better.LOWER
# fmt: off
#: in the order of columns
_RATES = (
    Figure("pass_rate", RATE, of="planned", counted_open=_OPEN, chief=True,
           tables=VARIANTS | RUNS | GRAMMARS, roomy=TASKS | GRAMMAR_RUNS),
    Figure("pass_rate_nontrivial", RATE, "Pass rate where no constant answer passes", counted_open=_OPEN,
           of="nontrivial", left_out=("missing",)),
    Figure("floor", RATE, "Share of cases that the best constant answer passes", better_when=Better.NEITHER, of="cases",
           left_out=("missing",), heading="Floor", tables=RUNS, roomy=TASKS | VARIANTS),
    Figure("pass_at_k", RATE, "Pass@k", of="cases", counted_open=_OPEN),
    Figure("pass_hat_k", RATE, "Pass^k", of="cases", counted_open=_OPEN, tables=VARIANTS),
    Figure("declared_coverage", RATE, of="planned", counted_open=("errors",), chief=True,
           short="Decl. cov.", tables=TASKS | VARIANTS | GRAMMARS | GRAMMAR_RUNS),
    Figure("declared_coverage_excluding_errors", RATE, left_out=("errors",)),
    Figure("empirical_coverage", RATE, of="completions", counted_open=("unjudged",), left_out=("errors",), chief=True,
           short="Emp. cov.", tables=TASKS | VARIANTS),
    Figure("error_rate", RATE, better_when=_LOWER, of="planned"),
    Figure("order_kept", RATE, counted_open=_OPEN),
    Figure("over_constraint", RATE, "Valid answers rejected", better_when=_LOWER, of="valid_instances", chief=True,
           counted_open=_OPEN, heading="Valid, rejected", counted=True, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("under_constraint", RATE, "Invalid answers accepted", better_when=_LOWER, of="invalid_instances", chief=True,
           counted_open=_OPEN, heading="Invalid, accepted", counted=True, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("value_accuracy", VALUES, chief=True, heading="Values right", tables=TASKS | VARIANTS | RUNS),
    Figure("value_accuracy_conforming", VALUES, chief=True),
    Figure("value_accuracy_mean", VALUES),
    Figure("value_precision", VALUES),
    Figure("value_f1", VALUES, "Value F1"),
    Figure("exact_match", VALUES, chief=True),
    Figure("tests_passed", RATE, left_out=("errors",)),
)
#: the parts of their spread stand in data, the median in tables
_TIMES = (
    Figure("ttft", TIME, "Time to first token", "s", chief=True, heading="TTFT (s)", tables=TASKS | VARIANTS),
    Figure("tpot", TIME, "Time per output token", "ms", chief=True, heading="TPOT (ms)", tables=TASKS),
    Figure("tgt", TIME, "Total time", "s", chief=True, heading="TGT (s)", tables=TASKS | VARIANTS | RUNS),
    Figure("gct", TIME, "First to last token", "s", heading="GCT (s)", tables=TASKS),
    Figure("reasoning_time", TIME, "Time of reasoning", "s", heading="Reasoning (s)", short="Reas. (s)", tables=TASKS),
    Figure("grammar_compilation", TIME, "Grammar compilation", "s", chief=True,
           heading="Compile (ms)", scale=1e3, tables=GRAMMARS | GRAMMAR_RUNS),
    Figure("compile_time", TIME, "Grammar compilation without its first mask", "s",
           heading="without a mask (ms)", scale=1e3, roomy=GRAMMARS),
    Figure("mask_time", TIME, "Time per mask", "s",
           heading="Mask (µs)", scale=1e6, digits=1, tables=GRAMMAR_RUNS, roomy=GRAMMARS),
    Figure("queue", TIME, "Time in the queue", "s"),
)
_SUMS = (
    Figure("input_tokens", SUM, counted_open=_UNTOLD),
    Figure("output_tokens", SUM, counted_open=_UNTOLD, chief=True,
           heading="Tokens out", digits=0, per="reported", tables=VARIANTS),
    *(Figure(f"{kind}_tokens", SUM, counted_open=_UNTOLD) for kind in ("total", "cached", "cache_write", "reasoning")),
    Figure("cost", SUM, unit=DOLLARS, better_when=_LOWER, counted_open=("errors",), chief=True,
           heading="Cost of 1,000", per="priced", many=1000, tables=VARIANTS | RUNS),
)
_COUNTS = (
    Figure("nontrivial", COUNT, "Attempts where no constant answer passes"),
    *(Figure(name, COUNT) for name in ("cases", "excluded", "completions", "declined", "disputed", "judged")),
    *(Figure(name, COUNT) for name in ("called_again", "reported", "unreported", "priced", "unpriced")),
    *(Figure(name, COUNT, counted_open=_OPEN) for name in ("passed", "valid")),
    *(Figure(name, COUNT, better_when=_LOWER) for name in ("failed", "missing", "unjudged", "retries", "uncompared")),
    Figure("invented", COUNT, better_when=_LOWER),
    Figure("planned", COUNT, heading="Attempts", tables=RUNS | GRAMMAR_RUNS),
    Figure("errors", COUNT, better_when=_LOWER, tables=TASKS | VARIANTS | GRAMMARS),
)
# fmt: on
#: the parts of a spread, as people call them
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


def _every() -> Iterator[Figure]:
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


#: by the names of run.json and of gates
FIGURES: Mapping[str, Figure] = {row.name: row for row in _every()}
#: of groups of which any name may be counted, and of what grammars decided
_OTHER_COUNTS = (
    *("fields.", "missing_reasons.", "fault_counts.", "note_counts.", "code_counts.", "trivial_counts."),
    *("valid_", "invalid_"),
)


def columns(table: Shown) -> tuple[Figure, ...]:
    """The figures that have a column in a table."""
    return tuple(row for row in FIGURES.values() if table in row.tables | row.roomy)


def named(metric: str) -> Figure | None:
    """The figure of that name, of a field of answers or a project's own too; None where it is another tool's."""
    if metric.startswith(SCORES):
        return Figure(metric, VALUES, metric.removeprefix(SCORES))
    if metric.startswith("fields.") and metric.rpartition(".")[2] in RATES_OF_FIELD:
        return Figure(metric, VALUES)
    return FIGURES.get(metric) or (Figure(metric, COUNT) if metric.startswith(_OTHER_COUNTS) else None)


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Rates and their bounds, by the names of run.json."""
    return tuple(f"{name}{end}" for name in names for end in ("", "_ci_low", "_ci_high"))
