"""
Read the tools that a document of cases offers: from files, OpenAPI documents, Python modules and MCP servers.

A document may name only files of its own directory, since reading a document must not run a program. A user names a
Python module or an MCP server after the document: `agent.yaml@shop:*`, `agent.yaml@mcp:python server.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pytest_jsbench.core.errors import DatasetError, errors_about
from pytest_jsbench.core.extensions import import_object, is_reference
from pytest_jsbench.core.files import Unreadable, real
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import OfferedTool
from pytest_jsbench.datasets.base import Listing, Selection
from pytest_jsbench.datasets.documents import DOCUMENT_SUFFIXES, YAML_SUFFIXES, DocumentFolder
from pytest_jsbench.datasets.folders import files_below
from pytest_jsbench.datasets.source_names import SERVER
from pytest_jsbench.datasets.sources import openapi, tool_cases

_KINDS = "a file, an OpenAPI document or a directory of tool definitions, package.module:name, or mcp:COMMAND"


def open_document(selection: Selection, path: Path, source: str) -> Listing:
    """Open the cases of a document, which offer the tools of this source instead of the document's own."""
    if path.suffix.lower() in YAML_SUFFIXES:
        from pytest_jsbench.datasets.yaml_text import require_yaml

        require_yaml(f"dataset '{path}'")
    folder = DocumentFolder(path.parent, [path])
    try:
        document = folder.document(path)
    except Unreadable as error:
        raise DatasetError(f"{path}: {error.problem}", where=path) from None
    if not isinstance(document, Mapping) or not isinstance(document.get("cases"), list):
        message = f"{path} is not a document with cases, which @{printable(source, 100)} completes with tools"
        raise DatasetError(message, found=source, expected="a document with cases", where=path, option="dataset")
    entries = tool_cases.list_cases(
        document,
        task=path.stem,
        where=str(path),
        read_document=partial(folder.document, path),
        find_tools=partial(find_tools, folder, path),
        offered=read_source(source),
    )
    return Listing.from_entries(selection, entries)


def read_source(source: str) -> tuple[OfferedTool, ...]:
    """Return the tools of a source that the user names; raise DatasetError if there are none, or one has no schema."""
    path = Path(source).expanduser()
    try:
        if source.startswith(SERVER):
            from pytest_jsbench.datasets.sources import mcp_servers

            return tool_cases.offer_definitions(mcp_servers.list_tools(source).document)
        if path.exists():
            is_folder = path.is_dir()
            folder = DocumentFolder(path if is_folder else path.parent, [] if is_folder else [path])
            return _read_path(folder, path)
        if is_reference(source):
            return tool_cases.offer_definitions(_read_objects(source))
    except Unreadable as error:
        raise DatasetError(f"tools '{printable(source)}': {error.problem}", where=source, option="dataset") from None
    message = f"unknown tools '{printable(source)}'; expected {_KINDS}"
    raise DatasetError(message, found=source, expected=_KINDS, option="dataset")


def find_tools(folder: DocumentFolder, path: Path, source: str) -> tuple[OfferedTool, ...]:
    """
    Return the tools in a file or directory that a document names relative to its own place.

    Raise Unreadable for a place outside of the folder, and for a program: only the user may name what is run.
    """
    target = path.parent / source
    if not target.exists() and (source.startswith(SERVER) or is_reference(source)):
        shown = printable(source, 100)
        message = (
            f"tools is '{shown}', which would run a program, and a document may only name files; to run it, set "
            f"--jsbench-dataset='{path}@{shown}'"
        )
        raise Unreadable(message, reason="bad_row")
    named = f"tools is '{printable(source, 100)}', which"
    if not real(target).is_relative_to(real(folder.root)):
        message = f"{named} is outside of {folder.root}; only files inside of it are read"
        raise Unreadable(message, reason="bad_row")
    if not target.exists():
        message = f"{named} does not exist; expected a file in {folder.root}, or a directory of definitions"
        raise Unreadable(message, reason="bad_row")
    return _read_path(folder, target)


def _read_path(folder: DocumentFolder, path: Path) -> tuple[OfferedTool, ...]:
    """Return the tools of a file, or of all files in a directory, in the order of their names."""
    if not path.is_dir():
        return _read_file(folder, path)
    files = [each for each in files_below(path) if each.suffix.lower() in DOCUMENT_SUFFIXES]
    if not files:
        raise Unreadable(f"no *.json or *.yaml files in {path}", reason="bad_row")
    return tuple(tool for each in files for tool in _read_file(folder, each))


def _read_file(folder: DocumentFolder, path: Path) -> tuple[OfferedTool, ...]:
    try:
        document = folder.document(path)
        if openapi.is_openapi(document) and isinstance(document, Mapping):
            from pytest_jsbench.datasets.sources import openapi_tools

            document = openapi_tools.read_tools(document, uri=folder.uri(path), retrieve=folder.retrieve)
        return tool_cases.offer_definitions(document)
    except Unreadable as error:
        raise Unreadable(f"{path.name}: {error.problem}", reason=error.reason) from None


def _read_objects(source: str) -> object:
    """Import Python functions, types or definitions, and return their definitions."""
    from pytest_jsbench.datasets.sources import objects

    name = source.rpartition(":")[2].rpartition(".")[2]
    subject = f"tools '{printable(source)}'"
    value = import_object(source, purpose=subject, error=DatasetError)
    with errors_about(subject):
        return objects.define_tools(value, name=name)
