"""
Assembly of an answer from its pieces: however a stream is cut and ordered, the answer is the same
as in one piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, Completion, Declined
from pytest_jsbench.engines.http.answers import EventStream
from pytest_jsbench.engines.providers.openai_apis import CHAT
from pytest_jsbench.engines.providers.tool_calls import tool_name
from tests.support import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.support.answer_reading import ROWS, WIRES, Body, as_row, events, outcome
from tests.support.replies import SPEAKERS, Reply

OBJECT = '{"city": "Åre 😀", "old": true}'
TEXT = Reply(text=OBJECT, reasoning="Hm. Åre.", finish="")
CALLS = Reply(text="Sure.", calls=[("output", OBJECT), ("other", '{"n": [1, 2]}'), ("output", "{}")], finish="")
HALF = Reply(text='{"city": "Os', finish="")
NOTHING = Reply(finish="")
REPLIES = {"text": TEXT, "calls": CALLS, "half": HALF, "nothing": NOTHING}


def untimed(result: Completion | Declined | CallError) -> dict[str, Any]:
    return {name: value for name, value in as_row(result).items() if name not in ("timed", "reasoning_timed")}


def with_finish(reply: Reply, finish: str) -> Reply:
    return Reply(text=reply.text, calls=reply.calls, reasoning=reply.reasoning, finish=finish)


@pytest.mark.parametrize("name", SPEAKERS)
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_stream_and_whole_answer_are_equal_for_each_finish_reason(name: str, reply: Reply) -> None:
    speaker = SPEAKERS[name]
    for word in [word for row in speaker.finish.rows for word in row.words] + ["a-new-word"]:
        sent = with_finish(reply, word)

        whole = untimed(outcome(speaker.wire, speaker.whole(sent)))
        streamed = untimed(outcome(speaker.wire, events(*speaker.stream(sent, Random(1)))))

        # the usage of a stream has more details about reasoning
        whole.pop("usage", None)
        streamed.pop("usage", None)
        assert streamed == whole, word


@pytest.mark.slow
@pytest.mark.parametrize("name", SPEAKERS)
@pytest.mark.parametrize("reply", [TEXT, CALLS], ids=["text", "calls"])
def test_pieces_may_be_cut_and_shuffled(name: str, reply: Reply) -> None:
    speaker = SPEAKERS[name]
    sent = with_finish(reply, speaker.stop)
    whole = outcome(speaker.wire, speaker.whole(sent))
    assert isinstance(whole, Completion)
    assert [(call.name, json.loads(call.arguments)) for call in whole.calls] == [
        (called, json.loads(arguments)) for called, arguments in reply.calls
    ]

    for seed in range(60):
        streamed = outcome(speaker.wire, events(*speaker.stream(sent, Random(seed))))

        assert isinstance(streamed, Completion), (seed, streamed)
        assert (streamed.text, streamed.calls, streamed.reasoning, streamed.beside) == (
            whole.text,
            whole.calls,
            whole.reasoning,
            whole.beside,
        ), seed


class Unhurried(Body):
    """A body whose pieces arrive at once."""

    def iter_bytes(self) -> Iterator[bytes]:
        while self.unread:
            yield self.unread.pop(0)


_STRIDE = 16
STREAMS = [row for row in ROWS if "events" in row]


@pytest.mark.parametrize("row", STREAMS, ids=[f"{row['wire']}, {row['name']}" for row in STREAMS])
def test_a_recorded_stream_may_be_cut_at_every_place(row: dict[str, Any]) -> None:
    data = "".join(row["events"]).encode()
    expected = {name: value for name, value in row["outcome"].items() if name not in ("timed", "reasoning_timed")}

    for first in range(_STRIDE):  # each place is cut in one of them
        places = [0, *range(first or _STRIDE, len(data), _STRIDE), len(data)]
        body: Any = Unhurried(*(data[start:end] for start, end in pairwise(places)))

        found = untimed(outcome(WIRES[row["wire"]], EventStream(body)))

        # the message of an interrupted stream contains the length and time of what had arrived
        if "after" in str(expected.get("message")):
            found["message"] = expected["message"]
        assert found == expected, first


def calls_of(*pieces: dict[str, Any] | list[dict[str, Any]], finish: str = "tool_calls") -> list[tuple[str, str]]:
    """Return the calls of a chat stream with these pieces; a list is several pieces in one event."""
    sent = [openai_wire.chunk(tool_calls=piece if isinstance(piece, list) else [piece]) for piece in pieces]
    result = outcome(CHAT, events(*sent, openai_wire.chunk(finish=finish), "data: [DONE]\n\n"))
    assert isinstance(result, Completion), result
    return [(call.name, call.arguments) for call in result.calls]


def piece(name: str | None = None, arguments: Any = None, *, id: str | None = None, index: Any = 0) -> dict[str, Any]:  # noqa: A002
    place = {} if index is None else {"index": index}
    return {**place, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # an identifier that changes continues the call unless a name comes with it
        ([piece("f", "", id="a"), piece("", '{"n"', id="b"), piece(None, ": 1}", id="c")], [("f", '{"n": 1}')]),
        ([piece("f", '{"n"', id="a"), piece("f", ": 1}", id="b")], [("f", '{"n": 1}')]),
        ([piece("f", '{"n"', id="a"), piece("f", ": 1}", id="b"), piece("f", "", id="c")], [("f", '{"n": 1}')]),
        # a name in pieces, the whole name in each piece, and more of it in each piece
        ([piece("o", "", id="a"), *(piece(letter) for letter in "utput"), piece(None, "{}")], [("output", "{}")]),
        ([piece("out", '{"n"', id="a"), piece("put", ": 1}")], [("output", '{"n": 1}')]),
        ([piece("f", '{"n"', id="a"), piece("f", ": 1}", id="a")], [("f", '{"n": 1}')]),
        # one index for all calls
        ([piece("f", "{}", id="a"), piece("g", "{}", id="b")], [("f", "{}"), ("g", "{}")]),
        ([piece("f", "{}", id="a"), piece("f", "{}", id="b")], [("f", "{}"), ("f", "{}")]),
        ([[piece("f", "{}", id="a"), piece("f", "{}", id="b")]], [("f", "{}"), ("f", "{}")]),
        # no index, no identifier, and neither
        ([[piece("f", "{}", id="a", index=None), piece("g", "[]", id="b", index=None)]], [("f", "{}"), ("g", "[]")]),
        ([piece("f", "{", id="a", index=None), piece(None, "}", id="a", index=None)], [("f", "{}")]),
        ([piece("f", "{", index=1), piece("g", "[", index=0), piece(None, "}", index=1), piece(None, "]", index=0)],
         [("g", "[]"), ("f", "{}")]),
        ([piece("f", '{"n": 1}', index=None), piece("f", "[]", index=None)], [("f", '{"n": 1}'), ("f", "[]")]),
        ([piece("f", "{}", id="a", index="0"), piece("g", "{}", id="b", index="1")], [("f", "{}"), ("g", "{}")]),
        # an initial empty object that is continued
        ([piece("f", "{}", id="a"), piece(None, '{"n"'), piece(None, ": 1}")], [("f", '{"n": 1}')]),
        ([piece("f", {}, id="a"), piece(None, '{"n": 1}')], [("f", '{"n": 1}')]),
        ([piece("f", "", id="a")], [("f", "")]),
    ],
)  # fmt: skip
def test_chat_pieces_belong_to_their_call(pieces: list[Any], calls: list[tuple[str, str]]) -> None:
    assert calls_of(*pieces) == calls


@pytest.mark.parametrize(
    ("pieces", "declared", "name"),
    [
        ([], (), ""),
        (["f"], (), "f"),
        (["a", "a"], (), "a"),
        (["a", "a"], ("aa",), "aa"),
        (["out", "output"], ("output",), "output"),
        (["x_", "output"], ("output",), "x_output"),
    ],
)
def test_tool_name_uses_the_declared_tools(pieces: list[str], declared: tuple[str, ...], name: str) -> None:
    assert tool_name(pieces, declared) == name


def test_legacy_function_call_is_a_call() -> None:
    called = {"name": "output", "arguments": "{}"}
    whole = outcome(CHAT, openai_wire.whole(None, finish="function_call", message={"function_call": called}))
    pieces = [openai_wire.chunk(function_call={"name": "output"}), openai_wire.chunk(function_call={"arguments": "{}"})]
    streamed = outcome(CHAT, events(*pieces, openai_wire.chunk(finish="function_call")))

    assert isinstance(whole, Completion)
    assert isinstance(streamed, Completion)
    assert whole.calls == streamed.calls
    assert [(call.name, call.arguments) for call in whole.calls] == [("output", "{}")]


@pytest.mark.parametrize("zeros", [{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, {}, None])
def test_a_last_usage_of_zeros_replaces_no_count(zeros: Any) -> None:
    sent = [
        openai_wire.chunk("{}", usage=openai_wire.USAGE),
        openai_wire.chunk(finish="stop"),
        openai_wire.usage_chunk(zeros),
    ]
    result = outcome(CHAT, events(*sent))
    assert isinstance(result, Completion)
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.cached_tokens) == (20, 9, 16)


def test_messages_usage_of_zeros_at_the_end_replaces_no_count() -> None:
    zeros = dict.fromkeys(anthropic_wire.INPUT, 0)
    end = anthropic_wire.typed("message_delta", delta={"stop_reason": "end_turn"}, usage={**zeros, "output_tokens": 9})
    result = outcome(WIRES["messages"], events(anthropic_wire.start(), anthropic_wire.delta("{}"), end))
    assert isinstance(result, Completion)
    usage = result.usage
    assert (usage.input_tokens, usage.cache_write_tokens, usage.cached_tokens, usage.output_tokens) == (23, 7, 11, 9)


@pytest.mark.parametrize(
    ("wire", "deltas", "end"),
    [
        ("chat", openai_wire.chunk, openai_wire.chunk(finish="stop")),
        ("responses", responses_wire.delta, responses_wire.stop(responses_wire.whole() | {"output": []})),
        ("messages", anthropic_wire.delta, anthropic_wire.stop()),
        ("gemini", gemini_wire.delta, gemini_wire.stop()),
    ],
)
def test_halves_of_a_surrogate_pair_in_two_pieces_are_joined(wire: str, deltas: Any, end: str) -> None:
    def escaped(text: str) -> str:
        return json.dumps(json.loads(deltas("@").partition("data: ")[2])).replace("@", text)

    sent = [f"data: {escaped(text)}\n\n" for text in ('\\"\\ud83d', '\\ude00\\"')]
    result = outcome(WIRES[wire], events(*sent, end))
    assert isinstance(result, Completion), result
    assert result.text == '"😀"'


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": "x", **more}


EMPTY = responses_wire.whole() | {"output": []}
ONLY_EMPTY = responses_wire.whole(responses_wire.message(""))
ADDED = responses_wire.typed("response.output_item.added", output_index=0, item=responses_wire.called(""))
DONE_ITEM = responses_wire.typed("response.output_item.done", output_index=0, item=responses_wire.called('{"n": 1}'))


@pytest.mark.parametrize("last", [EMPTY, ONLY_EMPTY, {"status": "completed"}], ids=["no output", "empty", "no list"])
@pytest.mark.parametrize(
    ("sent", "text", "calls"),
    [
        ([responses_wire.typed("response.output_text.done", output_index=0, content_index=0, text="{}")], "{}", []),
        ([responses_wire.typed("response.output_text.done", item_id="m", text="{}")], "{}", []),
        (
            [responses_wire.delta("{"), responses_wire.typed("response.output_text.done", output_index=0, text="{}")],
            "{}",
            [],
        ),
        (
            [responses_wire.delta("{}"), responses_wire.typed("response.output_text.done", output_index=0, text="")],
            "{}",
            [],
        ),
        (
            [
                responses_wire.typed(
                    "response.content_part.done", output_index=0, part={"type": "output_text", "text": "{}"}
                )
            ],
            "{}",
            [],
        ),
        (
            [responses_wire.typed("response.output_item.done", output_index=0, item=responses_wire.message("{}"))],
            "{}",
            [],
        ),
        (
            [
                ADDED,
                responses_wire.typed("response.function_call_arguments.done", output_index=0, arguments='{"n": 1}'),
            ],
            '{"n": 1}',
            [("output", '{"n": 1}')],
        ),
        ([DONE_ITEM], '{"n": 1}', [("output", '{"n": 1}')]),
        ([responses_wire.delta('{"n"', "function_call_arguments"), DONE_ITEM], '{"n": 1}', [("output", '{"n": 1}')]),
        (
            [ADDED, responses_wire.delta("{}", "function_call_arguments"), DONE_ITEM],
            '{"n": 1}',
            [("output", '{"n": 1}')],
        ),
    ],
)
def test_responses_final_values_are_the_answer(last: Any, sent: list[str], text: str, calls: list[Any]) -> None:
    result = outcome(WIRES["responses"], events(*sent, responses_wire.typed("response.completed", response=last)))
    assert isinstance(result, Completion), result
    assert (result.text, [(call.name, call.arguments) for call in result.calls]) == (text, calls)


def test_responses_calls_that_only_the_last_event_has_are_kept() -> None:
    last = responses_wire.whole(responses_wire.message("Sure."), responses_wire.called('{"n": 1}'))
    result = outcome(WIRES["responses"], events(responses_wire.delta("Sure."), responses_wire.stop(last)))
    assert isinstance(result, Completion)
    assert (result.text, result.beside) == ('{"n": 1}', "Sure.")


def responses_items(*items: dict[str, Any]) -> list[Any]:
    """Yield the same items whole and streamed."""
    done = [
        responses_wire.typed("response.output_item.done", output_index=n, item=each) for n, each in enumerate(items)
    ]
    end = responses_wire.typed("response.completed", response=EMPTY)
    return [responses_wire.whole(*items), events(*done, end)]


def messages_blocks(*blocks: dict[str, Any]) -> list[Any]:
    streamed = []
    for index, block in enumerate(blocks):
        begun = {**block, "text": ""} if "text" in block else {**block, "input": {}} if "input" in block else block
        streamed.append(anthropic_wire.typed("content_block_start", index=index, content_block=begun))
        delta: dict[str, Any] | None = None
        if "text" in block:
            delta = {"type": "text_delta", "text": block["text"]}
        elif "input" in block:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if delta is not None:
            streamed.append(anthropic_wire.typed("content_block_delta", index=index, delta=delta))
        streamed.append(anthropic_wire.typed("content_block_stop", index=index))
    return [anthropic_wire.whole(*blocks), events(anthropic_wire.start(), *streamed, anthropic_wire.stop())]


def gemini_parts(*parts: dict[str, Any]) -> list[Any]:
    return [gemini_wire.whole(*parts), events(*map(gemini_wire.chunk, parts), gemini_wire.stop())]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "title": "t"}]}
MCP = {"type": "mcp_tool_use", "id": "s", "name": "echo", "server_name": "x", "input": {"q": 1}}
RESULT = {"type": "mcp_tool_result", "tool_use_id": "s", "content": [text("found")]}
CODE = {"executableCode": {"language": "PYTHON", "code": "{}"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "{}"}}
WEB = item("web_search_call", status="completed", action={"query": "x"})
MCP_CALL = item("mcp_call", name="echo", arguments='{"q": 1}', output="found")
COMMENT = {**responses_wire.message("I look."), "phase": "commentary"}


@pytest.mark.parametrize(
    ("wire", "sent"),
    [
        *(("messages", sent) for sent in messages_blocks(SEARCH, FOUND, text("{}"))),
        *(("messages", sent) for sent in messages_blocks(MCP, RESULT, text("{"), text("}"))),
        *(("messages", sent) for sent in messages_blocks(text("I look."), SEARCH, FOUND, text("{}"))),
        *(("messages", sent) for sent in messages_blocks({"type": "a_new_tool", "input": {"a": 1}}, text("{}"))),
        *(("messages", sent) for sent in messages_blocks(text("{}"), SEARCH, FOUND)),
        *(("responses", sent) for sent in responses_items(WEB, responses_wire.message("{}"))),
        *(
            ("responses", sent)
            for sent in responses_items(responses_wire.message("I."), MCP_CALL, responses_wire.message("{}"))
        ),
        *(("responses", sent) for sent in responses_items(COMMENT, responses_wire.message("{}"))),
        *(("responses", sent) for sent in responses_items(item("a_new_item"), responses_wire.message("{}"))),
        *(("gemini", sent) for sent in gemini_parts(gemini_wire.part("I run."), CODE, RAN, gemini_wire.part("{}"))),
        *(
            ("gemini", sent)
            for sent in gemini_parts({"toolCall": {"id": "a"}}, {"toolResponse": {}}, gemini_wire.part("{}"))
        ),
    ],
)
def test_tools_that_the_provider_runs_are_no_calls(wire: str, sent: Any) -> None:
    result = outcome(WIRES[wire], sent)
    assert isinstance(result, Completion), result
    assert (result.text, result.calls) == ("{}", ())


@pytest.mark.parametrize(
    "sent", messages_blocks(SEARCH, FOUND, {"type": "tool_use", "id": "t", "name": "output", "input": {"n": 1}})
)
def test_tools_that_the_provider_runs_are_not_among_the_calls(sent: Any) -> None:
    result = outcome(WIRES["messages"], sent)
    assert isinstance(result, Completion)
    assert [(call.name, call.arguments) for call in result.calls] == [("output", '{"n": 1}')]


@pytest.mark.parametrize(
    ("wire", "sent"),
    [
        *(("messages", sent) for sent in messages_blocks({"type": "hologram"})),
        *(("responses", sent) for sent in responses_items(item("hologram"))),
        *(("gemini", sent) for sent in gemini_parts({"hologram": {"a": 1}})),
        ("chat", openai_wire.whole([{"type": "hologram"}])),
    ],
)
def test_answer_of_unknown_kinds_only_is_an_error(wire: str, sent: Any) -> None:
    result = outcome(WIRES[wire], sent)
    assert isinstance(result, CallError), result
    assert (result.kind, "unknown kinds: hologram" in result.message) == ("bad_response", True)


def _chat_tier(tier: str, *, streamed: bool) -> Any:
    chunk = {"choices": [{"index": 0, "delta": {"content": "{}"}, "finish_reason": "stop"}], "service_tier": tier}
    return events(f"data: {json.dumps(chunk)}\n\n") if streamed else openai_wire.whole("{}", service_tier=tier)


def _responses_tier(tier: str, *, streamed: bool) -> Any:
    whole = responses_wire.whole(responses_wire.message("{}"), service_tier=tier)
    return events(responses_wire.delta("{}"), responses_wire.stop(whole)) if streamed else whole


def _messages_tier(tier: str, *, streamed: bool) -> Any:
    usage = {**anthropic_wire.INPUT, "service_tier": tier}
    if streamed:
        return events(anthropic_wire.start(usage), anthropic_wire.delta("{}"), anthropic_wire.stop())
    return anthropic_wire.whole(text("{}"), usage=usage)


def _gemini_tier(tier: str, *, streamed: bool) -> Any:
    whole = gemini_wire.whole(gemini_wire.part("{}"), usage={**gemini_wire.USAGE, "serviceTier": tier})
    return events(f"data: {json.dumps(whole)}\n\n") if streamed else whole


TIERED = {"chat": _chat_tier, "responses": _responses_tier, "messages": _messages_tier, "gemini": _gemini_tier}


@pytest.mark.parametrize("wire", TIERED)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_the_service_tier_is_kept_unless_it_is_the_ordinary_one(wire: str, *, streamed: bool) -> None:
    for tier, kept in (("flex", "flex"), ("priority", "priority"), ("standard", None), ("default", None)):
        result = outcome(WIRES[wire], TIERED[wire](tier, streamed=streamed))
        assert isinstance(result, Completion), result
        assert result.usage.service_tier == kept


def test_tokens_written_to_the_cache_are_counted_in_each_api() -> None:
    details = {"cached_tokens": 3, "cache_write_tokens": 4}
    chat = openai_wire.whole("{}", usage={"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details})
    counts = {"input_tokens": 9, "output_tokens": 1, "input_tokens_details": details}
    response = responses_wire.whole(responses_wire.message("{}"), usage=counts)
    written = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3}
    usage = {"input_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4, "output_tokens": 1}
    message = anthropic_wire.whole(text("{}"), usage={**usage, "cache_creation": written})

    for wire, body, hour in (("chat", chat, None), ("responses", response, None), ("messages", message, 3)):
        result = outcome(WIRES[wire], body)
        assert isinstance(result, Completion)
        found = result.usage
        assert (found.input_tokens, found.cached_tokens, found.cache_write_tokens) == (9, 3, 4)
        assert found.cache_write_1h_tokens == hour
