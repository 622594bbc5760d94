"""
Offer tools to the `local` engine's model, whose chat template has no place for tools.

llama.cpp's server drops the tools if the model's template does not mention them, even if a call is required. Therefore,
the tools are described in a system message, and the model writes its calls, or its text, as a JSON object that a
grammar enforces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.generations import CalledTool
from pytest_jsbench.core.messages import INSTRUCTING, Message
from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.schemas.keywords import rebuild

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Completion
    from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer

#: Maximum number of calls in one answer; without a limit, a small model repeats a call up to the token limit.
MOST_CALLS = 4


class _Call(Struct, frozen=True):
    name: str
    arguments: msgspec.Raw


class _Answer(Struct, frozen=True):
    """What the model writes: calls, or a text."""

    tool_calls: list[_Call] = []
    content: str = ""


def describe_tools(prompt: Prompt, offer: ToolOffer) -> Prompt:
    """Return the prompt with a description of the tools in its instructions."""
    definitions = "\n".join(
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        for tool in offer.tools
    )
    text = f"You can call these tools:\n{definitions}\n{_HOW[offer.mode]}"
    first, *others = prompt.messages
    if first.role in INSTRUCTING:
        return Prompt(messages=(Message(role=first.role, content=f"{first.content}\n\n{text}"), *others))
    return Prompt(messages=(Message(role="system", content=text), *prompt.messages))


_CALLS = 'Answer with {"tool_calls": [{"name": …, "arguments": {…}}]}'
_HOW: Mapping[ToolMode | None, str] = {
    ToolMode.AUTO: f'{_CALLS} if tools help, or else with {{"content": "your answer"}}.',
    ToolMode.REQUIRED: f"{_CALLS}.",
    None: f"{_CALLS}.",
    ToolMode.NONE: "Do not call them now; answer in plain text.",
}


def schema_of_answer(offer: ToolOffer) -> dict[str, Any] | None:
    """Return the schema of the object that the model writes; None if no tool may be called, so that it writes text."""
    if not offer.allowed:
        return None
    allowed = [tool for tool in offer.tools if tool.name in offer.allowed]
    places = {tool.name: f"tool{number}" for number, tool in enumerate(allowed, start=1)}
    calls = {
        "type": "array",
        "items": {"anyOf": [_schema_of_call(tool, places[tool.name]) for tool in allowed]},
        "minItems": 1,
        "maxItems": MOST_CALLS,
    }
    schema = _object({"tool_calls": calls})
    if not offer.required:
        schema = {"anyOf": [schema, _object({"content": {"type": "string"}})]}
    definitions = {places[tool.name]: _move_references(tool.parameters, places[tool.name]) for tool in allowed}
    return {**schema, "$defs": definitions}


def _schema_of_call(tool: OfferedTool, place: str) -> dict[str, Any]:
    return _object({"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/{place}"}})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _move_references(schema: Schema, place: str) -> Schema:
    """Return the schema with references that are relative to its new place in a larger schema."""
    if not isinstance(schema, Mapping):
        return schema

    def move(part: dict[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return {**part, "$ref": f"#/$defs/{place}{reference[1:]}"}
        return part

    moved: dict[str, Any] = rebuild(schema, move)
    return {keyword: value for keyword, value in moved.items() if keyword not in ("$schema", "$id", "id")}


def read_calls(completion: Completion) -> Completion:
    """
    Return the answer with the calls or the text in the object that the model wrote; an incomplete object stays the
    answer's text.
    """
    try:
        answer = msgspec.json.decode(completion.text, type=_Answer)
    except (msgspec.DecodeError, UnicodeError):
        return completion
    if not answer.tool_calls:
        return structs.replace(completion, text=answer.content)
    calls = tuple(CalledTool(name=call.name, arguments=bytes(call.arguments).decode()) for call in answer.tool_calls)
    return structs.replace(completion, text="\n".join(call.arguments for call in calls), calls=calls)
