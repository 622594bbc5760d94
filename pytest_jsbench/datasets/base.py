"""A dataset, an ordered source of cases, which parses a case's schema only when the case is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected, safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.values import expecting, without_comparers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """So many cases over all tasks, in proportion; the seed is the sample's own, and not the model's."""

    size: int
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a source that is wanted."""

    source: str = "builtin"
    #: sources that are one suite, which `source` names together; empty if `source` is the only one
    sources: tuple[str, ...] = ()
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

    @classmethod
    def over(cls, sources: Sequence[str], **chosen: Any) -> Selection:
        """Return a selection from one source, or from several that are one suite; each counts once."""
        names = tuple(dict.fromkeys(sources))
        return cls(source=" + ".join(names), sources=names if len(names) > 1 else (), **chosen)

    def to_dict(self) -> dict[str, object]:
        """The selection as JSON values, for the run's metadata."""
        return {
            "source": self.source,
            **({"sources": list(self.sources)} if self.sources else {}),
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
#: reads the case of the key that it is given; Unreadable where there is none
Read = Callable[[CaseKey], Case | BrokenCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A labelled answer."""

    id: str
    valid: bool
    #: the document as json.dumps sets it out
    text: str

    @classmethod
    def of(cls, value: object, *, name: str, valid: bool) -> Instance:
        """The instance of that JSON value."""
        return cls(id=name, valid=valid, text=json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCase:
    """A case that is there to be read, under the name that its source gives it."""

    task: str
    name: str
    #: where it stands, for messages about it
    where: str
    read: Read
    #: reads its schema as text, where the case is nothing but that
    text: Callable[[], object] | None = None
    #: answers of which it is known whether they conform
    instances: Sequence[Instance] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message about what a source contains and is not among its cases."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A dataset of entries, each read when it is asked for."""

    entries: Mapping[CaseKey, ListedCase]
    #: messages about what was left out
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, selection: Selection, entries: Iterable[ListedCase | LeftOut]) -> Listing:
        """The selection's part, task by task in the order in which tasks first come."""
        by_task: dict[str, list[ListedCase]] = {}
        kept = 0
        notes: list[str] = []
        for entry in entries:
            if isinstance(entry, LeftOut):
                notes.append(entry.text)
                continue
            group = by_task.setdefault(safe_name(entry.task), [])
            if selection.limit is None or len(group) < selection.limit:
                group.append(entry)
                kept += 1
            if kept > MOST_CASES:
                raise DatasetError(
                    f"dataset '{selection.source}' holds more than {MOST_CASES:,} cases; --jsbench-limit takes fewer"
                )
        taken: dict[CaseKey, ListedCase] = {}
        tried: dict[CaseKey, int] = {}
        for task in choose_tasks(selection.source, list(by_task), selection.tasks):
            for entry in by_task[task]:
                taken[_free_key(taken, task, entry.name, tried)] = entry
        return cls(entries=taken, notes=tuple(notes))

    @classmethod
    def over(cls, dataset: CaseSource) -> Listing:
        """The cases of any dataset."""
        if isinstance(dataset, Listing):
            return dataset
        read = dataset.case
        return cls(
            entries={key: ListedCase(task=key.task, name=key.id, where=str(key), read=read) for key in dataset.keys()}
        )

    def only(self, keys: Iterable[CaseKey]) -> Listing:
        """These of the cases."""
        return Listing(entries={key: self.entries[key] for key in keys}, notes=self.notes)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.entries)

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """The labelled answers to the case of that key."""
        return self.entries[key].instances

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """Read one of them; it is broken, with its place, where it cannot be read."""
        entry = self.entries[key]
        try:
            return entry.read(key)
        except Unreadable as error:
            return broken(key, entry.where, error)

    def texts(self) -> Iterator[tuple[CaseKey, str]]:
        """The text of each case that is nothing but the text of a schema."""
        for key, entry in self.entries.items():
            if entry.text is not None and isinstance(text := entry.text(), str):
                yield key, text


def _free_key(taken: Mapping[CaseKey, object], task: str, name: str, tried: dict[CaseKey, int]) -> CaseKey:
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


def broken(key: CaseKey, where: str, error: Unreadable) -> BrokenCase:
    """The case that could not be read, with its place."""
    return BrokenCase(key=key, problem=printable(f"{where}: {error.problem}", limit=600), reason=error.reason)


def schema_case(key: CaseKey, value: object, *, expected: Expected | None = None) -> Case:
    """The case with that value as its schema; Unreadable where it is none, or names a comparer that is none."""
    return with_comparers(Case(key=key, schema=as_schema(value), expected=expected))


def as_schema(value: object) -> bool | dict[str, Any]:
    """The value, which is a JSON Schema by its type; Unreadable where it is not."""
    if isinstance(value, bool | dict):
        return value
    message = f"a JSON {json_type(value)} is not a JSON Schema; expected an object, true or false"
    raise Unreadable(message, reason="not_a_schema")


def with_comparers(case: Case) -> Case:
    """The case with the comparers that its schema names beside it; Unreadable where one says wrongly how to compare."""
    try:
        if case.expected is None:
            schema = without_comparers(case.schema)
            return case if schema is case.schema else replace(case, schema=schema)
        schema, expected = expecting(case.schema, case.expected.value)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_comparer") from None
    return replace(case, schema=schema, expected=expected)
