"""Functions of the engine `scripted`, and a grammar, with one fault each, which a reduction must find."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.generations import (
    CallError,
    Declined,
    DeclineReason,
    EngineInfo,
    FaultKind,
    Request,
    ResponseFormat,
)
from pytest_jsbench.engines.base import Acceptance, Engine, EngineConfig, EngineFactory
from pytest_jsbench.schemas.keywords import rebuild, walk

#: Numbers of calls by schema, for answers that differ from call to call.
_CALLS: dict[str, int] = {}
_LOCK = threading.Lock()


def ignore_min_length_below_depth_3(request: Request) -> object:
    """Return an empty object for each schema that does not have `minLength` below depth 3."""
    deep = any(depth >= 3 and "minLength" in part for depth, part in _levels(request.schema))
    return {"text": _deep_value(request.schema) if deep else _conforming(request.schema)}


def ignore_min_length_if_asked(request: Request) -> object:
    """Ignore `minLength` at any depth if the prompt asks for it."""
    asked = any("vague" in message.content for message in request.prompt.messages)
    return {"text": _deep_value(request.schema) if asked else _conforming(request.schema)}


def sometimes_forget_required(request: Request) -> object:
    """Omit a required property in every second call about a schema."""
    with _LOCK:
        calls = _CALLS[str(request.schema)] = _CALLS.get(str(request.schema), 0) + 1
    required = isinstance(request.schema, dict) and "amount" in str(request.schema) and request.schema.get("required")
    return {"text": "{}" if required and calls % 2 else _conforming(request.schema)}


def fail_twice_without_title(request: Request) -> object:
    """Answer wrongly if the schema has a title, and otherwise only twice for each schema, as if by chance."""
    with _LOCK:
        calls = _CALLS[str(request.schema)] = _CALLS.get(str(request.schema), 0) + 1
    titled = isinstance(request.schema, dict) and "title" in request.schema
    return {"text": "17" if titled or calls <= 2 else _conforming(request.schema)}


def refuse_dependent_required(request: Request) -> object:
    """Refuse a schema with `dependentRequired`, in words that quote a name, or else with `pattern`."""
    for _, part in _levels(request.schema):
        if "dependentRequired" in part:
            name = next(iter(part["dependentRequired"]), "?")
            return {"decline": "unsupported_schema", "message": f"dependentRequired of '{name}' is not supported"}
    if any("pattern" in part for _, part in _levels(request.schema)):
        return {"decline": "unsupported_schema", "message": "pattern is not supported"}
    return {"text": "{}"}


def die_of_tuples(request: Request) -> object:
    """Break the connection for a schema with `prefixItems`."""
    if any("prefixItems" in part for _, part in _levels(request.schema)):
        raise CallError(FaultKind.CONNECTION, "the server closed the connection")
    return {"text": "{}"}


def refuse_a_tool_with_unique_items(request: Request) -> object:
    """Refuse all tools if one has `uniqueItems`, in words that name no tool."""
    assert request.offer is not None
    if any("uniqueItems" in part for tool in request.offer.tools for _, part in _levels(tool.parameters)):
        return {"decline": "unsupported_schema", "message": "uniqueItems is not supported"}
    return {"calls": []}


def call_with_short_texts(request: Request) -> object:
    """Call the tool that the last message names, with empty texts for `minLength`."""
    assert request.offer is not None
    text = request.prompt.messages[-1].content
    tool = next((tool for tool in request.offer.tools if re.search(rf"\b{tool.name}\b", text)), None)
    if tool is None:
        return "No."
    return {"calls": [{"name": tool.name, "arguments": json.loads(_deep_value(tool.parameters))}]}


def confuse_tools_with_the_same_parameter(request: Request) -> object:
    """Call the last tool with a parameter that the expected tool has too, if the first message is a system message."""
    assert request.offer is not None
    tools = request.offer.tools
    names = {tool.name: set(_properties(tool.parameters)) for tool in tools}
    asked = next((name for name in names if name in request.prompt.messages[-1].content), "")
    others = [name for name in names if name != asked and names[name] & names.get(asked, set())]
    instructed = request.prompt.messages[0].role == "system"
    return {"calls": [{"name": others[-1] if others and instructed else asked, "arguments": {}}]}


def _properties(schema: Any) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return properties


def never_fail(request: Request) -> object:
    """Return a conforming object."""
    return {"text": _conforming(request.schema)}


def _levels(schema: Any, depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each subschema with its depth: the number of properties and items around it."""
    if not isinstance(schema, dict):
        return
    yield depth, schema
    for part in schema.get("properties", {}).values():
        yield from _levels(part, depth + 1)
    if "items" in schema:
        yield from _levels(schema["items"], depth + 1)


def _deep_value(schema: Any) -> str:
    """Return JSON text of a value with an empty text at the end of each path of properties."""
    if "properties" in schema:
        members = (f'"{name}": {_deep_value(part)}' for name, part in schema["properties"].items())
        return f"{{{', '.join(members)}}}"
    return '""' if schema.get("type", "string") == "string" else "1"


def _conforming(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "{}"
    if "properties" in schema:
        members = (f'"{name}": {_conforming(part)}' for name, part in schema["properties"].items())
        return f"{{{', '.join(members)}}}"
    if schema.get("type") in ("integer", "number"):
        return "1"
    return '"' + "a" * schema.get("minLength", 0) + '"' if schema.get("type", "string") == "string" else "{}"


class LooseGrammars(EngineFactory):
    """Factory of an engine without a model, whose grammars ignore `maximum` and refuse `not`."""

    def check(self, config: EngineConfig) -> None: ...

    def describe(self, config: EngineConfig) -> EngineInfo:
        return EngineInfo(engine=config.name, model="m", response_format=ResponseFormat.JSON_SCHEMA, streaming=False)

    def build(self, config: EngineConfig) -> Engine:
        raise AssertionError("no model is called")

    def build_matcher(self, config: EngineConfig) -> LooseGrammar:
        return LooseGrammar()


class LooseGrammar:
    """A grammar that validates texts without `maximum`."""

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        if any("not" in part for part in walk(schema)):
            return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=f"'not' in {json.dumps(schema)}")
        loose = rebuild(schema, lambda part: {name: value for name, value in part.items() if name != "maximum"})
        validator = jsonschema_rs.Draft202012Validator(loose)
        return Acceptance(
            accepted=tuple(validator.is_valid(json.loads(text)) for text in texts), grammar_compilation=0.001
        )

    def close(self) -> None: ...
