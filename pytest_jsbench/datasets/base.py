"""What a dataset is: an ordered source of cases, whose schemas are parsed only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_jsbench.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.errors import DatasetError, nearest
from pytest_jsbench.verdicts.dialects import DRAFT_2020_12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """So many cases over all tasks, in proportion; the seed is the sample's own, and not the model's."""

    size: int
    seed: int = 0


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
    #: conditions (`conditions`), all of which a case must meet
    where: tuple[str, ...] = ()
    #: None: all
    sample: Sample | None = None
    #: the `$schema` by which conditions see a schema that declares none
    default_dialect: str = DRAFT_2020_12.uri

    def to_dict(self) -> dict[str, object]:
        """The selection as JSON values, for the run's metadata."""
        return {
            "source": self.source,
            "tasks": None if self.tasks is None else list(self.tasks),
            "split": self.split,
            "limit": self.limit,
            "labelled": self.labelled,
            "where": list(self.where),
            "sample": None if self.sample is None else self.sample.size,
            "sample_seed": None if self.sample is None else self.sample.seed,
        }


class Dataset(Protocol):
    """An ordered source of cases, grouped in tasks."""

    def keys(self) -> Sequence[CaseKey]:
        """The cases of the selection, in order, task by task; the same on every machine."""

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """The case of that key, parsed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case's schema as text, not parsed yet."""

    text: str
    #: where it stands, for messages about it
    where: str


@runtime_checkable
class RowDataset(Protocol):
    """A dataset of which cases can be given as text, to be parsed elsewhere."""

    def all_rows(self) -> Iterable[tuple[CaseKey, Row]]:
        """Each case that is nothing but the text of a schema."""


def choose_tasks(source: str, known: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """The tasks to take, in the dataset's order; DatasetError names one that it does not hold."""
    if wanted is None:
        return list(known)
    for task in wanted:
        if task not in known:
            message = f"dataset '{source}' has no task '{task}': {nearest(task, known)}"
            raise DatasetError(message)
    return [task for task in known if task in wanted]
