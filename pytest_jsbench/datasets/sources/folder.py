"""Files on disk: each a schema, an API's description, tool definitions, or rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.datasets.base import Found, Listing, Selection, choose_tasks
from pytest_jsbench.datasets.documents.folder import DocumentFolder
from pytest_jsbench.datasets.documents.json_text import (
    DOCUMENT_SUFFIXES,
    LARGEST_DOCUMENT,
    YAML_SUFFIXES,
    as_case,
    broken,
    follow,
)

if TYPE_CHECKING:
    from pytest_jsbench.datasets.sources import openapi

#: before the suffix of a file that holds an expected answer
_EXPECTED = ".expected"
#: of the files that are taken from a folder
SUFFIXES = (*DOCUMENT_SUFFIXES, ".jsonl")
#: a file without any of these words is a schema; only one with some of them is parsed before its turn
_MORE_THAN_A_SCHEMA = re.compile(rb"openapi|swagger|parameters|input_?[Ss]chema|outputSchema|function")


def open_files(selection: Selection, paths: Sequence[Path], *, root: Path) -> Listing:
    """The selection's part of what these files hold; the task of a schema file is the folder it stands in."""
    ordered = sorted(set(paths) - _expectations(paths), key=lambda path: path.relative_to(root).parts)
    if any(path.suffix.lower() in YAML_SUFFIXES for path in ordered):
        from pytest_jsbench.datasets.documents.yaml_text import require_yaml

        require_yaml(f"dataset '{selection.source}'")
    folder = DocumentFolder(root, [path for path in ordered if path.suffix.lower() in DOCUMENT_SUFFIXES])
    return Listing.of(selection, (found for path in ordered for found in _find(folder, path)))


def _expectations(paths: Iterable[Path]) -> set[Path]:
    """The files that hold the answer which is expected to the schema of the same name: `NAME.expected.json`."""
    stems = {path.with_suffix("") for path in paths if path.suffix.lower() in DOCUMENT_SUFFIXES}
    named = {stem for stem in stems if stem.suffix == _EXPECTED}
    beside = {stem for stem in named if stem.with_suffix("") in stems - named}
    return {path for path in paths if path.with_suffix("") in beside}


def _find(folder: DocumentFolder, path: Path) -> Iterator[Found]:
    inner = path.relative_to(folder.root)
    task = _top(folder.root) if inner.parent == Path() else inner.parent.as_posix()
    file_task = inner.with_suffix("").as_posix()
    match path.suffix.lower():
        case ".jsonl":
            from pytest_jsbench.datasets.sources import rows

            return rows.find_lines(folder.reader, path, task=file_task)
        case ".parquet":
            from pytest_jsbench.datasets.sources import parquet

            return parquet.find(folder.reader, path, task=file_task)
        case _:
            return _find_in_document(folder, path, task, file_task)


def _top(root: Path) -> str:
    """The name of the folder as it was given: where it stands on this machine is no part of a node id."""
    return root.name if root.name not in {"", "..", "~"} else "schemas"


def _find_in_document(folder: DocumentFolder, path: Path, task: str, file_task: str) -> Iterator[Found]:
    document = _more_than_a_schema(folder, path)
    if document is None:
        yield Found(task=task, name=path.stem, read=partial(_read_schema, folder, path))
        return
    from pytest_jsbench.datasets.sources import openapi, tools

    if openapi.is_openapi(document):
        yield from _find_in_api(folder, path, file_task, document)
    elif found := tools.tool_schemas(document):
        for tool in found:
            read = partial(_read_tool, folder, path, tool.steps)
            yield Found(task=file_task if tools.holds_many(document) else task, name=tool.name, read=read)
    else:
        yield Found(task=task, name=path.stem, read=partial(_read_schema, folder, path))


def _find_in_api(folder: DocumentFolder, path: Path, file_task: str, document: Any) -> Iterator[Found]:
    from pytest_jsbench.datasets.sources import openapi

    found = None
    for found in openapi.api_schemas(document):
        read = partial(_read_api_schema, folder, path, found.group, found.steps)
        yield Found(task=f"{file_task}.{found.group}", name=found.name, read=read)
    if found is None:
        yield Found(task=file_task, name=path.stem, read=partial(_read_api_schema, folder, path, None, ()))


def _more_than_a_schema(folder: DocumentFolder, path: Path) -> object:
    """The document, where it may hold more than a schema; None for a schema, and for what cannot be read."""
    try:
        if _MORE_THAN_A_SCHEMA.search(folder.data(path, largest=LARGEST_DOCUMENT)):
            return folder.document(path)
    except Unreadable:
        pass  # it is said when the case is read
    return None


def _read_schema(folder: DocumentFolder, path: Path, key: CaseKey) -> Case | BrokenCase:
    beside = [path.with_suffix(f"{_EXPECTED}{suffix}") for suffix in DOCUMENT_SUFFIXES]
    held = next(filter(folder.holds, beside), None)
    try:
        expected = None if held is None else Expected(value=folder.document(held))
    except Unreadable as error:
        return broken(key, str(held), error)
    return as_case(key, lambda: folder.schema(path), where=str(path), expected=expected)


def _read_tool(folder: DocumentFolder, path: Path, steps: tuple[str | int, ...], key: CaseKey) -> Case | BrokenCase:
    def read() -> object:
        try:
            return follow(folder.document(path), steps)
        except LookupError:
            raise Unreadable(f"{key.id} has no schema for its arguments", reason="not_a_schema") from None

    case = as_case(key, read, where=str(path))
    if isinstance(case, BrokenCase):
        return case
    from pytest_jsbench.datasets.sources import tools

    return replace(case, about=tools.about(follow(folder.document(path), steps[:-1]), steps[-1]))


def _read_api_schema(
    folder: DocumentFolder, path: Path, group: openapi.Group | None, steps: tuple[str, ...], key: CaseKey
) -> Case | BrokenCase:
    from pytest_jsbench.datasets.sources import openapi

    def read() -> object:
        document = folder.document(path)
        if group is None:
            openapi.check(document)
            raise Unreadable("describes no schema of a component or of a JSON body", reason="not_a_schema")
        return openapi.read_openapi_schema(document, group, steps, uri=folder.uri(path), retrieve=folder.retrieve)

    return as_case(key, read, where=f"{path} /{'/'.join(steps)}" if steps else str(path))


TASKS = ("simple", "medium", "hard", "very_hard")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinDataset:
    """The built-in schemas (`pytest_jsbench/datasets/schemas/<task>/<id>.json`)."""

    selected: tuple[CaseKey, ...]

    @classmethod
    def open(cls, selection: Selection) -> BuiltinDataset:
        """The selection's part of them."""
        keys: list[CaseKey] = []
        for task in choose_tasks("builtin", TASKS, selection.tasks):
            names = sorted(entry.name for entry in _root().joinpath(task).iterdir() if entry.name.endswith(".json"))
            keys += [CaseKey(task=task, id=name.removesuffix(".json")) for name in names[: selection.limit]]
        return cls(selected=tuple(keys))

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return self.selected

    def case(self, key: CaseKey) -> Case:
        """One of them."""
        return Case(key=key, schema=load(key)["schema"])


def load(key: CaseKey) -> Mapping[str, Any]:
    """A built-in case whole: `schema`, its `valid` instances, and its `invalid` ones with what they must get."""
    text = _root().joinpath(key.task, f"{key.id}.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


def _root() -> Traversable:
    return files("pytest_jsbench.datasets").joinpath("schemas")
