"""JSON as it is sent to servers and as they send it: encoded, decoded, and looked into without any trust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind, Tools
from pytest_jsbench.core.json_values import too_deep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.cases import Schema

#: levels of a server's JSON; those of an answer that comes as text inside it do not count
DEEPEST = 500
#: beyond it a JSON number may be another in the next tool that reads it
_MOST_TOKENS = 2**53
_DECODER = json.JSONDecoder()
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")
_REQUIRED = ("required", "any", "tool", "function")


def to_json(value: object) -> bytes:
    """Encode a body on one line, as the SDKs do; CallError for a schema that no JSON encoder takes."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (ValueError, RecursionError) as error:
        message = f"the request cannot be made: {type(error).__name__}: {error}"
        raise CallError(FaultKind.ENGINE, message) from None


def parse_json(text: str) -> Any:
    """The value that a server sent; RecursionError where it nests deeper than anything that is an answer."""
    if len(text) > DEEPEST and too_deep(text, DEEPEST):
        raise RecursionError
    # a stream has thousands of events, and hardly any has the white space around it that `loads` looks for
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


def count(value: object) -> int | None:
    """A provider's token count; None for anything that is not one, and for what no figure could be made of."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None


def get(part: object, *names: str) -> Any:
    """Look a name up in an object, and the next in what stands there; None where there is no object or no such name."""
    for name in names:
        part = part.get(name) if isinstance(part, dict) else None
    return part


def as_object(part: object) -> Mapping[str, Any]:
    """The value itself; an empty object in the place of anything else that a server puts there."""
    return part if isinstance(part, dict) else {}


def items(part: object, name: str) -> list[Any]:
    """The list of that name; empty for anything else that a server puts there."""
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, list) else []


def text_or(value: object, otherwise: str) -> str:
    """The value itself where it is a text, and not an empty one."""
    return value if isinstance(value, str) and value else otherwise


def parts(value: object) -> list[Any]:
    """The parts of a content; some servers send a text or one part without a list around it."""
    return value if isinstance(value, list) else [] if value is None else [value]


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
    named = [get(entry, "function", "name") or get(entry, "name") for entry in (choice, *items(choice, "tools"))]
    named += items(choice, "allowedFunctionNames")
    return Tools(
        schemas=schemas,
        allowed=() if mode == "none" else tuple(name for name in schemas if name in named) or tuple(schemas),
        # one of the provider's own may be what is called, and that is no call of a function
        required=functions and mode in _REQUIRED,
    )
