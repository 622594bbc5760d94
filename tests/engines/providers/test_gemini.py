"""Gemini's `generateContent`: its body and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Sent,
    Tools,
    Usage,
)
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.gemini import FINISH, GENERATE_CONTENT
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, completion_of, fault
from tests.engines.gemini_wire import (
    SECRET,
    TEXT,
    USAGE,
    blocked,
    chunk,
    configured,
    delta,
    part,
    quota,
    stop,
    whole,
)
from tests.engines.provider import Provider, event
from tests.engines.reading import answer, body_of, read

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider) -> None:
    assert body_of(configured(provider), system="Be brief.", max_tokens=7, seed=7, temperature=0) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Name a city, as JSON."}]}],
        "generationConfig": {
            "maxOutputTokens": 7,
            "temperature": 0,
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": CITY,
        },
    }


def test_a_tool_is_the_only_choice_and_its_arguments_are_the_answer(provider: Provider) -> None:
    call = {"functionCall": {"name": "city", "args": {"city": "Åre", "n": 1}}, "thoughtSignature": "c2ln"}
    provider.stream(chunk(call), stop())
    config = configured(provider, response_format=ResponseFormat.TOOL, options={"schema_name": "city"})
    answer = completion_of(config)
    assert answer.text == '{"city": "Åre", "n": 1}'
    tools = Tools(schemas={"city": None}, allowed=("city",), required=True)
    assert answer.sent == Sent(response_format=ResponseFormat.TOOL, tools=tools)
    body = provider.asked[0].body
    assert body["tools"] == [{"functionDeclarations": [{"name": "city", "parametersJsonSchema": CITY}]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["city"]}}
    assert set(body["generationConfig"]) == {"maxOutputTokens"}


def test_json_and_free_text_are_asked_for_without_a_schema(provider: Provider) -> None:
    json, text = (
        body_of(configured(provider, response_format=form), max_tokens=7)["generationConfig"]
        for form in (ResponseFormat.JSON_OBJECT, ResponseFormat.TEXT)
    )
    assert json == {"maxOutputTokens": 7, "responseMimeType": "application/json"}
    assert text == {"maxOutputTokens": 7}


def asked_with(provider: Provider, **changes: Any) -> dict[str, Any]:
    """The body of a call of an engine that is configured so."""
    provider.json(whole(TEXT))
    completion_of(configured(provider, **{"options": {"stream": False}, **changes}))
    body: dict[str, Any] = provider.asked[-1].body
    return body


def test_fields_of_ones_own_stand_beside_those_of_the_engine(provider: Provider) -> None:
    body = {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 9},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }
    options = {"stream": False, "extra_body": body, "extra_headers": {"x-a": "b"}, "extra_query": {"q": "1 2"}}
    sent = asked_with(provider, options={**options, "api_version": "v1beta"})
    assert sent["safetySettings"] == body["safetySettings"]
    assert sent["generationConfig"] == {
        "maxOutputTokens": 9,
        "thinkingConfig": {"thinkingBudget": 0},
        "responseMimeType": "application/json",
        "responseJsonSchema": CITY,
    }
    assert provider.asked[0].headers["x-a"] == "b"
    assert provider.asked[0].path == "/v1beta/models/m:generateContent?q=1+2"


def test_an_extra_generation_config_that_is_no_object_is_refused() -> None:
    config = EngineConfig(name="gemini", options={"extra_body": {"generationConfig": 5}})
    with pytest.raises(EngineError, match="generationConfig is a JSON object"):
        find("gemini").describe(config)


def test_the_environment_sends_no_call_to_another_google_api(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.setenv(variable, "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1alpha")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    asked_with(provider)
    assert provider.asked[0].path == "/v1/models/m:generateContent"
    assert provider.asked[0].headers["x-goog-api-key"] == SECRET


ALL = Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)
SPENT = {"promptTokenCount": 20, "thoughtsTokenCount": 64, "totalTokenCount": 84}
TWO = whole(TEXT) | {"candidates": [*whole(TEXT)["candidates"], *whole(part("other"))["candidates"]]}
MALFORMED = whole(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print(default_api")
#: content, text, why it ended, and its tokens
ANSWERS: list[tuple[tuple[Any, ...], str, FinishReason, Usage]] = [
    ((TWO,), '{"city": "Oslo"}', FinishReason.STOP, ALL),
    ((whole({"functionCall": {"name": "output"}}),), "{}", FinishReason.STOP, ALL),
    ((MALFORMED,), "", FinishReason.REJECTED, ALL),
    (
        (whole(TEXT, usage=USAGE),),
        '{"city": "Oslo"}',
        FinishReason.STOP,
        Usage(input_tokens=20, output_tokens=5, cached_tokens=16),
    ),
    (
        (whole(finish="MAX_TOKENS", usage=SPENT),),
        "",
        FinishReason.LENGTH,
        Usage(input_tokens=20, output_tokens=64, reasoning_tokens=64),
    ),
    *(
        ((delta("{"), stop(word)), "{", reason, ALL)
        for word, reason in (
            ("STOP", FinishReason.STOP),
            ("MAX_TOKENS", FinishReason.LENGTH),
            ("SAFETY", FinishReason.CONTENT_FILTER),
            ("RECITATION", FinishReason.CONTENT_FILTER),
            ("MALFORMED_FUNCTION_CALL", FinishReason.REJECTED),
            ("OTHER", FinishReason.UNKNOWN),
            (["STOP"], FinishReason.UNKNOWN),
        )
    ),
]


@pytest.mark.parametrize(("content", "text", "reason", "usage"), ANSWERS)
def test_an_answer_is_its_text_why_it_ended_and_its_tokens(
    content: tuple[Any, ...], text: str, reason: FinishReason, usage: Usage
) -> None:
    completion = answer(GENERATE_CONTENT, *content)
    assert (completion.text, completion.finish_reason, completion.usage) == (text, reason, usage)


def test_every_reason_that_the_sdk_knows_is_known() -> None:
    from google.genai.types import FinishReason as Known

    unknown = {reason.value for reason in Known} - FINISH.keys()
    assert unknown <= {
        "FINISH_REASON_UNSPECIFIED", "OTHER", "NO_IMAGE", "IMAGE_OTHER", "MISSING_THOUGHT_SIGNATURE"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (blocked(), "the provider blocked the prompt: SAFETY"),
        (blocked("OTHER", blockReasonMessage="Not that."), "Not that."),
        (whole(finish="PROHIBITED_CONTENT"), "the provider let nothing through: PROHIBITED_CONTENT"),
        (whole(finish="SAFETY", finishMessage="No."), "No."),
    ],
)
def test_what_is_blocked_is_a_refusal(body: Any, message: str) -> None:
    for declined in (read(GENERATE_CONTENT, body), read(GENERATE_CONTENT, event(body))):
        assert isinstance(declined, Declined)
        assert (declined.reason, declined.message) == (DeclineReason.REFUSAL, message)
        assert declined.usage.input_tokens == 20


@pytest.mark.parametrize(("period", "kind"), [("Minute", FaultKind.RATE_LIMITED), ("Day", FaultKind.QUOTA)])
def test_a_limit_of_a_minute_is_waited_for_and_the_quota_of_a_day_is_not(
    provider: Provider, engine: Engine, period: str, kind: FaultKind
) -> None:
    provider.json(quota(period, "36.5s"), status=429)
    error = fault(engine)
    assert (error.kind, error.status, error.retry_after) == (kind, 429, 36.5)
