from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.prompts import PRESETS, find_template
from tests.datasets.reading import keys, problem, read, schema, write

ARGUMENTS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = {"type": "object", "properties": {"celsius": {"type": "number"}}}

CHAT = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": ARGUMENTS}}
RESPONSES = {"type": "function", "name": "weather", "parameters": ARGUMENTS}
BARE = {"name": "weather", "description": "d", "parameters": ARGUMENTS}
ANTHROPIC = {"name": "weather", "description": "d", "input_schema": ARGUMENTS}
MCP = {"name": "weather", "title": "Weather", "inputSchema": ARGUMENTS}
MCP_BOTH = {**MCP, "outputSchema": RESULT}


@pytest.mark.parametrize("tool", [CHAT, RESPONSES, BARE, ANTHROPIC, MCP])
def test_each_provider_s_definition_is_a_case_of_its_arguments(tmp_path: Path, tool: dict[str, Any]) -> None:
    source = write(tmp_path / "tools", {"a.json": tool})

    assert keys(source) == ["tools::weather"]
    assert schema(source) == ARGUMENTS


@pytest.mark.parametrize(
    "document",
    [
        [MCP, {**CHAT, "function": {**CHAT["function"], "name": "b"}}],  # type: ignore[dict-item]
        {"tools": [ANTHROPIC, {**ANTHROPIC, "name": "b"}], "model": "m"},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP, {**MCP, "name": "b"}], "nextCursor": None}},
        {"functions": [BARE, {**BARE, "name": "b"}]},
    ],
)
def test_a_list_of_tools_is_a_task_of_the_file_s_name(tmp_path: Path, document: Any) -> None:
    source = write(tmp_path, {"server.json": document})

    assert keys(source) == ["server::weather", "server::b"]
    assert schema(source, "b") == ARGUMENTS


def test_what_a_tool_returns_is_a_case_of_its_own(tmp_path: Path) -> None:
    source = write(tmp_path / "mcp", {"weather.json": MCP_BOTH, "other.json": {**MCP, "name": "other"}})

    assert keys(source) == ["mcp::other", "mcp::weather", "mcp::weather.output"]
    assert schema(source, "weather.output") == RESULT


def test_tools_may_be_written_in_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    source = write(tmp_path, {"t.yaml": "- name: weather\n  inputSchema: {type: object}\n"})

    assert keys(source) == ["t::weather"]
    assert schema(source) == {"type": "object"}


def test_a_tool_without_a_schema_is_named_and_loses_no_other(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "now"}}, {"type": "web_search"}, 3, CHAT]
    source = write(tmp_path, {"tools.json": tools})

    assert keys(source) == ["tools::now", "tools::web_search", "tools::tool-2", "tools::weather"]
    for name in ("now", "web_search", "tool-2"):
        assert problem(source, name) == f"{tmp_path}/tools.json: {name} has no schema for its arguments"
    assert schema(source, "weather") == ARGUMENTS


@pytest.mark.parametrize("arguments", [None, [1], "{}"])
def test_a_tool_whose_schema_is_none_is_a_broken_case(tmp_path: Path, arguments: object) -> None:
    source = write(tmp_path, {"tools.json": {"name": "weather", "inputSchema": arguments}})

    assert "is not a JSON Schema; expected an object, true or false" in problem(source, "weather")


@pytest.mark.parametrize(
    "own",
    [
        {"type": "object", "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "name": "x", "parameters": {}},
        {"title": "tools", "properties": {"tools": {"type": "array"}}},
        {"description": "openapi function inputSchema"},
    ],
)
def test_a_schema_about_tools_is_a_schema(tmp_path: Path, own: Any) -> None:
    assert schema(write(tmp_path, {"a.json": own}), "a") == own


@pytest.mark.parametrize("prompt", PRESETS)
def test_the_tool_and_its_description_reach_the_prompt(tmp_path: Path, prompt: str) -> None:
    source = write(tmp_path, {"weather.json": {**MCP_BOTH, "description": "How warm it is \ud800.\nNow."}})
    arguments, result = read(source, "weather"), read(source, "weather.output")
    assert isinstance(arguments, Case)
    assert isinstance(result, Case)

    heads = [find_template(prompt).render(case).messages[-1].content.split("\n\n")[0] for case in (arguments, result)]

    assert heads == [
        "Give the arguments of a call of the tool weather: How warm it is ?.\nNow.",
        "Give a result of the tool weather: How warm it is ?.\nNow.",
    ]


def test_a_template_of_one_s_own_has_the_tool_as_about(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="templates need the extra prompts")
    template = tmp_path / "prompt.j2"
    template.write_text("{{ about }} {{ id }}", "utf-8")
    case = Case(key=CaseKey(task="t", id="x"), schema=True, about="Give the arguments of a call of the tool x.")

    rendered = find_template(str(template)).render(case)

    assert rendered.messages[0].content == "Give the arguments of a call of the tool x. x"
