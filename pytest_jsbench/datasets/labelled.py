"""Labelled answers: schemas, each with instances that are known to conform to it or not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.datasets.base import CaseSource, Selection, choose_tasks
from pytest_jsbench.datasets.sources.folder import BuiltinDataset, load

SCHEMAS, INSTANCES = "schemas.jsonl", "instances.jsonl"
#: what a line of each file must have, and of which type
_FIELDS: Mapping[str, Mapping[str, type | UnionType]] = {
    SCHEMAS: {"schema_id": str, "task": str, "schema": object},
    INSTANCES: {"id": str | int, "schema_id": str, "valid": bool, "data": object},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One labelled answer."""

    id: str
    valid: bool
    #: the document as json.dumps sets it out
    text: str

    @classmethod
    def of(cls, value: object, *, name: str, valid: bool) -> Instance:
        """The instance of that JSON value."""
        return cls(id=name, valid=valid, text=json.dumps(value, ensure_ascii=False))


class LabelledDataset(CaseSource, Protocol):
    """Cases with labelled answers."""

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """The answers to the case of that key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinInstances:
    """The built-in schemas with the instances that come with them."""

    dataset: BuiltinDataset

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return self.dataset.keys()

    def case(self, key: CaseKey) -> Case:
        """One of them."""
        return self.dataset.case(key)

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """Its valid instances, and those that break its schema (and not merely have a field too many)."""
        data = load(key)
        valid = [Instance.of(value, name=f"valid-{n}", valid=True) for n, value in enumerate(data["valid"])]
        broken = [entry for entry in data["invalid"] if entry["failure_type"] == "schema_violation"]
        invalid = [Instance.of(entry["instance"], name=f"invalid-{n}", valid=False) for n, entry in enumerate(broken)]
        return [*valid, *invalid]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderInstances:
    """A folder with lines of `{schema_id, task, schema}` and of `{id, schema_id, valid, data}`, gzipped or not."""

    #: as text, which takes a tenth of the memory
    schemas: Mapping[CaseKey, str]
    answers: Mapping[CaseKey, Sequence[Instance]]

    @classmethod
    def open(cls, selection: Selection, folder: Path) -> FolderInstances:
        """The selection's part; schemas without any answer are left out."""
        answers: dict[str, list[Instance]] = {}
        for row in _rows(folder, INSTANCES):
            instance = Instance.of(row["data"], name=str(row["id"]), valid=row["valid"])
            answers.setdefault(row["schema_id"], []).append(instance)
        by_task: dict[str, dict[str, tuple[str, list[Instance]]]] = {}
        for row in _rows(folder, SCHEMAS):
            aliases = row.get("aliases")
            names = dict.fromkeys([row["schema_id"], *map(str, aliases if isinstance(aliases, list) else ())])
            if found := [instance for name in names for instance in answers.get(name, ())]:
                task = by_task.setdefault(safe_name(row["task"]), {})
                task[safe_name(row["schema_id"])] = json.dumps(row["schema"]), found
        cases = {
            CaseKey(task=task, id=name): case
            for task in choose_tasks(selection.source, sorted(by_task), selection.tasks)
            for name, case in sorted(by_task[task].items())[: selection.limit]
        }
        if not cases:
            message = (
                f"no schema in {folder} has an answer: expected a line of {SCHEMAS} for a schema_id of {INSTANCES}"
            )
            raise DatasetError(message)
        return cls(
            schemas={key: schema for key, (schema, _) in cases.items()},
            answers={key: found for key, (_, found) in cases.items()},
        )

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.schemas)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them."""
        schema = json.loads(self.schemas[key])
        if isinstance(schema, bool | Mapping):
            return Case(key=key, schema=schema)
        return BrokenCase(key=key, problem=f"{key}: not a JSON Schema; expected an object, true or false")

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """Its answers."""
        return self.answers[key]


def _rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = folder / name
    if not path.is_file():
        path = folder / f"{name}.gz"
    if not path.is_file():
        message = f"no {name} or {name}.gz in {folder}"
        raise DatasetError(message, expected=name, where=folder)
    for line, row in FileReader(root=folder, error=DatasetError).read_json_lines(path):
        expected = _FIELDS[name]
        if not isinstance(row, dict) or not all(field in row for field in expected):
            message = f"{path}:{line.number}: expected an object with {', '.join(expected)}"
            raise DatasetError(message, found=row, expected=tuple(expected), where=f"{path}:{line.number}")
        for field, kind in expected.items():
            if not isinstance(row[field], kind):
                message = f"{path}:{line.number}: {field} is a JSON {json_type(row[field])}"
                raise DatasetError(message)
        yield row
