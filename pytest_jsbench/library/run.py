"""A run as a program holds it: where it is, and its figures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path

from pytest_jsbench.library.words import said_to_programs
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.runs.outcomes import Run


@dataclass(frozen=True, kw_only=True)
class EvaluatedRun(Run):
    """A run that a program has made, or has loaded."""

    #: where its records are; None: nowhere but here
    folder: Path | None = None

    @classmethod
    def of_run(cls, run: Run, folder: Path | None) -> EvaluatedRun:
        """The run that is in this folder."""
        return cls(**{field.name: getattr(run, field.name) for field in fields(Run)}, folder=folder)

    @cached_property
    def summary(self) -> Summary:
        """Its figures."""
        return summarize(self)


def load_run(path: str | PathLike[str]) -> EvaluatedRun:
    """A run from its folder, its records.jsonl, or the newest in a folder of runs; its records stay on disk."""
    from pytest_jsbench.reports.evaluations import read_run
    from pytest_jsbench.runs.journal import find_files

    with said_to_programs():
        run = read_run(Path(path))
        return EvaluatedRun.of_run(run, find_files(Path(path))[0].parent)
