"""Write a first document of cases for tools: a request for each tool, and one that needs none of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_jsbench.cli.project_sources import Source
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.extensions import is_reference
from pytest_jsbench.core.files import inside
from pytest_jsbench.core.text import format_count, printable, sentence
from pytest_jsbench.core.tool_offers import OfferedTool, ToolMode
from pytest_jsbench.datasets.source_names import SERVER
from pytest_jsbench.datasets.sources.tool_cases import ANY_CALL
from pytest_jsbench.datasets.sources.tool_sources import read_source

DOCUMENT = "agent.yaml"
_HEAD = "# Replace each request with one that a user of the application would write."
_NO_TOOL = "Tell me a joke."
_LONGEST_REQUEST = 150
#: Names that YAML reads as a text without quotation marks.
_PLAIN_NAME = re.compile(r"(?!(?i:null|true|false|yes|no|on|off)\Z)[A-Za-z_][\w-]*", re.ASCII)
#: Characters that end a plain text in YAML.
_NOT_IN_WORKFLOWS = re.compile(r":\s|\s#|[\r\n]|:\Z")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s")


def read_tool_source(root: Path, source: str) -> tuple[Source, str]:
    """
    Return the document with cases for the tools of a source, as a source of the project, and the text of the document.

    The document names a file or directory of the project itself. Everything else is named with the document in the
    settings: what is outside of the project, and what is run. Raise DatasetError if the tools cannot be read.
    """
    if _NOT_IN_WORKFLOWS.search(source):
        message = f"the tools '{printable(source)}' cannot be written in a workflow; put the command in a script"
        raise DatasetError(message, found=source, option="dataset")
    tools = read_source(source)
    path = Path(source).expanduser()
    extra = "yaml"
    own: str | None = None
    dataset = DOCUMENT
    if not source.startswith(SERVER) and path.exists():
        place = Path(os.path.relpath(path, root)).as_posix()
        if inside(root, path):
            own = place
        else:
            dataset = f"{DOCUMENT}@{place}"
    else:
        extra = "yaml,mcp" if source.startswith(SERVER) else "yaml,pydantic"
        dataset = f"{DOCUMENT}@{source}"
    is_module = own is None and is_reference(source) and not source.startswith(SERVER)
    package = source.partition(":")[0].partition(".")[0]
    has_src = any((root / "src" / name).exists() for name in (package, f"{package}.py"))
    project_source = Source(
        dataset=dataset,
        words=f"{format_count(len(tools), 'tool')} of {sentence(source)}",
        cases=len(tools) + 1,
        extra=extra,
        python_path=("src" if has_src else ".") if is_module else None,
    )
    return project_source, "\n".join([*_lines(tools, own), ""])


def _lines(tools: tuple[OfferedTool, ...], own: str | None) -> Iterator[str]:
    yield _HEAD
    if own is not None:
        yield f"tools: {json.dumps(own, ensure_ascii=False)}"
    yield "cases:"
    for tool in tools:
        yield f"- {{ask: {json.dumps(_request_for(tool))}, expect: {_expectation(tool.name)}}}"
    yield f"- {{ask: {json.dumps(_NO_TOOL)}, expect: {ToolMode.NONE}}}"


def _request_for(tool: OfferedTool) -> str:
    """Return the first sentence of the tool's description, or the words of its name."""
    first = _END_OF_SENTENCE.split(tool.description.strip())[0]
    words = re.sub(r"[\W_]+", " ", tool.name).strip().capitalize()
    return sentence(first, _LONGEST_REQUEST) or f"{words}."


def _expectation(name: str) -> str:
    """Return the name of the tool as YAML; the tools `none` and `any` as calls, since the words have other meanings."""
    if name in (ToolMode.NONE, ANY_CALL):
        return f"{{{name}: {{}}}}"
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)
