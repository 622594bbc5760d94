"""What the body of a request says of tools, in the words of any of the four APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import Tools
from pytest_jsbench.engines.http.answer_builder import get, items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.cases import Schema

_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")
_REQUIRED = ("required", "any", "tool", "function")


def read_tools(body: Mapping[str, Any], *, own: str | None = None) -> Tools | None:
    """The tools that the body declares, of which the case's schema describes `own`; None where it declares none."""
    declared = [tool for entry in items(body, "tools") for tool in items(entry, "functionDeclarations") or [entry]]
    schemas: dict[str, Schema | None] = {}
    functions = True
    for tool in declared:
        function = get(tool, "function") or tool
        name = get(function, "name")
        schema = next((value for key in _SCHEMAS if (value := get(function, key)) is not None), None)
        functions &= schema is not None or get(tool, "type") == "function"
        if isinstance(name, str):  # who says nothing of the arguments takes an object all the same
            schemas[name] = None if name == own else schema if isinstance(schema, dict) else {"type": "object"}
    if not schemas:
        return None
    choice = body.get("tool_choice") or get(body, "toolConfig", "functionCallingConfig")
    choice = get(choice, "allowed_tools") or choice
    mode = choice if isinstance(choice, str) else get(choice, "mode") or get(choice, "type")
    mode = mode.lower() if isinstance(mode, str) else "auto"
    named = [get(one, "function", "name") or get(one, "name") for one in (choice, *items(choice, "tools"))]
    named += items(choice, "allowedFunctionNames")
    return Tools(
        schemas=schemas,
        allowed=() if mode == "none" else tuple(name for name in schemas if name in named) or tuple(schemas),
        # one of the provider's own may be what is called, and that is no call of a function
        required=functions and mode in _REQUIRED,
    )
