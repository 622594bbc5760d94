"""Tool definitions, as OpenAI, Anthropic and MCP write them: a case per schema of a tool's arguments or result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.schemas.references import follow

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
    said = tool.get("description")
    description = f": {said}" if isinstance(said, str) and said else "."
    # a lone surrogate, which no call can carry, stays in the file
    return f"Give {part} of the tool {tool.get('name')}{description}".encode(errors="replace").decode()


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
