from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason, Usage
from pytest_jsbench.engines.registry import find
from tests.engines.asking import complete, decline, fault
from tests.engines.gemini_wire import (
    SECRET,
    TEXT,
    USAGE,
    blocked,
    chunk,
    configured,
    delta,
    error_body,
    part,
    quota,
    stop,
    whole,
)
from tests.engines.provider import Provider, event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("gemini").build(configured(provider))
    yield engine
    engine.close()


@pytest.fixture
def unstreamed(provider: Provider) -> Iterator[Engine]:
    engine = find("gemini").build(configured(provider, options={"stream": False}))
    yield engine
    engine.close()


def test_thoughts_are_no_part_of_the_answer_and_their_tokens_are_apart(
    provider: Provider, engine: Engine, unstreamed: Engine
) -> None:
    thought = part("Hm. A city?", thought=True)
    provider.stream(chunk(thought), delta('{"city": '), delta('"Oslo"}'), stop())
    streamed = complete(engine)
    provider.replies.clear()
    provider.json(whole(thought, TEXT))
    for answer in (streamed, complete(unstreamed)):
        assert answer.text == '{"city": "Oslo"}'
        assert answer.reasoning == "Hm. A city?"
        assert answer.usage == Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)


def test_a_thought_starts_no_clock(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk(part("Hm.", thought=True)), delta("{}"), stop(), pause=0.1)
    timing = complete(engine).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.ttft >= 0.1


def test_an_answer_without_thoughts_has_no_reasoning_tokens(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole(TEXT, usage=USAGE))
    assert complete(unstreamed).usage == Usage(input_tokens=20, output_tokens=5, cached_tokens=16)


def test_a_limit_that_thoughts_alone_reach_is_an_empty_answer_with_its_tokens(
    provider: Provider, unstreamed: Engine
) -> None:
    spent = {"promptTokenCount": 20, "thoughtsTokenCount": 64, "totalTokenCount": 84}
    provider.json(whole(finish="MAX_TOKENS", usage=spent))
    answer = complete(unstreamed)
    assert (answer.text, answer.finish_reason) == ("", FinishReason.LENGTH)
    assert answer.usage == Usage(input_tokens=20, output_tokens=64, reasoning_tokens=64)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", FinishReason.STOP),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.REJECTED),
        ("OTHER", FinishReason.UNKNOWN),
        (["STOP"], FinishReason.UNKNOWN),
    ],
)
def test_why_an_answer_ended_is_told_in_our_words(
    provider: Provider, engine: Engine, word: Any, reason: FinishReason
) -> None:
    provider.stream(delta("{"), stop(word))
    answer = complete(engine)
    assert (answer.text, answer.finish_reason) == ("{", reason)


def test_every_reason_that_the_sdk_knows_is_known() -> None:
    from google.genai.types import FinishReason as Known

    from pytest_jsbench.engines.providers.gemini import FINISH

    unknown = {reason.value for reason in Known} - FINISH.keys()
    assert unknown <= {
        "FINISH_REASON_UNSPECIFIED", "OTHER", "NO_IMAGE", "IMAGE_OTHER", "MISSING_THOUGHT_SIGNATURE"
    }  # fmt: skip


def test_a_malformed_call_of_the_tool_is_the_models_wrong_answer(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print(default_api"))
    answer = complete(unstreamed)
    assert (answer.text, answer.finish_reason) == ("", FinishReason.REJECTED)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (blocked(), "the provider blocked the prompt: SAFETY"),
        (blocked("OTHER", blockReasonMessage="Not that."), "Not that."),
        (whole(finish="PROHIBITED_CONTENT"), "the provider let nothing through: PROHIBITED_CONTENT"),
        (whole(finish="SAFETY", finishMessage="No."), "No."),
    ],
)
def test_what_is_blocked_is_a_refusal(
    provider: Provider, engine: Engine, unstreamed: Engine, body: Any, message: str
) -> None:
    provider.stream(event(body))
    streamed = decline(engine)
    provider.replies.clear()
    provider.json(body)
    for refused in (streamed, decline(unstreamed)):
        assert (refused.reason, refused.message) == (DeclineReason.REFUSAL, message)
        assert refused.usage.input_tokens == 20


def test_a_call_without_arguments_is_an_empty_object(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole({"functionCall": {"name": "output"}}))
    assert complete(unstreamed).text == "{}"


def test_a_second_candidate_is_not_the_answer(provider: Provider, unstreamed: Engine) -> None:
    body = whole(TEXT)
    provider.json({**body, "candidates": [*body["candidates"], *whole(part("other"))["candidates"]]})
    assert complete(unstreamed).text == '{"city": "Oslo"}'


def test_a_stream_that_just_ends_is_no_answer(provider: Provider, engine: Engine) -> None:
    provider.stream(delta('{"a'))
    error = fault(engine)
    assert error.kind is FaultKind.BAD_RESPONSE
    assert "3 characters of it were dropped" in error.message


def test_an_error_inside_a_stream_is_a_fault(provider: Provider, engine: Engine) -> None:
    provider.stream(delta("{"), event(error_body("The model is overloaded.", "UNAVAILABLE", code=503)))
    found = fault(engine)
    assert (found.kind, found.status, found.message) == (FaultKind.SERVER, 503, "The model is overloaded.")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error_body(f"API key not valid. {SECRET}"), FaultKind.AUTH),
        (error_body("API key expired.", "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}), FaultKind.AUTH),
        (error_body("The caller lacks permission", "PERMISSION_DENIED", code=403), FaultKind.AUTH),
        (error_body("models/m is not found for API version v1", "NOT_FOUND", code=404), FaultKind.BAD_REQUEST),
        (error_body("An internal error has occurred", "INTERNAL", code=500), FaultKind.SERVER),
        (error_body("The model is overloaded.", "UNAVAILABLE", code=503), FaultKind.SERVER),
        (error_body("Deadline expired", "DEADLINE_EXCEEDED", code=504), FaultKind.TIMEOUT),
        ([error_body("in a list", "INTERNAL", code=500)], FaultKind.SERVER),
    ],
)
def test_an_error_response_is_a_fault_without_the_key(
    provider: Provider, engine: Engine, body: Any, kind: FaultKind
) -> None:
    status = (body[0] if isinstance(body, list) else body)["error"]["code"]
    provider.json(body, status=status)
    error = fault(engine)
    assert (error.kind, error.status) == (kind, status)
    assert SECRET not in f"{error} {error!r} {error.__cause__}"
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("period", "kind", "wait"), [("Minute", FaultKind.RATE_LIMITED, 36.5), ("Day", FaultKind.QUOTA, 36.5)]
)
def test_a_limit_of_a_minute_is_waited_for_and_the_quota_of_a_day_is_not(
    provider: Provider, engine: Engine, period: str, kind: FaultKind, wait: float
) -> None:
    provider.json(quota(period, "36.5s"), status=429)
    error = fault(engine)
    assert (error.kind, error.status, error.retry_after) == (kind, 429, wait)


def test_a_rejected_schema_is_declined(provider: Provider, engine: Engine) -> None:
    words = "The specified schema produces a constraint that has too many states for serving."
    provider.json(error_body(words), status=400)
    declined = decline(engine)
    assert (declined.reason, declined.message) == (DeclineReason.UNSUPPORTED_SCHEMA, words)
