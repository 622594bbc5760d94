"""Find the schemas in tool lists and response formats, as providers, SDKs and MCP servers write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import ListedCase, SkippedPart, as_schema, schema_case
from pytest_jsbench.datasets.sources.gemini_notation import to_json_schema
from pytest_jsbench.datasets.sources.mcp_messages import describe_message
from pytest_jsbench.schemas.keywords import KEYWORDS
from pytest_jsbench.schemas.references import follow

Steps = tuple[str, ...]


class Part(StrEnum):
    """The part of a definition that a schema describes."""

    ARGUMENTS = "the arguments of a call"
    RESULT = "a result"
    #: An answer in a response format.
    ANSWER = "an answer"


@dataclass(frozen=True, slots=True)
class _Shape:
    """Path of a field with a schema, and the API or SDK that defines the field."""

    steps: Steps
    source: str


#: Fields with the schema of the arguments; the first that is present and not null is used. All checked in November
#: 2026.
_INPUTS = (
    _Shape(("inputSchema", "json"), "Amazon Bedrock, Converse: ToolSpecification"),
    _Shape(("input_schema", "json"), "Amazon Bedrock, Converse: ToolSpecification in snake case"),
    _Shape(("parametersJsonSchema",), "Gemini and Vertex AI: FunctionDeclaration"),
    _Shape(("parameters_json_schema",), "google-genai: FunctionDeclaration as model_dump() writes it"),
    _Shape(("params_json_schema",), "OpenAI Agents SDK: FunctionTool"),
    _Shape(("input_schema",), "Anthropic Messages: Tool; MCP Python SDK 2: Tool"),
    _Shape(("inputSchema",), "MCP 2025-11-25: Tool"),
    _Shape(("parameters",), "OpenAI Chat Completions and Responses, Mistral, Ollama, Gemini"),
)
#: Fields that describe the arguments, but not as a JSON Schema. All checked in November 2026.
_OTHER_INPUTS = (_Shape(("parameter_definitions",), "Cohere API 1: names of Python types"),)
#: Field that maps argument names to schemas, next to `output_type` (smolagents, Tool.to_dict()). Checked in November
#: 2026.
_BY_NAME = "inputs"
#: Fields with the schema of the result. All checked in November 2026.
_OUTPUTS = (
    _Shape(("outputSchema",), "MCP 2025-11-25: Tool"),
    _Shape(("output_schema",), "MCP Python SDK 2: Tool as model_dump() writes it"),
    _Shape(("responseJsonSchema",), "Gemini and Vertex AI: FunctionDeclaration"),
    _Shape(("response_json_schema",), "google-genai: FunctionDeclaration"),
    _Shape(("response",), "Gemini and Vertex AI: FunctionDeclaration"),
)
#: Fields that wrap the definition of a tool. All checked in November 2026.
_ENVELOPES = (
    _Shape(("function",), "OpenAI Chat Completions, Mistral, Ollama"),
    _Shape(("toolSpec",), "Amazon Bedrock, Converse: Tool"),
    _Shape(("tool_spec",), "Amazon Bedrock in snake case"),
)
#: Places of a list of tools in a document. All checked in November 2026.
_LISTS = (
    _Shape(("tools",), "request bodies; MCP 2025-11-25: ListToolsResult"),
    _Shape(("result", "tools"), "MCP 2025-11-25: response to tools/list"),
    _Shape(("functions",), "OpenAI Chat Completions before tools"),
    _Shape(("functionDeclarations",), "Gemini and Vertex AI: Tool"),
    _Shape(("function_declarations",), "google-genai: Tool"),
    _Shape(("toolConfig", "tools"), "Amazon Bedrock, Converse: request"),
    _Shape(("tool_config", "tools"), "Amazon Bedrock in snake case"),
    _Shape(("config", "tools"), "google-genai: GenerateContentConfig"),
    _Shape(("body", "tools"), "OpenAI Batch: line of the input file"),
    _Shape(("params", "tools"), "Anthropic Message Batches: request"),
    _Shape(("request", "tools"), "Gemini Batch: line of the input file"),
    _Shape(("modelInput", "tools"), "Amazon Bedrock batch inference: line of the input file"),
    _Shape(("modelInput", "toolConfig", "tools"), "Amazon Bedrock batch inference, Converse"),
    _Shape(("session", "tools"), "OpenAI Realtime: session.update"),
)
#: Places of a response format in a document. All checked in November 2026.
_FORMATS = (
    _Shape((), "a response format by itself"),
    _Shape(("response_format",), "OpenAI Chat Completions"),
    _Shape(("responseFormat",), "the same in camel case"),
    _Shape(("body", "response_format"), "OpenAI Batch: line of the input file"),
    _Shape(("text", "format"), "OpenAI Responses"),
    _Shape(("body", "text", "format"), "OpenAI Batch: line of the input file"),
    _Shape(("output_format",), "Anthropic Messages, beta of structured outputs"),
    _Shape(("output_config", "format"), "Anthropic Messages"),
    _Shape(("params", "output_config", "format"), "Anthropic Message Batches: request"),
)
#: Places of the answer's schema in a request. All checked in November 2026.
_ANSWERS = (
    _Shape(("generationConfig", "responseJsonSchema"), "Gemini and Vertex AI"),
    _Shape(("generationConfig", "responseSchema"), "Gemini and Vertex AI"),
    _Shape(("request", "generationConfig", "responseJsonSchema"), "Gemini Batch: line of the input file"),
    _Shape(("request", "generationConfig", "responseSchema"), "Gemini Batch: line of the input file"),
    _Shape(("generation_config", "response_json_schema"), "google-genai"),
    _Shape(("generation_config", "response_schema"), "google-genai"),
    _Shape(("config", "response_json_schema"), "google-genai: GenerateContentConfig"),
    _Shape(("config", "response_schema"), "google-genai: GenerateContentConfig"),
    _Shape(("structured_outputs", "json"), "vLLM"),
    _Shape(("guided_json",), "vLLM before structured_outputs"),
)
#: Fields with the answer's schema in a configuration that is a document by itself. All checked in November 2026.
_ANSWERS_OF_CONFIGS = (
    _Shape(("responseJsonSchema",), "Gemini: generationConfig"),
    _Shape(("responseSchema",), "Gemini: generationConfig"),
    _Shape(("response_json_schema",), "google-genai: GenerateContentConfig"),
    _Shape(("response_schema",), "google-genai: GenerateContentConfig"),
)
_NESTED = ("functionDeclarations", "function_declarations", "tools")
_CURSORS = ("nextCursor", "next_cursor")
#: Entries of a tool list that are not tools, but mark the end of a cached prompt.
_NOT_TOOLS = ("cachePoint", "cache_point")
#: Fields of a schema that no tool list or request has at its top level.
_SCHEMA_KEYWORDS = frozenset(
    {"$schema", "$ref", "$defs", "definitions", "properties", "patternProperties", "allOf", "anyOf", "oneOf"}
)
_JSON_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
#: Schema for the arguments of a tool that declares no parameters.
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Schema of a tool or a response format, by its place in the document."""

    #: Name of the tool or format; None without a name.
    name: str | None
    part: Part
    #: Path of the tool's definition, which contains its description.
    tool: Steps = ()
    #: Path of the schema; None if the tool declares no parameters.
    schema: Steps | None = None
    #: True if `schema` leads to a mapping of argument names to schemas instead of to one schema.
    by_name: bool = False
    #: Reason why the schema is missing; empty if the definition has a schema.
    problem: str = ""


@dataclass(kw_only=True)
class Definitions:
    """Schemas that a document defines, and the names of its skipped parts."""

    schemas: list[Definition] = field(default_factory=list)
    #: Names of tools without a schema for their arguments.
    skipped: list[str] = field(default_factory=list)
    #: Descriptions of JSON-RPC messages without tools.
    messages: list[str] = field(default_factory=list)
    #: `nextCursor` of the last page of the list; empty if it has no next page.
    cursor: str = ""
    #: True if the document is a list, not one tool or format.
    many: bool = False

    def add(self, other: Definitions) -> None:
        """Add the skipped parts of another document of the same source, which may be the next page of this one."""
        self.skipped += other.skipped
        self.messages += other.messages
        self.cursor = other.cursor

    def notes(self, where: str) -> Iterator[SkippedPart]:
        """Yield one message for each kind of skipped part."""
        if self.skipped:
            names = printable(", ".join(dict.fromkeys(self.skipped)), 300)
            yield SkippedPart(f"{where}: skipped tools without a JSON Schema for their arguments: {names}")
        elif not self.schemas and not self.messages:
            yield SkippedPart(f"{where}: the list of tools is empty")
        if self.messages:
            kinds = printable(", ".join(dict.fromkeys(self.messages)), 300)
            yield SkippedPart(f"{where}: skipped JSON-RPC messages without tools: {kinds}")
        if self.cursor:
            yield SkippedPart(f"{where}: the list of tools is incomplete, as nextCursor is set; add the next page")


def read_definitions(document: object) -> Definitions | None:
    """Find the schemas of the tools and response formats in a document; None if the document contains no schemas."""
    definitions = Definitions()
    if isinstance(document, list | tuple):
        return definitions if _read_top_list(definitions, document) else None
    if not isinstance(document, Mapping) or not _SCHEMA_KEYWORDS.isdisjoint(document):
        return None
    message = describe_message(document)
    if message and not _has_tools(document):
        problem = f"is {message}, not a JSON Schema and not a list of tools"
        definitions.schemas.append(Definition(name=None, part=Part.ANSWER, problem=problem))
        return definitions
    has_list = _read_page(definitions, (), document)
    has_format = _read_formats(definitions, document)
    if has_list or has_format:
        definitions.many = has_list
        return definitions
    return definitions if _read_tool(definitions, (), document) else None


def list_cases(definitions: Definitions, document: object, *, task: str, name: str, where: str) -> Iterator[ListedCase]:
    """Yield the cases of a document in memory; `name` is used for definitions without a name."""
    for definition in definitions.schemas:
        read = partial(case_of, document, definition)
        case_name = name if definition.name is None else definition.name
        yield ListedCase(task=task, name=case_name, where=where, read=read)


def format_schema(value: object) -> object:
    """Return the schema in a response format; return other values unchanged."""
    definitions = Definitions()
    if (
        not isinstance(value, Mapping)
        or not _SCHEMA_KEYWORDS.isdisjoint(value)
        or not _read_formats(definitions, value)
    ):
        return value
    (definition,) = definitions.schemas
    if definition.schema is None:
        raise Unreadable(definition.problem, reason="not_a_schema")
    return to_json_schema(follow(value, definition.schema))


def defines_tools(document: object) -> bool:
    """Return whether the document defines a tool with a schema."""
    definitions = read_definitions(document)
    return definitions is not None and any(each.part is not Part.ANSWER for each in definitions.schemas)


def case_of(document: object, definition: Definition, key: CaseKey) -> Case:
    """Return the case of a definition; raise Unreadable if it has no schema."""
    case = schema_case(key, schema_of(document, definition))
    if definition.part is Part.ANSWER:
        return case
    return replace(case, about=_describe_purpose(follow(document, definition.tool), definition.part))


def schema_of(document: object, definition: Definition) -> bool | dict[str, Any]:
    """Return the schema of a definition; raise Unreadable if it has no schema."""
    if definition.problem:
        raise Unreadable(definition.problem, reason="not_a_schema")
    schema: object = _NO_PARAMETERS
    if definition.schema is not None:
        schema = follow(document, definition.schema, _MISSING)
    if schema is _MISSING:
        raise Unreadable("has changed since it was first read")
    if definition.by_name:
        schema = _arguments_schema(schema)
    return as_schema(to_json_schema(schema))


def _describe_purpose(tool: Mapping[str, Any], part: Part) -> str:
    """Return the sentence of the prompt that describes the purpose of a tool's schema."""
    description = tool.get("description")
    ending = f": {description}" if isinstance(description, str) and description else "."
    # a lone surrogate cannot be sent
    return f"Give {part} of the tool {tool.get('name')}{ending}".encode(errors="replace").decode()


def _read_top_list(definitions: Definitions, entries: Sequence[object]) -> bool:
    """Read a document that is a list of pages, messages or tools; return False for other lists."""
    definitions.many = True
    if any(_has_tools(entry) for entry in entries):
        for index, entry in enumerate(entries):
            if isinstance(entry, Mapping) and _read_page(definitions, (str(index),), entry):
                continue
            if isinstance(entry, Mapping) and describe_message(entry):
                definitions.messages.append(describe_message(entry))
            else:
                _read_entry(definitions, (str(index),), entry, index=index)
        return True
    if not any(_is_tool(entry) for entry in entries):
        return False
    _read_list(definitions, (), entries)
    return True


def _has_tools(entry: object) -> bool:
    return isinstance(entry, Mapping) and "name" not in entry and any(True for _ in _lists_of(entry))


def _lists_of(page: Mapping[str, Any]) -> Iterator[tuple[Steps, list[Any]]]:
    for shape in _LISTS:
        entries = follow(page, shape.steps)
        # a list of names, such as an agent's, defines no tools
        if isinstance(entries, list) and (not entries or any(isinstance(entry, Mapping) for entry in entries)):
            yield shape.steps, entries


def _read_page(definitions: Definitions, steps: Steps, page: Mapping[str, Any]) -> bool:
    """Read the lists of tools in an object; return False if the object has no such list."""
    lists = list(_lists_of(page))
    if not lists or (isinstance(page.get("name"), str) and _is_tool(page)):
        return False
    for inner, entries in lists:
        _read_list(definitions, (*steps, *inner), entries, untyped_is_function=inner[-1] != "tools")
        holder = follow(page, inner[:-1])
        cursors = (holder.get(name) for name in _CURSORS)
        definitions.cursor = next((cursor for cursor in cursors if isinstance(cursor, str) and cursor), "")
    return True


def _read_list(
    definitions: Definitions,
    steps: Steps,
    entries: Iterable[object],
    *,
    untyped_is_function: bool = False,
    inner: bool = False,
) -> None:
    for index, entry in enumerate(entries):
        place = (*steps, str(index))
        nested = [name for name in _NESTED if isinstance(entry, Mapping) and isinstance(entry.get(name), list)]
        if nested and not inner and isinstance(entry, Mapping):
            for name in nested:
                is_gemini = name != "tools"
                _read_list(definitions, (*place, name), entry[name], untyped_is_function=is_gemini, inner=True)
            if "name" not in entry:
                rest = {name: value for name, value in entry.items() if name not in nested}
                definitions.skipped += _keys_of_objects(rest)
            continue
        _read_entry(definitions, place, entry, index=index, untyped_is_function=untyped_is_function)


def _read_entry(
    definitions: Definitions, steps: Steps, entry: object, *, index: int, untyped_is_function: bool = False
) -> None:
    """Read one entry of a list of tools: add its schemas, or add its name to the skipped tools."""
    if _read_tool(definitions, steps, entry, untyped_is_function=untyped_is_function):
        return
    if not isinstance(entry, Mapping):
        problem = f"is a JSON {json_type(entry)}; expected the definition of a tool"
        definitions.schemas.append(Definition(name=f"tool-{index}", part=Part.ARGUMENTS, problem=problem))
        return
    name = _name_of(entry)
    if any(marker in entry for marker in _NOT_TOOLS):
        return
    if _is_provided(entry):
        definitions.skipped += [name] if name else _keys_of_objects(entry) or [f"tool-{index}"]
        return
    problem = f"{name or 'the tool'} has no schema for its arguments"
    definitions.schemas.append(Definition(name=name or f"tool-{index}", part=Part.ARGUMENTS, problem=problem))


def _read_tool(definitions: Definitions, steps: Steps, entry: object, *, untyped_is_function: bool = False) -> bool:
    """Add the schemas of a tool; return False if the value does not define the arguments of a tool."""
    if not isinstance(entry, Mapping):
        return False
    tool: Mapping[str, Any] = entry
    is_function = entry.get("type") == "function" or untyped_is_function
    for shape in _ENVELOPES:
        inner = entry.get(shape.steps[0])
        if isinstance(inner, Mapping):
            steps = (*steps, *shape.steps)
            tool = inner
            break
    name = tool.get("name")
    if not isinstance(name, str) or "properties" in tool or "$schema" in tool:
        return False
    arguments = _member(tool, _INPUTS)
    result = _member(tool, _OUTPUTS)
    if result is not None and follow(tool, result) is None:
        result = None
    by_name = arguments is None and isinstance(tool.get(_BY_NAME), Mapping) and "output_type" in tool
    if by_name and tool[_BY_NAME]:
        arguments = (_BY_NAME,)
    if arguments is None and result is None and not is_function and not by_name:
        return False
    place: Steps | None = None
    # an empty schema would accept any value, but arguments are always an object
    if arguments is not None and follow(tool, arguments) not in (None, {}):
        place = (*steps, *arguments)
    definitions.schemas.append(
        Definition(name=name, part=Part.ARGUMENTS, tool=steps, schema=place, by_name=by_name and place is not None)
    )
    if result is not None:
        definitions.schemas.append(
            Definition(name=f"{name}.output", part=Part.RESULT, tool=steps, schema=(*steps, *result))
        )
    return True


def _member(tool: Mapping[str, Any], shapes: Iterable[_Shape]) -> Steps | None:
    """
    Return the path of the first schema that is not null, or of the first schema if all are null; None
    if no schema is present.
    """
    present = [shape.steps for shape in shapes if follow(tool, shape.steps, _MISSING) is not _MISSING]
    # a tool whose schema has a field `json` by coincidence is not in Bedrock's format
    present = [steps for steps in present if len(steps) == 1 or len(follow(tool, steps[:-1])) == 1]
    not_null = [steps for steps in present if follow(tool, steps) is not None]
    return next(iter(not_null or present), None)


def _is_tool(entry: object) -> bool:
    return _read_tool(Definitions(), (), entry) or (isinstance(entry, Mapping) and _is_typed(entry))


def _is_typed(entry: Mapping[str, Any]) -> bool:
    """Return whether the entry's `type` is a type of tool rather than a type of JSON Schema."""
    kind = entry.get("type")
    return isinstance(kind, str) and kind.lower() not in _JSON_TYPES and _SCHEMA_KEYWORDS.isdisjoint(entry)


def _is_provided(entry: Mapping[str, Any]) -> bool:
    """Return whether the tool is built into the provider, or takes free text."""
    if any(shape.steps[0] in entry for shape in _OTHER_INPUTS):
        return True
    if isinstance(entry.get("type"), str):
        return _is_typed(entry) and entry["type"] != "function"
    return {"name", "function", "toolSpec", "tool_spec"}.isdisjoint(entry)


def _name_of(entry: Mapping[str, Any]) -> str | None:
    inner = [entry.get(member) for member in ("custom", *(shape.steps[0] for shape in _ENVELOPES))]
    objects = [entry, *(value for value in inner if isinstance(value, Mapping))]
    names = [value.get("name") for value in objects] + [entry.get("type")]
    return next((name for name in names if isinstance(name, str) and name), None)


def _keys_of_objects(entry: Mapping[str, Any]) -> list[str]:
    """Return the names of tools in the form `{"googleSearch": {}}`."""
    return [str(name) for name, value in entry.items() if isinstance(value, Mapping)]


def _read_formats(definitions: Definitions, document: Mapping[str, Any]) -> bool:
    """
    Add the schema of the answer in a response format or a request; return False if the document has
    no such schema.
    """
    for shape in _FORMATS:
        value = follow(document, shape.steps)
        if isinstance(value, Mapping) and _read_format(definitions, shape.steps, value):
            return True
    places = [shape.steps for shape in _ANSWERS]
    if "name" not in document:  # a function declaration uses the same field for its result
        places += [shape.steps for shape in _ANSWERS_OF_CONFIGS]
    if "model" in document:
        places.append(("format",))  # Ollama: request of /api/chat
    for steps in places:
        if isinstance(follow(document, steps), Mapping):
            definitions.schemas.append(Definition(name=None, part=Part.ANSWER, schema=steps))
            return True
    return False


#: Types of response formats; a tuple, since the type of a schema can be a list, which a set cannot look up.
_RESPONSE_FORMATS = ("json_schema", "json_object")


def _read_format(definitions: Definitions, steps: Steps, value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    inner = value.get("json_schema")
    place: Steps | None = None
    if isinstance(inner, Mapping) and not KEYWORDS.isdisjoint(inner):
        place = (*steps, "json_schema")  # llama.cpp, and rows of the Structured Output Benchmark
    elif isinstance(inner, Mapping) and "schema" in inner:
        place = (*steps, "json_schema", "schema")
    elif isinstance(value.get("schema"), Mapping | bool) and _wraps_a_schema(value):
        place = (*steps, "schema")
    if place is None and inner is None and kind not in _RESPONSE_FORMATS:
        return False
    problem = "" if place is not None else f"is a response format of type {printable(str(kind), 40)} without a schema"
    definitions.schemas.append(Definition(name=None, part=Part.ANSWER, schema=place, problem=problem))
    return True


def _wraps_a_schema(value: Mapping[str, Any]) -> bool:
    if value.get("type") in _RESPONSE_FORMATS:
        return True
    return isinstance(value.get("name"), str) and KEYWORDS.isdisjoint(value)


#: Fields that a file may have in addition to `schema` if it only wraps the schema.
_WRAPPER_FIELDS = frozenset({"schema", "name", "description", "title", "strict"})


def read_wrapped(document: object) -> Definitions | None:
    """Find the schema in a file that wraps it; return None if the document may be a schema itself."""
    if not isinstance(document, Mapping) or not isinstance(document.get("schema"), Mapping | bool):
        return None
    if not KEYWORDS.isdisjoint(document) or not _SCHEMA_KEYWORDS.isdisjoint(document):
        return None
    others = ", ".join(sorted(map(str, document.keys() - _WRAPPER_FIELDS)))
    problem = ""
    if others:
        problem = f"has the fields schema, {printable(others, 80)}, like a row; save rows in a .jsonl file"
    definition = Definition(name=None, part=Part.ANSWER, schema=("schema",), problem=problem)
    return Definitions(schemas=[definition])


def _arguments_schema(arguments: object) -> object:
    """
    Return the object schema for a tool's mapping of argument names to schemas; arguments are
    required unless nullable.
    """
    from pytest_jsbench.datasets.sources.openapi import convert

    if not isinstance(arguments, Mapping) or not all(isinstance(part, Mapping) for part in arguments.values()):
        raise Unreadable("inputs is not a mapping of names to schemas", reason="not_a_schema")
    properties: dict[str, Any] = {}
    for name, part in arguments.items():
        # only smolagents has the type `any`
        schema = {keyword: value for keyword, value in part.items() if (keyword, value) != ("type", "any")}
        properties[name] = convert(schema, unused=None)
    required = [name for name, part in arguments.items() if part.get("nullable") is not True]
    return {"type": "object", "properties": properties, "required": required}
