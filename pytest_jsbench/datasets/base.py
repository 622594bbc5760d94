"""What a dataset is: an ordered source of cases; it parses a case's schema only when the case is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.schemas.dialects import DRAFT_2020_12


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
    #: whether a case whose schema is broken is left out, as of a published dataset; else it is the user's own to mend
    skips_invalid: bool = True
    #: whether a schema is broken, too, that has a word near to a keyword where a keyword stands
    strict: bool = False
    #: whether it is labelled answers that are wanted (`datasets.labelled`)
    labelled: bool = False
    #: conditions (`conditions`), all of which a case must meet
    where: tuple[str, ...] = ()
    #: None: all
    sample: Sample | None = None
    #: a folder of schemas that those of the source may refer to
    registry: str | None = None
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
            "invalid_schemas": "skip" if self.skips_invalid else "strict" if self.strict else "fail",
            "where": list(self.where),
            "sample": None if self.sample is None else self.sample.size,
            "sample_seed": None if self.sample is None else self.sample.seed,
        }


class CaseSource(Protocol):
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
            raise DatasetError(message, found=task, expected=tuple(known), where=source)
    return [task for task in known if task in wanted]


#: cases of a dataset, each of which is a test
MOST_CASES = 500_000
#: reads the case of the key that it is given
Read = Callable[[CaseKey], Case | BrokenCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One case that is there to be read: what its source calls it, and how to read it."""

    task: str
    name: str
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A dataset of found cases, each read when it is asked for."""

    reads: Mapping[CaseKey, Read]

    @classmethod
    def of(cls, selection: Selection, found: Iterable[Found]) -> Listing:
        """The selection's part, task by task in the order in which tasks were first found."""
        by_task: dict[str, list[Found]] = {}
        kept = 0
        for one in found:
            group = by_task.setdefault(safe_name(one.task), [])
            if selection.limit is None or len(group) < selection.limit:
                group.append(one)
                kept += 1
            if kept > MOST_CASES:
                message = (
                    f"dataset '{selection.source}' holds more than {MOST_CASES:,} cases; --jsbench-limit takes fewer"
                )
                raise DatasetError(message)
        reads: dict[CaseKey, Read] = {}
        tried: dict[CaseKey, int] = {}
        for task in choose_tasks(selection.source, list(by_task), selection.tasks):
            for one in by_task[task]:
                reads[free_key(reads, task, one.name, tried)] = one.read
        return cls(reads=reads)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.reads)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them."""
        return self.reads[key](key)


def free_key(taken: Mapping[CaseKey, object], task: str, name: str, tried: dict[CaseKey, int]) -> CaseKey:
    """
    The key of that name in a safe task, or, where it is taken, the first free one of `name.2`, `name.3`, …

    What was tried of each name is noted, so that a million rows of one name are not a million times a million steps.
    """
    safe = safe_name(name)
    key = wanted = CaseKey(task=task, id=safe)
    number = tried.get(wanted, 2)
    while key in taken:
        key = CaseKey(task=task, id=f"{safe}.{number}")
        number += 1
    tried[wanted] = number
    return key
