"""Read files on disk: schemas, OpenAPI documents, tool definitions and rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, SkippedPart, build_broken_case, schema_case
from pytest_jsbench.datasets.documents import (
    DOCUMENT_SUFFIXES,
    LARGEST_DOCUMENT,
    YAML_SUFFIXES,
    DocumentFolder,
)
from pytest_jsbench.datasets.source_names import category_of_bfcl
from pytest_jsbench.datasets.sources.tool_pages import ToolPages

if TYPE_CHECKING:
    from pytest_jsbench.datasets.sources.openapi import ApiSchema
    from pytest_jsbench.datasets.sources.tools import Definition

#: Suffix before `.json` in the name of a file with an expected answer.
_EXPECTED = ".expected"
#: Suffixes of the files that are read from a directory.
SUFFIXES = (*DOCUMENT_SUFFIXES, ".jsonl")
#: Words of OpenAPI documents, tools and rows, in lower case. Other files are parsed only when the case is read.
_WORDS = tuple(
    b"openapi swagger jsonrpc prompts resource contents inputs tool function parameters guided_json structured_outputs"
    b" jsonschema json_schema inputschema input_schema outputschema output_schema protocolversion protocol_version"
    b" responseformat response_format responseschema response_schema".split()
)
#: Further words, which count only in this context. Each pattern begins with its word, so that `re` is 50 times as fast.
_WORDS_IN_CONTEXT = tuple(
    re.compile(pattern)
    for pattern in (
        rb"roots(?<!\wroots)\b",
        rb"tasks(?<!\wtasks)\b",
        rb"error(?<!\werror)\b",
        rb"format(?<!\wformat)[\"']?\s*:\s*\{",
        rb"schema(?<![$\w]schema)[\"']?\s*:",
        rb"response(?<!\wresponse)[\"']?\s*:",
        rb"cases(?<!\wcases)[\"']?\s*:\s*[\[-]",
    )
)


def open_files(
    selection: Selection, paths: Sequence[Path], *, root: Path, documents: type[DocumentFolder] = DocumentFolder
) -> Listing:
    """Open the selected cases of these files, which `documents` reads; the task of a schema file is its directory."""
    skipped = _expectations(paths)
    if any(map(category_of_bfcl, paths)):
        from pytest_jsbench.datasets.sources import bfcl

        skipped |= bfcl.find_other_files(paths)
    ordered = sorted(set(paths) - skipped, key=lambda path: path.relative_to(root).parts)
    if any(path.suffix.lower() in YAML_SUFFIXES for path in ordered):
        from pytest_jsbench.datasets.yaml_text import require_yaml

        require_yaml(f"dataset '{selection.source}'")
    folder = documents(root, [path for path in ordered if path.suffix.lower() in DOCUMENT_SUFFIXES])
    pages = ToolPages(ordered, partial(_cursor_of, folder))
    return Listing.from_entries(selection, (entry for path in ordered for entry in _find(folder, path, pages)))


def _expectations(paths: Iterable[Path]) -> set[Path]:
    """Return the files with expected answers: `NAME.expected.json` for the schema `NAME.json`."""
    stems = {path.with_suffix("") for path in paths if path.suffix.lower() in DOCUMENT_SUFFIXES}
    candidates = {stem for stem in stems if stem.suffix == _EXPECTED}
    with_schema = {stem for stem in candidates if stem.with_suffix("") in stems - candidates}
    return {path for path in paths if path.with_suffix("") in with_schema}


def _find(folder: DocumentFolder, path: Path, pages: ToolPages) -> Iterator[ListedCase | SkippedPart]:
    if category_of_bfcl(path):
        from pytest_jsbench.datasets.sources import bfcl

        return bfcl.find_cases(folder.reader, path)
    inner = path.relative_to(folder.root)
    # test ids must not depend on the location of the directory
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
            return _find_in_document(folder, path, task, file_task, pages)


def _find_in_document(
    folder: DocumentFolder, path: Path, task: str, file_task: str, pages: ToolPages
) -> Iterator[ListedCase | SkippedPart]:
    document = _more_than_a_schema(folder, path)
    if document is None:
        yield ListedCase(task=task, name=path.stem, where=str(path), read=partial(_read_schema, folder, path))
        return
    from pytest_jsbench.datasets.sources import openapi, tool_cases, tool_sources, tools

    if openapi.is_openapi(document):
        yield from _find_in_api(folder, path, file_task, document)
        return
    if isinstance(document, Mapping) and tool_cases.is_document(document):
        yield from tool_cases.list_cases(
            document,
            task=file_task,
            where=str(path),
            read_document=partial(folder.document, path),
            find_tools=partial(tool_sources.find_tools, folder, path),
        )
        return
    definitions = tools.read_definitions(document) or tools.read_wrapped(document)
    if definitions is None:
        yield ListedCase(task=task, name=path.stem, where=str(path), read=partial(_read_schema, folder, path))
        return
    joined = pages.pages_with(path) if definitions.many else (path,)
    if len(joined) > 1:
        file_task = joined[0].relative_to(folder.root).with_suffix("").as_posix()
    if path != joined[-1]:
        definitions.cursor = ""  # the next page is another file
    for definition in definitions.schemas:
        read = partial(_read_definition, folder, path, definition)
        name = path.stem if definition.name is None else definition.name
        yield ListedCase(task=file_task if definitions.many else task, name=name, where=str(path), read=read)
    yield from definitions.notes(str(path))


def _cursor_of(folder: DocumentFolder, path: Path) -> str | None:
    """
    Return the `nextCursor` of a list of tools: an empty text if no page follows, None if the file is
    not a list of tools.
    """
    if path.suffix.lower() not in DOCUMENT_SUFFIXES:
        return None
    document = _more_than_a_schema(folder, path)
    if document is None:
        return None
    from pytest_jsbench.datasets.sources import openapi, tools

    if openapi.is_openapi(document):
        return None
    definitions = tools.read_definitions(document)
    return definitions.cursor if definitions is not None and definitions.many else None


def _find_in_api(
    folder: DocumentFolder, path: Path, file_task: str, document: Any
) -> Iterator[ListedCase | SkippedPart]:
    from pytest_jsbench.datasets.sources import openapi

    is_empty = True
    for api in openapi.api_schemas(document):
        read = partial(_read_api_schema, folder, path, api)
        where = f"{path} /{'/'.join(api.steps)}"
        yield ListedCase(task=f"{file_task}.{api.group}", name=api.name, where=where, read=read)
        is_empty = False
    if not is_empty:
        return
    try:
        openapi.check(document)
    except Unreadable:
        read = partial(_read_unsupported_api, folder, path)
        yield ListedCase(task=file_task, name=path.stem, where=str(path), read=read)
    else:
        yield SkippedPart(f"{path}: no cases, as this OpenAPI document has no component schemas and no JSON bodies")


def _more_than_a_schema(folder: DocumentFolder, path: Path) -> object:
    """Return the document in a file if it may contain more than a schema; None for schemas and unreadable files."""
    try:
        if _has_words_of_other_documents(folder.data(path, largest=LARGEST_DOCUMENT)):
            return folder.document(path)
    except Unreadable:
        pass  # reported when the case is read
    return None


def _has_words_of_other_documents(data: bytes) -> bool:
    """Return whether the text has words of OpenAPI documents, lists of tools or requests."""
    text = data.lower()
    return any(word in text for word in _WORDS) or any(pattern.search(text) for pattern in _WORDS_IN_CONTEXT)


def _read_schema(folder: DocumentFolder, path: Path, key: CaseKey) -> Case | BrokenCase:
    candidates = [path.with_suffix(f"{_EXPECTED}{suffix}") for suffix in DOCUMENT_SUFFIXES]
    expected_file = next(filter(folder.exists, candidates), None)
    try:
        expected = None if expected_file is None else Expected(value=folder.document(expected_file))
    except Unreadable as error:
        return build_broken_case(key, str(expected_file), error)
    return schema_case(key, folder.schema(path), expected=expected)


def _read_definition(folder: DocumentFolder, path: Path, definition: Definition, key: CaseKey) -> Case:
    from pytest_jsbench.datasets.sources import tools

    return tools.case_of(folder.document(path), definition, key)


def _read_unsupported_api(folder: DocumentFolder, path: Path, _key: CaseKey) -> Case:
    from pytest_jsbench.datasets.sources import openapi

    openapi.check(folder.document(path))
    raise Unreadable("has changed since it was first read")


def _read_api_schema(folder: DocumentFolder, path: Path, api: ApiSchema, key: CaseKey) -> Case:
    from pytest_jsbench.datasets.sources import openapi

    document = folder.document(path)
    return schema_case(key, openapi.read_openapi_schema(document, api, uri=folder.uri(path), retrieve=folder.retrieve))
