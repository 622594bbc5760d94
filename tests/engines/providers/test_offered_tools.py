"""Offer several tools in each wire format, and read several calls, streamed in pieces and whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.generations import Request, ResponseFormat, Tools
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from tests.support import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.support.engine_calls import CITY, completion_of, request
from tests.support.provider import Provider, json_reply, stream_reply
from tests.support.replies import SPEAKERS, Reply

pytest.importorskip("urllib3", reason="provider engines need the package urllib3")

TOOLS = (
    OfferedTool(name="weather", description="Get the weather.", parameters=CITY),
    OfferedTool(name="now", parameters={"type": "object"}, strict=True),
)
OFFER = ToolOffer(tools=TOOLS, expected=(ExpectedCall(name="weather"), ExpectedCall(name="now")))
ARGUMENTS = '{"city": "Oslo", "old": true}'
CONFIGURED = {
    "chat": openai_wire.configured,
    "responses": responses_wire.configured,
    "messages": anthropic_wire.configured,
    "gemini": gemini_wire.configured,
}
FINISH = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use", "gemini": "STOP"}


def offering(choice: str | None = None, schema: Any = True) -> Request:
    question = request(schema)
    return replace(question, offer=OFFER, params=structs.replace(question.params, tool_choice=choice))


def body_of(provider: Provider, wire: str, question: Request, **options: Any) -> Mapping[str, Any]:
    """Return the body of the request that the engine sends."""
    speaker = SPEAKERS[wire]
    provider.replies.append(json_reply(speaker.whole(Reply(text="Hi", finish=FINISH[wire]))))
    completion_of(CONFIGURED[wire](provider, options={"stream": False, **options}), question)
    body: Mapping[str, Any] = provider.asked[-1].body
    return body


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


EMPTY = {"type": "object"}
DESCRIBED = {"description": "Get the weather."}
SENT_TOOLS: Mapping[str, Any] = {
    "chat": [function("weather", parameters=CITY, **DESCRIBED), function("now", parameters=EMPTY, strict=True)],
    "responses": [
        {"type": "function", "name": "weather", **DESCRIBED, "parameters": CITY},
        {"type": "function", "name": "now", "parameters": EMPTY, "strict": True},
    ],
    "messages": [
        {"name": "weather", **DESCRIBED, "input_schema": CITY},
        {"name": "now", "input_schema": EMPTY, "strict": True},
    ],
    "gemini": [
        {
            "functionDeclarations": [
                {"name": "weather", **DESCRIBED, "parametersJsonSchema": CITY},
                {"name": "now", "description": "", "parametersJsonSchema": EMPTY},
            ]
        }
    ],
}
SENT_CHOICES: Mapping[str, Mapping[str | None, Any]] = {
    "chat": {None: "auto", "required": "required", "none": "none", "now": function("now")},
    "responses": {None: "auto", "required": "required", "none": "none", "now": {"type": "function", "name": "now"}},
    "messages": {
        None: {"type": "auto"},
        "required": {"type": "any"},
        "none": {"type": "none"},
        "now": {"type": "tool", "name": "now"},
    },
    "gemini": {
        None: {"mode": "AUTO"},
        "required": {"mode": "ANY"},
        "none": {"mode": "NONE"},
        "now": {"mode": "ANY", "allowedFunctionNames": ["now"]},
    },
}


@pytest.mark.parametrize("wire", CONFIGURED)
@pytest.mark.parametrize("choice", [None, "required", "none", "now"])
def test_all_tools_are_sent_with_the_choice(provider: Provider, wire: str, choice: str | None) -> None:
    body = body_of(provider, wire, offering(choice))
    assert body["tools"] == SENT_TOOLS[wire]
    sent = body["toolConfig"]["functionCallingConfig"] if wire == "gemini" else body["tool_choice"]
    assert sent == SENT_CHOICES[wire][choice]
    assert not {"response_format", "text", "output_config"} & body.keys()


@pytest.mark.parametrize(
    ("wire", "field"),
    [("chat", "response_format"), ("responses", "text"), ("messages", "output_config"), ("gemini", "generationConfig")],
)
def test_the_schema_of_an_answer_in_text_is_sent_next_to_the_tools(provider: Provider, wire: str, field: str) -> None:
    body = body_of(provider, wire, offering(schema=CITY))
    assert json.dumps(CITY) in json.dumps(body[field])
    assert body["tools"] == SENT_TOOLS[wire]


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_the_engine_option_strict_applies_to_tools_that_do_not_set_it(provider: Provider, wire: str) -> None:
    body = body_of(provider, wire, offering(), strict=False)
    assert [tool.get("function", tool)["strict"] for tool in body["tools"]] == [False, True]


@pytest.mark.parametrize("wire", CONFIGURED)
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
def test_two_calls_are_read_from_any_pieces(provider: Provider, wire: str, streaming: bool) -> None:
    speaker = SPEAKERS[wire]
    for seed in range(5):
        reply = Reply(text="Sure.", calls=[("weather", ARGUMENTS), ("now", "{}")], finish=FINISH[wire])
        pieces = speaker.stream(reply, Random(seed))
        provider.replies.append(stream_reply(*pieces) if streaming else json_reply(speaker.whole(reply)))
        answer = completion_of(CONFIGURED[wire](provider, options={"stream": streaming}), offering())
        assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [
            ("weather", json.loads(ARGUMENTS)),
            ("now", {}),
        ]
        assert answer.beside == "Sure."


def test_the_record_names_the_tools_and_how_the_schema_was_sent(provider: Provider) -> None:
    def sent(question: Request) -> Any:
        provider.replies.append(json_reply(openai_wire.whole("{}")))
        return completion_of(openai_wire.configured(provider, options={"stream": False}), question).sent

    tools = Tools(schemas={"weather": None, "now": None}, allowed=("weather", "now"), required=False)
    assert (sent(offering()).response_format, sent(offering()).tools) == (ResponseFormat.TOOL, tools)
    assert sent(offering(schema=CITY)).response_format is ResponseFormat.JSON_SCHEMA
    assert sent(offering("now")).tools == replace(tools, allowed=("now",), required=True)
