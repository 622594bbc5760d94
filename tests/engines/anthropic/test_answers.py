from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason, ResponseFormat, Sent, Usage
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.engines.anthropic_wire import SECRET, TEXT, configured, delta, error_body, start, stop, typed, whole
from tests.engines.asking import complete, decline, fault, request
from tests.engines.provider import Provider, event, unreachable_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("anthropic").build(configured(provider))
    yield engine
    engine.close()


@pytest.fixture
def unstreamed(provider: Provider) -> Iterator[Engine]:
    engine = find("anthropic").build(configured(provider, options={"stream": False}))
    yield engine
    engine.close()


def test_a_tools_input_in_one_piece_is_the_answer(provider: Provider, unstreamed: Engine) -> None:
    block = {"type": "tool_use", "id": "t", "name": "output", "input": {"city": "Åre"}}
    provider.json(whole(block, reason="tool_use"))
    assert complete(unstreamed).text == '{"city": "Åre"}'


def test_thinking_is_no_part_of_the_answer_and_starts_no_clock(provider: Provider, engine: Engine) -> None:
    provider.stream(
        start(), delta(kind="thinking_delta", thinking="Hm. "), typed("ping"), delta("{}"), stop(), pause=0.3
    )
    answer = complete(engine)
    assert answer.text == "{}"
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert answer.timing.ttft >= 0.89


def test_what_the_cache_holds_is_counted_as_input(provider: Provider, engine: Engine, unstreamed: Engine) -> None:
    provider.stream(start(), delta("{}"), stop())
    streamed = complete(engine).usage
    assert streamed == Usage(input_tokens=23, output_tokens=9, cached_tokens=11, reasoning_tokens=3)
    provider.replies.clear()
    provider.json(whole(TEXT))
    assert complete(unstreamed).usage == Usage(input_tokens=23, output_tokens=9, cached_tokens=11)


def test_blocks_of_an_unknown_type_hold_no_text(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole({"type": "hologram", "data": "x"}, {"type": "thinking", "thinking": "Hm"}, TEXT))
    assert complete(unstreamed).text == '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("pause_turn", FinishReason.UNKNOWN),
    ],
)
def test_why_an_answer_ended_is_told_in_our_words(
    provider: Provider, engine: Engine, word: str, reason: FinishReason
) -> None:
    provider.stream(start(), delta("{}"), stop(word))
    assert complete(engine).finish_reason is reason


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"type": "refusal", "category": "bio", "explanation": "Not that."}, "Not that."),
        (None, "the model's provider refused to answer"),
    ],
)
def test_a_refusal_is_declined(provider: Provider, engine: Engine, details: Any, message: str) -> None:
    provider.stream(start(), delta('{"a'), stop("refusal", stop_details=details))
    refused = decline(engine)
    assert (refused.reason, refused.message) == (DeclineReason.REFUSAL, message)
    assert refused.usage.output_tokens == 9


@pytest.mark.parametrize("explanation", [5, ["no"], ""])
def test_a_refusal_whose_explanation_is_no_text_is_declined_too(
    provider: Provider, engine: Engine, explanation: Any
) -> None:
    provider.stream(start(), delta('{"a'), stop("refusal", stop_details={"explanation": explanation}))
    assert decline(engine).message == "the model's provider refused to answer"


def test_a_reason_that_is_no_word_is_unknown(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta("{}"), typed("message_delta", delta={"stop_reason": ["end_turn"]}))
    assert complete(engine).finish_reason is FinishReason.UNKNOWN


def test_text_with_which_a_block_begins_is_not_lost(provider: Provider, engine: Engine) -> None:
    block = typed("content_block_start", index=0, content_block={"type": "text", "text": '{"a"'})
    provider.stream(start(), block, delta(": 1}"), stop())
    assert complete(engine).text == '{"a": 1}'


@pytest.mark.parametrize(
    ("given", "pieces", "text"),
    [({}, [""], "{}"), ({}, ["", '{"a"', ": 1}"], '{"a": 1}'), ({"city": "Åre"}, [], '{"city": "Åre"}')],
)
def test_a_tools_input_that_comes_in_no_piece_is_the_answer(
    provider: Provider, engine: Engine, given: Any, pieces: list[str], text: str
) -> None:
    block = {"type": "tool_use", "id": "t", "name": "output", "input": given}
    begun = typed("content_block_start", index=0, content_block=block)
    deltas = [delta(kind="input_json_delta", partial_json=piece) for piece in pieces]
    provider.stream(start(), begun, *deltas, typed("content_block_stop", index=0), stop("tool_use"))
    assert complete(engine).text == text


def test_events_without_names_are_read_by_their_types(provider: Provider, engine: Engine) -> None:
    provider.stream(*[piece.split("\n", 1)[1] for piece in (start(), delta("{}"), stop())])
    assert complete(engine).text == "{}"
    provider.replies.clear()
    provider.stream(event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.SERVER, "Overloaded")


def test_a_stream_that_just_ends_is_no_answer(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta('{"a'))
    error = fault(engine)
    assert error.kind is FaultKind.BAD_RESPONSE
    assert "3 characters of it were dropped" in error.message


def test_an_error_inside_a_stream_is_a_fault(provider: Provider, engine: Engine) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    provider.stream(start(), delta("{"), typed("error", error=error))
    found = fault(engine)
    assert (found.kind, found.message) == (FaultKind.SERVER, "Overloaded")


def test_a_web_page_is_no_answer(provider: Provider, engine: Engine, unstreamed: Engine) -> None:
    provider.raw(b"<html></html>")
    assert fault(engine).kind is FaultKind.BAD_RESPONSE
    assert fault(unstreamed).kind is FaultKind.BAD_RESPONSE


@pytest.mark.parametrize("body", [{"type": "error", "error": {"type": "api_error", "message": "no"}}, [], 3])
def test_a_200_that_holds_no_answer_is_a_fault(provider: Provider, unstreamed: Engine, body: Any) -> None:
    provider.json(body)
    assert fault(unstreamed).kind in (FaultKind.SERVER, FaultKind.BAD_RESPONSE)


def test_a_message_without_an_end_or_content_is_no_answer(provider: Provider, unstreamed: Engine) -> None:
    provider.json({"type": "message"})
    assert fault(unstreamed).kind is FaultKind.BAD_RESPONSE


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error_body(f"invalid x-api-key {SECRET}", "authentication_error"), FaultKind.AUTH),
        (400, error_body("Your credit balance is too low"), FaultKind.QUOTA),
        (404, error_body("model: m", "not_found_error"), FaultKind.BAD_REQUEST),
        (500, error_body("Internal server error", "api_error"), FaultKind.SERVER),
        (529, error_body("Overloaded", "overloaded_error"), FaultKind.SERVER),
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
    provider.json(error_body("slow", "rate_limit_error"), status=429, headers={"retry-after-ms": "1500"})
    error = fault(engine)
    assert (error.kind, error.retry_after) == (FaultKind.RATE_LIMITED, 1.5)


def test_a_rejected_schema_is_declined_and_says_what_was_sent(provider: Provider, engine: Engine) -> None:
    provider.json(error_body("output_config.format.schema: 'oneOf' is not supported"), status=400)
    declined = decline(engine)
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert declined.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA)


def test_a_connection_cut_in_the_middle_is_a_fault_of_the_connection(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta("{"), pause=0.02, reset=True)
    assert fault(engine).kind is FaultKind.CONNECTION


def test_a_port_at_which_nobody_listens_is_a_fault_of_the_connection() -> None:
    config = EngineConfig(name="anthropic", model="m", base_url=unreachable_url(), api_key=SECRET)
    engine = find("anthropic").build(config)
    assert fault(engine).kind is FaultKind.CONNECTION
    engine.close()


@pytest.mark.parametrize("drop", [typed("ping"), delta(" ")], ids=["pings", "tokens"])
def test_a_dripping_stream_ends_at_the_deadline(provider: Provider, engine: Engine, drop: str) -> None:
    provider.stream(start(), *[drop] * 400, pause=0.05)
    started = time.perf_counter()
    assert fault(engine, request(timeout=0.4)).kind is FaultKind.TIMEOUT
    assert 0.4 <= time.perf_counter() - started < 15
