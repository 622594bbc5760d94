"""
Labelled answers: schemas, each with instances that are known to conform to it or not.

They come with the built-in schemas, as two files of lines, or as the official JSON Schema Test Suite has them: there a
file is a task, named for the feature that it tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.datasets.base import Selection, choose_tasks
from pytest_jsbench.datasets.documents.bundling import Retrieve, SchemaPlace, bundle
from pytest_jsbench.datasets.sources.folder import load, open_builtin
from pytest_jsbench.schemas.dialects import NAMES

SCHEMAS, INSTANCES = "schemas.jsonl", "instances.jsonl"
#: what a line of each file must have, and of which type
_FIELDS: Mapping[str, Mapping[str, type | UnionType]] = {
    SCHEMAS: {"schema_id": str, "task": str, "schema": object},
    INSTANCES: {"id": str | int, "schema_id": str, "valid": bool, "data": object},
}
#: what the suite's schemas call the server of its folder `remotes`
_SERVER = "http://localhost:1234/"
_REMOTES = "remotes"
_WORD = re.compile(r"[\w.-]+")
#: the suite's folder of a draft, and its name
_DRAFTS = {
    "draft4": "draft-04",
    "draft6": "draft-06",
    "draft7": "draft-07",
    "draft2019-09": "2019-09",
    "draft2020-12": "2020-12",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledDataset:
    """Cases with labelled answers."""

    #: as text, which takes a tenth of the memory; or why there is none
    schemas: Mapping[CaseKey, str | BrokenCase]
    answers: Mapping[CaseKey, Sequence[Instance]]

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.schemas)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them."""
        schema = self.schemas[key]
        return schema if isinstance(schema, BrokenCase) else Case(key=key, schema=json.loads(schema))

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """The answers to the case of that key."""
        return self.answers[key]


def _schema_text(key: CaseKey, schema: object) -> str | BrokenCase:
    if isinstance(schema, bool | Mapping):
        return json.dumps(schema)
    return BrokenCase(key=key, problem=f"{key}: not a JSON Schema; expected an object, true or false")


def open_builtin_answers(selection: Selection) -> LabelledDataset:
    """The built-in schemas with their valid instances, and those that break a schema and have no field too many."""
    schemas: dict[CaseKey, str | BrokenCase] = {}
    answers: dict[CaseKey, Sequence[Instance]] = {}
    for key in open_builtin(selection).keys():
        data = load(key)
        valid = [Instance.of(value, name=f"valid-{n}", valid=True) for n, value in enumerate(data["valid"])]
        wrong = [entry for entry in data["invalid"] if entry["failure_type"] == "schema_violation"]
        invalid = [Instance.of(entry["instance"], name=f"invalid-{n}", valid=False) for n, entry in enumerate(wrong)]
        schemas[key], answers[key] = json.dumps(data["schema"]), [*valid, *invalid]
    return LabelledDataset(schemas=schemas, answers=answers)


def open_labelled_folder(selection: Selection, folder: Path) -> LabelledDataset:
    """
    The selection's part of a folder; schemas without any answer are left out.

    It has lines of `{schema_id, task, schema}` and of `{id, schema_id, valid, data}`, gzipped or not.
    """
    instances: dict[str, list[Instance]] = {}
    for row in _rows(folder, INSTANCES):
        instance = Instance.of(row["data"], name=str(row["id"]), valid=row["valid"])
        instances.setdefault(row["schema_id"], []).append(instance)
    by_task: dict[str, dict[str, tuple[str | BrokenCase, list[Instance]]]] = {}
    for row in _rows(folder, SCHEMAS):
        aliases = row.get("aliases")
        names = dict.fromkeys([row["schema_id"], *map(str, aliases if isinstance(aliases, list) else ())])
        if answers := [instance for name in names for instance in instances.get(name, ())]:
            task, name = safe_name(row["task"]), safe_name(row["schema_id"])
            by_task.setdefault(task, {})[name] = _schema_text(CaseKey(task=task, id=name), row["schema"]), answers
    cases = {
        CaseKey(task=task, id=name): case
        for task in choose_tasks(selection.source, sorted(by_task), selection.tasks)
        for name, case in sorted(by_task[task].items())[: selection.limit]
    }
    if not cases:
        message = f"no schema in {folder} has an answer: expected a line of {SCHEMAS} for a schema_id of {INSTANCES}"
        raise DatasetError(message)
    return LabelledDataset(
        schemas={key: schema for key, (schema, _) in cases.items()},
        answers={key: answers for key, (_, answers) in cases.items()},
    )


def _rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = folder / name
    if not path.is_file():
        path = folder / f"{name}.gz"
    if not path.is_file():
        raise DatasetError(f"no {name} or {name}.gz in {folder}", expected=name, where=folder)
    for line, row in FileReader(root=folder, error=DatasetError).read_json_lines(path):
        expected = _FIELDS[name]
        if not isinstance(row, dict) or not all(field in row for field in expected):
            message = f"{path}:{line.number}: expected an object with {', '.join(expected)}"
            raise DatasetError(message, found=row, expected=tuple(expected), where=f"{path}:{line.number}")
        for field, kind in expected.items():
            if not isinstance(row[field], kind):
                raise DatasetError(f"{path}:{line.number}: {field} is a JSON {json_type(row[field])}")
        yield row


def is_suite(folder: Path) -> bool:
    """Whether the folder's first file is a list of cases with tests, as the suite has them."""
    first = next(iter(sorted(folder.glob("*.json"))), None)
    try:
        cases = first and FileReader(root=folder, error=DatasetError).read_json(first)
    except DatasetError:
        return False
    return bool(cases) and isinstance(cases, list) and all(isinstance(case, dict) and "tests" in case for case in cases)


def open_suite(selection: Selection, folder: Path) -> LabelledDataset:
    """
    The selection's part of one folder of the suite: one draft's features, its optional ones, or its formats.

    What schemas refer to in `remotes` is put into them. DatasetError where the folder is of no draft that is judged.
    """
    folder = folder.resolve()
    draft = next((_DRAFTS[part.name] for part in (folder, *folder.parents) if part.name in _DRAFTS), None)
    if draft is None:
        message = f"{folder} is of no draft that is judged: expected a folder of {', '.join(_DRAFTS)}"
        raise DatasetError(message, found=folder.name, expected=list(_DRAFTS), where=folder)
    reader = FileReader(root=folder, error=DatasetError)
    retrieve = _remotes(folder)
    files = {safe_name(path.stem): path for path in sorted(folder.glob("*.json"))}
    schemas: dict[CaseKey, str | BrokenCase] = {}
    answers: dict[CaseKey, Sequence[Instance]] = {}
    for task in choose_tasks(selection.source, sorted(files), selection.tasks):
        for case in _suite_cases(reader, files[task])[: selection.limit]:
            words = "_".join(_WORD.findall(case["description"]))
            key = _free(CaseKey(task=task, id=safe_name(words)), schemas)
            schemas[key] = _bundled(key, case["schema"], NAMES[draft], retrieve)
            answers[key] = [
                Instance.of(test["data"], name=test["description"], valid=test["valid"]) for test in case["tests"]
            ]
    return LabelledDataset(schemas=schemas, answers=answers)


def _suite_cases(reader: FileReader, path: Path) -> list[dict[str, Any]]:
    cases = reader.read_json(path)
    for number, case in enumerate(cases if isinstance(cases, list) else [cases]):
        tests = case.get("tests") if isinstance(case, dict) else None
        if not isinstance(tests, list) or "schema" not in case or not isinstance(case.get("description"), str):
            message = f"{path}: case {number + 1} is none of the test suite: expected description, schema and tests"
            raise DatasetError(message, where=path)
        if not all(_is_test(test) for test in tests):
            message = f"{path}: a test of case {number + 1} is none: expected description, data and valid"
            raise DatasetError(message, where=path)
    return list(cases)


def _is_test(test: object) -> bool:
    return (
        isinstance(test, dict)
        and "data" in test
        and isinstance(test.get("valid"), bool)
        and isinstance(test.get("description"), str)
    )


def _free(key: CaseKey, taken: Mapping[CaseKey, object]) -> CaseKey:
    """The key, or one with a number where a case of that description was there before."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = CaseKey(task=key.task, id=f"{key.id}-{number}")
    return free


def _remotes(folder: Path) -> Retrieve:
    """The function that reads what schemas refer to in `remotes`, where that stands beside the tests."""
    remotes = next((above / _REMOTES for above in folder.parents if (above / _REMOTES).is_dir()), None)
    reader = FileReader(root=remotes, error=DatasetError)

    def retrieve(uri: str) -> object:
        if remotes is None or not uri.startswith(_SERVER):
            return None
        path = remotes / uri.removeprefix(_SERVER)
        return reader.read_json(path) if path.is_file() else None

    return retrieve


def _bundled(key: CaseKey, schema: object, dialect: str, retrieve: Retrieve) -> str | BrokenCase:
    """The schema as text, which says its dialect, for the suite leaves that to the folder."""
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": dialect, **schema}
    if not isinstance(schema, bool | dict):
        return _schema_text(key, schema)
    try:
        whole: Schema = bundle(SchemaPlace(document=schema, uri="", schema=schema), retrieve)
    except Unreadable as error:
        return BrokenCase(key=key, problem=f"{key}: {error.problem}", reason=error.reason)
    return _schema_text(key, whole)
