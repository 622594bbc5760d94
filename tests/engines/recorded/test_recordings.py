from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, ServerAnswer
from pytest_jsbench.core.messages import Message, Role, read_messages
from pytest_jsbench.core.prompts import Prompt
from pytest_jsbench.engines.recorded.recordings import Recording, json_change, prompt_change
from tests import examples
from tests.conversation import PROMPT, TURNS
from tests.engines.asking import request

CALLED = '…lls": [{"id": "call_%s", "type": "functi'


def prompt(*contents: str, role: Role = "user") -> Prompt:
    return Prompt(messages=tuple(Message(role=role, content=content) for content in contents))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (prompt("a"), prompt("a"), ""),
        (prompt("Read the text"), prompt("Read this text"), 'line 1 was "Read the text", is "Read this text"'),
        (prompt("One\nTwo\nThree"), prompt("One\nTwo\nFour"), 'line 3 was "Three", is "Four"'),
        (prompt("One"), prompt("One\nTwo"), 'line 1 was "One", is "One"'),
        (prompt("a", "b"), prompt("a", "c"), 'line 1 of message 2 was "b", is "c"'),
        (prompt("a"), prompt("a", "c"), "1 messages were recorded, 2 are asked"),
        (prompt("a"), prompt("a", role="system"), "role was user, is system"),
        (
            Prompt(messages=PROMPT.messages[:5]),
            Prompt(messages=tuple(read_messages(json.loads(json.dumps(TURNS[:5]).replace("7}", "9}"))))),
            'line 1 of message 3 was "find_order({"id": 7})", is "find_order({"id": 9})"',
        ),
        (
            Prompt(messages=PROMPT.messages[:5]),
            Prompt(messages=tuple(read_messages(json.loads(json.dumps(TURNS[:5]).replace("call_7", "call_9"))))),
            f'line 1 of message 3 was "{CALLED % "7"}…", is "{CALLED % "9"}…"',
        ),
        (prompt("\x1b[31m"), prompt("\x1b[32m"), 'line 1 was "\\x1b[31m", is "\\x1b[32m"'),
    ],
)
def test_the_first_difference_of_two_prompts_is_shown(before: Prompt, after: Prompt, change: str) -> None:
    assert prompt_change(before, after) == change


def test_a_difference_far_into_a_line_is_shown_where_it_is() -> None:
    before, after = f"{'x' * 500}same old end", f"{'x' * 500}same new end"

    assert prompt_change(prompt(before), prompt(after)) == (
        f'line 1 was "…{"x" * 15}same old end", is "…{"x" * 15}same new end"'
    )


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"a": [1]}, {"a": [1]}, ""),
        ({"type": "string"}, {"type": "number"}, '$.type was "string", is "number"'),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, "$.a.b is gone, $.a.c is new"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "$.a[1] was 2, is 3"),
        ({"a": [1, 2]}, {"a": [1]}, "$.a was [1, 2], is [1]"),
        (True, 1, "$ was true, is 1"),
        (0.0, False, "$ was 0.0, is false"),
        ({"minimum": 0}, {"minimum": 0.0}, ""),
        (1, 1.5, "$ was 1, is 1.5"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, {}, "$.a is gone, $.b is gone and 2 more"),
    ],
)
def test_the_first_differences_of_two_schemas_are_named_by_their_paths(before: Any, after: Any, change: str) -> None:
    assert json_change(before, after) == change


def test_an_answers_reasoning_is_recorded_line_by_line() -> None:
    answer = replace(examples.completion(), sent=None, reasoning="Hm.\n\nOslo.")
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.TEXT, streaming=True)
    written = Recording.of(request(), True, answer, info).to_dict()
    assert written["answer"]["reasoning"] == ["Hm.", "", "Oslo."]
    assert Recording.from_dict(written).answer == answer


def test_a_conversation_with_tools_is_recorded_as_an_application_has_it() -> None:
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.TEXT, streaming=True)
    asked = replace(request(), prompt=PROMPT)
    written = json.loads(json.dumps(Recording.of(asked, True, examples.completion(), info).to_dict()))

    assert written["messages"][2] == {**TURNS[2], "content": [""]}
    assert written["messages"][6] == {"role": "user", "content": ["In which city? As JSON."]}
    assert Recording.from_dict(written).changed(replace(asked, schema=True)) == ""


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        *(({"status": status}, f"server.status is {status}; ") for status in (-1, 0, 100, 199, 300, 307, 399, 600)),
        *(({"status": status}, "server.status is not a whole number") for status in (True, "307", 200.5, None)),
        ({"content_type": "text/html\r\nRefresh: 0; url=//x"}, r"server.content_type is text/html\r\nRefresh: 0"),
        ({"content_type": "text/html\n"}, r"server.content_type is text/html\n; expected a media type"),
        *(({"content_type": kind}, "expected a media type") for kind in ("json", "a/b; c", "a /b", "\xe4/b", "a/b\0")),
        ({"content_type": 5}, "server.content_type is not a string"),
        ({"path": 5}, "server.path is not a string"),
        ({"body": ["\ud800"]}, "server.body holds a lone surrogate"),
    ],
)
def test_a_server_s_answer_that_may_not_be_said_to_a_client_is_no_recording(
    hostile: dict[str, Any], problem: str
) -> None:
    server = ServerAnswer(path="/chat/completions", status=200, content_type="application/json", body="{}")
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.TEXT, streaming=True)
    written = Recording.of(request(), True, replace(examples.completion(), server=server), info).to_dict()
    assert Recording.from_dict(written).answer.server == server

    with pytest.raises(RecordError) as refused:
        Recording.from_dict({**written, "server": {**written["server"], **hostile}})

    assert problem in str(refused.value)
