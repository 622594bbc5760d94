"""The Responses API: its body and its answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    CallError,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.engines.providers.responses import RESPONSES
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, complete, completion_of, decline, fault, request
from tests.engines.openai_wire import SECRET
from tests.engines.provider import DONE, Provider, event
from tests.engines.reading import answer, body_of, read
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
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

ALL = Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider) -> None:
    assert body_of(configured(provider), system="Be brief.", max_tokens=7, seed=7, temperature=0) == {
        "model": "m",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Name a city, as JSON."},
        ],
        "max_output_tokens": 7,
        "temperature": 0,
        "store": False,
        "stream": True,
        "text": {"format": {"type": "json_schema", "name": "output", "schema": CITY, "strict": True}},
    }


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (ResponseFormat.TEXT, {}),
        (ResponseFormat.JSON_OBJECT, {"text": {"format": {"type": "json_object"}}}),
        (
            ResponseFormat.TOOL,
            {
                "tools": [{"type": "function", "name": "output", "parameters": CITY, "strict": True}],
                "tool_choice": {"type": "function", "name": "output"},
            },
        ),
    ],
)
def test_each_response_format_is_sent_in_its_own_way(
    provider: Provider, response_format: ResponseFormat, sent: dict[str, Any]
) -> None:
    body = body_of(configured(provider, response_format=response_format))
    assert {name: body[name] for name in ("text", "tools", "tool_choice") if name in body} == sent


def test_engine_options_reach_the_server(provider: Provider) -> None:
    options = {
        "strict": False,
        "schema_name": "city",
        "max_tokens_field": "max_tokens",
        "extra_body": {"reasoning": {"effort": "low"}, "store": True},
        "extra_headers": {"X-Title": "bench"},
        "stream": False,
    }
    provider.json(whole())
    completion_of(configured(provider, options=options), request(max_tokens=5))
    (asked,) = provider.asked
    assert asked.body["text"]["format"] == {"type": "json_schema", "name": "city", "schema": CITY, "strict": False}
    assert (asked.body["max_tokens"], asked.body["store"]) == (5, True)
    assert asked.body["reasoning"] == {"effort": "low"}
    assert not {"max_output_tokens", "stream"} & set(asked.body)
    assert asked.headers["x-title"] == "bench"


def test_a_report_tells_the_two_apart(provider: Provider) -> None:
    describe = find("openai").describe
    assert describe(configured(provider)).details["api"] == "responses"
    assert "api" not in describe(configured(provider, options={"api": "chat"})).details


@pytest.mark.parametrize("api", ["respones", "", 1, None, ["chat"]])
def test_another_api_is_refused_with_the_two_that_there_are(provider: Provider, api: object) -> None:
    with pytest.raises(
        EngineError, match=re.escape(f"option 'api' of engine 'openai' is chat or responses, not {api!r}")
    ):
        find("openai").check(configured(provider, options={"api": api}))


def both(response: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A response in one piece, and streamed by its last event only."""
    return [(response,), (start(), stop(response))]


ARGUMENTS = "function_call_arguments"
CUT = [message('{"ci')]
ANSWERS: list[tuple[tuple[Any, ...], str, FinishReason]] = [
    ((start(), delta('{"city": '), delta(""), delta('"Åre"}'), stop()), '{"city": "Åre"}', FinishReason.STOP),
    (
        (start(), delta('{"city"', ARGUMENTS), delta(': "Rom"}', ARGUMENTS), stop(whole(called("not read twice")))),
        '{"city": "Rom"}',
        FinishReason.STOP,
    ),
    *(
        (content, text, reason)
        for response, text, reason in (
            (whole(REASONING, message('{"a"'), message(": 1}")), '{"a": 1}', FinishReason.STOP),
            (whole(REASONING, called('{"city": "Rom"}')), '{"city": "Rom"}', FinishReason.STOP),
            (incomplete("max_output_tokens", *CUT), '{"ci', FinishReason.LENGTH),
            (incomplete("content_filter", *CUT), '{"ci', FinishReason.CONTENT_FILTER),
            (incomplete("steered", *CUT), '{"ci', FinishReason.UNKNOWN),
            (incomplete("max_output_tokens", REASONING), "", FinishReason.LENGTH),
        )
        for content in both(response)
    ),
]


@pytest.mark.parametrize(("content", "text", "reason"), ANSWERS)
def test_an_answer_is_its_text_and_why_it_ended(content: tuple[Any, ...], text: str, reason: FinishReason) -> None:
    completion = answer(RESPONSES, *content)
    assert (completion.text, completion.finish_reason, completion.usage) == (text, reason, ALL)


def test_the_first_token_is_the_first_that_holds_text(provider: Provider, engine: Engine) -> None:
    thought = delta("Hm.", "reasoning_text") + delta("Hm.", "reasoning_summary_text")
    item = typed("response.output_item.added", output_index=0, item=message(None))
    provider.stream(start() + thought + item, delta(""), delta("a"), delta("b"), stop(), pause=0.2)
    timing = complete(engine).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.ttft >= 0.39


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((content, "let nothing through") for content in both(incomplete("content_filter", REASONING))),
        *((each, "I'm sorry, I can't.") for each in both(whole(message(None, refusal="I'm sorry,\nI can't.")))),
        (
            (start(), delta("I ", "refusal"), delta("won't", "refusal"), stop(whole(message(None, refusal="again")))),
            "I won't",
        ),
    ],
)
def test_a_refusal_is_declined_in_the_models_words(content: tuple[Any, ...], said: str) -> None:
    declined = read(RESPONSES, *content)
    assert isinstance(declined, Declined)
    assert declined.message.endswith(said)
    assert (declined.reason, declined.usage) == (DeclineReason.REFUSAL, ALL)


@pytest.mark.parametrize(
    ("response", "kind", "said"),
    [
        (failed("server_error", f"it broke, {SECRET}"), FaultKind.SERVER, "it broke, [key]"),
        (failed("rate_limit_exceeded", "slow"), FaultKind.RATE_LIMITED, "slow"),
        (failed("invalid_image", "no"), FaultKind.BAD_RESPONSE, "no"),
        ({**failed("x", "y"), "error": None}, FaultKind.SERVER, "the response failed, and the server did not say why"),
    ],
)
def test_a_response_that_failed_is_a_fault(
    provider: Provider, engine: Engine, unstreamed: Engine, response: dict[str, Any], kind: FaultKind, said: str
) -> None:
    provider.json(response)
    provider.stream(start(), stop(response))
    for error in (fault(unstreamed), fault(engine)):
        assert (error.kind, error.message) == (kind, said)


def test_a_prompt_that_breaks_the_providers_rules_is_a_refusal(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), stop(failed("invalid_prompt", "flagged")))
    assert decline(engine).reason is DeclineReason.REFUSAL


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((start(), delta('{"city": "Os') + DONE), "12 characters of it were dropped"),
        *(((whole(status=status),), f"(status {status})") for status in ("queued", "in_progress", "cancelled")),
        (({},), "(status None)"),
        (({"status": "completed", "output": 5, "usage": 5},), "without any output"),
    ],
)
def test_what_holds_no_whole_response_is_no_answer(content: tuple[Any, ...], said: str) -> None:
    with pytest.raises(CallError, match=re.escape(said)) as caught:
        read(RESPONSES, *content)
    assert caught.value.kind is FaultKind.BAD_RESPONSE


def test_a_server_without_a_status_is_taken_at_its_word() -> None:
    completion = answer(RESPONSES, {"output": [message("{}")]})
    assert (completion.text, completion.finish_reason, completion.usage) == ("{}", FinishReason.UNKNOWN, Usage())


def test_a_server_without_this_api_is_a_bad_request(provider: Provider, engine: Engine) -> None:
    provider.json({"detail": "Not Found"}, status=404)
    error = fault(engine)
    assert (error.kind, error.status, error.message) == (FaultKind.BAD_REQUEST, 404, "Not Found")
