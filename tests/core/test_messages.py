from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.messages import Message, ToolCall, read_messages
from tests.support.conversation import PROMPT, TURNS, WRITTEN, call

RESULT = {"role": "tool", "tool_call_id": "1", "content": ""}


def calling(*calls: object, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def user(content: object, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def test_messages_round_trip_in_the_form_of_openai() -> None:
    assert PROMPT.to_messages() == WRITTEN
    assert Prompt(messages=read_messages(WRITTEN)) == PROMPT
    assert PROMPT.messages[2].tool_calls[0].values == {"id": 7}


def test_digest_of_a_text_prompt_is_stable() -> None:
    prompt = Prompt(messages=(Message(role="system", content="é"), Message(role="user", content="Why?")))
    canonical = rb'[{"content":"\u00e9","role":"system"},{"content":"Why?","role":"user"}]'

    assert prompt.digest == "sha256:" + hashlib.sha256(canonical).hexdigest()


@dataclass
class Model:
    """Model of a response, as an SDK has it."""

    fields: dict[str, Any]

    def model_dump(self) -> dict[str, Any]:
        return self.fields


def test_the_objects_of_an_sdk_are_messages_too() -> None:
    turn = Model(
        {"role": "assistant", "content": None, "annotations": [], "audio": None, "tool_calls": [call("1", "")]}
    )
    turns = read_messages([turn, RESULT, calling(Model(call("2", "{}"))), {**RESULT, "tool_call_id": "2"}])

    assert turns[0].tool_calls == (ToolCall(id="1", name="find_order", arguments=""),)
    assert turns[0].tool_calls[0].values == {}
    assert turns[2].tool_calls[0].id == "2"


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([], "messages is an empty list; expected a list of role and content"),
        ("Hi", "messages is a JSON string; expected a list"),
        (["Hi"], "messages[0].role is None; expected one of system, developer, user, assistant, tool"),
        ([{"role": "function"}], "messages[0].role is 'function'; expected one of system"),
        ([{"role": "user"}], "messages[0].content is a JSON null; expected text"),
        ([user(3)], "messages[0].content is a JSON number; expected text"),
        (
            [user([{"type": "image_url", "image_url": {}}])],
            "messages[0].content[0].type is 'image_url'; expected 'text'",
        ),
        ([user([{"type": "text"}])], "messages[0].content[0].text is a JSON null"),
        ([user("\ud800")], "messages[0].content contains a lone surrogate"),
        ([calling(call("1", '"\ud800"'))], "messages[0].tool_calls[0].function.arguments is not a JSON object"),
        ([calling(call("1", '{"a": "\ud800"}'))], "messages[0].tool_calls contains a lone surrogate"),
        (
            [{"role": "assistant", "content": "", "tool_calls": {}}],
            "messages[0].tool_calls is a JSON object; expected a",
        ),
        ([calling(call("", "{}"))], "messages[0].tool_calls[0].id is empty; expected text"),
        ([calling(call("1", "{}", function=""))], "messages[0].tool_calls[0].function.name is empty; expected text"),
        ([calling({**call("1", "{}"), "type": "custom"})], "tool_calls[0].type is 'custom'; expected 'function'"),
        ([calling("find_order")], "messages[0].tool_calls[0].id is a JSON null; expected text"),
        (
            [calling({"id": "1", "function": {"name": "f", "arguments": {"id": 7}}})],
            "messages[0].tool_calls[0].function.arguments is a JSON object; expected text",
        ),
        (
            [calling(call("1", "{oops"))],
            "messages[0].tool_calls[0].function.arguments is not JSON: Expecting property name",
        ),
        ([calling(call("1", "[" * 100_000))], "function.arguments is nested too deeply to be read as JSON; expected"),
        (
            [{"role": "assistant", "content": None, "function_call": {"name": "f"}}],
            "messages[0].function_call is an older form; expected tool_calls",
        ),
        (
            [user("Hi", tool_calls=[call("1", "{}")])],
            "messages[0].found role, content, tool_calls; expected role and content",
        ),
        ([{"role": "tool", "content": "Hi"}], "messages[0].tool_call_id is a JSON null; expected text"),
        ([RESULT], "messages[0].tool_call_id is '1'; expected a call before this result"),
        (
            [calling(call("2", "{}")), RESULT],
            "messages[1].tool_call_id is '1'; expected the id of a call without a result (2)",
        ),
        (
            [calling(call("1", "{}")), RESULT, RESULT],
            "messages[2].tool_call_id is '1'; expected a call before this result",
        ),
        ([calling(call("1", "{}"), call("1", "{}"))], "messages[0].tool_calls contains a duplicate id"),
        (
            [calling(call("1", "{}"), call("2", "{}")), RESULT, user("Hi")],
            "messages[0].tool_calls[1] has no result; expected a message of role tool after it, with tool_call_id '2'",
        ),
        ([calling(call("1", "{}"))], "messages[0].tool_calls[0] has no result"),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_invalid_conversation_is_one_line_with_the_place(turns: object, said: str, *, exact: bool) -> None:
    with pytest.raises(ValueError, match=r"^messages") as refused:
        read_messages(turns, exact=exact)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unknown_message_fields_are_rejected_or_ignored() -> None:
    named = [user("Hi", name="Ann")]

    assert read_messages(named, exact=False) == (Message(role="user", content="Hi"),)
    with pytest.raises(ValueError, match=r"messages\[0\].found role, content, name; expected role and content"):
        read_messages(named)


def test_prompt_needs_a_result_for_each_tool_call() -> None:
    with pytest.raises(ValueError, match=r"messages\[0\].tool_calls\[0\] has no result"):
        Prompt(messages=PROMPT.messages[2:3])


def test_people_read_the_calls_below_the_text() -> None:
    shown = [message.shown for message in PROMPT.messages]

    assert shown[2:6] == [
        'find_order({"id": 7})\nfind_order({"id": 8})',
        "lost",
        '{"city": "Oslo"}',
        TURNS[5]["content"],
    ]
    assert Message(role="user", content="").shown == ""
