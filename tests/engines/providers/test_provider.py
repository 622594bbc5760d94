"""Provider engines over HTTP: times, headers, options, and features of single APIs."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    Completion,
    DeclineReason,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Sent,
    Tools,
    Usage,
    tpot_ms,
)
from pytest_jsbench.engines import engine_secrets
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.providers.finish_reasons import GEMINI_FINISH
from pytest_jsbench.engines.registry import find
from pytest_jsbench.verdicts import FailureType, Judge, decide
from tests.support import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.support.conversation import PROMPT
from tests.support.engine_calls import CITY, complete, completion_of, decline, fault, fault_of, generation_of, request
from tests.support.openai_wire import chunk, configured
from tests.support.provider import DONE, Asked, Provider, Reply, event, json_reply, stream_reply

pytest.importorskip("urllib3", reason="provider engines need the package urllib3")

TEXT = '{"city": "Åre"}'
END = chunk(finish="stop")
THOUGHT = responses_wire.delta("Hm.", "reasoning_text") + responses_wire.delta("Hm.", "reasoning_summary_text")
ADDED = responses_wire.typed("response.output_item.added", output_index=0, item=responses_wire.message(None))
#: Streams whose second piece contains the first text.
LATE: dict[Any, tuple[str, ...]] = {
    openai_wire: (chunk("", role="assistant") + chunk(reasoning="Hm."), chunk("a"), chunk("b"), END + DONE),
    responses_wire: (
        responses_wire.start() + THOUGHT + ADDED + responses_wire.delta(""),
        responses_wire.delta("a") + responses_wire.delta("b") + responses_wire.stop(),
    ),
    anthropic_wire: (
        anthropic_wire.start()
        + anthropic_wire.delta(kind="thinking_delta", thinking="Hm.")
        + anthropic_wire.typed("ping"),
        anthropic_wire.delta("{}") + anthropic_wire.stop(),
    ),
    gemini_wire: (
        gemini_wire.delta("") + gemini_wire.delta("Hm.", thought=True),
        gemini_wire.delta("a") + gemini_wire.stop(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wire", LATE, ids=lambda wire: wire.__name__.rpartition(".")[2])
def test_first_token_is_the_first_with_text(provider: Provider, wire: Any) -> None:
    pause = 0.5 if wire is openai_wire else 0.2
    provider.stream(*LATE[wire], pause=pause)
    timing = completion_of(wire.configured(provider)).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.ttft >= pause - 0.01
    if wire is openai_wire:
        assert timing.gct is not None
        assert (timing.ttft < 0.99, 0.1 <= timing.gct < 0.9, timing.tgt >= 1.49) == (True, True, True)


@pytest.mark.parametrize(
    "pieces",
    [
        [chunk('{"a": 1}'), chunk(finish="stop", usage=openai_wire.USAGE), DONE],
        [chunk('{"a"') + chunk(": 1}") + chunk(finish="stop", usage=openai_wire.USAGE) + DONE],
    ],
    ids=["one token", "one piece"],
)
def test_stream_in_a_single_piece_has_no_times(provider: Provider, engine: Engine, pieces: list[str]) -> None:
    provider.stream(*pieces)
    answer = complete(engine)
    assert answer.text == '{"a": 1}'
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert (answer.timing.gct, tpot_ms(answer.timing, answer.usage)) == (None, None)


@pytest.mark.parametrize("wire", LATE, ids=lambda wire: wire.__name__.rpartition(".")[2])
def test_lateness_of_the_first_token_is_part_of_its_time(provider: Provider, wire: Any) -> None:
    provider.stream(*LATE[wire])
    timing = completion_of(wire.configured(provider)).timing
    assert timing is not None
    assert timing.ttft is not None
    if sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc":
        assert timing.ttft_lateness is not None
        assert 0 <= timing.ttft_lateness <= timing.ttft
    else:
        assert timing.ttft_lateness is None


@pytest.mark.parametrize("reset", [False, True], ids=["hanging", "reset"])
def test_open_connection_after_the_done_marker_does_not_lose_the_answer(
    provider: Provider, engine: Engine, *, reset: bool
) -> None:
    reply = stream_reply(chunk(TEXT), END, DONE, cut=True)
    provider.replies.append(replace(reply, hang=not reset, reset=reset))
    for _ in range(2):
        answer = complete(engine)
        assert answer.text == TEXT
        assert answer.timing is not None
        assert answer.timing.tgt < 5


def test_error_of_the_servers_parser_is_an_engine_fault_with_partial_text(provider: Provider, engine: Engine) -> None:
    words = "The model produced output that does not match the expected peg-native format"
    error = event({"error": {"code": 500, "message": words, "type": "server_error"}})
    provider.stream(chunk('"Email'), chunk("Subject"), error)
    provider.stream(error)

    begun, nothing = fault(engine), fault(engine)

    assert (begun.kind, begun.status) == (FaultKind.ENGINE, 500)
    assert re.fullmatch(re.escape(words) + r' \(after 13 characters in \d+\.\d\d s: "EmailSubject\)', begun.message)
    assert (nothing.kind, nothing.message) == (FaultKind.ENGINE, words)


@pytest.mark.parametrize("wire", [openai_wire, responses_wire, anthropic_wire, gemini_wire])
def test_forced_tool_extra_headers_and_extra_query_are_sent(provider: Provider, wire: Any) -> None:
    whole = {
        openai_wire: openai_wire.whole(TEXT),
        responses_wire: responses_wire.whole(responses_wire.message(TEXT)),
        anthropic_wire: anthropic_wire.whole({"type": "text", "text": TEXT}),
        gemini_wire: gemini_wire.whole(gemini_wire.part(TEXT)),
    }
    options = {"stream": False, "schema_name": "city", "extra_headers": {"X-Title": "a"}, "extra_query": {"q": "1 2"}}
    provider.json(whole[wire])
    answer = completion_of(wire.configured(provider, response_format=ResponseFormat.TOOL, options=options))
    tools = Tools(schemas={"city": None}, allowed=("city",), required=True)
    assert answer.sent == Sent(response_format=ResponseFormat.TOOL, tools=tools)
    (asked,) = provider.asked
    assert (asked.headers["x-title"], asked.path.partition("?")[2]) == ("a", "q=1+2")


def test_a_secret_in_reasoning_is_replaced(provider: Provider) -> None:
    provider.json(openai_wire.whole(TEXT, message={"reasoning": f"It is {openai_wire.SECRET}."}))
    with closing(engine_secrets.build(find("openai"), configured(provider, options={"stream": False}))) as engine:
        completion = complete(engine)
    assert completion.reasoning == f"It is {'*' * len(openai_wire.SECRET)}."
    assert not completion.secret_replaced


def test_details_distinguish_the_two_apis(provider: Provider) -> None:
    describe = find("openai").describe
    assert describe(responses_wire.configured(provider)).details["api"] == "responses"
    assert "api" not in describe(configured(provider, options={"api": "chat"})).details


REFUSALS = [json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", REFUSALS, ids=[row["message"][:60] for row in REFUSALS])
def test_invalid_settings_are_one_line_before_any_call(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(row.get("package", "urllib3"), reason="the engine needs its package")
    for variable, value in row.get("environment", {}).items():
        monkeypatch.setenv(variable, value)
    form = row["config"].get("response_format")
    config = EngineConfig(**{**row["config"], "response_format": form and ResponseFormat(form)})
    with pytest.raises(EngineError) as caught:
        find(config.name).check(config)
    assert str(caught.value) == row["message"]


def test_gemini_ignores_vertex_variables_and_has_a_version_option(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.setenv(variable, "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1alpha")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    provider.json(gemini_wire.whole(gemini_wire.TEXT))
    for options in ({}, {"api_version": "v1beta"}):
        completion_of(gemini_wire.configured(provider, options={"stream": False, **options}))
    assert [asked.path for asked in provider.asked] == [
        "/v1/models/m:generateContent",
        "/v1beta/models/m:generateContent",
    ]
    assert provider.asked[0].headers["x-goog-api-key"] == gemini_wire.SECRET


def test_gemini_finish_reasons_of_the_sdk_are_in_the_table() -> None:
    from google.genai.types import FinishReason as Known

    assert {reason.value for reason in Known} <= {word for row in GEMINI_FINISH.rows for word in row.words}


@pytest.mark.parametrize(("period", "kind"), [("Minute", FaultKind.RATE_LIMITED), ("Day", FaultKind.QUOTA)])
def test_daily_quota_is_not_retried(provider: Provider, period: str, kind: FaultKind) -> None:
    provider.json(gemini_wire.quota(period, "36.5s"), status=429)
    error = fault_of(gemini_wire.configured(provider))
    assert (error.kind, error.status, error.retry_after) == (kind, 429, 36.5)


@pytest.mark.parametrize("rendered", ["<user>Where?<assistant><tool>lost", None], ids=["left out", "unknown"])
def test_prompt_is_declined_if_the_chat_template_omits_tool_calls(provider: Provider, rendered: str | None) -> None:
    def choose(asked: Asked) -> Reply:
        if asked.path == "/apply-template":
            return json_reply({"prompt": rendered} if rendered else {"error": "what?"}, status=200 if rendered else 404)
        return json_reply(openai_wire.whole())

    provider.choose = choose
    engine = find("llamacpp").build(configured(provider, name="llamacpp", options={"stream": False}))
    asked = replace(request(), prompt=PROMPT)
    if rendered is None:
        complete(engine, asked)
    else:
        declined = decline(engine, asked)
        assert declined.reason is DeclineReason.UNSUPPORTED_MESSAGES
        assert declined.message.startswith(
            "the model's chat template omits the assistant's call of 'find_order'; nothing was sent"
        )
    complete(engine)
    engine.close()

    paths = ["/apply-template", *["/v1/chat/completions"] * (1 if rendered else 2)]
    assert [asked.path for asked in provider.asked] == paths


RIGHT = '{"city": "Oslo", "old": true}'
WRONG = '{"city": "Oslo", "old": true, "town": "Oslo"}'
#: Groq's message.
NOT_MATCHING = "Generated JSON does not match the expected schema. Please adjust your prompt."
NO_JSON = "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."
NO_CALL = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
USED = {"usage": {"prompt_tokens": 20, "completion_tokens": 9}}
LIMIT = "max completion tokens reached before generating a valid document"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def groq(message: str, code: str, **more: Any) -> dict[str, Any]:
    """Return the body of Groq's 400."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


@pytest.mark.parametrize(
    ("message", "code", "more", "text", "failure"),
    [
        (NOT_MATCHING, "json_validate_failed", USED, WRONG, FailureType.HALLUCINATION),
        (NO_JSON, "json_validate_failed", USED, '{"city": "Oslo"', FailureType.SYNTAX_ERROR),
        (NO_CALL, "tool_use_failed", USED, f"<function=output>{WRONG}</function>", FailureType.SYNTAX_ERROR),
        (NOT_MATCHING, "json_validate_failed", USED, '{"city": 7}', FailureType.SCHEMA_VIOLATION),
        (NOT_MATCHING, "json_validate_failed", USED, RIGHT, None),
        (NO_JSON, "json_validate_failed", {}, LIMIT, FailureType.TRUNCATED),
        *((NO_JSON, "json_validate_failed", {}, text, FailureType.SYNTAX_ERROR) for text in ("", None)),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_failed_generation_is_judged_as_the_answer(
    provider: Provider,
    judge: Judge,
    message: str,
    code: str,
    more: dict[str, Any],
    text: str | None,
    failure: FailureType | None,
    *,
    streamed: bool,
) -> None:
    error = groq(message, code, failed_generation=text, **more)
    if streamed:
        provider.stream(openai_wire.chunk("", role="assistant"), event(error, name="error"))
    else:
        provider.json(error, status=400)
    answer = generation_of(configured(provider))
    assert isinstance(answer, Completion)
    expected = FinishReason.LENGTH if text == LIMIT else FinishReason.REJECTED
    assert (answer.text, answer.finish_reason) == (text or "", expected)
    assert answer.usage == (Usage(input_tokens=20, output_tokens=9) if more else Usage())
    assert answer.timing is not None
    assert answer.timing.tgt > 0
    assert answer.timing.ttft is None
    verdict = decide(answer, CITY, judge)
    assert (verdict.failure_type, verdict.reason if not text else None) == (failure, "rejected" if not text else None)


def test_failed_generation_without_text_is_the_models_failure(provider: Provider) -> None:
    provider.json(groq(NO_JSON, "json_validate_failed"), status=400)
    answer = generation_of(configured(provider))
    assert isinstance(answer, Completion)
    assert (answer.text, answer.finish_reason) == ("", FinishReason.REJECTED)


@pytest.mark.parametrize(
    "words",
    [
        "output_config.format: Extra inputs are not permitted",
        "output_config: Extra inputs are not permitted",
        "The model returned the following errors: output_config.format: Extra inputs are not permitted",
        "Malformed input request: #: extraneous key [outputConfig] is not permitted, please reformat your input.",
        "This model doesn't support the outputConfig.textFormat field.",
    ],
)
def test_missing_structured_output_is_not_an_unsupported_schema(provider: Provider, words: str) -> None:
    provider.json(anthropic_wire.error_body(words), status=400)
    error = fault_of(anthropic_wire.configured(provider, model="claude-on-bedrock"))
    assert error.kind is FaultKind.BAD_REQUEST
    named = f"(claude-on-bedrock at {provider.url} does not support json_schema: change --jsbench-response-format)"
    assert error.message == f"{words} {named}"


def test_text_format_error_names_no_structured_output(provider: Provider) -> None:
    provider.json(openai_wire.error_body("This model does not support tools."), status=400)
    error = fault_of(openai_wire.configured(provider, response_format=ResponseFormat.TEXT))
    assert error.message == "This model does not support tools."


def test_rejected_parameter_is_not_dropped(provider: Provider) -> None:
    provider.json(anthropic_wire.error_body("`temperature` is deprecated for this model."), status=400)
    fault_of(anthropic_wire.configured(provider), request(temperature=0))
    assert [asked.body["temperature"] for asked in provider.asked] == [0]


def test_secret_in_a_failed_generation_is_redacted(provider: Provider) -> None:
    provider.json(groq(NOT_MATCHING, "json_validate_failed", failed_generation=openai_wire.SECRET), status=400)
    with closing(engine_secrets.build(find("openai"), openai_wire.configured(provider))) as engine:
        assert openai_wire.SECRET not in complete(engine).text
