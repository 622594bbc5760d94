"""Chat Completions: its body, its answers, and the streams of servers other than OpenAI's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import Declined, FaultKind, FinishReason, ResponseFormat, Sent, Tools, Usage
from pytest_jsbench.engines.providers.chat import CHAT
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, complete, fault, request
from tests.engines.openai_wire import SECRET, USAGE, chunk, configured, usage_chunk, whole
from tests.engines.provider import DONE, Provider, dripping, event, stream_reply
from tests.engines.reading import answer, body_of, read

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

TEXT = '{"city": "Åre"}'
ALL = Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)
NONE = Usage()


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider) -> None:
    expected = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Name a city, as JSON."},
        ],
        "max_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": CITY, "strict": True},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    config = configured(provider)
    assert body_of(config, system="Be brief.", max_tokens=7) == expected
    sampled = body_of(config, system="Be brief.", max_tokens=7, temperature=0, seed=7)
    assert sampled == {**expected, "temperature": 0, "seed": 7}


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (ResponseFormat.TEXT, {}),
        (ResponseFormat.JSON_OBJECT, {"response_format": {"type": "json_object"}}),
        (
            ResponseFormat.TOOL,
            {
                "tools": [{"type": "function", "function": {"name": "output", "parameters": CITY, "strict": True}}],
                "tool_choice": {"type": "function", "function": {"name": "output"}},
            },
        ),
    ],
)
def test_each_response_format_is_sent_in_its_own_way(
    provider: Provider, response_format: ResponseFormat, sent: dict[str, Any]
) -> None:
    provider.stream(chunk("x", finish="stop"), DONE)
    engine = find("openai").build(configured(provider, response_format=response_format))
    tools = Tools(schemas={"output": None}, allowed=("output",), required=True)
    expected = tools if response_format is ResponseFormat.TOOL else None
    assert complete(engine).sent == Sent(response_format=response_format, tools=expected)
    body = provider.asked[0].body
    assert {name: body[name] for name in ("response_format", "tools", "tool_choice") if name in body} == sent
    engine.close()


def test_engine_options_reach_the_server(provider: Provider) -> None:
    options = {
        "strict": False,
        "schema_name": "city",
        "max_tokens_field": "n_predict",
        "extra_body": {"provider": {"require_parameters": True}},
        "extra_headers": {"X-Title": "bench"},
        "stream": False,
    }
    provider.json(whole())
    engine = find("openai").build(configured(provider, options=options))
    complete(engine, request(max_tokens=5))
    (asked,) = provider.asked
    assert asked.body["response_format"]["json_schema"] == {"name": "city", "schema": CITY, "strict": False}
    assert asked.body["n_predict"] == 5
    assert asked.body["provider"] == {"require_parameters": True}
    assert asked.headers["x-title"] == "bench"
    assert "stream" not in asked.body
    assert engine.info.details["strict"] is False
    engine.close()


def bare(**data: Any) -> str:
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", **data})


def two(finish: str | None = None, usage: Any = None) -> tuple[str, str]:
    return chunk('{"city": ', finish=finish, usage=usage), chunk('"Åre"}', finish=finish, usage=usage)


END = chunk(finish="stop")
STREAMS: dict[str, tuple[tuple[str, ...], Usage]] = {
    "no usage, no done": ((*two(), END), NONE),
    "a role first, with empty text": ((chunk("", role="assistant"), *two(), END, usage_chunk(), DONE), ALL),
    "a role first, with none": ((chunk(role="assistant"), *two(), END, usage_chunk(), DONE), ALL),
    "all in the last chunk": ((chunk(TEXT, finish="stop", usage=USAGE, role="assistant"), DONE), ALL),
    "the rest in the last chunk": ((two()[0], chunk(None), chunk('"Åre"}', finish="stop"), DONE), NONE),
    "a sum in each chunk": (
        (*two(usage={**USAGE, "completion_tokens": 1}), chunk(finish="stop", usage=USAGE), DONE),
        ALL,
    ),
    "usage before the end": ((*two(), usage_chunk(), END, DONE), ALL),
    "no choices at first": ((bare(choices=[], prompt_filter_results=[]), *two(), END, DONE), NONE),
    "null for no choices": ((*two(), END, bare(choices=None, usage=USAGE), DONE), ALL),
    "null for no delta": ((*two(), bare(choices=[{"index": 0, "delta": None, "finish_reason": "stop"}]), DONE), NONE),
    "no index": (
        (bare(choices=[{"delta": {"content": TEXT}}]), bare(choices=[{"delta": {}, "finish_reason": "stop"}])),
        NONE,
    ),
    "an empty finish reason until the end": ((*two(finish=""), END, DONE), NONE),
    "comments": ((": OPENROUTER PROCESSING\n\n", *two(), ": ping\n\n", END, DONE), NONE),
    "carriage returns and no spaces": (
        tuple(part.replace("\n", "\r\n").replace("data: ", "data:") for part in (*two(), END, DONE)),
        NONE,
    ),
    "thoughts of their own": ((chunk(reasoning_content="Hm, {"), *two(), END, DONE), NONE),
    "something after the end": ((*two(), END, DONE, chunk("more")), NONE),
    "a second choice": ((bare(choices=[{"index": 1, "delta": {"content": "no"}}]), *two(), END, DONE), NONE),
}


@pytest.mark.parametrize("in_drops", [False, True], ids=["", "a byte at a time"])
@pytest.mark.parametrize(("parts", "usage"), STREAMS.values(), ids=STREAMS)
def test_every_servers_stream_is_the_same_answer(
    provider: Provider, engine: Engine, parts: tuple[str, ...], usage: Usage, *, in_drops: bool
) -> None:
    reply = stream_reply(*parts)
    provider.replies.append(dripping(reply, pause=0) if in_drops else reply)
    answer = complete(engine)
    assert (answer.text, answer.finish_reason, answer.usage) == (TEXT, FinishReason.STOP, usage)
    assert answer.timing is not None
    assert answer.timing.ttft is not None


def test_the_first_token_is_the_first_that_holds_text(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk("", role="assistant"), chunk("a"), chunk("b"), chunk(finish="stop"), DONE, pause=0.5)
    timing = complete(engine).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.gct is not None
    assert 0.49 <= timing.ttft < 0.99
    assert 0.1 <= timing.gct < 0.9
    assert timing.tgt >= 1.99


@pytest.mark.parametrize(
    "pieces",
    [
        [chunk('{"a": 1}'), chunk(finish="stop", usage=USAGE), DONE],
        [chunk('{"a"') + chunk(": 1}") + chunk(finish="stop", usage=USAGE) + DONE],
    ],
    ids=["one token", "one piece"],
)
def test_of_a_stream_that_comes_all_at_once_no_time_is_measured(
    provider: Provider, engine: Engine, pieces: list[str]
) -> None:
    provider.stream(*pieces)
    answer = complete(engine)
    assert answer.text == '{"a": 1}'
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert (answer.timing.gct, answer.timing.tpot_ms(answer.usage.answer_tokens)) == (None, None)


def calling(arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments} if arguments else {"name": "output", "arguments": ""}
    return {"tool_calls": [{"index": 0, "function": function}]}


CALL = {"id": "t", "type": "function", "function": {"name": "output", "arguments": TEXT}}
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "a city"}], "text": "hm"},
    {"type": "text", "text": '{"city": '},
    {"type": [], "text": "no kind of part"},
    '"Åre"}',
]
#: an answer's text, why it ended, and in what it comes
ANSWERS: dict[str, tuple[tuple[Any, ...], FinishReason]] = {
    "a tool's arguments in pieces": (
        (*(chunk(**calling(part)) for part in ("", TEXT[:4], TEXT[4:])), chunk(finish="tool_calls"), DONE),
        FinishReason.STOP,
    ),
    "a tool's arguments": (
        (whole(None, finish="tool_calls", message={"tool_calls": [CALL]}),),
        FinishReason.STOP,
    ),
    "content in parts": ((whole(PARTS),), FinishReason.STOP),
    "content in parts, streamed": ((chunk(PARTS[:2]), chunk(PARTS[2:]), END, DONE), FinishReason.STOP),
    **{
        f"ended by {word}": ((whole(TEXT, finish=word),), reason)
        for word, reason in {
            "stop": FinishReason.STOP,
            "length": FinishReason.LENGTH,
            "content_filter": FinishReason.CONTENT_FILTER,
            "eos_token": FinishReason.UNKNOWN,
            None: FinishReason.UNKNOWN,
        }.items()
    },
    "ended by no word": ((whole(TEXT) | {"choices": [{"message": {"content": TEXT}, "finish_reason": ["stop"]}]},),
                         FinishReason.UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_its_text_and_why_it_ended(content: tuple[Any, ...], reason: FinishReason) -> None:
    completion = answer(CHAT, *content)
    assert (completion.text, completion.finish_reason) == (TEXT, reason)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((whole(None, refusal="I'm sorry,\nI can't."),), "I'm sorry, I can't."),
        ((whole([{"type": "refusal", "refusal": "I would rather not."}]),), "I would rather not."),
        ((chunk(refusal="I "), chunk(refusal="won't"), END, usage_chunk(), DONE), "I won't"),
        ((whole("", finish="content_filter"),), "the provider's content filter let nothing through"),
    ],
)
def test_a_refusal_is_declined_in_the_models_words(content: tuple[Any, ...], message: str) -> None:
    declined = read(CHAT, *content)
    assert isinstance(declined, Declined)
    assert (declined.message, declined.usage) == (message, ALL)
    assert declined.timing is not None


def test_counts_that_are_no_counts_are_unknown() -> None:
    usage = {"prompt_tokens": "20", "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 10**400}}
    assert answer(CHAT, whole(usage=usage)).usage == NONE


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (whole(choices=None), FaultKind.BAD_RESPONSE, "without any choices"),
        (whole(choices=[]), FaultKind.BAD_RESPONSE, "without any choices"),
        ({"error": {"code": 502, "message": "upstream died"}}, FaultKind.SERVER, "upstream died"),
        ({"error": {"code": 429, "message": "slow down"}}, FaultKind.RATE_LIMITED, "slow down"),
        (
            whole(choices=[{"index": 0, "finish_reason": "error", "error": {"code": 503, "message": "busy"}}]),
            FaultKind.SERVER,
            "busy",
        ),
        ({"object": "error", "message": f"gone, {SECRET}", "code": 404}, FaultKind.BAD_REQUEST, "gone, [key]"),
        ([1], FaultKind.BAD_RESPONSE, "a JSON list"),
    ],
)
def test_a_200_that_holds_no_answer_is_a_fault(
    provider: Provider, unstreamed: Engine, body: Any, kind: FaultKind, message: str
) -> None:
    provider.json(body)
    error = fault(unstreamed)
    assert error.kind is kind
    assert message in error.message


ERRORS: dict[str, tuple[str, FaultKind]] = {
    "openai": (event({"error": {"type": "server_error", "message": "gone"}}), FaultKind.SERVER),
    "openrouter": (
        bare(error={"code": 429, "message": "gone"}, choices=[{"index": 0, "delta": {}, "finish_reason": "error"}]),
        FaultKind.RATE_LIMITED,
    ),
    "openrouter, in the choice": (
        bare(choices=[{"index": 0, "delta": {}, "error": {"code": 503, "message": "gone"}}]),
        FaultKind.SERVER,
    ),
    "vllm, flat": (
        event({"object": "error", "message": "gone", "type": "InternalServerError", "param": None, "code": 500}),
        FaultKind.SERVER,
    ),
    "llama.cpp": (event({"error": {"code": 500, "message": "gone", "type": "server_error"}}), FaultKind.SERVER),
    "gemini": (event([{"error": {"code": 503, "message": "gone", "status": "UNAVAILABLE"}}]), FaultKind.SERVER),
    "by its name": (event({"message": "gone", "code": 429}, name="error"), FaultKind.RATE_LIMITED),
    "text": (event({"error": "gone"}), FaultKind.BAD_RESPONSE),
}


@pytest.mark.parametrize("end", ["", DONE], ids=["", "done"])
@pytest.mark.parametrize(("error", "kind"), ERRORS.values(), ids=ERRORS)
def test_every_servers_error_in_mid_stream_is_a_fault(
    provider: Provider, engine: Engine, error: str, kind: FaultKind, end: str
) -> None:
    provider.stream(two()[0], error, end) if end else provider.stream(two()[0], error)
    raised = fault(engine)
    assert (raised.kind, raised.message) == (kind, "gone")


@pytest.mark.parametrize("reset", [False, True], ids=["hanging", "reset"])
def test_a_connection_that_does_not_end_after_the_last_words_costs_no_answer(
    provider: Provider, engine: Engine, *, reset: bool
) -> None:
    reply = stream_reply(*two(), END, DONE, cut=True)
    provider.replies.append(replace(reply, hang=not reset, reset=reset))
    for _ in range(2):
        answer = complete(engine)
        assert answer.text == TEXT
        assert answer.timing is not None
        assert answer.timing.tgt < 5


def test_what_the_servers_own_parser_does_not_read_is_the_engines_fault_with_the_text_that_had_come(
    provider: Provider, engine: Engine
) -> None:
    words = "The model produced output that does not match the expected peg-native format"
    error = event({"error": {"code": 500, "message": words, "type": "server_error"}})
    provider.stream(chunk('"Email'), chunk("Subject"), error)
    provider.stream(error)

    begun, nothing = fault(engine), fault(engine)

    assert (begun.kind, begun.status) == (FaultKind.ENGINE, 500)
    assert re.fullmatch(re.escape(words) + r' \(after 13 characters in \d+\.\d\d s: "EmailSubject\)', begun.message)
    assert (nothing.kind, nothing.message) == (FaultKind.ENGINE, words)
