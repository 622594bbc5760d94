from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.sources.gemini_notation import from_gemini
from pytest_jsbench.datasets.sources.objects import open_in_memory
from pytest_jsbench.verdicts import Judge
from tests.support.dataset_reading import keys, opened, problem, schema, write

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = {"type": "object", "properties": {"celsius": {"type": "number"}}}
NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
GEMINI = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "nullable": True},
        "days": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1"},
    },
    "required": ["city"],
    "propertyOrdering": ["city", "days"],
}
FROM_GEMINI = {
    "type": "object",
    "properties": {
        "city": {"type": ["string", "null"]},
        "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    },
    "required": ["city"],
}
MCP = {"name": "weather", "inputSchema": SCHEMA}

#: Each format of a list with the tool `weather`.
LISTS: dict[str, Any] = {
    "openai chat": {
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    },
    "openai responses": {"tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]},
    "openai namespace": {
        "tools": [
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}]}
        ]
    },
    "openai batch": {
        "custom_id": "1",
        "body": {"tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}]},
    },
    "openai agents": [{"name": "weather", "params_json_schema": SCHEMA, "strict_json_schema": True}],
    "openai fine-tuning": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    },
    "anthropic batch": {"custom_id": "1", "params": {"tools": [{"name": "weather", "input_schema": SCHEMA}]}},
    "gemini batch": {
        "key": "1",
        "request": {"tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}]},
    },
    "anthropic": [{"type": "custom", "name": "weather", "input_schema": SCHEMA, "cache_control": None}],
    "mcp": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}},
    "mcp sdk 1": {"meta": None, "nextCursor": None, "tools": [{**MCP, "title": None, "outputSchema": None}]},
    "mcp sdk 2": {
        "meta": None,
        "next_cursor": None,
        "tools": [{"name": "weather", "title": None, "input_schema": SCHEMA, "output_schema": None, "icons": None}],
    },
    "bedrock": {
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "weather", "inputSchema": {"json": SCHEMA}}},
                {"cachePoint": {"type": "default"}},
            ]
        }
    },
    "vertex": {"tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}]},
    "google-genai": [
        {
            "function_declarations": [{"name": "weather", "parameters": None, "parameters_json_schema": SCHEMA}],
            "google_search": None,
        }
    ],
    "ollama": {
        "model": "m",
        "stream": False,
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    },
}


_names = itertools.count()


def python_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> str:
    """Return the name of a module with that code, as the start of a source."""
    name = f"tools_of_python_{next(_names)}"
    (tmp_path / f"{name}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def notes(source: object) -> tuple[str, ...]:
    return opened(source).notes


@pytest.mark.parametrize("document", LISTS.values(), ids=LISTS)
def test_tool_list_of_each_provider_is_read(tmp_path: Path, document: Any) -> None:
    source = write(tmp_path, {"t.json": document}) / "t.json"

    assert keys(source) == ["t::weather"]
    assert schema(source) == SCHEMA
    assert notes(source) == ()


@pytest.mark.parametrize("document", LISTS.values(), ids=LISTS)
def test_tool_list_in_python_is_read_as_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: Any
) -> None:
    module = python_source(tmp_path, monkeypatch, f"TOOLS = {document!r}")

    assert keys(f"{module}:TOOLS") == [f"{module}::weather"]
    assert schema(f"{module}:TOOLS") == SCHEMA
    held = open_in_memory(Selection(), document)
    assert [str(key) for key in held.keys()] == ["cases::weather"]


def test_python_tools_without_a_schema_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [{"type": "web_search"}, MCP, {**MCP, "name": "wind", "outputSchema": RESULT}]
    module = python_source(tmp_path, monkeypatch, f"TOOLS = {tools!r}\nBY_NAME = {{'a': TOOLS[1]}}")

    assert keys(f"{module}:TOOLS") == [f"{module}::{name}" for name in ("weather", "wind", "wind.output")]
    assert "web_search" in notes(f"{module}:TOOLS")[0]
    assert keys(f"{module}:BY_NAME") == [f"{module}::weather"]


def test_sdk_objects_are_read_as_their_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    code = f"""
from typing import Any
from pydantic import BaseModel, Field

class Tool(BaseModel):
    name: str
    input_schema: dict[str, Any] = Field(alias="inputSchema")
    output_schema: dict[str, Any] | None = Field(default=None, alias="outputSchema")

class Result(BaseModel):
    tools: list[Tool]

TOOLS = (Tool.model_validate({MCP!r}),)
RESULT = Result(tools=TOOLS)
WRAPPED = {{"tools": TOOLS}}
"""
    module = python_source(tmp_path, monkeypatch, code)

    for name in ("TOOLS", "RESULT", "WRAPPED"):
        assert keys(f"{module}:{name}") == [f"{module}::weather"]
        assert schema(f"{module}:{name}") == SCHEMA


def test_tool_lines_and_pages_of_lines_are_read(tmp_path: Path) -> None:
    tools = [MCP, {**MCP, "name": "wind", "outputSchema": RESULT}]
    pages = [{"jsonrpc": "2.0", "id": 1, "result": PAGE_1}, PAGE_2]
    files: dict[str, list[Any]] = {"a.jsonl": tools, "b.jsonl": pages}
    source = write(tmp_path, {name: "\n".join(json.dumps(row) for row in rows) for name, rows in files.items()})

    assert keys(source) == ["a::weather", "a::wind", "a::wind.output", "b::weather", "b::wind"]
    assert schema(source / "b.jsonl", "wind") == SCHEMA
    assert notes(source) == ()


def test_row_with_a_response_format_is_judged_by_its_schema(tmp_path: Path) -> None:
    row = {"id": "a", "prompt": "p", "schema": {"type": "json_schema", "json_schema": INNER}, "expected": {"city": "x"}}
    other = {"id": "b", "json_schema": INNER, "type": "json_schema"}
    source = write(tmp_path, {"rows.jsonl": json.dumps(row) + "\n" + json.dumps(other)})

    for name in ("a", "line-2"):
        assert schema(source, name) == SCHEMA


@pytest.mark.parametrize("spelling", [("outputSchema",), ("output_schema",), ("response_json_schema",)])
def test_output_schema_is_a_case_in_each_spelling(tmp_path: Path, spelling: tuple[str]) -> None:
    source = write(tmp_path, {"t.json": [{"name": "weather", "inputSchema": SCHEMA, spelling[0]: RESULT}]})

    assert keys(source) == ["t::weather", "t::weather.output"]
    assert schema(source, "weather.output") == RESULT


def test_list_of_types_in_a_declaration_is_read_as_it_is(tmp_path: Path) -> None:
    parameters = {"type": ["OBJECT", "NULL"]}
    document = {"tools": [{"functionDeclarations": [{"name": "weather", "parameters": parameters}]}]}
    source = tmp_path / "tools.json"
    source.write_text(json.dumps(document))

    assert schema(source, "weather") == parameters


def test_gemini_schema_is_read_as_json_schema(tmp_path: Path, judge: Judge) -> None:
    document = {"tools": [{"functionDeclarations": [{"name": "weather", "parameters": GEMINI, "response": GEMINI}]}]}
    source = write(tmp_path, {"t.json": document})

    assert schema(source, "weather") == FROM_GEMINI
    assert schema(source, "weather.output") == FROM_GEMINI
    assert not judge.judge(schema(source, "weather"), '{"city": 1}').passed


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search"),
        ({"type": "computer_20250124", "name": "computer", "display_width_px": 1}, "computer"),
        ({"type": "code_execution_20250825", "name": "code_execution"}, "code_execution"),
        ({"type": "mcp", "server_label": "x", "server_url": "https://x.example"}, "mcp"),
        ({"type": "file_search", "vector_store_ids": ["v"]}, "file_search"),
        ({"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}, "sql"),
        ({"type": "custom", "custom": {"name": "sql"}}, "sql"),
        ({"googleSearch": {}}, "googleSearch"),
        ({"systemTool": {"name": "nova_grounding"}}, "systemTool"),
    ],
)
@pytest.mark.parametrize("wrap", [True, False])
def test_provider_side_tool_is_left_out_by_name(tmp_path: Path, entry: Any, name: str, wrap: bool) -> None:
    tools = [entry, MCP]
    source = write(tmp_path, {"t.json": {"tools": tools} if wrap else tools})

    assert keys(source) == ["t::weather"]
    message = "skipped tools without a JSON Schema for their arguments"
    assert notes(source) == (f"{tmp_path}/t.json: {message}: {name}",)


def test_provider_side_tools_alone_are_no_cases(tmp_path: Path) -> None:
    source = write(tmp_path, {"t.json": {"tools": [{"type": "web_search"}, {"type": "code_interpreter"}]}})

    assert keys(source) == []
    assert "arguments: web_search, code_interpreter" in notes(source)[0]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "now"},
        {"type": "function", "function": {"name": "now"}},
        {"type": "function", "function": {"name": "now", "parameters": None}},
        {"type": "function", "name": "now", "parameters": {}},
        {"functionDeclarations": [{"name": "now"}]},
        {"name": "now", "inputSchema": None},
        {"name": "now", "inputs": {}, "output_type": "string"},
    ],
)
def test_function_without_parameters_accepts_only_an_empty_object(tmp_path: Path, tool: Any, judge: Judge) -> None:
    source = write(tmp_path, {"t.json": {"tools": [tool]}})

    assert keys(source) == ["t::now"]
    assert schema(source) == NO_PARAMETERS
    assert not judge.judge(schema(source), '{"x": 1}').passed


@pytest.mark.parametrize("entry", [{"name": "lost"}, {"type": "function"}, 3])
def test_entry_that_defines_no_arguments_is_a_broken_case(tmp_path: Path, entry: object) -> None:
    source = write(tmp_path, {"t.json": {"tools": [entry, MCP]}})
    name = (
        "lost" if isinstance(entry, dict) and "name" in entry else "function" if isinstance(entry, dict) else "tool-0"
    )

    assert keys(source) == [f"t::{name}", "t::weather"]
    assert problem(source, name).startswith(f"{tmp_path}/t.json: ")


INNER = {"name": "person", "strict": True, "schema": SCHEMA}


@pytest.mark.parametrize(
    "document",
    [
        INNER,
        {"type": "json_schema", "json_schema": INNER},
        {"type": "json_schema", **INNER},
        {"type": "json_schema", "schema": SCHEMA},
        {"response_format": {"type": "json_schema", "json_schema": INNER}},
        {"model": "m", "messages": [], "response_format": {"type": "json_schema", "json_schema": INNER}},
        {"text": {"format": {"type": "json_schema", **INNER}}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        {"temperature": None, "tools": None, "response_schema": SCHEMA, "response_json_schema": None},
        {"model": "m", "format": SCHEMA},
        {"json_schema": SCHEMA},
        {"schema": SCHEMA},
        {"schema": SCHEMA, "title": "person"},
    ],
)
def test_response_format_is_read_as_its_schema(tmp_path: Path, document: Any) -> None:
    source = write(tmp_path / "formats", {"person.json": document})

    assert keys(source) == ["formats::person"]
    assert schema(source) == SCHEMA


@pytest.mark.parametrize("format_", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x"}}])
def test_response_format_without_a_schema_is_named(tmp_path: Path, format_: Any) -> None:
    source = write(tmp_path, {"a.json": {"response_format": format_}})

    assert "a" in problem(source)
    assert "schema" in problem(source)


@pytest.mark.parametrize(
    "own",
    [
        {"type": "object", "properties": {"tools": {"type": "array"}, "response_format": {"type": "object"}}},
        {"$defs": {"schema": {"type": "string"}}, "$ref": "#/$defs/schema"},
        {"type": "string", "format": "date", "name": "function"},
        {"anyOf": [{"type": "string"}], "name": "x", "schema": {}},
    ],
)
def test_schema_with_words_of_tools_is_a_schema(tmp_path: Path, own: Any) -> None:
    assert schema(write(tmp_path, {"a.json": own}), "a") == own


PAGE_1 = {"tools": [MCP], "nextCursor": "x"}
PAGE_2 = {"tools": [{**MCP, "name": "wind"}]}


@pytest.mark.parametrize(
    "pages",
    [
        [PAGE_1, PAGE_2],
        [
            {"jsonrpc": "2.0", "id": 1, "result": PAGE_1},
            {"jsonrpc": "2.0", "id": 2, "result": {**PAGE_2, "nextCursor": None}},
        ],
    ],
)
def test_pages_of_a_tool_list_are_joined(tmp_path: Path, pages: Any) -> None:
    source = write(tmp_path, {"t.json": pages})

    assert keys(source) == ["t::weather", "t::wind"]
    assert notes(source) == ()


@pytest.mark.parametrize("names", [("p-1", "p-2", "p-3"), ("p09", "p10", "p11"), ("9", "10", "11")])
@pytest.mark.parametrize("wrap", [lambda page: page, lambda page: {"jsonrpc": "2.0", "id": 7, "result": page}])
def test_pages_in_numbered_files_are_one_task(tmp_path: Path, names: tuple[str, ...], wrap: Any) -> None:
    pages = [PAGE_1, {**PAGE_2, "next_cursor": "y"}, {"tools": [{**MCP, "name": "rain"}]}]
    source = write(tmp_path, {f"{name}.json": wrap(page) for name, page in zip(names, pages, strict=True)})

    task = names[0]
    assert sorted(keys(source)) == [f"{task}::rain", f"{task}::weather", f"{task}::wind"]
    assert notes(source) == ()


def test_numbered_pages_without_the_last_are_named_incomplete_once(tmp_path: Path) -> None:
    source = write(tmp_path, {"p1.json": PAGE_1, "p2.json": {**PAGE_2, "nextCursor": "y"}})

    assert keys(source) == ["p1::weather", "p1::wind"]
    assert notes(source) == (
        f"{tmp_path}/p2.json: the list of tools is incomplete, as nextCursor is set; add the next page",
    )


@pytest.mark.parametrize(
    "files",
    [
        {"a.json": PAGE_1, "b.json": PAGE_2},
        {"p1.json": PAGE_1, "p3.json": PAGE_2},
        {"p1.json": PAGE_1, "q2.json": PAGE_2},
        {"p1.json": PAGE_1, "p2.json": PAGE_2, "p02.json": PAGE_2},
        {"p1.json": PAGE_1, "p2.json": {**PAGE_2, "nextCursor": "x"}},
        {"p1.json": PAGE_1, "p2.json": {"type": "object"}},
        {"p1.json": PAGE_1, "sub/p2.json": PAGE_2},
    ],
    ids=["no numbers", "gap", "other name", "number twice", "same cursor", "a schema", "other directory"],
)
def test_files_that_may_not_be_pages_of_one_list_are_named(tmp_path: Path, files: dict[str, Any]) -> None:
    source = write(tmp_path, files)

    first = next(iter(files)).removesuffix(".json")
    assert f"{first}::weather" in keys(source)
    assert f"{first}::wind" not in keys(source)
    assert any(note.startswith(f"{tmp_path}/{first}.json: the list of tools is incomplete") for note in notes(source))


def test_two_lists_in_one_series_of_numbers_stay_two_tasks(tmp_path: Path) -> None:
    source = write(tmp_path, {"p1.json": PAGE_1, "p2.json": PAGE_2, "p3.json": PAGE_1, "p4.json": PAGE_2})

    assert keys(source) == ["p1::weather", "p1::wind", "p3::weather", "p3::wind"]
    assert notes(source) == ()


@pytest.mark.parametrize("cursor", ["nextCursor", "next_cursor"])
def test_page_with_a_next_page_is_named_incomplete(tmp_path: Path, cursor: str) -> None:
    source = write(tmp_path, {"t.json": {"tools": [MCP], cursor: "x"}})

    assert keys(source) == ["t::weather"]
    assert notes(source) == (
        f"{tmp_path}/t.json: the list of tools is incomplete, as nextCursor is set; add the next page",
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"id": 1, "error": {"code": -32601, "message": "Method not found"}}, "error (-32601: Method not found)"),
        (
            {"id": 0, "result": {"protocolVersion": "2025-11-25"}},
            "response without tools (its result: protocolVersion)",
        ),
        ({"id": 1, "method": "tools/list"}, "request (tools/list)"),
        ({"method": "notifications/initialized"}, "notification (notifications/initialized)"),
    ],
)
def test_json_rpc_message_without_tools_is_named(tmp_path: Path, message: Any, words: str) -> None:
    source = write(tmp_path, {"m.json": {"jsonrpc": "2.0", **message}})
    expected = f"is a JSON-RPC {words}, not a JSON Schema and not a list of tools"
    assert problem(source) == f"{tmp_path}/m.json: {expected}"

    recorded = [{"jsonrpc": "2.0", **message}, {"jsonrpc": "2.0", "id": 9, "result": {"tools": [MCP]}}]
    write(tmp_path, {"m.json": recorded})
    assert keys(source) == ["m::weather"]
    assert notes(source) == (f"{tmp_path}/m.json: skipped JSON-RPC messages without tools: a JSON-RPC {words}",)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"meta": None, "protocolVersion": "2025-11-25", "capabilities": {}}, "the result of MCP's initialize"),
        ({"protocol_version": "2025-11-25", "capabilities": {}}, "the result of MCP's initialize"),
        ({"prompts": [], "nextCursor": None}, "the result of MCP's prompts/list"),
        ({"resources": [{"uri": "a:b"}], "ttl_ms": 0, "cache_scope": "private"}, "the result of MCP's resources/list"),
        ({"resourceTemplates": []}, "the result of MCP's resources/templates/list"),
        ({"error": {"message": "no such key", "type": "auth"}}, "an error response (no such key)"),
    ],
)
def test_result_without_its_envelope_is_named(tmp_path: Path, message: Any, words: str) -> None:
    source = write(tmp_path, {"m.json": message})

    assert problem(source) == f"{tmp_path}/m.json: is {words}, not a JSON Schema and not a list of tools"


def test_schema_with_members_of_messages_is_a_schema(tmp_path: Path) -> None:
    own = {"type": "object", "properties": {"prompts": {"type": "array"}, "error": {"type": "object"}}}

    assert schema(write(tmp_path, {"a.json": own})) == own


def test_arguments_by_name_become_an_object(tmp_path: Path) -> None:
    inputs = {"city": {"type": "string"}, "days": {"type": "integer", "nullable": True}, "more": {"type": "any"}}
    source = write(tmp_path, {"t.json": [{"name": "weather", "inputs": inputs, "output_type": "string"}]})

    assert keys(source) == ["t::weather"]
    assert schema(source) == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}, "more": {}},
        "required": ["city", "more"],
    }


def test_tool_with_types_of_python_is_left_out_by_name(tmp_path: Path) -> None:
    old = {"name": "old", "description": "d", "parameter_definitions": {"q": {"type": "str"}}}
    source = write(tmp_path, {"t.json": {"tools": [old, MCP]}})

    assert keys(source) == ["t::weather"]
    assert notes(source)[0].endswith("arguments: old")


def test_json_file_with_a_row_is_a_broken_case(tmp_path: Path) -> None:
    source = write(tmp_path, {"a.json": {"schema": SCHEMA, "prompt": "p"}})

    assert problem(source).endswith("has the fields schema, prompt, like a row; save rows in a .jsonl file")


def test_function_declaration_with_only_a_result_has_a_case(tmp_path: Path) -> None:
    result = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    folder = write(tmp_path / "s", {"find.json": {"name": "find", "response": result}})

    assert keys(folder) == ["s::find", "s::find.output"]
    assert schema(folder, "find.output") == result


@pytest.mark.parametrize(
    ("part", "converted"),
    [
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
    ],
)
def test_null_conforms_to_what_gemini_calls_nullable(part: Any, converted: Any) -> None:
    assert from_gemini({"type": "OBJECT", "properties": {"a": part}})["properties"] == {"a": converted}
