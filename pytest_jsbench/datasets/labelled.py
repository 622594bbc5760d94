"""
Read labelled answers: schemas with instances that are known to be valid or invalid.

The answers are part of the built-in schemas, or are read from two JSON Lines files or the official JSON Schema Test
Suite. Each file of the suite is a task, named after the feature that it tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey, Schema, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.datasets.base import Instance, ListedCase, Listing, Selection, as_schema
from pytest_jsbench.datasets.documents import Retrieve, SchemaPlace, bundle
from pytest_jsbench.datasets.registry import BUILTIN, load_builtin, open_builtin
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.keywords import walk
from pytest_jsbench.verdicts.extra_fields import all_names

#: Maximum number of copies with escaped names per schema.
_MOST_ESCAPED = 3
SCHEMAS = "schemas.jsonl"
INSTANCES = "instances.jsonl"
#: Required fields of a line in each file, with their types.
_FIELDS: Mapping[str, Mapping[str, type | UnionType]] = {
    SCHEMAS: {"schema_id": str, "task": str, "schema": object},
    INSTANCES: {"id": str | int, "schema_id": str, "valid": bool, "data": object},
}
#: Names of the types in messages.
_TYPES: Mapping[type | UnionType, str] = {str: "text", str | int: "text or a number", bool: "true or false"}
#: Base URI of the suite's directory `remotes`.
_SERVER = "http://localhost:1234/"
_REMOTES = "remotes"
_WORD = re.compile(r"[\w.-]+")
#: Dialect of each directory of the suite, such as `draft4` or `draft2019-09`.
_DRAFTS = {f"draft{name.removeprefix('draft-0')}": uri for name, uri in NAMES.items()}


def _parse_case(text: str, key: CaseKey) -> Case:
    """Return the case with the schema in the text. Schemas are kept as text, since this takes a tenth of the memory."""
    return Case(key=key, schema=as_schema(json.loads(text)))


def open_labelled(selection: Selection) -> Listing:
    """Return the labelled answers of `builtin` or of a directory; raise DatasetError if there are none."""
    if selection.source == BUILTIN:
        return open_builtin_answers(selection)
    folder = Path(selection.source).expanduser()
    if folder.is_dir():
        if is_suite(folder):
            return open_suite(selection, folder)
        return open_labelled_folder(selection, folder)
    raise DatasetError(
        f"no labelled answers at '{selection.source}': expected builtin, a directory with {SCHEMAS} and {INSTANCES}"
        " (or the same as .gz), or a directory of the official test suite, such as tests/draft2020-12"
    )


def open_builtin_answers(selection: Selection) -> Listing:
    """Return the built-in schemas with valid instances, and with the invalid instances that violate the schema."""
    entries: dict[CaseKey, ListedCase] = {}
    for key, entry in open_builtin(selection).entries.items():
        data = load_builtin(key)
        valid = [Instance.from_value(value, name=f"valid-{n}", valid=True) for n, value in enumerate(data["valid"])]
        wrong = [case["instance"] for case in data["invalid"] if case["failure_type"] == "schema_violation"]
        invalid = [Instance.from_value(value, name=f"invalid-{n}", valid=False) for n, value in enumerate(wrong)]
        entries[key] = replace(entry, instances=[*valid, *invalid])
    return Listing(entries=entries)


def open_labelled_folder(selection: Selection, folder: Path) -> Listing:
    """
    Return the selected schemas that have answers, from the two files of a directory.

    One file has lines of `{schema_id, task, schema}`, the other `{id, schema_id, valid, data}`; both may be gzipped.
    """
    instances: dict[str, list[Instance]] = {}
    for row in _rows(folder, INSTANCES):
        instance = Instance.from_value(row["data"], name=str(row["id"]), valid=row["valid"])
        instances.setdefault(row["schema_id"], []).append(instance)
    entries: list[ListedCase] = []
    for row in _rows(folder, SCHEMAS):
        aliases = row.get("aliases")
        names = dict.fromkeys([row["schema_id"], *map(str, aliases if isinstance(aliases, list) else ())])
        answers = [instance for name in names for instance in instances.get(name, ())]
        if answers:
            name = row["schema_id"]
            read = partial(_parse_case, json.dumps(row["schema"]))
            entries.append(ListedCase(task=row["task"], name=name, where=name, read=read, instances=answers))
    entries.sort(key=lambda entry: (safe_name(entry.task), safe_name(entry.name)))
    listing = Listing.from_entries(selection, entries)
    if not listing.entries:
        message = (
            f"no schema in {folder} has an answer: expected {INSTANCES} to have the schema_id of a schema in {SCHEMAS}"
        )
        raise DatasetError(message)
    return listing


def with_escaped_names(schema: Schema, instances: Sequence[Instance]) -> list[Instance]:
    r"""
    Return the instances, and copies of invalid ones with escaped field names, as in `{"\u0061": 1}` for `{"a": 1}`.

    An escaped name is the same JSON value, so the label stays true. A grammar may mistake such a name for one that the
    schema does not declare, and accept any value.
    """
    names = all_names(walk(schema)) if isinstance(schema, dict) else frozenset[str]()
    escaped: list[Instance] = []
    for instance in instances:
        if instance.valid or len(escaped) == _MOST_ESCAPED or not names:
            continue
        text = _escape_names(json.loads(instance.text), names)
        if text != instance.text:
            escaped.append(Instance(id=f"{instance.id}/escaped", valid=False, text=text))
    return [*instances, *escaped]


def _escape_names(value: object, names: Collection[str]) -> str:
    """Return a value as JSON text, with the first character of these names escaped."""
    if isinstance(value, list):
        return f"[{', '.join(_escape_names(part, names) for part in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    members: list[str] = []
    for name, part in value.items():
        written = json.dumps(name, ensure_ascii=False)
        if name in names and name[:1].isalnum() and name < "\uffff":
            written = f'"\\u{ord(name[0]):04x}{written[2:]}'
        members.append(f"{written}: {_escape_names(part, names)}")
    return f"{{{', '.join(members)}}}"


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
                message = f"{field} is a JSON {json_type(row[field])}; expected {_TYPES[kind]}"
                raise DatasetError(f"{path}:{line.number}: {message}")
        yield row


def is_suite(folder: Path) -> bool:
    """Return whether the directory's first JSON file is a list of cases with tests, as in the suite."""
    first = next(iter(sorted(folder.glob("*.json"))), None)
    try:
        cases = None if first is None else FileReader(root=folder, error=DatasetError).read_json(first)
    except DatasetError:
        return False
    return bool(cases) and isinstance(cases, list) and all(isinstance(case, dict) and "tests" in case for case in cases)


def open_suite(selection: Selection, folder: Path) -> Listing:
    """
    Return the selected cases of one directory of the suite: a draft's features, optional features, or formats.

    Referenced schemas from `remotes` are included. Raise DatasetError if the directory belongs to no supported draft.
    """
    folder = folder.resolve()
    dialect = next((_DRAFTS[part.name] for part in (folder, *folder.parents) if part.name in _DRAFTS), None)
    if dialect is None:
        message = f"{folder} is not in the directory of a supported draft ({', '.join(_DRAFTS)})"
        raise DatasetError(message, found=folder.name, expected=list(_DRAFTS), where=folder)
    retrieve = _remotes_reader(folder)
    entries = [
        ListedCase(
            task=path.stem,
            name="_".join(_WORD.findall(case["description"])),
            where=f"{path} {case['description']}",
            read=partial(_read_suite_case, json.dumps(case["schema"]), dialect, retrieve),
            instances=[
                Instance.from_value(test["data"], name=test["description"], valid=test["valid"])
                for test in case["tests"]
            ],
        )
        for path in sorted(folder.glob("*.json"))
        for case in _suite_cases(path)
    ]
    return Listing.from_entries(selection, entries)


def _suite_cases(path: Path) -> list[dict[str, Any]]:
    cases = FileReader(root=path.parent, error=DatasetError).read_json(path)
    for number, case in enumerate(cases if isinstance(cases, list) else [cases]):
        tests = case.get("tests") if isinstance(case, dict) else None
        if not isinstance(tests, list) or "schema" not in case or not isinstance(case.get("description"), str):
            message = f"{path}: case {number + 1} is not a case of the suite: expected description, schema and tests"
            raise DatasetError(message, where=path)
        if not all(_is_test(test) for test in tests):
            message = f"{path}: a test of case {number + 1} is invalid: expected description, data and valid"
            raise DatasetError(message, where=path)
    return list(cases)


def _is_test(test: object) -> bool:
    return (
        isinstance(test, dict)
        and "data" in test
        and isinstance(test.get("valid"), bool)
        and isinstance(test.get("description"), str)
    )


def _remotes_reader(folder: Path) -> Retrieve:
    """Return a function that reads documents of the directory `remotes`, if a parent directory contains it."""
    remotes = next((above / _REMOTES for above in folder.parents if (above / _REMOTES).is_dir()), None)
    reader = FileReader(root=remotes, error=DatasetError)

    def retrieve(uri: str) -> object:
        if remotes is None or not uri.startswith(_SERVER):
            return None
        path = remotes / uri.removeprefix(_SERVER)
        return reader.read_json(path) if path.is_file() else None

    return retrieve


def _read_suite_case(text: str, dialect: str, retrieve: Retrieve, key: CaseKey) -> Case:
    """Return the case with the schema in the text, and with the dialect of the suite's directory as `$schema`."""
    schema = as_schema(json.loads(text))
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": dialect, **schema}
    return Case(key=key, schema=bundle(SchemaPlace(document=schema, uri="", schema=schema), retrieve))
