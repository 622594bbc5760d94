"""Tool definitions, as OpenAI, Anthropic and MCP write them: a case per schema of a tool's arguments or result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: where a list of tools may stand in a document: a request's body, an answer to `tools/list`
_LISTS = (("tools",), ("result", "tools"), ("functions",))
#: what the schema of the arguments is called: Anthropic, MCP, OpenAI
_INPUTS = ("input_schema", "inputSchema", "parameters")
_OUTPUT = "outputSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """One schema of a tool: what to call it, and the way to it from the top of the document."""

    name: str
    steps: tuple[str | int, ...]


def tool_schemas(document: object) -> tuple[ToolSchema, ...]:
    """The schemas of the tools that the document defines; none where it defines no tools."""
    return tuple(_of_list((), document) or _of_lists(document) or _of_tool((), document))


def about(tool: Mapping[str, Any], keyword: object) -> str:
    """What the schema under the keyword of a tool's definition is of, for the prompt."""
    part = "a result" if keyword == _OUTPUT else "the arguments of a call"
    said = tool.get("description")
    description = f": {said}" if isinstance(said, str) and said else "."
    # a lone surrogate, which no call can carry, stays in the file
    return f"Give {part} of the tool {tool.get('name')}{description}".encode(errors="replace").decode()


def holds_many(document: object) -> bool:
    """Whether the document is a list of tools, and not a tool by itself."""
    return not tuple(_of_tool((), document))


def _of_lists(document: object) -> list[ToolSchema]:
    for steps in _LISTS:
        inner: Any = document
        for step in steps:
            inner = inner.get(step) if isinstance(inner, Mapping) else None
        if found := _of_list(steps, inner):
            return found
    return []


def _of_list(steps: tuple[str | int, ...], value: object) -> list[ToolSchema]:
    """The schemas of a list of tools; one that has no schema, such as a provider's own, is named all the same."""
    if not isinstance(value, list):
        return []
    found = [list(_of_tool((*steps, index), element)) for index, element in enumerate(value)]
    if not any(found):
        return []
    return [schema for index, one in enumerate(found) for schema in one or [_without(steps, index, value[index])]]


def _without(steps: tuple[str | int, ...], index: int, value: object) -> ToolSchema:
    names = [value.get(key) for key in ("name", "type")] if isinstance(value, Mapping) else []
    name = next((name for name in names if isinstance(name, str) and name), f"tool-{index}")
    return ToolSchema(name=name, steps=(*steps, index, _INPUTS[0]))


def _of_tool(steps: tuple[str | int, ...], definition: object) -> Iterator[ToolSchema]:
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
