from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind, ResponseFormat, Sent
from pytest_jsbench.engines.http.faults import ProviderError
from tests.engines import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.engines.asking import classified, fault_of
from tests.engines.provider import Provider

SENT = Sent(response_format=ResponseFormat.JSON_SCHEMA)

TO_COMPLETION_TOKENS = "--jsbench-engine-option max_tokens_field=max_completion_tokens"
TO_TOKENS = "--jsbench-engine-option max_tokens_field=max_tokens"
NO_TEMPERATURE = "leave --jsbench-temperature away"
NO_SEED = "leave --jsbench-seed away"
NO_STREAM = "--jsbench-engine-option stream=false"
ANOTHER_LIMIT = "another --jsbench-max-tokens"
OTHER_REASONING = "another --jsbench-engine-option reasoning_effort or reasoning_budget, or neither"
NO_FORCED_TOOL = "another --jsbench-response-format than tool, which forces a tool"


def openai(message: str, param: str | None, code: str | None = None) -> dict[str, Any]:
    return openai_wire.error_body(message, param=param, code=code)


OF_ANTHROPIC = {
    NO_TEMPERATURE: [
        "`temperature` is deprecated for this model.",
        "temperature: Extra inputs are not permitted",
        "`temperature` may only be set to 1 when thinking is enabled.",
    ],
    NO_FORCED_TOOL: [
        'tool_choice: type "tool" and "any" are not supported for this model.',
        "tool_choice forces tool use is not compatible with this model",
        "Thinking may not be enabled when tool_choice forces tool use.",
        "tool_choice cannot name a tool, which is not supported: use structured outputs with a JSON schema instead",
    ],
    OTHER_REASONING: [
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" instead.',
        "adaptive thinking is not supported on this model",
        "output_config.effort: Extra inputs are not permitted",
    ],
}
OF_GEMINI = [
    "Thinking level is not supported for this model.",
    "Budget 0 is invalid. This model only works in thinking mode.",
    "The thinking budget (52428) is invalid.",
    "Thinking can't be disabled for this model. Remove 'thinking_config.thinking_budget' from your request.",
]
COMPLAINTS: list[tuple[str, int, Any, str]] = [
    (
        "openai, reasoning model",
        400,
        openai(
            "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        TO_COMPLETION_TOKENS,
    ),
    (
        "openai, temperature's value",
        400,
        openai(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported.",
            "temperature",
            "unsupported_value",
        ),
        NO_TEMPERATURE,
    ),
    (
        "openai responses, temperature",
        400,
        openai("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        NO_TEMPERATURE,
    ),
    (
        "openai, an effort that the model does not know",
        400,
        openai("Unsupported value: 'minimal' is not supported with this model.", "reasoning_effort"),
        OTHER_REASONING,
    ),
    (
        "openai responses, a model that does not reason",
        400,
        openai("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort"),
        OTHER_REASONING,
    ),
    ("openai, seed", 400, openai("Unknown parameter: 'seed'.", "seed", "unknown_parameter"), NO_SEED),
    (
        "openai, too many tokens",
        400,
        openai("max_tokens is too large: 99999. This model supports at most 16384 completion tokens.", "max_tokens"),
        ANOTHER_LIMIT,
    ),
    (
        "openai responses, too few tokens",
        400,
        openai(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.", "max_output_tokens"
        ),
        ANOTHER_LIMIT,
    ),
    (
        "azure, no param",
        400,
        {"error": {"message": "Unrecognized request argument supplied: max_completion_tokens", "param": None}},
        TO_TOKENS,
    ),
    *(
        (f"anthropic, {words}", 400, anthropic_wire.error_body(words), option)
        for option, complaints in OF_ANTHROPIC.items()
        for words in complaints
    ),
    (
        "anthropic, too many tokens",
        400,
        anthropic_wire.error_body("max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens"),
        ANOTHER_LIMIT,
    ),
    (
        "fastapi",
        422,
        {"detail": [{"loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}]},
        TO_TOKENS,
    ),
    (
        "mistral, stream options",
        422,
        {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]},
        NO_STREAM,
    ),
    (
        "mistral, its own form",
        422,
        {
            "object": "error",
            "message": {
                "detail": [{"loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}]
            },
            "type": "invalid_request_error",
            "param": None,
        },
        TO_TOKENS,
    ),
    ("deepseek, thinking", 400, openai("Thinking mode does not support this tool_choice", None), NO_FORCED_TOOL),
    (
        "gemini",
        400,
        [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'}}],
        NO_SEED,
    ),
    *((f"gemini, {words}", 400, gemini_wire.error_body(words), OTHER_REASONING) for words in OF_GEMINI),
]


@pytest.mark.parametrize("response_format", [ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL])
@pytest.mark.parametrize(("status", "body", "option"), [row[1:] for row in COMPLAINTS], ids=[r[0] for r in COMPLAINTS])
def test_a_parameter_that_is_not_taken_is_a_bad_request_that_names_our_option(
    status: int, body: Any, option: str, response_format: ResponseFormat
) -> None:
    said = ProviderError.parse(body, status=status)
    error = classified(said, sent=Sent(response_format=response_format), secret=None)
    assert isinstance(error, CallError)
    assert error.kind is FaultKind.BAD_REQUEST
    assert error.message == f"{said.message} (to change it: {option})"


def test_the_option_is_named_however_long_the_complaint_is() -> None:
    words = f"Unsupported parameter: 'seed'. {'And so on. ' * 100}"
    error = classified(ProviderError.parse(openai(words, "seed"), status=400), sent=SENT, secret=None)
    assert error.message.endswith(NO_SEED + ")")
    assert len(error.message) < 400


@pytest.mark.parametrize(
    "body",
    [
        openai("The temperature of the model store is not supported.", "model"),
        openai("Unknown parameter: 'foo'.", "foo"),
        anthropic_wire.error_body("messages: at least one message is required"),
    ],
)
def test_another_complaint_names_none(body: Any) -> None:
    error = classified(ProviderError.parse(body, status=400), sent=SENT, secret=None)
    assert isinstance(error, CallError)
    assert error.kind is FaultKind.BAD_REQUEST
    assert "--jsbench" not in error.message


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_fault_of_another_kind_names_none(status: int) -> None:
    body = openai("Unsupported parameter: 'max_tokens'.", "max_tokens")
    assert "--jsbench" not in classified(ProviderError.parse(body, status=status), sent=SENT, secret=None).message


@pytest.mark.parametrize("wire", [openai_wire, responses_wire, anthropic_wire], ids=["chat", "responses", "anthropic"])
def test_every_engine_names_it(provider: Provider, wire: Any) -> None:
    config = wire.configured(provider)
    pytest.importorskip(config.name, reason=f"the {config.name} engine needs the package {config.name}")
    provider.json(openai("temperature: unsupported parameter", "temperature"), status=400)
    error = fault_of(config)
    assert (error.kind, error.status) == (FaultKind.BAD_REQUEST, 400)
    assert error.message.endswith(f"(to change it: {NO_TEMPERATURE})")
