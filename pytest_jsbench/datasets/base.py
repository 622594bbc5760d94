"""What a dataset is: an ordered source of cases, whose schemas are parsed only when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_jsbench.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.errors import DatasetError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which part of which source is wanted."""

    source: str = "builtin"
    #: None: every task
    tasks: tuple[str, ...] | None = None
    split: str = "test"
    #: the first N of each task; None: all
    limit: int | None = None
    #: whether it is labelled answers that are wanted (`datasets.labelled`)
    labelled: bool = False

    def to_dict(self) -> dict[str, object]:
        """The selection as JSON values, for the run's metadata."""
        return {
            "source": self.source,
            "tasks": None if self.tasks is None else list(self.tasks),
            "split": self.split,
            "limit": self.limit,
            "labelled": self.labelled,
        }


class Dataset(Protocol):
    """An ordered source of cases, grouped in tasks."""

    def keys(self) -> Sequence[CaseKey]:
        """The cases of the selection, in order, task by task; the same on every machine."""

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """The case of that key, parsed now."""


def choose_tasks(source: str, known: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """The tasks to take, in the dataset's order; DatasetError names one that it does not hold."""
    if wanted is None:
        return list(known)
    for task in wanted:
        if task not in known:
            message = f"dataset '{source}' has no task '{task}': {nearest(task, known)}"
            raise DatasetError(message)
    return [task for task in known if task in wanted]
