"""Define datasets, which are ordered sources of cases. The schema of a case is parsed only when the case is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected, safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.columns import MOST_CASES
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.values import extract_comparers, without_comparers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Size and seed of a random sample of cases, stratified by task; `seed` is not the model's seed."""

    size: int
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Source of cases, with the options that select cases from the source."""

    source: str = "builtin"
    #: Sources of a suite, whose names are joined in `source`; empty if there is only one source.
    sources: tuple[str, ...] = ()
    #: Names of tasks; None for all tasks.
    tasks: tuple[str, ...] | None = None
    split: str = "test"
    #: Number of cases to take from the start of each task; None for all cases.
    limit: int | None = None
    #: True to skip cases with a broken schema, as for published datasets; False if the user is expected to fix them.
    skips_invalid: bool = True
    #: True to treat a schema with a misspelled keyword as broken, too.
    strict: bool = False
    #: True to read labelled answers with the cases (`datasets.labelled`).
    labelled: bool = False
    #: Conditions that each case must meet, in the syntax of `datasets.conditions`.
    where: tuple[str, ...] = ()
    #: Random sample of the cases; None for all cases.
    sample: Sample | None = None
    #: Directory of schemas that the source's schemas may refer to.
    registry: str | None = None
    #: Dialect that conditions assume for a schema without `$schema`.
    default_dialect: str = DRAFT_2020_12.uri

    @classmethod
    def from_sources(cls, sources: Sequence[str], **chosen: Any) -> Selection:
        """Return a selection from one source, or from several sources as one suite; repeated sources are ignored."""
        names = tuple(dict.fromkeys(sources))
        return cls(source=" + ".join(names), sources=names if len(names) > 1 else (), **chosen)

    def to_dict(self) -> dict[str, object]:
        """Return the selection as JSON values, for the run's metadata."""
        invalid_schemas = "fail"
        if self.skips_invalid:
            invalid_schemas = "skip"
        elif self.strict:
            invalid_schemas = "strict"
        return {
            "source": self.source,
            **({"sources": list(self.sources)} if self.sources else {}),
            "tasks": None if self.tasks is None else list(self.tasks),
            "split": self.split,
            "limit": self.limit,
            "labelled": self.labelled,
            "invalid_schemas": invalid_schemas,
            "where": list(self.where),
            "sample": None if self.sample is None else self.sample.size,
            "sample_seed": None if self.sample is None else self.sample.seed,
        }


class CaseSource(Protocol):
    """An ordered source of cases, grouped in tasks."""

    def keys(self) -> Sequence[CaseKey]:
        """Return the keys of the selected cases, task by task, in the same order on every machine."""

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """Parse and return the case with this key."""


def choose_tasks(source: str, known: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """Return the wanted tasks in the dataset's order; raise DatasetError for a task that the dataset does not have."""
    if wanted is None:
        return list(known)
    for task in wanted:
        if task not in known:
            message = f"dataset '{source}' has no task '{task}': {nearest(task, known)}"
            raise DatasetError(message, found=task, expected=tuple(known), where=source)
    return [task for task in known if task in wanted]


#: Function that reads the case with a key, and raises Unreadable if the case cannot be read.
Read = Callable[[CaseKey], Case | BrokenCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Answer that is known to be valid or invalid for a schema."""

    id: str
    valid: bool
    #: The answer as JSON text.
    text: str

    @classmethod
    def from_value(cls, value: object, *, name: str, valid: bool) -> Instance:
        """Return an instance with this JSON value."""
        return cls(id=name, valid=valid, text=json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCase:
    """Entry of a dataset: a case's name in the source, and a function that reads the case."""

    task: str
    name: str
    #: Origin of the case in messages, such as its file and line.
    where: str
    read: Read
    #: Function that returns the schema as text, for cases that consist only of a schema.
    text: Callable[[], object] | None = None
    #: Answers that are known to be valid or invalid.
    instances: Sequence[Instance] = ()


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """Message about a part of the source that was skipped."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Dataset that lists its cases by key; each case is read on request."""

    entries: Mapping[CaseKey, ListedCase]
    #: Messages about skipped parts of the source.
    notes: tuple[str, ...] = ()

    @classmethod
    def from_entries(cls, selection: Selection, entries: Iterable[ListedCase | SkippedPart]) -> Listing:
        """Return the selected entries, with tasks in the order of their first entries."""
        by_task: dict[str, list[ListedCase]] = {}
        kept = 0
        notes: list[str] = []
        for entry in entries:
            if isinstance(entry, SkippedPart):
                notes.append(entry.text)
                continue
            group = by_task.setdefault(_safe_task(entry.task), [])
            if selection.limit is None or len(group) < selection.limit:
                group.append(entry)
                kept += 1
            if kept > MOST_CASES:
                raise DatasetError(
                    f"dataset '{selection.source}' has more than {MOST_CASES:,} cases; limit them with --jsbench-limit"
                )
        selected: dict[CaseKey, ListedCase] = {}
        next_numbers: dict[CaseKey, int] = {}
        for task in choose_tasks(selection.source, list(by_task), selection.tasks):
            for entry in by_task[task]:
                selected[_unused_key(selected, task, entry.name, next_numbers)] = entry
        return cls(entries=selected, notes=tuple(notes))

    @classmethod
    def from_source(cls, dataset: CaseSource) -> Listing:
        """Return the cases of any dataset as a listing."""
        if isinstance(dataset, Listing):
            return dataset
        read = dataset.case
        return cls(
            entries={key: ListedCase(task=key.task, name=key.id, where=str(key), read=read) for key in dataset.keys()}
        )

    def only(self, keys: Iterable[CaseKey]) -> Listing:
        """Return a listing with only these cases."""
        return Listing(entries={key: self.entries[key] for key in keys}, notes=self.notes)

    def keys(self) -> Sequence[CaseKey]:
        """Return the keys of the selected cases."""
        return tuple(self.entries)

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """Return the labelled answers to the case with this key."""
        return self.entries[key].instances

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """Read the case with this key; return a BrokenCase with the place in the source if it cannot be read."""
        entry = self.entries[key]
        try:
            return entry.read(key)
        except Unreadable as error:
            return build_broken_case(key, entry.where, error)

    def texts(self) -> Iterator[tuple[CaseKey, str]]:
        """Yield the key and the schema's text of each case that consists only of its schema."""
        for key, entry in self.entries.items():
            if entry.text is not None and isinstance(text := entry.text(), str):
                yield key, text


#: `safe_name` for tasks; adjacent cases have the same task.
_safe_task = lru_cache(maxsize=16)(safe_name)


def _unused_key(used: Mapping[CaseKey, object], task: str, name: str, next_numbers: dict[CaseKey, int]) -> CaseKey:
    """
    Return a key with this name, or with the first unused one of `name.2`, `name.3`, … if the name is taken.

    `next_numbers` contains the next number for each name, so that many rows with the same name take linear time.
    """
    safe = safe_name(name)
    wanted = CaseKey(task=task, id=safe)
    key = wanted
    number = next_numbers.get(wanted, 2)
    while key in used:
        key = CaseKey(task=task, id=f"{safe}.{number}")
        number += 1
    next_numbers[wanted] = number
    return key


def build_broken_case(key: CaseKey, where: str, error: Unreadable) -> BrokenCase:
    """Return a BrokenCase for a case that could not be read, with the place in the source."""
    return BrokenCase(key=key, problem=printable(f"{where}: {error.problem}", limit=600), reason=error.reason)


def schema_case(key: CaseKey, value: object, *, expected: Expected | None = None) -> Case:
    """
    Return a case with this value as its schema; raise Unreadable if it is not a schema or names an
    unknown comparer.
    """
    return with_comparers(Case(key=key, schema=as_schema(value), expected=expected))


def as_schema(value: object) -> bool | dict[str, Any]:
    """Return the value if it is an object or a boolean, as JSON Schemas are; raise Unreadable otherwise."""
    if isinstance(value, bool | dict):
        return value
    message = f"a JSON {json_type(value)} is not a JSON Schema; expected an object, true or false"
    raise Unreadable(message, reason="not_a_schema")


def with_comparers(case: Case) -> Case:
    """Return the case with the comparers that its schema declares; raise Unreadable if a declaration is invalid."""
    try:
        if case.expected is None:
            schema = without_comparers(case.schema)
            return case if schema is case.schema else replace(case, schema=schema)
        schema, expected = extract_comparers(case.schema, case.expected.value)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_comparer") from None
    return replace(case, schema=schema, expected=expected)
