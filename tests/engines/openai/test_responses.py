from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.registry import find
from tests.engines.asking import complete, decline, fault
from tests.engines.openai_wire import SECRET, error_body
from tests.engines.provider import DONE, Provider, event
from tests.engines.responses_wire import (
    REASONING,
    called,
    configured,
    delta,
    failed,
    incomplete,
    message,
    start,
    stop,
    typed,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

ALL = Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)


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


@pytest.fixture(params=["streamed", "in one piece"])
def answering(request: pytest.FixtureRequest, provider: Provider, engine: Engine, unstreamed: Engine) -> Any:
    """Put in a response, streamed by its last event only or in one piece, and give the engine that reads it."""

    def put(response: dict[str, Any]) -> Engine:
        if request.param == "streamed":
            provider.stream(start(), stop(response))
            return engine
        provider.json(response)
        return unstreamed

    return put


def test_the_pieces_of_a_stream_are_put_together(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta('{"city": '), delta(""), delta('"Åre"}'), stop())
    answer = complete(engine)
    assert answer.text == '{"city": "Åre"}'
    assert answer.finish_reason is FinishReason.STOP
    assert answer.usage == ALL


def test_the_first_token_is_the_first_that_holds_text(provider: Provider, engine: Engine) -> None:
    thought = delta("Hm.", "reasoning_text") + delta("Hm.", "reasoning_summary_text")
    item = typed("response.output_item.added", output_index=0, item=message(None))
    provider.stream(start() + thought + item, delta(""), delta("a"), delta("b"), stop(), pause=0.5)
    answer = complete(engine)
    assert answer.text == "ab"
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert answer.timing.gct is not None
    assert 0.99 <= answer.timing.ttft < 1.49
    assert 0.1 <= answer.timing.gct < 0.9
    assert answer.timing.tgt >= 1.99


def test_an_answer_in_one_piece_is_all_text_of_all_messages(answering: Any) -> None:
    answer = complete(answering(whole(REASONING, message('{"a"'), message(": 1}"))))
    assert answer.text == '{"a": 1}'
    assert answer.usage == ALL


def test_an_answer_in_one_piece_has_no_first_token(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole())
    timing = complete(unstreamed).timing
    assert timing is not None
    assert timing.ttft is None


def test_a_server_that_does_not_stream_is_read_all_the_same(provider: Provider, engine: Engine) -> None:
    provider.json(whole())
    assert complete(engine).text == '{"city": "Oslo"}'


def test_a_tools_arguments_are_the_answer(provider: Provider) -> None:
    kind = "function_call_arguments"
    provider.stream(start(), delta('{"city"', kind), delta(': "Rom"}', kind), stop(whole(called("not read twice"))))
    engine = find("openai").build(configured(provider, response_format=ResponseFormat.TOOL))
    assert complete(engine).text == '{"city": "Rom"}'
    engine.close()


def test_a_tools_arguments_in_one_piece_are_the_answer(answering: Any) -> None:
    assert complete(answering(whole(REASONING, called('{"city": "Rom"}')))).text == '{"city": "Rom"}'


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("max_output_tokens", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("steered", FinishReason.UNKNOWN),
    ],
)
def test_why_an_answer_ended_is_told_in_our_words(answering: Any, word: str, reason: FinishReason) -> None:
    answer = complete(answering(incomplete(word, message('{"ci'))))
    assert answer.finish_reason is reason
    assert answer.text == '{"ci'
    assert answer.usage == ALL


def test_thinking_up_to_the_limit_is_an_answer_without_text(answering: Any) -> None:
    answer = complete(answering(incomplete("max_output_tokens", REASONING)))
    assert (answer.text, answer.finish_reason) == ("", FinishReason.LENGTH)


def test_a_filter_that_lets_nothing_through_is_a_refusal(answering: Any) -> None:
    refused = decline(answering(incomplete("content_filter", REASONING)))
    assert refused.reason is DeclineReason.REFUSAL
    assert refused.usage == ALL


def test_a_refusal_is_declined_with_the_models_words(answering: Any) -> None:
    refused = decline(answering(whole(message(None, refusal="I'm sorry,\nI can't."))))
    assert (refused.reason, refused.message) == (DeclineReason.REFUSAL, "I'm sorry, I can't.")
    assert refused.usage == ALL


def test_a_refusal_may_come_in_pieces(provider: Provider, engine: Engine) -> None:
    again = whole(message(None, refusal="I won't"))
    provider.stream(start(), delta("I ", "refusal"), delta("won't", "refusal"), stop(again))
    assert decline(engine).message == "I won't"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", FaultKind.SERVER),
        ("rate_limit_exceeded", FaultKind.RATE_LIMITED),
        ("invalid_image", FaultKind.BAD_RESPONSE),
    ],
)
def test_a_response_that_failed_is_a_fault(answering: Any, code: str, kind: FaultKind) -> None:
    error = fault(answering(failed(code, f"it broke, {SECRET}")))
    assert (error.kind, error.message) == (kind, "it broke, [key]")


def test_a_response_that_failed_for_no_reason_is_the_servers_fault(answering: Any) -> None:
    error = fault(answering({**failed("x", "y"), "error": None}))
    assert (error.kind, error.message) == (FaultKind.SERVER, "the response failed, and the server did not say why")


def test_a_prompt_that_breaks_the_providers_rules_is_a_refusal(answering: Any) -> None:
    assert decline(answering(failed("invalid_prompt", "flagged"))).reason is DeclineReason.REFUSAL


@pytest.mark.parametrize(
    "data",
    [
        {"type": "error", "code": "server_error", "message": "gone", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "gone"}},
        {"error": {"code": 502, "message": "gone"}},
    ],
    ids=["documented", "as sent", "without a type"],
)
def test_an_error_inside_a_stream_is_a_fault(provider: Provider, engine: Engine, data: Any) -> None:
    provider.stream(start(), delta('{"a'), event(data, name="error"))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.SERVER, "gone")


@pytest.mark.parametrize("end", ["", DONE], ids=["nothing", "done"])
def test_a_stream_that_just_ends_is_no_answer(provider: Provider, engine: Engine, end: str) -> None:
    provider.stream(start(), delta('{"city": "Os') + end)
    error = fault(engine)
    assert error.kind is FaultKind.BAD_RESPONSE
    assert "12 characters of it were dropped" in error.message


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_a_response_that_has_not_ended_is_no_answer(provider: Provider, unstreamed: Engine, status: str) -> None:
    provider.json(whole(status=status))
    error = fault(unstreamed)
    assert error.kind is FaultKind.BAD_RESPONSE
    assert f"(status {status})" in error.message


@pytest.mark.parametrize("body", [{}, {"status": "completed", "output": 5, "usage": 5}, {"choices": []}, [1], 5])
def test_a_200_of_another_shape_is_no_response(provider: Provider, unstreamed: Engine, body: Any) -> None:
    provider.json(body)
    error = fault(unstreamed)
    assert error.kind is FaultKind.BAD_RESPONSE


def test_a_server_without_a_status_is_taken_at_its_word(provider: Provider, unstreamed: Engine) -> None:
    provider.json({"output": [message("{}")]})
    answer = complete(unstreamed)
    assert (answer.text, answer.finish_reason, answer.usage) == ("{}", FinishReason.UNKNOWN, Usage())


def test_a_rejected_schema_is_declined(provider: Provider, engine: Engine) -> None:
    words = "Invalid schema for response_format 'output'"
    provider.json(error_body(words, param="text.format.schema", code="invalid_json_schema"), status=400)
    assert decline(engine).reason is DeclineReason.UNSUPPORTED_SCHEMA


def test_a_server_without_this_api_is_a_bad_request(provider: Provider, engine: Engine) -> None:
    provider.json({"detail": "Not Found"}, status=404)
    error = fault(engine)
    assert (error.kind, error.status, error.message) == (FaultKind.BAD_REQUEST, 404, "Not Found")
