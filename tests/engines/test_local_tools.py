"""Offer tools to a model without a template for tools: the object that it writes, and the calls in it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.generations import CalledTool, Completion, FinishReason
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.engines.local_tools import describe_tools, read_calls, schema_of_answer

TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "leaf": {"$ref": "#/$defs/leaf"}},
    "additionalProperties": False,
    "$defs": {"leaf": {"type": "integer"}},
}
OFFER = ToolOffer(
    tools=(
        OfferedTool(name="grow", description="Grow a tree.", parameters=TREE),
        OfferedTool(name="cut", parameters=True),
    )
)


def accepts(offer: ToolOffer, answer: Any) -> bool:
    schema = schema_of_answer(offer)
    assert schema is not None
    return jsonschema.Draft202012Validator(schema).is_valid(answer)


def calling(*calls: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


@pytest.mark.parametrize(
    ("choice", "accepted"),
    [
        ("auto", [True, True, True, False, False]),
        ("required", [True, True, False, False, False]),
        ("grow", [True, False, False, False, False]),
    ],
)
def test_the_schema_of_the_answer_allows_what_the_choice_allows(choice: str, accepted: list[bool]) -> None:
    grown = ("grow", {"left": {"leaf": 3}})
    answers = [
        calling(grown),
        calling(("cut", {}), grown),
        {"content": "No."},
        calling(("grow", {"left": {"leaf": "x"}})),
        calling(),
    ]
    assert [accepts(OFFER.with_choice(choice), answer) for answer in answers] == accepted


def test_without_allowed_tools_the_model_writes_text() -> None:
    assert schema_of_answer(OFFER.with_choice("none")) is None


def test_the_tools_are_described_in_the_instructions() -> None:
    user = Message(role="user", content="Grow!")
    (system, last) = describe_tools(Prompt(messages=(user,)), OFFER).messages
    assert (system.role, last) == ("system", user)
    assert json.dumps({"name": "grow", "description": "Grow a tree.", "parameters": TREE}) in system.content
    own = Message(role="system", content="Be brief.")
    (both, _) = describe_tools(Prompt(messages=(own, user)), OFFER).messages
    assert both.content == f"Be brief.\n\n{system.content}"


def completion(text: str) -> Completion:
    return Completion(text=text, finish_reason=FinishReason.STOP, timing=None)


def test_calls_keep_the_text_of_their_arguments() -> None:
    found = read_calls(
        completion('{"tool_calls": [{"name": "cut", "arguments": { "n":1.0 }}, {"name": "x", "arguments": {}}]}')
    )
    assert found.calls == (CalledTool(name="cut", arguments='{ "n":1.0 }'), CalledTool(name="x", arguments="{}"))
    assert found.text == '{ "n":1.0 }\n{}'


def test_a_text_answer_is_its_content() -> None:
    found = read_calls(completion('{"content": "No."}'))
    assert (found.text, found.calls) == ("No.", ())


@pytest.mark.parametrize("text", ["Grow!", '{"tool_calls": [{"name": "cut", "arg', '{"tool_calls": 3}', "[]"])
def test_another_text_is_left_as_it_is(text: str) -> None:
    assert read_calls(completion(text)) == completion(text)
