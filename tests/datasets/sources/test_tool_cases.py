"""Cases that offer tools: documents with tools and cases, and rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from tests.support.dataset_reading import keys, opened, problem, read, write

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the weather.", "parameters": CITY}
LIGHT = {"type": "function", "function": {"name": "set_light", "parameters": CITY, "strict": True}}
MCP = {"name": "now", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
OFFERED = (
    OfferedTool(name="get_weather", description="Get the weather.", parameters=CITY),
    OfferedTool(name="set_light", parameters=CITY, strict=True),
    OfferedTool(name="now", parameters={"type": "object"}),
)
TOOLS = [WEATHER, LIGHT, MCP]


def agent(tmp_path: Path, *cases: Any, tools: Any = TOOLS, **shared: Any) -> Path:
    return write(tmp_path, {"agent.json": {"tools": tools, **shared, "cases": list(cases)}}) / "agent.json"


def case(source: Path, name: str | None = None) -> Case:
    found = read(source, name)
    assert isinstance(found, Case), found
    return found


def offer(source: Path, name: str | None = None) -> ToolOffer:
    found = case(source, name).offer
    assert found is not None
    return found


def test_a_case_offers_all_tools_of_the_document(tmp_path: Path) -> None:
    found = case(agent(tmp_path, {"ask": "Is it raining in Oslo?"}))
    assert found.offer == ToolOffer(tools=OFFERED)
    assert (found.schema, found.messages) == (True, (Message(role="user", content="Is it raining in Oslo?"),))


def test_the_cases_of_a_document_share_its_tools(tmp_path: Path) -> None:
    source = agent(tmp_path, {"id": "a", "ask": "?"}, {"id": "b", "ask": "?"})
    dataset = opened(source)

    first, second = (dataset.case(key) for key in dataset.keys())

    assert isinstance(first, Case)
    assert isinstance(second, Case)
    assert first.offer is not None
    assert second.offer is not None
    assert first.offer.tools is second.offer.tools


def test_a_yaml_document_with_a_sentence_for_each_tool_is_enough(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="YAML needs its package")
    lines = [
        "tools: tools.json",
        "cases:",
        "  - ask: Oslo?",
        "    expect: get_weather",
        "  - {ask: Joke!, expect: none}",
    ]
    root = write(tmp_path, {"agent.yaml": "\n".join(lines), "tools.json": TOOLS})
    assert keys(root / "agent.yaml") == ["agent::get_weather", "agent::none"]
    assert offer(root / "agent.yaml", "none") == ToolOffer(tools=OFFERED, expected=())


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        (None, []),
        ("none", []),
        ([], []),
        ("now", [("now", True)]),
        (["now", "get_weather"], [("now", True), ("get_weather", True)]),
        ({"now": None, "get_weather": {}}, [("now", True), ("get_weather", True)]),
        (
            [{"get_weather": {"city": "Oslo"}}, {"get_weather": {"city": "Rome"}}],
            [("get_weather", {"city": {"const": "Oslo"}}), ("get_weather", {"city": {"const": "Rome"}})],
        ),
        ({"name": "now", "arguments": {"zone": None}}, [("now", {"zone": {"const": None}})]),
        (
            {"get_weather": {"city": {"any_of": ["Rome", "Roma"]}}},
            [("get_weather", {"city": {"enum": ["Rome", "Roma"]}})],
        ),
        ({"get_weather": {"city": {"schema": {"minLength": 2}}}}, [("get_weather", {"city": {"minLength": 2}})]),
        ({"now": {"at": {"any_of": 3}}}, [("now", {"at": {"const": {"any_of": 3}}})]),
    ],
)
def test_expected_calls_are_names_or_calls_with_values(tmp_path: Path, expect: Any, expected: list[Any]) -> None:
    found = offer(agent(tmp_path, {"id": "a", "ask": "Oslo?", "expect": expect})).expected
    assert found == tuple(
        ExpectedCall(
            name=name,
            arguments=True
            if properties is True
            else {"type": "object", "properties": properties, "required": list(properties)},
        )
        for name, properties in expected
    )


def test_an_optional_argument_may_be_absent(tmp_path: Path) -> None:
    expect = {"get_weather": {"city": "Oslo", "unit": {"any_of": ["C"], "optional": True}}}
    (call,) = offer(agent(tmp_path, {"ask": "Oslo?", "expect": expect})).expected or ()
    assert isinstance(call.arguments, dict)
    assert call.arguments["required"] == ["city"]


def test_a_case_is_named_by_its_id_or_its_expected_calls(tmp_path: Path) -> None:
    path = agent(
        tmp_path,
        {"ask": "?"},
        {"ask": "?", "expect": "now"},
        {"ask": "?", "expect": ["now", "set_light", "now"], "task": "rooms"},
        {"ask": "?", "expect": "now"},
        {"id": "x", "ask": "?", "expect": "none"},
    )
    assert keys(path) == ["agent::case-1", "agent::now", "agent::now.2", "agent::x", "rooms::now+set_light"]


def test_a_case_chooses_its_tools_and_overrides_what_the_document_shares(tmp_path: Path) -> None:
    path = agent(
        tmp_path,
        {"id": "a", "ask": "?", "tools": ["now"], "forbid": "now"},
        {"id": "b", "ask": "?", "tool_choice": "none", "system": "Be kind.", "tags": ["x"], "in_order": True},
        system="Be brief.",
        tool_choice="required",
    )
    first, second = case(path, "a"), case(path, "b")
    assert first.offer == ToolOffer(tools=OFFERED[2:], choice="required", forbidden=("now",))
    assert second.offer == ToolOffer(tools=OFFERED, choice="none", in_order=True)
    assert [first.messages[0].content, second.messages[0].content] == ["Be brief.", "Be kind."]
    assert second.tags == ("x",)


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        ("auto", "auto"),
        ({"type": "any"}, "required"),
        ({"type": "tool", "name": "now"}, "now"),
        ({"type": "function", "function": {"name": "now"}}, "now"),
    ],
)
def test_the_choice_may_have_the_form_of_an_api(tmp_path: Path, choice: Any, read_as: str) -> None:
    assert offer(agent(tmp_path, {"ask": "?", "tool_choice": choice})).choice == read_as


def test_a_case_has_a_conversation_with_earlier_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
    ]
    assert [turn.role for turn in case(agent(tmp_path, {"messages": turns, "expect": "none"})).messages] == [
        "user",
        "assistant",
        "tool",
    ]


def test_a_row_offers_its_own_tools_and_a_schema_for_an_answer_in_text(tmp_path: Path) -> None:
    row = {"id": "a", "task": "t", "ask": "?", "tools": TOOLS, "expect": "now", "schema": CITY}
    request = {"messages": [{"role": "user", "content": "?"}], "tools": [WEATHER]}
    path = write(tmp_path, {"rows.jsonl": "\n".join(map(json.dumps, (row, request)))}) / "rows.jsonl"
    assert keys(path) == ["t::a", "rows::get_weather"]
    found = case(path, "a")
    assert found.offer == ToolOffer(tools=OFFERED, expected=(ExpectedCall(name="now"),))
    assert found.schema == CITY
    assert case(path, "get_weather").offer is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"ask": "?", "expect": "nwo"}, "expected names the tool 'nwo'; offered are get_weather, set_light, now"),
        ({"ask": "?", "forbid": ["nwo"]}, "forbidden names the tool 'nwo'; offered are get_weather, set_light, now"),
        (
            {"ask": "?", "tool_choice": "nwo"},
            "tool_choice names the tool 'nwo'; offered are get_weather, set_light, now",
        ),
        ({"ask": "?", "tools": ["nwo"]}, "tools names 'nwo'; the document has get_weather, set_light, now"),
        ({"ask": "?", "tools": [{"name": "x"}]}, "tools contains no tool definition with a JSON Schema"),
        ({"ask": "?", "tools": "nowhere.json"}, "does not exist; expected a file in "),
        ({"ask": "?", "expects": "now"}, "unknown field 'expects' in a case with tools; expected any of ask, "),
        ({"expect": "now"}, "expected one of ask, prompt and messages; found none of them"),
        ({"ask": "?", "prompt": "?"}, "expected one of ask, prompt and messages; found ask and prompt"),
        ({"ask": ""}, "ask is empty; expected text"),
        ({"ask": ["?"]}, "ask is a JSON array; expected text"),
        (
            {"ask": "?", "expect": 3},
            "expect contains a JSON number; expected a tool's name, a call, none, any, or a list",
        ),
        (
            {"ask": "?", "expect": {"now": [1]}},
            "the arguments of an expected call are a JSON array; expected an object",
        ),
        ({"ask": "?", "forbid": 3}, "forbid is not a text or a list of texts"),
        (
            {"ask": "?", "tool_choice": 3},
            "tool_choice is a JSON number; expected auto, required, none or a tool's name",
        ),
        ("?", "the case is a JSON string; expected an object"),
    ],
)
def test_a_wrong_case_is_reported_with_its_place(tmp_path: Path, row: Any, message: str) -> None:
    found = problem(agent(tmp_path, row))
    assert message in found
    assert "agent.json case 1: " in found


def test_a_tool_without_a_json_schema_cannot_be_offered(tmp_path: Path) -> None:
    found = problem(agent(tmp_path, {"ask": "?"}, tools=[WEATHER, {"type": "web_search"}]))
    assert "tools contains tools without a JSON Schema for their arguments: web_search" in found


def test_tools_are_read_only_inside_the_folder(tmp_path: Path) -> None:
    write(tmp_path, {"tools.json": TOOLS, "inside/agent.json": {"tools": "../tools.json", "cases": [{"ask": "?"}]}})
    assert "is outside of " in problem(tmp_path / "inside" / "agent.json")


def test_duplicate_tools_are_reported(tmp_path: Path) -> None:
    assert "tools contains 'get_weather' 2 times" in problem(agent(tmp_path, {"ask": "?"}, tools=[WEATHER, WEATHER]))


def test_any_expects_a_call_of_any_tool(tmp_path: Path) -> None:
    path = agent(tmp_path, {"ask": "Oslo?", "expect": "any"})
    assert keys(path) == ["agent::any"]
    assert offer(path) == ToolOffer(tools=OFFERED, some_call=True)


def test_a_loose_value_is_kept_in_the_form_in_which_it_is_compared(tmp_path: Path) -> None:
    expect = {"get_weather": {"city": {"any_of": ["San Francisco, CA", "SF"], "loose": True}, "day": 1}}
    (call,) = offer(agent(tmp_path, {"ask": "?", "expect": expect})).expected or ()
    assert call.loose == ("city",)
    assert isinstance(call.arguments, dict)
    assert call.arguments["properties"] == {"city": {"enum": ["sanfranciscoca", "sf"]}, "day": {"const": 1}}


@pytest.mark.parametrize("stated", [{"schema": {"type": "string"}}, {"any_of": "Oslo"}])
def test_only_a_list_of_values_can_be_loose(tmp_path: Path, stated: dict[str, Any]) -> None:
    expect = {"get_weather": {"city": {**stated, "loose": True}}}
    assert "expected {any_of: […], loose: true}" in problem(agent(tmp_path, {"ask": "?", "expect": expect}))


@pytest.mark.parametrize(
    ("value", "schema"),
    [({"loose": True}, {"const": {"loose": True}}), ({"any_of": ["A b"], "schema": None}, {"enum": ["A b"]})],
)
def test_other_objects_are_values(tmp_path: Path, value: Any, schema: Any) -> None:
    (call,) = offer(agent(tmp_path, {"ask": "?", "expect": {"get_weather": {"city": value}}})).expected or ()
    assert isinstance(call.arguments, dict)
    assert call.arguments["properties"] == {"city": schema}
