"""Servers that send an answer in another form than their API has: the model has said it all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.engines.providers.chat import CHAT
from pytest_jsbench.engines.providers.gemini import GENERATE_CONTENT
from pytest_jsbench.engines.providers.messages import MESSAGES
from pytest_jsbench.engines.providers.responses import RESPONSES
from tests.engines import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.engines.reading import answer

VALUE = {"city": "Oslo", "type": "capital"}
TEXT = json.dumps(VALUE)


def chat_call(arguments: object, *, listed: bool = True) -> dict[str, Any]:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "output", "arguments": arguments}}
    return {"tool_calls": [call] if listed else call}


@pytest.mark.parametrize(
    "content",
    [
        (CHAT, openai_wire.whole(None, message=chat_call(VALUE))),
        (CHAT, openai_wire.whole(None, message=chat_call(VALUE, listed=False))),
        (CHAT, openai_wire.chunk(**chat_call(VALUE)), openai_wire.chunk(finish="tool_calls")),
        (RESPONSES, responses_wire.whole(responses_wire.called(VALUE))),
        (RESPONSES, responses_wire.stop(responses_wire.whole(responses_wire.called(VALUE)))),
        (
            MESSAGES,
            anthropic_wire.typed("content_block_start", index=0, content_block={"type": "tool_use", "name": "output"}),
            anthropic_wire.delta(kind="input_json_delta", partial_json=VALUE),
            anthropic_wire.stop("tool_use"),
        ),
    ],
)
def test_arguments_that_come_as_an_object_are_judged_and_noted(content: tuple[Any, ...]) -> None:
    completion = answer(*content)
    assert [(call.name, json.loads(call.arguments)) for call in completion.calls] == [("output", VALUE)]
    assert completion.text == completion.calls[0].arguments
    assert completion.not_text


@pytest.mark.parametrize(
    "content",
    [
        (CHAT, openai_wire.whole(VALUE)),
        (CHAT, openai_wire.chunk(VALUE), openai_wire.chunk(finish="stop")),
        (RESPONSES, responses_wire.whole({**responses_wire.message(), "content": VALUE | {"type": ""}})),
        (RESPONSES, responses_wire.whole(responses_wire.message(VALUE))),  # type: ignore[arg-type]
        (RESPONSES, responses_wire.delta(VALUE), responses_wire.stop()),  # type: ignore[arg-type]
        (MESSAGES, anthropic_wire.whole({"type": "text", "text": VALUE})),
        (MESSAGES, anthropic_wire.delta(VALUE), anthropic_wire.stop()),  # type: ignore[arg-type]
        (GENERATE_CONTENT, gemini_wire.whole(gemini_wire.part(VALUE))),  # type: ignore[arg-type]
        (GENERATE_CONTENT, gemini_wire.delta(VALUE), gemini_wire.stop()),  # type: ignore[arg-type]
    ],
)
def test_content_that_comes_as_an_object_is_judged_and_noted(content: tuple[Any, ...]) -> None:
    completion = answer(*content)
    assert json.loads(completion.text)["city"] == "Oslo"
    assert completion.not_text


def test_an_array_that_stands_in_the_place_of_the_content_is_the_answer() -> None:
    completion = answer(CHAT, openai_wire.whole([VALUE | {"type": 1}, 2]))
    assert json.loads(completion.text) == [VALUE | {"type": 1}, 2]


@pytest.mark.parametrize(
    "content",
    [
        (CHAT, openai_wire.whole({"type": "text", "text": TEXT})),
        (CHAT, openai_wire.whole([{"type": "text", "text": TEXT}])),
        (RESPONSES, responses_wire.whole({**responses_wire.message(), "content": TEXT})),
        (MESSAGES, anthropic_wire.whole() | {"content": TEXT}),
        (GENERATE_CONTENT, gemini_wire.whole(content={"parts": TEXT})),
        (GENERATE_CONTENT, gemini_wire.chunk(TEXT), gemini_wire.stop()),
    ],
)  # fmt: skip
def test_a_text_with_or_without_its_part_or_its_list_is_the_text(content: tuple[Any, ...]) -> None:
    completion = answer(*content)
    assert (completion.text, completion.not_text) == (TEXT, False)


@pytest.mark.parametrize(
    "content",
    [
        (CHAT, openai_wire.whole(None, message=chat_call(None))),
        (CHAT, openai_wire.chunk(**chat_call(None)), openai_wire.chunk(finish="tool_calls")),
        (RESPONSES, responses_wire.whole(responses_wire.called(None))),
        (MESSAGES, anthropic_wire.whole({"type": "tool_use", "name": "output", "input": None})),
    ],
)
def test_a_call_whose_arguments_are_null_is_a_call_all_the_same(content: tuple[Any, ...]) -> None:
    completion = answer(*content)
    assert [(call.name, call.arguments) for call in completion.calls] == [("output", "")]


CHAT_CALLS = [{"function": {"name": "output", "arguments": text}} for text in ("{}", "[]")]
RESPONSES_CALLS = [responses_wire.called("{}"), responses_wire.called("[]") | {"id": "j"}]
MESSAGES_CALLS = [{"type": "tool_use", "name": "output", "input": value} for value in (dict[str, int](), list[int]())]
GEMINI_CALLS = [{"functionCall": {"name": "output", "args": block["input"]}} for block in MESSAGES_CALLS]
SURE = {"type": "text", "text": "Sure."}


@pytest.mark.parametrize(
    "content",
    [
        (CHAT, openai_wire.whole("Sure.", message={"tool_calls": CHAT_CALLS})),
        (RESPONSES, responses_wire.whole(responses_wire.message("Sure."), *RESPONSES_CALLS)),
        (MESSAGES, anthropic_wire.whole(SURE, *MESSAGES_CALLS)),
        (GENERATE_CONTENT, gemini_wire.whole(gemini_wire.part("Sure."), *GEMINI_CALLS)),
        (
            CHAT,
            openai_wire.chunk("Sure."),
            *(openai_wire.chunk(tool_calls=[call | {"index": n}]) for n, call in enumerate(CHAT_CALLS)),
            openai_wire.chunk(finish="tool_calls"),
        ),
        (
            RESPONSES,
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
        (
            MESSAGES,
            anthropic_wire.delta("Sure."),
            *(
                anthropic_wire.typed("content_block_start", index=n, content_block=block)
                + anthropic_wire.typed("content_block_stop", index=n)
                for n, block in enumerate(MESSAGES_CALLS, start=1)
            ),
            anthropic_wire.stop("tool_use"),
        ),
        (GENERATE_CONTENT, gemini_wire.delta("Sure."), *map(gemini_wire.chunk, GEMINI_CALLS), gemini_wire.stop()),
    ],
)
def test_calls_are_apart_from_each_other_and_from_what_is_said_beside_them(content: tuple[Any, ...]) -> None:
    completion = answer(*content)
    assert [call.arguments for call in completion.calls] == ["{}", "[]"]
    assert (completion.text, completion.beside) == ("{}\n[]", "Sure.")


def test_streamed_calls_with_one_index_and_ids_of_their_own_are_apart() -> None:
    calls = [call | {"index": 0, "id": f"c{number}"} for number, call in enumerate(CHAT_CALLS)]
    again = [{"index": 0, "id": "c1", "function": {"arguments": " "}}, {"index": 0, "function": {"arguments": " "}}]

    completion = answer(
        CHAT, *(openai_wire.chunk(tool_calls=[call]) for call in [*calls, *again]), openai_wire.chunk(finish="stop")
    )

    assert [call.arguments for call in completion.calls] == ["{}", "[]  "]


def test_a_streamed_call_without_pieces_is_taken_once_from_the_whole_response() -> None:
    item = {"type": "function_call", "id": "i", "name": "output", "arguments": ""}
    added = responses_wire.typed("response.output_item.added", item=item)
    whole = responses_wire.whole(responses_wire.called("{}") | {"id": "other"})
    completion = answer(RESPONSES, added, responses_wire.stop(whole))
    assert [call.arguments for call in completion.calls] == ["{}"]
