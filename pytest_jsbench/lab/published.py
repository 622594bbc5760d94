"""Compare runs with published figures, task by task, and list the settings that differ."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import distinct, format_count, printable
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
#: Column headings of MaskBench's TBM and TTFM, by the name of the metric in a run.
_TIMES = {"mask_time": FIGURES["mask_time_p50"].heading, "grammar_compilation": "First mask (ms)"}
_RATE = FIGURES["pass_rate"]
#: Settings that all publications share, since their figures cover whole tasks.
_WHOLE: Mapping[str, object] = {"limit": None, "sample": None, "where": [], "shard": None}
#: Settings that affect results and that a publication may leave unstated.
_DECIDING = (
    *("engine", "response_format", "engine.bounded", "adapt", "max_tokens", "timeout", "seed", "sample_seed"),
    *("judge.fences", "judge.reasoning", "judge.duplicate_keys"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A published table, with its source and the settings behind its figures."""

    title: str
    source: str
    #: Month in which the figures were copied from the source.
    read: str
    notes: tuple[str, ...]
    #: Settings in the form of a run's metadata; settings that the publication does not state are missing.
    settings: Mapping[str, Any]
    #: pytest options that reproduce the requests of the publication.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Number of schemas in each task.
    cases: Mapping[str, int]
    #: Figures by task and framework.
    tasks: Mapping[str, Mapping[str, PublishedRow]]
    columns: tuple[Column, ...]
    #: Explanation of the table's figures.
    meaning: str


@functools.cache
def published_coverage() -> Publication:
    """
    Return the table in the JSONSchemaBench paper; `empirical` is a share of all schemas, and `compliance` a share of
    the declared schemas.
    """
    data = _read_table("coverage")
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
        meaning="empirical: rate of valid answers over all schemas; compliance: over declared schemas, as in the paper",
    )


def options() -> Mapping[str, str]:
    """Return the options that reproduce the requests of the JSONSchemaBench paper."""
    return published_coverage().options


def coverage_of_run(run: Evaluation, task: str) -> PublishedRow:
    """Return the three rates of a task of a run, as defined by the paper."""
    part = replace(run, metrics=run.tasks[task])
    names = ("planned", "cases", "valid", "valid_instances", "invalid_instances")
    planned, cases, valid, *labelled = (part.figures.get(name) or 0 for name in names)
    # a run with labelled answers generates no answers
    of = 0 if any(labelled) else int(planned)
    return {
        "declared": part.rate("declared_coverage"),
        "empirical": proportion(int(valid), of, design_effect=planned / cases if cases else 1.0),
        "compliance": part.rate("empirical_coverage"),
    }


@functools.cache
def published_masks() -> Publication:
    """Return MaskBench's table: the times of masks, and the shares of schemas that are declared and that pass."""
    data = _read_table("masks")
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
        meaning="mask: time from a token to the next mask (TBM); first mask: from the schema to the first mask (TTFM)",
    )


def _masks_of_publication(tbm: Sequence[int], ttfm: Sequence[int], schemas: Sequence[int]) -> PublishedRow:
    """
    Return a row. `tbm` and `ttfm` contain times in µs. `schemas` contains numbers of schemas: one number for passed
    schemas, four for schemas without a decision, and two for schemas with a wrong decision.
    """
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


def _read_table(name: str) -> dict[str, Any]:
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
    """Numbers of a run's cases and excluded attempts in one task."""

    #: Number of cases; None if an old file does not contain the number.
    cases: int | None
    excluded: int

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> RunCases:
        """Read the numbers from the task's metrics."""
        cases = metrics.get("cases")
        return cls(cases=None if cases is None else int(cases), excluded=int(metrics.get("excluded") or 0))

    def format_cases(self, published: int) -> str | None:
        """Return the number of cases as text, such as `50 of 1,707` if fewer cases were run than published."""
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
    #: Settings that differ; the first value of each setting is the publication's value.
    settings: tuple[SettingDifference, ...]
    #: Settings that affect results and that the publication does not state.
    unstated: tuple[SettingDifference, ...] = ()
    #: Numbers of cases, and of attempts with invalid schemas (which no figure includes), by task and run.
    cases: Mapping[str, Mapping[str, RunCases]] = field(default_factory=dict)
    #: Share of cases that one constant answer would pass, by task; tasks for which no run contains this share are
    #: absent.
    floors: Mapping[str, float] = field(default_factory=dict)
    #: Tasks in the runs for which the table has no figures.
    left_out: tuple[str, ...] = ()

    def blocks(self) -> Iterator[TableBlock | list[Fact]]:
        """Yield a table for each task, and facts about the figures, for display."""
        yield [("published", f"{self.table.title} ({self.table.source})")]
        for task, figures in self.tasks.items():
            names = distinct(list(figures), _LONGEST_LABEL)
            rows = tuple((name, tuple(row.values())) for name, row in zip(names, figures.values(), strict=True))
            table = TableBlock(head=task, columns=self.table.columns, rows=rows)
            runs, published = self.cases[task], self.table.cases[task]
            cells = (runs[name].format_cases(published) if name in runs else f"{published:,}" for name in figures)
            yield table.beside(Column.of(FIGURES["cases"]), tuple(cells))
        facts = [("figures", self.table.meaning), *(("note", note) for note in self.table.notes)]
        if floors := ", ".join(f"{floor:.2f} of {printable(task)}" for task, floor in self.floors.items()):
            facts.append(("floor", f"cases that would pass if every answer were the same, such as {{}}: {floors}"))
        if left_out := ", ".join(map(printable, self.left_out)):
            facts.append(("left out", f"tasks without published figures: {left_out}"))
        if self.settings:
            differing = f"{format_count(len(self.settings), 'difference')} between the publication and the runs"
            facts.append(("settings", differing))
        for setting in self.settings:
            theirs, *ours = setting.shown
            values = f"{theirs} → {', '.join(dict.fromkeys(ours))}"
            facts.append(("", f"{setting.name} (affects {setting.bears_on}): {values}"))
        if unstated := ", ".join(
            f"{setting.name} {', '.join(dict.fromkeys(setting.shown[1:]))}" for setting in self.unstated
        ):
            facts.append(
                ("unstated", f"settings that affect results and that the publication does not state: {unstated}")
            )
        for task, runs in self.cases.items():
            for name, cases in runs.items():
                if cases.excluded:
                    attempts = format_count(cases.excluded, "attempt")
                    words = f"{printable(name)}: {attempts} with invalid schemas in {printable(task)}, in no figure"
                    facts.append(("excluded", words))
        yield facts

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
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


def compare_with_published(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[BesidePublished]:
    """
    Compare the runs with each published table that contains a task of the runs; raise RecordError if there is no such
    table.
    """
    runs = dict(zip(names, evaluations, strict=True))
    timed = {name: run for name, run in runs.items() if run.figures.get("mask_time_count")}
    coverage, masks = published_coverage(), published_masks()
    ours = {
        task: {name: coverage_of_run(run, task) for name, run in runs.items() if task in run.tasks}
        for task in coverage.tasks
    }
    of_masks = {"all": {name: _masks_of_run(run) for name, run in timed.items()}}
    tables = [
        *_compare_with_table("published", coverage, ours, runs),
        *_compare_with_table("published_masks", masks, of_masks, timed),
    ]
    if not tables:
        tasks = list(dict.fromkeys(task for run in evaluations for task in run.tasks))
        message = (
            f"no published figures for the tasks of these runs ({printable(', '.join(tasks), 200) or 'unknown'}): "
            f"expected a run with --jsbench-instances that measured masks, or with one of the tasks "
            f"{', '.join(coverage.tasks)}"
        )
        raise RecordError(message, found=tasks, expected=list(coverage.tasks), option="published")
    return tables


def _compare_with_table(
    name: str,
    table: Publication,
    ours: Mapping[str, Mapping[str, PublishedRow]],
    runs: Mapping[str, Evaluation],
) -> Iterator[BesidePublished]:
    """
    Yield a comparison in which the runs precede the published rows; `(here)` marks runs that are named
    like a published framework.
    """
    tasks: dict[str, Mapping[str, PublishedRow]] = {}
    cases: dict[str, Mapping[str, RunCases]] = {}
    for task, rows in ours.items():
        theirs = {framework.casefold() for framework in table.tasks[task]}
        names = {run: f"{run} (here)" if run.casefold() in theirs else run for run in rows}
        if names:
            tasks[task] = {**{names[run]: row for run, row in rows.items()}, **table.tasks[task]}
            # a table without tasks is compared with the figures of whole runs
            cases[task] = {names[run]: RunCases.of(runs[run].tasks.get(task, runs[run].metrics)) for run in rows}
    if tasks:
        settings = settings_of({**table.settings, "dataset": {**_WHOLE, **table.settings["dataset"]}})
        of_runs = [run.settings for run in runs.values()]
        differing = tuple(setting for setting in differences([settings, *of_runs]) if setting.name in settings)
        unstated = tuple(_find_unstated(name, of_runs) for name in _DECIDING if name not in settings)
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
            # a table without tasks includes all tasks
            left_out=tuple(task for task in every if task not in table.tasks and "all" not in table.tasks),
        )


def _find_unstated(name: str, runs: Sequence[Mapping[str, Setting]]) -> SettingDifference | None:
    """Return a setting's values in the runs; None if all runs use the engine's default."""
    settings = [run.get(name) for run in runs]
    if all(setting is None or setting.value is None for setting in settings):
        return None
    bears_on = next(setting.bears_on for setting in settings if setting is not None)
    values = [UNKNOWN if setting is None else setting.value for setting in settings]
    return SettingDifference(name=name, bears_on=bears_on, values=(UNKNOWN, *values))
