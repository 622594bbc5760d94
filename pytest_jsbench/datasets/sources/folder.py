"""Files on disk: each a schema, an API's description, tool definitions, or rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, broken, schema_case
from pytest_jsbench.datasets.documents import (
    DOCUMENT_SUFFIXES,
    LARGEST_DOCUMENT,
    YAML_SUFFIXES,
    DocumentFolder,
)
from pytest_jsbench.schemas.references import follow

if TYPE_CHECKING:
    from pytest_jsbench.datasets.sources.openapi import ApiSchema

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
        from pytest_jsbench.datasets.yaml_text import require_yaml

        require_yaml(f"dataset '{selection.source}'")
    folder = DocumentFolder(root, [path for path in ordered if path.suffix.lower() in DOCUMENT_SUFFIXES])
    return Listing.of(selection, (entry for path in ordered for entry in _find(folder, path)))


def _expectations(paths: Iterable[Path]) -> set[Path]:
    """The files that hold the answer which is expected to the schema of the same name: `NAME.expected.json`."""
    stems = {path.with_suffix("") for path in paths if path.suffix.lower() in DOCUMENT_SUFFIXES}
    named = {stem for stem in stems if stem.suffix == _EXPECTED}
    beside = {stem for stem in named if stem.with_suffix("") in stems - named}
    return {path for path in paths if path.with_suffix("") in beside}


def _find(folder: DocumentFolder, path: Path) -> Iterator[ListedCase]:
    inner = path.relative_to(folder.root)
    # where the folder stands on this machine is no part of a node id
    top = folder.root.name if folder.root.name not in {"", "..", "~"} else "schemas"
    task = top if inner.parent == Path() else inner.parent.as_posix()
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


def _find_in_document(folder: DocumentFolder, path: Path, task: str, file_task: str) -> Iterator[ListedCase]:
    document = _more_than_a_schema(folder, path)
    if document is None:
        yield ListedCase(task=task, name=path.stem, where=str(path), read=partial(_read_schema, folder, path))
        return
    from pytest_jsbench.datasets.sources import openapi

    if openapi.is_openapi(document):
        yield from _find_in_api(folder, path, file_task, document)
    elif schemas := tool_schemas(document):
        for tool in schemas:
            read = partial(_read_tool, folder, path, tool.steps)
            tool_task = file_task if holds_many(document) else task
            yield ListedCase(task=tool_task, name=tool.name, where=str(path), read=read)
    else:
        yield ListedCase(task=task, name=path.stem, where=str(path), read=partial(_read_schema, folder, path))


def _find_in_api(folder: DocumentFolder, path: Path, file_task: str, document: Any) -> Iterator[ListedCase]:
    from pytest_jsbench.datasets.sources import openapi

    api = None
    for api in openapi.api_schemas(document):
        read, where = partial(_read_api_schema, folder, path, api), f"{path} /{'/'.join(api.steps)}"
        yield ListedCase(task=f"{file_task}.{api.group}", name=api.name, where=where, read=read)
    if api is None:
        yield ListedCase(
            task=file_task, name=path.stem, where=str(path), read=partial(_read_api_schema, folder, path, None)
        )


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
    return schema_case(key, folder.schema(path), expected=expected)


def _read_tool(folder: DocumentFolder, path: Path, steps: tuple[str, ...], key: CaseKey) -> Case:
    tool = follow(folder.document(path), steps[:-1])
    if not isinstance(tool, Mapping) or steps[-1] not in tool:
        raise Unreadable(f"{key.id} has no schema for its arguments", reason="not_a_schema")
    return replace(schema_case(key, tool[steps[-1]]), about=about(tool, steps[-1]))


def _read_api_schema(folder: DocumentFolder, path: Path, api: ApiSchema | None, key: CaseKey) -> Case:
    from pytest_jsbench.datasets.sources import openapi

    document = folder.document(path)
    if api is None:
        openapi.check(document)
        raise Unreadable("describes no schema of a component or of a JSON body", reason="not_a_schema")
    return schema_case(key, openapi.read_openapi_schema(document, api, uri=folder.uri(path), retrieve=folder.retrieve))


#: where a list of tools may stand in a document: at its top, in a request's body, in an answer to `tools/list`
_LISTS = ((), ("tools",), ("result", "tools"), ("functions",))
#: what the schema of the arguments is called: Anthropic, MCP, OpenAI
_INPUTS = ("input_schema", "inputSchema", "parameters")
_OUTPUT = "outputSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A schema of a tool: its name, and the way to it from the top of the document."""

    name: str
    steps: tuple[str, ...]


def tool_schemas(document: object) -> tuple[ToolSchema, ...]:
    """The schemas of the tools that the document defines; none where it defines no tools."""
    lists = (_of_list(steps, follow(document, steps)) for steps in _LISTS)
    return tuple(next(filter(None, lists), ()) or _of_tool((), document))


def about(tool: Mapping[str, Any], keyword: object) -> str:
    """Say for the prompt of what the schema under a keyword of a tool's definition is."""
    part = "a result" if keyword == _OUTPUT else "the arguments of a call"
    description = tool.get("description")
    ending = f": {description}" if isinstance(description, str) and description else "."
    # a lone surrogate, which no call can carry, stays in the file
    return f"Give {part} of the tool {tool.get('name')}{ending}".encode(errors="replace").decode()


def holds_many(document: object) -> bool:
    """Tell whether the document is a list of tools, and not a tool by itself."""
    return not tuple(_of_tool((), document))


def _of_list(steps: tuple[str, ...], value: object) -> list[ToolSchema]:
    """The schemas of a list of tools; one that has no schema, such as a provider's own, is named all the same."""
    if not isinstance(value, list):
        return []
    tools = [list(_of_tool((*steps, str(index)), element)) for index, element in enumerate(value)]
    if not any(tools):
        return []
    for index, (schemas, element) in enumerate(zip(tools, value, strict=True)):
        if not schemas:
            names = [element.get(key) for key in ("name", "type")] if isinstance(element, Mapping) else []
            name = next((name for name in names if isinstance(name, str) and name), f"tool-{index}")
            schemas.append(ToolSchema(name=name, steps=(*steps, str(index), _INPUTS[0])))
    return [schema for schemas in tools for schema in schemas]


def _of_tool(steps: tuple[str, ...], definition: object) -> Iterator[ToolSchema]:
    if not isinstance(definition, Mapping):
        return
    value: Mapping[str, Any] = definition
    is_function = value.get("type") == "function"
    if is_function and isinstance(value.get("function"), Mapping):
        steps, value = (*steps, "function"), value["function"]
    name = value.get("name")
    if not isinstance(name, str) or "properties" in value or "$schema" in value:
        return
    for keyword in _INPUTS:
        if keyword in value:
            yield ToolSchema(name=name, steps=(*steps, keyword))
            break
    else:
        if not is_function and _OUTPUT not in value:
            return
        # a function that takes nothing need not say so
        yield ToolSchema(name=name, steps=(*steps, "parameters"))
    if _OUTPUT in value:
        yield ToolSchema(name=f"{name}.output", steps=(*steps, _OUTPUT))
