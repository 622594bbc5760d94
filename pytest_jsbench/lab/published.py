"""Compare a run with published figures, task by task, and list the settings that differ."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import counted, distinct, printable
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.statistics import Rate, proportion
from pytest_jsbench.records.setting_differences import UNKNOWN, Setting, SettingDifference, differences, settings_of
from pytest_jsbench.reports.blocks import Cell, Column, Fact, TableBlock

if TYPE_CHECKING:
    from pytest_jsbench.reports.run_json import Evaluation

_LONGEST_LABEL = 26
#: Figures of a run or a framework by name, in the order of columns.
PublishedRow = Mapping[str, Cell]
#: Statistics of a time, in the order of the published rows.
_SPREAD = ("mean", "p50", "p90", "p99")
#: MaskBench's TBM and TTFM, by the names of a run's metrics.
_TIMES = {"mask_time": FIGURES["mask_time_p50"].heading, "grammar_compilation": "First mask (ms)"}
_RATE = FIGURES["pass_rate"]
#: Publications cover whole tasks; their tables of settings do not contain this.
_WHOLE: Mapping[str, object] = {"limit": None, "sample": None, "where": [], "shard": None}
#: Settings that affect results, and that a publication may not state.
_DECIDING = (
    *("engine", "response_format", "engine.bounded", "adapt", "max_tokens", "timeout", "seed", "sample_seed"),
    *("judge.fences", "judge.reasoning", "judge.duplicate_keys"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A published table, its source, and how its figures were made."""

    title: str
    source: str
    #: Month in which it was read.
    read: str
    notes: tuple[str, ...]
    #: Settings in the form of a run's metadata; those that the publication does not state are missing.
    settings: Mapping[str, Any]
    #: pytest options that reproduce its requests.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Number of schemas behind its figures, by task.
    cases: Mapping[str, int]
    #: Figures by task and framework.
    tasks: Mapping[str, Mapping[str, PublishedRow]]
    columns: tuple[Column, ...]
    #: Meaning of the names of its figures.
    meaning: str


@functools.cache
def published_coverage() -> Publication:
    """
    Return the table of the JSONSchemaBench paper; `empirical` is over all schemas, `compliance`
    over declared ones.
    """
    data = _published("coverage")
    names = ("declared", "empirical", "compliance")
    tasks = {
        task: {
            framework: dict(zip(names, map(_published_rate, values), strict=True)) for framework, values in row.items()
        }
        for task, row in data["tasks"].items()
    }
    return Publication(
        **{**data, "tasks": tasks},
        columns=tuple(Column.of(_RATE, name.capitalize()) for name in names),
        meaning="empirical: valid answers of all schemas; compliance: of those declared, as the paper has it",
    )


def options() -> Mapping[str, str]:
    """Return the options that reproduce the requests of the JSONSchemaBench paper."""
    return published_coverage().options


def coverage_of_run(run: Evaluation, task: str) -> PublishedRow:
    """Return the three rates of a task of a run, as defined by the paper."""
    part = replace(run, metrics=run.tasks[task])
    names = ("planned", "cases", "valid", "valid_instances", "invalid_instances")
    planned, cases, valid, *labelled = (part.figures.get(name) or 0 for name in names)
    # A grammar that is tested with labelled answers generates none.
    of = 0 if any(labelled) else int(planned)
    return {
        "declared": part.rate("declared_coverage"),
        "empirical": proportion(int(valid), of, design_effect=planned / cases if cases else 1.0),
        "compliance": part.rate("empirical_coverage"),
    }


@functools.cache
def published_masks() -> Publication:
    """Return the table of MaskBench: times of masks, and for how many schemas a grammar engine is right."""
    data = _published("masks")
    return Publication(
        **{name: value for name, value in data.items() if name != "engines"},
        tasks={"all": {name: _masks_of_publication(**row) for name, row in data["engines"].items()}},
        columns=(
            *(
                Column.of(FIGURES[f"{time}_p50"], f"{heading} {part}")
                for time, heading in _TIMES.items()
                for part in _SPREAD
            ),
            *(Column.of(_RATE, f"Schemas {heading}") for heading in ("Declared", "Passed")),
        ),
        meaning="a mask is from taking a token to the next mask (TBM), the first from the schema on (TTFM)",
    )


def _masks_of_publication(tbm: Sequence[int], ttfm: Sequence[int], schemas: Sequence[int]) -> PublishedRow:
    """Make a row from times in µs and numbers of schemas: passed, four kinds of undecided, two kinds of wrong."""
    passed, *undecided = schemas[:5]
    every = sum(schemas)
    names = [f"{time}_{part}" for time in _TIMES for part in _SPREAD]
    return {
        **{name: microseconds / 1e6 for name, microseconds in zip(names, (*tbm, *ttfm), strict=True)},
        "declared_coverage": _published_rate((every - sum(undecided)) / every),
        "pass_rate": _published_rate(passed / every),
    }


def _masks_of_run(run: Evaluation) -> PublishedRow:
    times = {f"{time}_{part}": run.figures.get(f"{time}_{part}") for time in _TIMES for part in _SPREAD}
    return {**times, **{name: run.rate(name) for name in ("declared_coverage", "pass_rate")}}


def _published_rate(value: float) -> Rate:
    return Rate(value=value, ci_low=None, ci_high=None)


def _published(name: str) -> dict[str, Any]:
    data = tomllib.loads(files("pytest_jsbench.lab").joinpath("published.toml").read_text("utf-8"))[name]
    return {**data, "notes": tuple(data["notes"])}


def row_to_dict(row: PublishedRow) -> dict[str, Any]:
    """Return the row as JSON values: rates with their intervals, times with their statistics."""
    data: dict[str, Any] = {}
    for name, cell in row.items():
        time, _, part = name.rpartition("_")
        if isinstance(cell, Rate):
            data[name] = cell.to_dict()
        else:
            data.setdefault(time, {})[part] = cell
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCases:
    """Numbers of cases of a task in a run."""

    #: Number of cases; None in an old file.
    cases: int | None
    excluded: int

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> RunCases:
        """Read the numbers from the figures."""
        cases = metrics.get("cases")
        return cls(cases=None if cases is None else int(cases), excluded=int(metrics.get("excluded") or 0))

    def beside(self, published: int) -> str | None:
        """Return the number of cases, compared with the published one if it is lower."""
        if self.cases is None:
            return None
        return f"{self.cases:,}" if self.cases >= published else f"{self.cases:,} of {published:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePublished:
    """Runs and a published table, side by side."""

    #: Key in the JSON output.
    name: str
    table: Publication
    #: Rows by task, then by the name of the run or the framework.
    tasks: Mapping[str, Mapping[str, PublishedRow]]
    #: Settings that differ; the first value of each is the publication's.
    settings: tuple[SettingDifference, ...]
    #: Settings that affect results, and that the publication does not state.
    unstated: tuple[SettingDifference, ...] = ()
    #: Cases planned, and attempts at broken schemas (which are in no figure), by task and run.
    cases: Mapping[str, Mapping[str, RunCases]] = field(default_factory=dict)
    #: Share of cases that a constant answer passes, by task; only for tasks for which a run has it.
    floors: Mapping[str, float] = field(default_factory=dict)
    #: Tasks of the runs that are not in the table.
    left_out: tuple[str, ...] = ()

    def blocks(self) -> Iterator[TableBlock | list[Fact]]:
        """Yield a table for each task, and facts about the figures, for display."""
        yield [("published", f"{self.table.title} ({self.table.source})")]
        for task, figures in self.tasks.items():
            names = distinct(list(figures), _LONGEST_LABEL)
            rows = tuple((name, tuple(row.values())) for name, row in zip(names, figures.values(), strict=True))
            table = TableBlock(head=task, columns=self.table.columns, rows=rows)
            runs, published = self.cases[task], self.table.cases[task]
            cells = (runs[name].beside(published) if name in runs else f"{published:,}" for name in figures)
            yield table.beside(Column.of(FIGURES["cases"]), tuple(cells))
        facts = [("figures", self.table.meaning), *(("note", note) for note in self.table.notes)]
        if floors := ", ".join(f"{floor:.2f} of {printable(task)}" for task, floor in self.floors.items()):
            facts.append(("floor", f"what one constant answer passes, such as {{}}: {floors}"))
        if left_out := ", ".join(map(printable, self.left_out)):
            facts.append(("left out", f"nothing is published of these tasks: {left_out}"))
        if self.settings:
            facts.append(("settings", f"that differ from the publication's: {counted(len(self.settings), 'setting')}"))
        for setting in self.settings:
            theirs, *ours = setting.shown
            values = f"{theirs} → {', '.join(dict.fromkeys(ours))}"
            facts.append(("", f"{setting.name} (affects {setting.bears_on}): {values}"))
        if unstated := ", ".join(
            f"{setting.name} {', '.join(dict.fromkeys(setting.shown[1:]))}" for setting in self.unstated
        ):
            facts.append(("unstated", f"by the publication, though it decides; here: {unstated}"))
        for task, runs in self.cases.items():
            for name, cases in runs.items():
                if cases.excluded:
                    attempts = counted(cases.excluded, "attempt")
                    facts.append(
                        (
                            "excluded",
                            f"{printable(name)}: {attempts} of {printable(task)} at broken schemas, in no figure",
                        )
                    )
        yield facts

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "title": self.table.title,
            "source": self.table.source,
            "notes": list(self.table.notes),
            "tasks": {
                task: {name: row_to_dict(row) for name, row in rows.items()} for task, rows in self.tasks.items()
            },
            "floors": dict(self.floors),
            "left_out": list(self.left_out),
            "settings": to_json(self.settings),
            "unstated": to_json(self.unstated),
            "cases": {
                task: {name: {**asdict(cases), "published": self.table.cases[task]} for name, cases in runs.items()}
                for task, runs in self.cases.items()
            },
        }


def beside(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[BesidePublished]:
    """Compare the runs with each published table that has one of their tasks; raise RecordError if none has."""
    runs = dict(zip(names, evaluations, strict=True))
    timed = {name: run for name, run in runs.items() if run.figures.get("mask_time_count")}
    coverage, masks = published_coverage(), published_masks()
    ours = {
        task: {name: coverage_of_run(run, task) for name, run in runs.items() if task in run.tasks}
        for task in coverage.tasks
    }
    of_masks = {"all": {name: _masks_of_run(run) for name, run in timed.items()}}
    tables = [
        *_beside("published", coverage, ours, runs),
        *_beside("published_masks", masks, of_masks, timed),
    ]
    if not tables:
        tasks = list(dict.fromkeys(task for run in evaluations for task in run.tasks))
        message = (
            f"no published figures for the tasks of these runs ({printable(', '.join(tasks), 200) or 'unknown'}): "
            f"expected one of {', '.join(coverage.tasks)}, or the times of masks of --jsbench-instances"
        )
        raise RecordError(message, found=tasks, expected=list(coverage.tasks), option="published")
    return tables


def _beside(
    name: str,
    table: Publication,
    ours: Mapping[str, Mapping[str, PublishedRow]],
    runs: Mapping[str, Evaluation],
) -> Iterator[BesidePublished]:
    """Yield a table with the rows of runs above the published ones; runs named like a framework are marked `(here)`."""
    tasks: dict[str, Mapping[str, PublishedRow]] = {}
    cases: dict[str, Mapping[str, RunCases]] = {}
    for task, rows in ours.items():
        theirs = {framework.casefold() for framework in table.tasks[task]}
        names = {run: f"{run} (here)" if run.casefold() in theirs else run for run in rows}
        if names:
            tasks[task] = {**{names[run]: row for run, row in rows.items()}, **table.tasks[task]}
            # A table of all tasks together has figures of whole runs.
            cases[task] = {names[run]: RunCases.of(runs[run].tasks.get(task, runs[run].metrics)) for run in rows}
    if tasks:
        settings = settings_of({**table.settings, "dataset": {**_WHOLE, **table.settings["dataset"]}})
        of_runs = [run.settings for run in runs.values()]
        differing = tuple(setting for setting in differences([settings, *of_runs]) if setting.name in settings)
        unstated = tuple(_unstated(name, of_runs) for name in _DECIDING if name not in settings)
        every = dict.fromkeys(task for run in runs.values() for task in run.tasks)
        measured = ((task, run.tasks.get(task, {}).get("floor")) for task in tasks for run in runs.values())
        floors = {task: floor for task, floor in measured if floor is not None}
        yield BesidePublished(
            name=name,
            table=table,
            tasks=tasks,
            settings=differing,
            unstated=tuple(filter(None, unstated)),
            cases=cases,
            floors=floors,
            # A table of all tasks together includes all tasks.
            left_out=tuple(task for task in every if task not in table.tasks and "all" not in table.tasks),
        )


def _unstated(name: str, runs: Sequence[Mapping[str, Setting]]) -> SettingDifference | None:
    """Return the setting as the runs have it; None if it is left to the engine."""
    settings = [run.get(name) for run in runs]
    if all(setting is None or setting.value is None for setting in settings):
        return None
    bears_on = next(setting.bears_on for setting in settings if setting is not None)
    values = [UNKNOWN if setting is None else setting.value for setting in settings]
    return SettingDifference(name=name, bears_on=bears_on, values=(UNKNOWN, *values))
