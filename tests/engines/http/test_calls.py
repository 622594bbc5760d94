from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import Deadline, parse_json, read_tools, settle, to_json
from tests.support.clock import Clock


def test_error_after_the_deadline_is_a_timeout() -> None:
    clock = Clock()

    def late() -> Any:
        clock.now += 10.0
        raise ValueError("whatever")

    def explain(error: Exception) -> Any:
        return error

    with pytest.raises(CallError, match="no complete answer within 10 s"):
        settle(late, explain, deadline=Deadline(10.0, clock=clock.read))


S = {"type": "object", "minProperties": 1}
CHAT = [{"type": "function", "function": {"name": name, "parameters": S}} for name in ("a", "b")]
RESPONSES = [{"type": "function", "name": name, "parameters": S} for name in ("a", "b")]
MESSAGES = [{"name": name, "input_schema": S} for name in ("a", "b")]
GEMINI = [{"functionDeclarations": [{"name": name, "parametersJsonSchema": S} for name in ("a", "b")]}]


def gemini(mode: str, *names: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": list(names)}}


@pytest.mark.parametrize(
    ("body", "allowed", "required"),
    [
        ({"tools": CHAT}, "ab", False),
        ({"tools": CHAT, "tool_choice": "auto"}, "ab", False),
        ({"tools": CHAT, "tool_choice": "none"}, "", False),
        ({"tools": CHAT, "tool_choice": "required"}, "ab", True),
        ({"tools": CHAT, "tool_choice": {"type": "function", "function": {"name": "b"}}}, "b", True),
        ({"tools": CHAT, "tool_choice": {"allowed_tools": {"mode": "required", "tools": CHAT[:1]}}}, "a", True),
        ({"tools": RESPONSES, "tool_choice": {"type": "function", "name": "b"}}, "b", True),
        ({"tools": RESPONSES, "tool_choice": {"mode": "auto", "tools": RESPONSES[1:]}}, "b", False),
        ({"tools": [*RESPONSES, {"type": "web_search"}], "tool_choice": "required"}, "ab", False),
        ({"tools": MESSAGES, "tool_choice": {"type": "auto"}}, "ab", False),
        ({"tools": MESSAGES, "tool_choice": {"type": "any"}}, "ab", True),
        ({"tools": MESSAGES, "tool_choice": {"type": "tool", "name": "a"}}, "a", True),
        ({"tools": MESSAGES, "tool_choice": {"type": "none"}}, "", False),
        ({"tools": GEMINI}, "ab", False),
        ({"tools": GEMINI, "toolConfig": gemini("ANY", "b")}, "b", True),
        ({"tools": GEMINI, "toolConfig": gemini("NONE")}, "", False),
    ],
)  # fmt: skip
def test_read_tools_parses_the_tool_choice_of_each_api(body: dict[str, Any], allowed: str, required: bool) -> None:
    tools = read_tools(body)

    assert tools is not None
    assert tools.schemas == {"a": S, "b": S}
    assert (tools.allowed, tools.required) == (tuple(allowed), required)


@pytest.mark.parametrize(
    ("fields", "single"),
    [
        ({"parallel_tool_calls": False}, True),
        ({"parallel_tool_calls": True}, False),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, True),
        ({"tool_choice": {"type": "tool", "name": "a", "disable_parallel_tool_use": False}}, False),
        ({}, False),
    ],
)
def test_limit_of_one_call_is_read_of_each_api(fields: dict[str, Any], single: bool) -> None:
    tools = read_tools({"tools": MESSAGES, **fields})

    assert tools is not None
    assert tools.single is single


def test_tool_without_parameters_takes_an_object() -> None:
    body = {"tools": [{"type": "function", "function": {"name": "a"}}, {"type": "bash_20250124", "name": "bash"}]}

    tools = read_tools(body)

    assert tools is not None
    assert tools.schemas == {"a": {"type": "object"}, "bash": {"type": "object"}}


@pytest.mark.parametrize(("others", "required"), [([], True), ([{"googleSearch": {}}], False)])
def test_function_of_gemini_without_parameters_can_be_required(others: list[Any], required: bool) -> None:
    body = {"tools": [{"functionDeclarations": [{"name": "a"}]}, *others], "toolConfig": gemini("ANY")}

    tools = read_tools(body)

    assert tools is not None
    assert (tools.schemas, tools.required) == ({"a": {"type": "object"}}, required)


@pytest.mark.parametrize("tools", [None, 3, "x", [], [3, None, {"function": 5}], {"a": 1}])
def test_read_tools_returns_none_without_tools(tools: object) -> None:
    assert read_tools({"tools": tools, "tool_choice": "required"}) is None


@pytest.mark.parametrize("value", ["\ud800", float("nan")])
def test_request_that_cannot_be_encoded_is_an_engine_fault(value: object) -> None:
    with pytest.raises(CallError, match="the request cannot be made") as caught:
        to_json({"schema": value})
    assert caught.value.kind is FaultKind.ENGINE


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a":1}', '{"a": 1} \r\n'])
def test_a_value_is_read_with_the_white_space_around_it(text: str) -> None:
    assert parse_json(text) == {"a": 1}


@pytest.mark.parametrize("text", ['{"a":1} {"b":2}', '{"a":1}x', '{"a":', "", "\ufeff{}"])
def test_parse_json_raises_the_errors_of_the_standard_library(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as found:
        parse_json(text)
    assert str(found.value) == str(expected.value)
