"""The official JSON Schema Test Suite as labelled answers: a file is a task, named for the feature that it tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.datasets.base import Selection, choose_tasks
from pytest_jsbench.datasets.documents.bundling import SchemaPlace, bundle
from pytest_jsbench.datasets.labelled import Instance
from pytest_jsbench.schemas.dialects import NAMES

#: what the suite's schemas call the server of its folder `remotes`
_SERVER = "http://localhost:1234/"
_REMOTES = "remotes"
_WORD = re.compile(r"[\w.-]+")
#: the folder of a draft, and its name
_DRAFTS = {
    "draft4": "draft-04",
    "draft6": "draft-06",
    "draft7": "draft-07",
    "draft2019-09": "2019-09",
    "draft2020-12": "2020-12",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCases:
    """The cases of one folder of the suite: one draft's features, its optional ones, or its formats."""

    #: the schema as text, with whatever it refers to in `remotes`; or why there is none
    schemas: Mapping[CaseKey, str | BrokenCase]
    answers: Mapping[CaseKey, Sequence[Instance]]

    @classmethod
    def open(cls, selection: Selection, folder: Path) -> SuiteCases:
        """The selection's part of the files in a folder; DatasetError where it is of no draft that is judged."""
        folder = folder.resolve()
        draft = next((_DRAFTS[part.name] for part in (folder, *folder.parents) if part.name in _DRAFTS), None)
        if draft is None:
            message = f"{folder} is of no draft that is judged: expected a folder of {', '.join(_DRAFTS)}"
            raise DatasetError(message, found=folder.name, expected=list(_DRAFTS), where=folder)
        reader = _Reader.of(folder, NAMES[draft])
        files = {safe_name(path.stem): path for path in sorted(folder.glob("*.json"))}
        schemas: dict[CaseKey, str | BrokenCase] = {}
        answers: dict[CaseKey, Sequence[Instance]] = {}
        for task in choose_tasks(selection.source, sorted(files), selection.tasks):
            for case in reader.cases(files[task])[: selection.limit]:
                words = "_".join(_WORD.findall(case["description"]))
                key = _free(CaseKey(task=task, id=safe_name(words)), schemas)
                schemas[key] = reader.schema(key, case["schema"])
                answers[key] = [
                    Instance.of(test["data"], name=test["description"], valid=test["valid"]) for test in case["tests"]
                ]
        return cls(schemas=schemas, answers=answers)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.schemas)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them."""
        found = self.schemas[key]
        return found if isinstance(found, BrokenCase) else Case(key=key, schema=json.loads(found))

    def instances(self, key: CaseKey) -> Sequence[Instance]:
        """Its answers."""
        return self.answers[key]


def is_suite(folder: Path) -> bool:
    """Whether the folder's first file is a list of cases with tests, as the suite has them."""
    first = next(iter(sorted(folder.glob("*.json"))), None)
    try:
        found = first and FileReader(root=folder, error=DatasetError).read_json(first)
    except DatasetError:
        return False
    return bool(found) and isinstance(found, list) and all(isinstance(case, dict) and "tests" in case for case in found)


def _free(key: CaseKey, taken: Mapping[CaseKey, object]) -> CaseKey:
    """The key, or one with a number where a case of that description was there before."""
    number, found = 1, key
    while found in taken:
        number += 1
        found = CaseKey(task=key.task, id=f"{key.id}-{number}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads cases, and puts what their schemas refer to into them."""

    files: FileReader
    remotes: FileReader
    #: the folder that schemas refer to; None where none stands beside the tests
    remote: Path | None
    dialect: str

    @classmethod
    def of(cls, folder: Path, dialect: str) -> _Reader:
        remote = next((above / _REMOTES for above in folder.parents if (above / _REMOTES).is_dir()), None)
        return cls(
            files=FileReader(root=folder, error=DatasetError),
            remotes=FileReader(root=remote or folder, error=DatasetError),
            remote=remote,
            dialect=dialect,
        )

    def cases(self, path: Path) -> list[dict[str, Any]]:
        found = self.files.read_json(path)
        for number, case in enumerate(found if isinstance(found, list) else [found]):
            tests = case.get("tests") if isinstance(case, dict) else None
            if not isinstance(tests, list) or "schema" not in case or not isinstance(case.get("description"), str):
                message = f"{path}: case {number + 1} is none of the test suite: expected description, schema and tests"
                raise DatasetError(message, where=path)
            if not all(_is_test(test) for test in tests):
                message = f"{path}: a test of case {number + 1} is none: expected description, data and valid"
                raise DatasetError(message, where=path)
        return list(found)

    def schema(self, key: CaseKey, schema: Any) -> str | BrokenCase:
        """The schema as text, which says its dialect, for the suite leaves that to the folder."""
        if not isinstance(schema, bool | dict):
            return BrokenCase(key=key, problem=f"{key}: not a JSON Schema; expected an object, true or false")
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": self.dialect, **schema}
        try:
            whole: Schema = bundle(SchemaPlace(document=schema, uri="", schema=schema), self._retrieve)
        except Unreadable as error:
            return BrokenCase(key=key, problem=f"{key}: {error.problem}", reason=error.reason)
        return json.dumps(whole)

    def _retrieve(self, uri: str) -> object:
        if self.remote is None or not uri.startswith(_SERVER):
            return None
        path = self.remote / uri.removeprefix(_SERVER)
        return self.remotes.read_json(path) if path.is_file() else None


def _is_test(test: object) -> bool:
    return (
        isinstance(test, dict)
        and "data" in test
        and isinstance(test.get("valid"), bool)
        and isinstance(test.get("description"), str)
    )
