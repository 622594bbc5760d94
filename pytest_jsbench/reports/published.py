"""A run beside the figures that others have published: per task, and in which settings they differ."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.statistics import Rate, proportion
from pytest_jsbench.reports.blocks import Cell, Column, Fact, TableBlock
from pytest_jsbench.runs.settings import SettingDifference, differences, settings_of

if TYPE_CHECKING:
    from pytest_jsbench.reports.evaluations import Evaluation

_LONGEST_LABEL = 26
_RATE = FIGURES["pass_rate"]


class Figures(Protocol):
    """A row of a published table, or the same of a run."""

    def cells(self) -> tuple[Cell, ...]:
        """The figures, one for each column."""

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """As JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where a table was published, and how its figures were made."""

    title: str
    source: str
    #: month in which it was read
    read: str
    notes: tuple[str, ...]
    #: as a run's metadata has them; what the publication does not say is not among them
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCoverage(Publication):
    """A table of coverage by task, as it was published."""

    #: options of pytest that ask as it asked
    options: Mapping[str, str]
    #: by task and framework
    tasks: Mapping[str, Mapping[str, CoverageRates]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMasks(Publication):
    """A table of the times of masks, as it was published."""

    engines: Mapping[str, MaskFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRates:
    """Three rates, by the names of the paper, whose `empirical` is of all schemas and whose `compliance` is not."""

    declared: Rate
    empirical: Rate
    compliance: Rate

    @classmethod
    def of_run(cls, found: Evaluation, task: str) -> CoverageRates:
        """Those of a task of a run."""
        part = replace(found, metrics=found.tasks[task])
        names = ("planned", "cases", "valid", "valid_instances", "invalid_instances")
        planned, cases, valid, *labelled = (part.figures.get(name) or 0 for name in names)
        # a grammar that decides on labelled answers gives none of its own
        of = 0 if any(labelled) else int(planned)
        empirical = proportion(int(valid), of, design_effect=planned / cases if cases else 1.0)
        return cls(
            declared=part.rate("declared_coverage"),
            empirical=empirical,
            compliance=part.rate("empirical_coverage"),
        )

    def cells(self) -> tuple[Cell, ...]:
        """The figures, one for each column."""
        return self.declared, self.empirical, self.compliance

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """As JSON values."""
        rates = {"declared": self.declared, "empirical": self.empirical, "compliance": self.compliance}
        return {name: one.to_dict() for name, one in rates.items()}


#: parts of a time, in the order of the published rows
_SPREAD = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFigures:
    """What a grammar engine takes for its masks, in seconds, and how many of the schemas it is right about."""

    #: from one mask to the next, and from the schema to the first: mean, p50, p90 and p99 of each
    mask_time: Sequence[float | None]
    first_mask: Sequence[float | None]
    #: schemas that are compiled / all, and those of which every answer is decided rightly / all
    declared: Rate
    passed: Rate

    @classmethod
    def of_run(cls, found: Evaluation) -> MaskFigures:
        """Those of a run."""
        mask, first = ([found.figures.get(f"{name}_{part}") for part in _SPREAD] for name in _TIMES)
        declared, passed = found.rate("declared_coverage"), found.rate("pass_rate")
        return cls(mask_time=mask, first_mask=first, declared=declared, passed=passed)

    @classmethod
    def of_publication(cls, tbm: Sequence[int], ttfm: Sequence[int], schemas: Sequence[int]) -> MaskFigures:
        """Those of a row, in µs; of the schemas those that pass, four kinds of failure to decide, two of wrong ones."""
        passed, *undecided = schemas[:5]
        every = sum(schemas)
        return cls(
            mask_time=[time / 1e6 for time in tbm],
            first_mask=[time / 1e6 for time in ttfm],
            declared=_published_rate((every - sum(undecided)) / every),
            passed=_published_rate(passed / every),
        )

    def cells(self) -> tuple[Cell, ...]:
        """The figures, one for each column."""
        return *self.mask_time, *self.first_mask, self.declared, self.passed

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """As JSON values, by the names that a run has for them."""
        times = zip(_TIMES, (self.mask_time, self.first_mask), strict=True)
        return {
            **{name: dict(zip(_SPREAD, values, strict=True)) for name, values in times},
            "declared_coverage": self.declared.to_dict(),
            "pass_rate": self.passed.to_dict(),
        }


MASK_COLUMNS = (
    *(Column.of(FIGURES["mask_time_p50"], f"Mask (µs) {part}") for part in _SPREAD),
    *(Column.of(FIGURES["grammar_compilation_p50"], f"First mask (ms) {part}") for part in _SPREAD),
    *(Column.of(_RATE, f"Schemas {heading}") for heading in ("Declared", "Passed")),
)
#: MaskBench's TBM and TTFM, as a run calls them
_TIMES = ("mask_time", "grammar_compilation")


def _published_rate(value: float) -> Rate:
    return Rate(value=value, ci_low=None, ci_high=None)


@functools.cache
def _published() -> Mapping[str, Any]:
    data = tomllib.loads(files("pytest_jsbench.reports").joinpath("published.toml").read_text("utf-8"))
    return {name: {**table, "notes": tuple(table["notes"])} for name, table in data.items()}


@functools.cache
def published_coverage() -> PublishedCoverage:
    """The table of the JSONSchemaBench paper."""
    data = _published()["coverage"]
    tasks = {task: {name: _rates(*values) for name, values in row.items()} for task, row in data["tasks"].items()}
    return PublishedCoverage(**{**data, "tasks": tasks})


def _rates(*values: float) -> CoverageRates:
    declared, empirical, compliance = map(_published_rate, values)
    return CoverageRates(declared=declared, empirical=empirical, compliance=compliance)


@functools.cache
def published_masks() -> PublishedMasks:
    """The table of MaskBench."""
    data = _published()["masks"]
    engines = {name: MaskFigures.of_publication(**row) for name, row in data["engines"].items()}
    return PublishedMasks(**{**data, "engines": engines})


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePublished:
    """Runs and a published table, side by side."""

    #: under which it is among the JSON values
    name: str
    table: Publication
    #: by task, then by the name of the run or the framework
    tasks: Mapping[str, Mapping[str, Figures]]
    columns: tuple[Column, ...]
    #: what the names of figures mean here
    meaning: str
    #: the first value of each is the publication's
    settings: tuple[SettingDifference, ...]

    def blocks(self) -> Iterator[TableBlock | list[Fact]]:
        """The same for people: a table for each task, and what is to be known of the figures."""
        yield [("published", f"{self.table.title} ({self.table.source})")]
        for task, figures in self.tasks.items():
            rows = tuple((printable(name, _LONGEST_LABEL), one.cells()) for name, one in figures.items())
            yield TableBlock(head=task, columns=self.columns, rows=rows)
        facts = [("figures", self.meaning), *(("note", note) for note in self.table.notes)]
        if self.settings:
            facts.append(("settings", f"that differ from the publication's: {counted(len(self.settings), 'setting')}"))
        for setting in self.settings:
            theirs, *ours = setting.shown
            values = f"{theirs} → {', '.join(dict.fromkeys(ours))}"
            facts.append(("", f"{setting.name} (bears on {setting.bears_on}): {values}"))
        yield facts

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "title": self.table.title,
            "source": self.table.source,
            "notes": list(self.table.notes),
            "tasks": {task: {name: one.to_dict() for name, one in rows.items()} for task, rows in self.tasks.items()},
            "settings": [one.to_dict() for one in self.settings],
        }


def beside_published(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[BesidePublished]:
    """The runs beside each table that has the same of one of them; RecordError where none has."""
    runs = dict(zip(names, evaluations, strict=True))
    found = [*_beside_coverage(runs), *_beside_masks(runs)]
    if not found:
        theirs = published_coverage().tasks
        known = list(dict.fromkeys(task for one in evaluations for task in one.tasks))
        message = (
            f"nothing is published of the tasks of these runs ({printable(', '.join(known), 200) or 'none is known'}): "
            f"expected one of {', '.join(theirs)}, or the times of masks of --jsbench-instances"
        )
        raise RecordError(message, found=known, expected=list(theirs), option="published")
    return found


def _beside_coverage(runs: Mapping[str, Evaluation]) -> Iterator[BesidePublished]:
    """For each of the paper's tasks that a run has."""
    table = published_coverage()
    tasks: dict[str, Mapping[str, Figures]] = {}
    for task, row in table.tasks.items():
        ours = {name: CoverageRates.of_run(found, task) for name, found in runs.items() if task in found.tasks}
        if ours:
            tasks[task] = _above(row, ours)
    if tasks:
        yield BesidePublished(
            name="published",
            table=table,
            tasks=tasks,
            columns=tuple(Column.of(_RATE, heading) for heading in ("Declared", "Empirical", "Compliance")),
            meaning="empirical: valid answers of all schemas; compliance: of those declared, as the paper has it",
            settings=_differing(table, runs.values()),
        )


def _beside_masks(runs: Mapping[str, Evaluation]) -> Iterator[BesidePublished]:
    """Over all tasks, for the runs that measured masks."""
    table, timed = published_masks(), {name: one for name, one in runs.items() if one.figures.get("mask_time_count")}
    if timed:
        ours = {name: MaskFigures.of_run(found) for name, found in timed.items()}
        yield BesidePublished(
            name="published_masks",
            table=table,
            tasks={"all": _above(table.engines, ours)},
            columns=MASK_COLUMNS,
            meaning="a mask is from taking a token to the next mask (TBM), the first from the schema on (TTFM)",
            settings=_differing(table, timed.values()),
        )


def _above(published: Mapping[str, Figures], ours: Mapping[str, Figures]) -> dict[str, Figures]:
    """Both, ours first; a run that is called as a published row is told from it."""
    theirs = {name.casefold() for name in published}
    return {**{f"{name} (here)" if name.casefold() in theirs else name: one for name, one in ours.items()}, **published}


def _differing(table: Publication, runs: Iterable[Evaluation]) -> tuple[SettingDifference, ...]:
    # it was of whole tasks, which a table of settings cannot say
    said = settings_of({**table.settings, "dataset": {**table.settings["dataset"], "limit": None, "sample": None}})
    return tuple(one for one in differences([said, *(run.settings for run in runs)]) if one.name in said)
