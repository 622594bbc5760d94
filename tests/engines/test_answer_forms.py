"""Servers that send an answer in another form than their API has: the model has said it all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from pytest_jsbench.core.generations import Completion, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.providers import chat, gemini, messages, responses
from tests.engines import anthropic_wire, gemini_wire, openai_wire, responses_wire

VALUE = {"city": "Oslo", "type": "capital"}
TEXT = json.dumps(VALUE)
SENT = Sent(response_format=ResponseFormat.TOOL)


class Events:
    """The events of a stream that is here as a whole."""

    pieces = 0

    def __init__(self, *events: str) -> None:
        self._lines = "".join(events).splitlines()

    def __iter__(self) -> Any:
        return (json.loads(line[6:]) for line in self._lines if line.startswith("data: {"))


def whole(api: ModuleType, body: dict[str, Any]) -> Completion:
    answer: Completion = api.read_whole(body, Stopwatch()).to_generation(SENT)
    return answer


def stream(api: ModuleType, *events: str) -> Completion:
    answer: Completion = api.read_stream(Events(*events), Stopwatch()).to_generation(SENT)
    return answer


def chat_call(arguments: object, *, listed: bool = True) -> dict[str, Any]:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "output", "arguments": arguments}}
    return {"tool_calls": [call] if listed else call}


def responses_call(arguments: Any) -> dict[str, Any]:
    return responses_wire.called(arguments)


@pytest.mark.parametrize(
    "read",
    [
        lambda: whole(chat, openai_wire.whole(None, message=chat_call(VALUE))),
        lambda: whole(chat, openai_wire.whole(None, message=chat_call(VALUE, listed=False))),
        lambda: stream(chat, openai_wire.chunk(**chat_call(VALUE)), openai_wire.chunk(finish="tool_calls")),
        lambda: whole(responses, responses_wire.whole(responses_call(VALUE))),
        lambda: stream(responses, responses_wire.stop(responses_wire.whole(responses_call(VALUE)))),
        lambda: stream(
            messages,
            anthropic_wire.typed("content_block_start", index=0, content_block={"type": "tool_use", "name": "output"}),
            anthropic_wire.delta(kind="input_json_delta", partial_json=VALUE),
            anthropic_wire.stop("tool_use"),
        ),
    ],
)
def test_arguments_that_come_as_an_object_are_judged_and_noted(read: Callable[[], Completion]) -> None:
    answer = read()

    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [("output", VALUE)]
    assert answer.text == answer.calls[0].arguments
    assert answer.not_text


@pytest.mark.parametrize(
    "read",
    [
        lambda: whole(chat, openai_wire.whole(VALUE)),
        lambda: stream(chat, openai_wire.chunk(VALUE), openai_wire.chunk(finish="stop")),
        lambda: whole(responses, responses_wire.whole({**responses_wire.message(), "content": VALUE | {"type": ""}})),
        lambda: whole(responses, responses_wire.whole(responses_wire.message(VALUE))),  # type: ignore[arg-type]
        lambda: stream(responses, responses_wire.delta(VALUE), responses_wire.stop()),  # type: ignore[arg-type]
        lambda: whole(messages, anthropic_wire.whole({"type": "text", "text": VALUE})),
        lambda: stream(messages, anthropic_wire.delta(VALUE), anthropic_wire.stop()),  # type: ignore[arg-type]
        lambda: whole(gemini, gemini_wire.whole(gemini_wire.part(VALUE))),  # type: ignore[arg-type]
        lambda: stream(gemini, gemini_wire.delta(VALUE), gemini_wire.stop()),  # type: ignore[arg-type]
    ],
)
def test_content_that_comes_as_an_object_is_judged_and_noted(read: Callable[[], Completion]) -> None:
    answer = read()

    assert json.loads(answer.text)["city"] == "Oslo"
    assert answer.not_text


def test_an_array_that_stands_in_the_place_of_the_content_is_the_answer() -> None:
    answer = whole(chat, openai_wire.whole([VALUE | {"type": 1}, 2]))

    assert json.loads(answer.text) == [VALUE | {"type": 1}, 2]


@pytest.mark.parametrize(
    "read",
    [
        lambda: whole(chat, openai_wire.whole({"type": "text", "text": TEXT})),
        lambda: whole(chat, openai_wire.whole([{"type": "text", "text": TEXT}])),
        lambda: whole(responses, responses_wire.whole({**responses_wire.message(), "content": TEXT})),
        lambda: whole(messages, anthropic_wire.whole() | {"content": TEXT}),
        lambda: whole(gemini, gemini_wire.whole(content={"parts": TEXT})),
        lambda: stream(gemini, gemini_wire.chunk(TEXT), gemini_wire.stop()),
    ],
)  # fmt: skip
def test_a_text_with_or_without_its_part_or_its_list_is_the_text(read: Callable[[], Completion]) -> None:
    answer = read()

    assert (answer.text, answer.not_text) == (TEXT, False)


@pytest.mark.parametrize(
    "read",
    [
        lambda: whole(chat, openai_wire.whole(None, message=chat_call(None))),
        lambda: stream(chat, openai_wire.chunk(**chat_call(None)), openai_wire.chunk(finish="tool_calls")),
        lambda: whole(responses, responses_wire.whole(responses_call(None))),
        lambda: whole(messages, anthropic_wire.whole({"type": "tool_use", "name": "output", "input": None})),
    ],
)
def test_a_call_whose_arguments_are_null_is_a_call_all_the_same(read: Callable[[], Completion]) -> None:
    answer = read()

    assert [(call.name, call.arguments) for call in answer.calls] == [("output", "")]


CHAT_CALLS = [{"function": {"name": "output", "arguments": text}} for text in ("{}", "[]")]
RESPONSES_CALLS = [responses_call("{}"), responses_call("[]") | {"id": "j"}]
MESSAGES_CALLS = [{"type": "tool_use", "name": "output", "input": value} for value in (dict[str, int](), list[int]())]
GEMINI_CALLS = [{"functionCall": {"name": "output", "args": block["input"]}} for block in MESSAGES_CALLS]
SURE = {"type": "text", "text": "Sure."}


@pytest.mark.parametrize(
    "read",
    [
        lambda: whole(chat, openai_wire.whole("Sure.", message={"tool_calls": CHAT_CALLS})),
        lambda: whole(responses, responses_wire.whole(responses_wire.message("Sure."), *RESPONSES_CALLS)),
        lambda: whole(messages, anthropic_wire.whole(SURE, *MESSAGES_CALLS)),
        lambda: whole(gemini, gemini_wire.whole(gemini_wire.part("Sure."), *GEMINI_CALLS)),
        lambda: stream(
            chat,
            openai_wire.chunk("Sure."),
            *(openai_wire.chunk(tool_calls=[call | {"index": n}]) for n, call in enumerate(CHAT_CALLS)),
            openai_wire.chunk(finish="tool_calls"),
        ),
        lambda: stream(
            responses,
            responses_wire.delta("Sure."),
            *(
                responses_wire.typed("response.output_item.added", item=call | {"arguments": ""})
                + responses_wire.typed(
                    "response.function_call_arguments.delta", item_id=call["id"], delta=call["arguments"]
                )
                for call in RESPONSES_CALLS
            ),
            responses_wire.stop(),
        ),
        lambda: stream(
            messages,
            anthropic_wire.delta("Sure."),
            *(
                anthropic_wire.typed("content_block_start", index=n, content_block=block)
                + anthropic_wire.typed("content_block_stop", index=n)
                for n, block in enumerate(MESSAGES_CALLS, start=1)
            ),
            anthropic_wire.stop("tool_use"),
        ),
        lambda: stream(gemini, gemini_wire.delta("Sure."), *map(gemini_wire.chunk, GEMINI_CALLS), gemini_wire.stop()),
    ],
)
def test_calls_are_apart_from_each_other_and_from_what_is_said_beside_them(read: Callable[[], Completion]) -> None:
    answer = read()

    assert [call.arguments for call in answer.calls] == ["{}", "[]"]
    assert (answer.text, answer.beside) == ("{}\n[]", "Sure.")


def test_streamed_calls_with_one_index_and_ids_of_their_own_are_apart() -> None:
    calls = [call | {"index": 0, "id": f"c{number}"} for number, call in enumerate(CHAT_CALLS)]
    again = [{"index": 0, "id": "c1", "function": {"arguments": " "}}, {"index": 0, "function": {"arguments": " "}}]

    answer = stream(
        chat, *(openai_wire.chunk(tool_calls=[call]) for call in [*calls, *again]), openai_wire.chunk(finish="stop")
    )

    assert [call.arguments for call in answer.calls] == ["{}", "[]  "]


def test_a_streamed_call_without_pieces_is_taken_once_from_the_whole_response() -> None:
    item = {"type": "function_call", "id": "i", "name": "output", "arguments": ""}
    added = responses_wire.typed("response.output_item.added", item=item)

    answer = stream(responses, added, responses_wire.stop(responses_wire.whole(responses_call("{}") | {"id": "other"})))

    assert [call.arguments for call in answer.calls] == ["{}"]
