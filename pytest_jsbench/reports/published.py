"""A run beside the figures that others have published: per task, and in which settings they differ."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.metrics.statistics import Rate, proportion
from pytest_jsbench.reports.summary_table import aligned, detail, rate
from pytest_jsbench.runs.settings import SettingDifference, differences, settings_of

if TYPE_CHECKING:
    from pytest_jsbench.reports.evaluations import Evaluation

_LONGEST_LABEL = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCoverage:
    """A table of coverage by task, as it was published."""

    title: str
    source: str
    #: month in which it was read
    read: str
    notes: tuple[str, ...]
    #: as a run's metadata has them; what the publication does not say is not among them
    settings: Mapping[str, Any]
    #: options of pytest that ask as it asked
    options: Mapping[str, str]
    #: by task and framework
    tasks: Mapping[str, Mapping[str, CoverageRates]]


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
        planned, valid, *labelled = (
            part.figures.get(name) or 0 for name in ("planned", "valid", "valid_instances", "invalid_instances")
        )
        # a grammar that decides on labelled answers gives none of its own
        empirical = proportion(int(valid), 0 if any(labelled) else int(planned))
        return cls(
            declared=part.rate("declared_coverage"),
            empirical=empirical,
            compliance=part.rate("empirical_coverage"),
        )

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """As JSON values."""
        rates = {"declared": self.declared, "empirical": self.empirical, "compliance": self.compliance}
        return {name: {"value": one.value, "ci_low": one.ci_low, "ci_high": one.ci_high} for name, one in rates.items()}


@functools.cache
def published_coverage() -> PublishedCoverage:
    """The table of the JSONSchemaBench paper."""
    text = files("pytest_jsbench.reports").joinpath("published.toml").read_text("utf-8")
    data = tomllib.loads(text)["coverage"]
    tasks = {
        task: {framework: _rates(*values) for framework, values in row.items()} for task, row in data["tasks"].items()
    }
    return PublishedCoverage(**{**data, "notes": tuple(data["notes"]), "tasks": tasks})


def _rates(*values: float) -> CoverageRates:
    declared, empirical, compliance = (Rate(value=value, ci_low=None, ci_high=None) for value in values)
    return CoverageRates(declared=declared, empirical=empirical, compliance=compliance)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePublished:
    """Runs and a published table, side by side."""

    table: PublishedCoverage
    #: by task, then by the name of the run or the framework
    tasks: Mapping[str, Mapping[str, CoverageRates]]
    #: the first value of each is the publication's
    settings: tuple[SettingDifference, ...]
    names: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "title": self.table.title,
            "source": self.table.source,
            "notes": list(self.table.notes),
            "tasks": {task: {name: one.to_dict() for name, one in rows.items()} for task, rows in self.tasks.items()},
            "settings": [one.to_dict() for one in self.settings],
        }


def beside_published(evaluations: Sequence[Evaluation], names: Sequence[str]) -> BesidePublished:
    """The runs beside the table, for each of its tasks that a run has; RecordError where none has any."""
    table = published_coverage()
    tasks: dict[str, Mapping[str, CoverageRates]] = {}
    for task, row in table.tasks.items():
        ours = {
            name: CoverageRates.of_run(found, task)
            for name, found in zip(names, evaluations, strict=True)
            if task in found.tasks
        }
        if ours:
            tasks[task] = {**ours, **row}
    if not tasks:
        found = list(dict.fromkeys(task for one in evaluations for task in one.tasks))
        message = (
            f"nothing is published of the tasks of these runs ({printable(', '.join(found), 200) or 'none is known'}): "
            f"expected one of {', '.join(table.tasks)}"
        )
        raise RecordError(message, found=found, expected=list(table.tasks), where="--published")
    # it was of whole tasks, which a table of settings cannot say
    said = settings_of({**table.settings, "dataset": {**table.settings["dataset"], "limit": None, "sample": None}})
    differing = differences([said, *(one.settings for one in evaluations)])
    return BesidePublished(
        table=table, tasks=tasks, settings=tuple(one for one in differing if one.name in said), names=tuple(names)
    )


def published_lines(found: BesidePublished) -> Iterator[str]:
    """The same for people, within 80 columns."""
    yield f"{found.table.title} ({found.table.source})"
    yield ""
    for task, rows in found.tasks.items():
        yield from aligned([task, "Declared", "Empirical", "Compliance"], [_row(*row) for row in rows.items()])
        yield ""
    yield from detail("empirical", "valid answers of all schemas; compliance: of those declared, as the paper has it")
    for note in found.table.notes:
        yield from detail("note", note)
    if found.settings:
        yield from detail("settings", f"that differ from the publication's: {counted(len(found.settings), 'setting')}")
    for one in found.settings:
        theirs, *ours = one.shown
        yield from detail("", f"{one.name} (bears on {one.bears_on}): {theirs} → {', '.join(dict.fromkeys(ours))}")


def published_table(found: BesidePublished) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the same as one table."""
    rows = [[task, *_row(name, one)] for task, part in found.tasks.items() for name, one in part.items()]
    return ["Task", "Run or framework", "Declared", "Empirical", "Compliance"], rows


def _row(name: str, found: CoverageRates) -> list[str]:
    return [printable(name, _LONGEST_LABEL), rate(found.declared), rate(found.empirical), rate(found.compliance)]
