"""What providers answer in a way of their own, and on whose account it is booked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import (
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.engines import secrets
from pytest_jsbench.engines.registry import find
from pytest_jsbench.verdicts import FailureType, Judge, decide
from tests.engines import anthropic_wire, openai_wire
from tests.engines.asking import CITY, complete, fault, fault_of, request
from tests.engines.provider import Provider, event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.core.generations import Generation

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

RIGHT = '{"city": "Oslo", "old": true}'
WRONG = '{"city": "Oslo", "old": true, "town": "Oslo"}'


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def groq(message: str, code: str, **more: Any) -> dict[str, Any]:
    """The body of Groq's 400."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


NOT_MATCHING = "Generated JSON does not match the expected schema. Please adjust your prompt."
NO_JSON = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."
NO_CALL = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."


def asked_of(provider: Provider, wire: Any, **changes: Any) -> Generation:
    config = wire.configured(provider, **changes)
    engine = find(config.name).build(config)
    try:
        return engine.generate(request())
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("message", "code", "text", "failure"),
    [
        (NOT_MATCHING, "json_validate_failed", WRONG, FailureType.HALLUCINATION),
        (NO_JSON, "json_validate_failed", '{"city": "Oslo"', FailureType.SYNTAX_ERROR),
        (NO_CALL, "tool_use_failed", f"<function=output>{WRONG}</function>", FailureType.SYNTAX_ERROR),
        (NOT_MATCHING, "json_validate_failed", '{"city": 7}', FailureType.SCHEMA_VIOLATION),
        (NOT_MATCHING, "json_validate_failed", RIGHT, None),
    ],
)
def test_what_groq_finds_wrong_is_judged_as_the_models_answer(
    provider: Provider, judge: Judge, message: str, code: str, text: str, failure: FailureType | None
) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 9}
    provider.json(groq(message, code, failed_generation=text, usage=usage), status=400)
    answer = asked_of(provider, openai_wire)
    assert isinstance(answer, Completion)
    assert (answer.text, answer.finish_reason) == (text, FinishReason.REJECTED)
    assert answer.usage == Usage(input_tokens=20, output_tokens=9)
    assert answer.timing is not None
    assert answer.timing.tgt > 0
    assert answer.timing.ttft is None
    assert decide(answer, CITY, judge).failure_type is failure


def test_what_groq_finds_wrong_in_mid_stream_is_judged_as_the_models_answer(provider: Provider) -> None:
    error = groq(NO_CALL, "tool_use_failed", failed_generation=WRONG, status_code=400)
    provider.stream(openai_wire.chunk("", role="assistant"), event(error, name="error"))
    answer = asked_of(provider, openai_wire)
    assert isinstance(answer, Completion)
    assert (answer.text, answer.finish_reason, answer.usage) == (WRONG, FinishReason.REJECTED, Usage())


@pytest.mark.parametrize("more", [{}, {"failed_generation": ""}, {"failed_generation": None}])
def test_what_groq_finds_wrong_and_does_not_show_is_the_models_failure(
    provider: Provider, judge: Judge, more: dict[str, Any]
) -> None:
    provider.json(groq(NO_JSON, "json_validate_failed", **more), status=400)
    answer = asked_of(provider, openai_wire)
    verdict = decide(answer, CITY, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.SYNTAX_ERROR, "rejected")


def test_an_answer_that_groq_cut_off_at_the_limit_is_truncated(provider: Provider, judge: Judge) -> None:
    said = "max completion tokens reached before generating a valid document"
    provider.json(groq(NO_JSON, "json_validate_failed", failed_generation=said), status=400)
    answer = asked_of(provider, openai_wire)
    assert decide(answer, CITY, judge).failure_type is FailureType.TRUNCATED


NO_ROUTE = [
    "output_config.format: Extra inputs are not permitted",
    "output_config: Extra inputs are not permitted",
    "The model returned the following errors: output_config.format: Extra inputs are not permitted",
    "Malformed input request: #: extraneous key [outputConfig] is not permitted, please reformat your input.",
    "This model doesn't support the outputConfig.textFormat field.",
]


@pytest.mark.parametrize("words", NO_ROUTE)
def test_a_route_without_structured_output_is_named_and_is_no_fault_of_the_schema(
    provider: Provider, words: str
) -> None:
    provider.json(anthropic_wire.error_body(words), status=400)
    config = anthropic_wire.configured(provider, model="claude-on-bedrock")
    error = fault_of(config)
    assert error.kind is FaultKind.BAD_REQUEST
    named = f"(claude-on-bedrock at {provider.url} has no json_schema: another --jsbench-response-format)"
    assert error.message == f"{words} {named}"


def test_where_no_structure_was_asked_for_none_is_named(provider: Provider) -> None:
    provider.json(openai_wire.error_body("This model does not support tools."), status=400)
    engine = find("openai").build(openai_wire.configured(provider, response_format=ResponseFormat.TEXT))
    assert fault(engine).message == "This model does not support tools."
    engine.close()


def test_a_keyword_that_the_route_does_not_take_is_the_schemas(provider: Provider) -> None:
    words = "output_config.format.schema.properties.city.minLength: Extra inputs are not permitted"
    provider.json(anthropic_wire.error_body(words), status=400)
    declined = asked_of(provider, anthropic_wire)
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.message) == (DeclineReason.UNSUPPORTED_SCHEMA, words)


def test_a_refused_parameter_is_never_left_out_silently(provider: Provider) -> None:
    provider.json(anthropic_wire.error_body("`temperature` is deprecated for this model."), status=400)
    fault_of(anthropic_wire.configured(provider), request(temperature=0))
    assert [asked.body["temperature"] for asked in provider.asked] == [0]


def test_a_secret_in_a_failed_generation_is_no_answer_of_its_own(provider: Provider) -> None:
    provider.json(groq(NOT_MATCHING, "json_validate_failed", failed_generation=openai_wire.SECRET), status=400)
    engine = secrets.build(find("openai"), openai_wire.configured(provider))
    assert openai_wire.SECRET not in complete(engine).text
    engine.close()
