from __future__ import annotations

import gzip
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason, ResponseFormat, Sent, Usage
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.engines.asking import complete, decline, fault, request
from tests.engines.openai_wire import SECRET, USAGE, chunk, configured, error_body, usage_chunk, whole
from tests.engines.provider import DONE, Provider, Reply, event, stream_reply, unreachable_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("openai").build(configured(provider))
    yield engine
    engine.close()


@pytest.fixture
def unstreamed(provider: Provider) -> Iterator[Engine]:
    engine = find("openai").build(configured(provider, options={"stream": False}))
    yield engine
    engine.close()


def test_the_pieces_of_a_stream_are_put_together(provider: Provider, engine: Engine) -> None:
    provider.stream(
        chunk("", role="assistant"),
        chunk('{"city": '),
        chunk(None),
        chunk('"Åre"}'),
        chunk(finish="stop"),
        usage_chunk(),
        DONE,
    )
    answer = complete(engine)
    assert answer.text == '{"city": "Åre"}'
    assert answer.finish_reason is FinishReason.STOP
    assert answer.usage == Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)


def test_content_in_the_chunk_that_ends_the_answer_is_not_lost(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk('{"a"'), chunk(": 1}", finish="stop", usage=USAGE), DONE)
    answer = complete(engine)
    assert answer.text == '{"a": 1}'
    assert answer.usage.output_tokens == 9


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


def test_a_stream_without_usage_and_without_done_is_an_answer(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk("{}"), chunk(finish="stop"))
    answer = complete(engine)
    assert answer.text == "{}"
    assert answer.usage == Usage()


def test_a_tools_arguments_are_the_answer(provider: Provider) -> None:
    def call(arguments: str) -> list[dict[str, Any]]:
        return [{"index": 0, "function": {"arguments": arguments}}]

    named = [{"index": 0, "id": "t", "type": "function", "function": {"name": "output", "arguments": ""}}]
    provider.stream(
        chunk(tool_calls=named), chunk(tool_calls=call('{"city"')), chunk(tool_calls=call(': "Rom"}')),
        chunk(finish="tool_calls"), DONE, pause=0.05,
    )  # fmt: skip
    engine = find("openai").build(configured(provider, response_format=ResponseFormat.TOOL))
    answer = complete(engine)
    assert answer.text == '{"city": "Rom"}'
    assert answer.finish_reason is FinishReason.STOP
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert answer.timing.ttft >= 0.04
    engine.close()


def test_a_tools_arguments_in_one_piece_are_the_answer(provider: Provider, unstreamed: Engine) -> None:
    call = {"id": "t", "type": "function", "function": {"name": "output", "arguments": '{"city": "Rom"}'}}
    provider.json(whole(None, finish="tool_calls", message={"tool_calls": [call]}))
    assert complete(unstreamed).text == '{"city": "Rom"}'


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "a city"}], "text": "hm"},
    {"type": "text", "text": '{"city": '},
    {"type": [], "text": "no kind of part"},
    '"Oslo"}',
]


def test_the_texts_of_content_in_parts_are_the_answer(provider: Provider, engine: Engine, unstreamed: Engine) -> None:
    provider.json(whole(PARTS))
    assert complete(unstreamed).text == '{"city": "Oslo"}'
    provider.stream(chunk(PARTS[:2]), chunk(PARTS[2:]), chunk(finish="stop"), DONE)
    assert complete(engine).text == '{"city": "Oslo"}'


def test_a_refusal_may_be_a_part_of_the_content(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole([{"type": "refusal", "refusal": "I would rather not."}]))
    assert decline(unstreamed).message == "I would rather not."


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("eos_token", FinishReason.UNKNOWN),
        (None, FinishReason.UNKNOWN),
    ],
)
def test_why_an_answer_ended_is_told_in_our_words(
    provider: Provider, unstreamed: Engine, word: str | None, reason: FinishReason
) -> None:
    provider.json(whole(finish=word))
    answer = complete(unstreamed)
    assert answer.finish_reason is reason
    assert answer.text == '{"city": "Oslo"}'
    assert answer.timing is not None
    assert answer.timing.ttft is None


def test_a_refusal_is_declined_with_the_models_words(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole(None, refusal="I'm sorry,\nI can't."))
    refused = decline(unstreamed)
    assert refused.reason is DeclineReason.REFUSAL
    assert refused.message == "I'm sorry, I can't."
    assert refused.usage.output_tokens == 9


def test_a_refusal_may_come_in_a_stream(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk(refusal="I "), chunk(refusal="won't"), chunk(finish="stop"), usage_chunk(), DONE)
    refused = decline(engine)
    assert (refused.reason, refused.message) == (DeclineReason.REFUSAL, "I won't")
    assert refused.timing is not None
    assert refused.usage.input_tokens == 20


def test_a_filter_that_lets_nothing_through_is_a_refusal(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole("", finish="content_filter"))
    assert decline(unstreamed).reason is DeclineReason.REFUSAL


def test_a_server_that_does_not_stream_is_read_all_the_same(provider: Provider, engine: Engine) -> None:
    provider.json(whole())
    answer = complete(engine)
    assert answer.text == '{"city": "Oslo"}'
    assert answer.timing is not None
    assert answer.timing.ttft is None


def test_counts_that_are_no_counts_are_unknown(provider: Provider, unstreamed: Engine) -> None:
    provider.json(
        whole(
            usage={"prompt_tokens": "20", "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 10**400}}
        )
    )
    assert complete(unstreamed).usage == Usage()


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
        ([1], FaultKind.BAD_RESPONSE, "a JSON list"),
        ({}, FaultKind.BAD_RESPONSE, "without any choices"),
    ],
)
def test_a_200_that_holds_no_answer_is_a_fault(
    provider: Provider, unstreamed: Engine, body: Any, kind: FaultKind, message: str
) -> None:
    provider.json(body)
    error = fault(unstreamed)
    assert error.kind is kind
    assert message in error.message


def test_an_error_inside_a_stream_is_a_fault(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk('{"a'), event({"error": {"code": 502, "message": "provider died"}}))
    error = fault(engine)
    assert error.kind is FaultKind.SERVER
    assert error.message == "provider died"


def test_an_event_that_is_named_an_error_is_a_fault_in_the_servers_words(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk('{"a'), event({"message": "slow down", "code": 429}, name="error"))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.RATE_LIMITED, "slow down")


@pytest.mark.parametrize(
    "said", [[{"error": {"code": 503, "message": "busy"}}], {"object": "error", "message": "busy", "code": 503}]
)
def test_errors_of_gemini_and_vllm_inside_a_stream_are_faults(provider: Provider, engine: Engine, said: Any) -> None:
    provider.stream(event(said))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.SERVER, "busy")


def test_a_character_may_be_cut_in_the_middle(provider: Provider, engine: Engine) -> None:
    whole_stream = event('{"choices": [{"delta": {"content": "Åre 😀"}, "finish_reason": "stop"}]}') + DONE
    data = whole_stream.replace("\n", "\r\n").encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    provider.replies.append(Reply(pieces=(head, *(data[place : place + 1] for place in range(len(data))))))
    assert complete(engine).text == "Åre 😀"


def test_a_compressed_stream_is_unpacked(provider: Provider, engine: Engine) -> None:
    body = gzip.compress((chunk('{"a": 1}') + chunk(finish="stop") + DONE).encode())
    provider.raw(body, kind="text/event-stream", headers={"content-encoding": "gzip"})
    assert complete(engine).text == '{"a": 1}'


def test_a_reason_that_is_no_word_is_unknown(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole(finish=["stop"]))  # type: ignore[arg-type]
    assert complete(unstreamed).finish_reason is FinishReason.UNKNOWN


def test_a_server_that_says_nothing_more_after_the_last_words_is_not_waited_for(
    provider: Provider, engine: Engine
) -> None:
    reply = stream_reply(chunk("{}", finish="stop"), DONE, cut=True)
    provider.replies.append(replace(reply, hang=True))
    started = time.perf_counter()
    assert complete(engine, request(timeout=30)).text == "{}"
    assert time.perf_counter() - started < 5


def test_a_stream_that_just_ends_is_no_answer(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk('{"city": "Os'))
    error = fault(engine)
    assert error.kind is FaultKind.BAD_RESPONSE
    assert "12 characters of it were dropped" in error.message


def test_a_web_page_is_no_answer(provider: Provider, engine: Engine, unstreamed: Engine) -> None:
    provider.raw(b"<html><title>Welcome</title></html>")
    for either in (engine, unstreamed):
        error = fault(either)
        assert error.kind is FaultKind.BAD_RESPONSE
        assert "web page" in error.message


@pytest.mark.parametrize("streaming", [True, False])
def test_garbled_json_is_no_answer(provider: Provider, engine: Engine, unstreamed: Engine, *, streaming: bool) -> None:
    if streaming:
        provider.stream(event('{"choices": ['))
    else:
        provider.raw(b'{"choices": [', kind="application/json")
    assert fault(engine if streaming else unstreamed).kind is FaultKind.BAD_RESPONSE


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error_body(f"Incorrect API key provided: {SECRET}.", code="invalid_api_key"), FaultKind.AUTH),
        (404, error_body("The model does not exist", code="model_not_found"), FaultKind.BAD_REQUEST),
        (429, error_body("quota", code="insufficient_quota", type="insufficient_quota"), FaultKind.QUOTA),
        (500, error_body(f"oops, {SECRET}", type="server_error"), FaultKind.SERVER),
        (529, error_body("overloaded"), FaultKind.SERVER),
    ],
)
def test_an_error_response_is_a_fault_without_the_key(
    provider: Provider, engine: Engine, status: int, body: Any, kind: FaultKind
) -> None:
    provider.json(body, status=status)
    error = fault(engine)
    assert (error.kind, error.status) == (kind, status)
    assert SECRET not in f"{error} {error!r} {error.__cause__}"
    assert len(provider.asked) == 1


def test_how_long_to_wait_is_passed_on(provider: Provider, engine: Engine) -> None:
    provider.json(error_body("slow", type="rate_limit"), status=429, headers={"retry-after": "3"})
    error = fault(engine)
    assert (error.kind, error.retry_after) == (FaultKind.RATE_LIMITED, 3.0)


def test_a_rejected_schema_is_declined_and_says_what_was_sent(provider: Provider, engine: Engine) -> None:
    provider.json(error_body("Invalid schema for response_format", param="response_format"), status=400)
    declined = decline(engine)
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert declined.message == "Invalid schema for response_format"
    assert declined.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA)


def test_a_connection_cut_in_the_middle_is_a_fault_of_the_connection(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk('{"a'), chunk("b"), pause=0.02, reset=True)
    error = fault(engine)
    assert error.kind is FaultKind.CONNECTION
    assert provider.url in error.message


def test_a_port_at_which_nobody_listens_is_a_fault_of_the_connection() -> None:
    url = unreachable_url()
    config = EngineConfig(name="openai", model="m", base_url=url, api_key=SECRET)
    engine = find("openai").build(config)
    error = fault(engine)
    assert error.kind is FaultKind.CONNECTION
    assert error.message.startswith(f"{url}: ")
    engine.close()


@pytest.mark.parametrize("drop", [": still here\n\n", chunk(" ")], ids=["comments", "tokens"])
def test_a_dripping_stream_ends_at_the_deadline(provider: Provider, engine: Engine, drop: str) -> None:
    provider.stream(*[drop] * 400, pause=0.05)
    started = time.perf_counter()
    error = fault(engine, request(timeout=0.4))
    assert error.kind is FaultKind.TIMEOUT
    assert 0.4 <= time.perf_counter() - started < 15


def test_a_silent_server_ends_at_the_deadline(provider: Provider, unstreamed: Engine) -> None:
    provider.raw(b"{}", kind="application/json", silence=20)
    started = time.perf_counter()
    error = fault(unstreamed, request(timeout=0.4))
    assert (error.kind, error.message) == (FaultKind.TIMEOUT, "no complete answer within 0.4 s")
    assert time.perf_counter() - started < 15


def test_an_engine_works_on_after_a_call_was_cut_off(provider: Provider, engine: Engine) -> None:
    provider.stream(*[chunk(" ")] * 100, pause=0.05)
    provider.stream(chunk("{}", finish="stop"), DONE)
    fault(engine, request(timeout=0.2))
    assert complete(engine).text == "{}"


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
