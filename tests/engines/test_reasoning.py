"""A model's reasoning, as each API and server gives it, kept apart from the answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.engines import secrets
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.options import REASONING_OPTIONS
from pytest_jsbench.engines.providers.chat import CHAT
from pytest_jsbench.engines.providers.gemini import GENERATE_CONTENT, gemini_settings
from pytest_jsbench.engines.providers.messages import MESSAGES
from pytest_jsbench.engines.providers.responses import RESPONSES
from pytest_jsbench.engines.registry import find
from tests.engines import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.engines.asking import CITY, complete, completion_of, request
from tests.engines.openai_wire import chunk
from tests.engines.provider import DONE, Provider
from tests.engines.reading import answer

if TYPE_CHECKING:
    from pytest_jsbench.engines.providers.provider import WireFormat

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

TEXT = '{"city": "Oslo", "old": true}'
SAID = "Hm. Oslo."


def ended(*pieces: str) -> tuple[str, ...]:
    return (*pieces, chunk(finish="stop"), DONE)


def thinking(*texts: str) -> list[dict[str, Any]]:
    """Mistral's part of a content."""
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts]}]


def added(kind: str) -> str:
    return responses_wire.typed("response.output_item.added", output_index=0, item={"type": kind, "id": "r"})


def part(number: int) -> str:
    return responses_wire.typed("response.reasoning_summary_part.added", item_id="r", summary_index=number)


def block(kind: str, **more: Any) -> str:
    return anthropic_wire.typed("content_block_start", index=0, content_block={"type": kind, **more})


RESPONSE = responses_wire.stop(responses_wire.whole(responses_wire.message(TEXT)))
STREAMS: dict[str, tuple[WireFormat, tuple[str, ...], str]] = {
    "chat, reasoning_content": (
        CHAT,
        ended(chunk(reasoning_content="Hm. "), chunk(reasoning_content="Oslo."), chunk(TEXT)),
        SAID,
    ),
    "chat, reasoning": (CHAT, ended(chunk(reasoning="Hm. "), chunk(reasoning="Oslo."), chunk(TEXT)), SAID),
    "chat, the same in both fields": (
        CHAT,
        ended(chunk(reasoning_content=SAID, reasoning=SAID), chunk(TEXT)),
        SAID,
    ),
    "chat, parts of the content": (
        CHAT,
        ended(chunk(thinking("Hm. ")), chunk(thinking("Oslo.")), chunk([{"type": "text", "text": TEXT}])),
        SAID,
    ),
    "responses, all of it": (
        RESPONSES,
        (added("reasoning"), responses_wire.delta("Hm. ", "reasoning_text"),
         responses_wire.delta("Oslo.", "reasoning_text"), responses_wire.delta(TEXT), RESPONSE),
        SAID,
    ),
    "responses, a summary of two parts": (
        RESPONSES,
        (added("reasoning"), part(0), responses_wire.delta("Hm.", "reasoning_summary_text"),
         part(1), responses_wire.delta("Oslo.", "reasoning_summary_text"), responses_wire.delta(TEXT), RESPONSE),
        "Hm.\n\nOslo.",
    ),
    "responses, nothing shown": (
        RESPONSES, (added("reasoning"), responses_wire.delta(TEXT), RESPONSE), "",
    ),
    "messages": (
        MESSAGES,
        (anthropic_wire.start(), block("thinking", thinking=""),
         anthropic_wire.delta(kind="thinking_delta", thinking="Hm. "),
         anthropic_wire.delta(kind="thinking_delta", thinking="Oslo."),
         anthropic_wire.delta(kind="signature_delta", signature="c2ln"),
         anthropic_wire.delta(TEXT), anthropic_wire.stop()),
        SAID,
    ),
    "messages, nothing shown": (
        MESSAGES,
        (anthropic_wire.start(), block("redacted_thinking", data="ZGF0YQ=="), anthropic_wire.delta(TEXT),
         anthropic_wire.stop()),
        "",
    ),
    "gemini": (
        GENERATE_CONTENT,
        (gemini_wire.delta("Hm. ", thought=True), gemini_wire.delta("Oslo.", thought=True), gemini_wire.delta(TEXT),
         gemini_wire.stop()),
        SAID,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wire", "pieces", "said"), STREAMS.values(), ids=STREAMS)
def test_reasoning_in_a_stream_is_kept_apart_and_timed(wire: WireFormat, pieces: tuple[str, ...], said: str) -> None:
    completion = answer(wire, *pieces)
    assert (completion.text, completion.reasoning) == (TEXT, said)
    timing = completion.timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.reasoning_time is not None
    assert 0 < timing.reasoning_time < timing.ttft


SUMMARY = {
    "type": "reasoning",
    "id": "r",
    "summary": [{"type": "summary_text", "text": word} for word in ("Hm.", "Oslo.")],
}
SHOWN = {**SUMMARY, "content": [{"type": "reasoning_text", "text": SAID}]}
WHOLE: dict[str, tuple[WireFormat, dict[str, Any], str]] = {
    "chat, reasoning_content": (CHAT, openai_wire.whole(TEXT, message={"reasoning_content": SAID}), SAID),
    "chat, reasoning": (CHAT, openai_wire.whole(TEXT, message={"reasoning": SAID}), SAID),
    "chat, parts of the content": (
        CHAT, openai_wire.whole([*thinking("Hm. ", "Oslo."), {"type": "text", "text": TEXT}]), SAID,
    ),
    "responses, a summary": (
        RESPONSES, responses_wire.whole(SUMMARY, responses_wire.message(TEXT)), "Hm.\n\nOslo.",
    ),
    "responses, all of it": (RESPONSES, responses_wire.whole(SHOWN, responses_wire.message(TEXT)), SAID),
    "messages": (
        MESSAGES,
        anthropic_wire.whole({"type": "thinking", "thinking": SAID}, {"type": "text", "text": TEXT}),
        SAID,
    ),
    "gemini": (
        GENERATE_CONTENT, gemini_wire.whole(gemini_wire.part(SAID, thought=True), gemini_wire.part(TEXT)), SAID,
    ),
    "none": (CHAT, openai_wire.whole(TEXT), ""),
}  # fmt: skip


@pytest.mark.parametrize(("wire", "body", "said"), WHOLE.values(), ids=WHOLE)
def test_reasoning_in_one_piece_is_kept_apart_and_not_timed(wire: WireFormat, body: dict[str, Any], said: str) -> None:
    completion = answer(wire, body)
    assert (completion.text, completion.reasoning) == (TEXT, said)
    assert completion.timing is not None
    assert completion.timing.reasoning_time is None


@pytest.mark.parametrize(
    ("pieces", "timed"),
    [
        (["<think>", "Hm.", "</think>\n", TEXT], True),
        (["Hm.", " Oslo.</think>", TEXT], True),
        (["<think>Hm.</think><think></think>", "\n", TEXT], True),
        (["[THINK]Hm.", "[/THINK]", TEXT], True),
        (["<think>Hm.", " {"], False),
        (['{"city": "', '</think>", "old": true}'], False),
        (["Sure: ", TEXT], False),
    ],
)
def test_reasoning_in_the_content_stays_in_the_text_and_its_time_ends_where_the_answer_begins(
    pieces: list[str], *, timed: bool
) -> None:
    completion = answer(CHAT, *ended(*map(chunk, pieces)))
    assert (completion.text, completion.reasoning) == ("".join(pieces), "")
    assert completion.timing is not None
    assert (completion.timing.reasoning_time is not None) is timed
    assert (completion.timing.reasoning_time or 0) <= (completion.timing.gct or 0)


def test_a_secret_in_reasoning_is_replaced(provider: Provider) -> None:
    provider.json(openai_wire.whole(TEXT, message={"reasoning": f"It is {openai_wire.SECRET}."}))
    config = openai_wire.configured(provider, options={"stream": False})
    with closing(secrets.build(find("openai"), config)) as engine:
        completion = complete(engine)
    assert completion.reasoning == f"It is {'*' * len(openai_wire.SECRET)}."
    assert not completion.secret_replaced


def sent(provider: Provider, wire: Any, name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The body of a call, without what every call has."""
    config = wire.configured(provider)
    config = replace(config, name=name or config.name, options={**config.options, **options, "stream": False})
    provider.json(wire.whole(*MESSAGE[wire]))
    completion_of(config)
    body: dict[str, Any] = provider.asked[-1].body
    return {name: value for name, value in body.items() if name not in USUAL}


MESSAGE: dict[Any, list[Any]] = {
    openai_wire: [],
    responses_wire: [responses_wire.message(TEXT)],
    anthropic_wire: [{"type": "text", "text": TEXT}],
}
USUAL = {"model", "messages", "input", "store", "text", "response_format", "max_tokens", "max_output_tokens"}
FORMAT = {"format": {"type": "json_schema", "schema": CITY}}
ASKED: dict[str, tuple[Any, str | None, dict[str, Any], dict[str, Any]]] = {
    "chat": (openai_wire, None, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    "responses": (responses_wire, None, {"reasoning_effort": "minimal"}, {"reasoning": {"effort": "minimal"}}),
    "responses, with more to say": (
        responses_wire,
        None,
        {"reasoning_effort": "low", "extra_body": {"reasoning": {"summary": "auto"}}},
        {"reasoning": {"summary": "auto", "effort": "low"}},
    ),
    "a server's own parameters": (
        openai_wire,
        None,
        {"reasoning_effort": "on", "reasoning_budget": 9, "effort_field": "think", "budget_field": "limits.think"},
        {"think": "on", "limits": {"think": 9}},
    ),
    "openrouter": (
        openai_wire,
        "openrouter",
        {"reasoning_budget": 2048},
        {"reasoning": {"max_tokens": 2048}, "provider": {"require_parameters": True}},
    ),
    "vllm": (openai_wire, "vllm", {"reasoning_budget": 512}, {"thinking_token_budget": 512}),
    "llamacpp": (
        openai_wire,
        "llamacpp",
        {"reasoning_effort": "high", "reasoning_budget": 64},
        {"chat_template_kwargs": {"reasoning_effort": "high"}, "thinking_budget_tokens": 64, "cache_prompt": False},
    ),
    "anthropic, an effort": (
        anthropic_wire,
        None,
        {"reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {**FORMAT, "effort": "low"}},
    ),
    "anthropic, none": (
        anthropic_wire,
        None,
        {"reasoning_effort": "none"},
        {"thinking": {"type": "disabled"}, "output_config": FORMAT},
    ),
    "anthropic, a budget of nothing": (
        anthropic_wire,
        None,
        {"reasoning_budget": 0},
        {"thinking": {"type": "disabled"}, "output_config": FORMAT},
    ),
    "anthropic, both": (
        anthropic_wire,
        None,
        {"reasoning_effort": "high", "reasoning_budget": 2048},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {**FORMAT, "effort": "high"}},
    ),
    "anthropic, with more to say": (
        anthropic_wire,
        None,
        {"reasoning_effort": "max", "extra_body": {"thinking": {"display": "summarized"}}},
        {"thinking": {"display": "summarized", "type": "adaptive"}, "output_config": {**FORMAT, "effort": "max"}},
    ),
    "anthropic, nothing": (anthropic_wire, None, {}, {"output_config": FORMAT}),
}


@pytest.mark.parametrize(("wire", "name", "options", "expected"), ASKED.values(), ids=ASKED)
def test_reasoning_is_asked_for_by_the_servers_own_parameters_and_said_in_the_details(
    provider: Provider, wire: Any, name: str | None, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert sent(provider, wire, name, options) == expected
    config = replace(wire.configured(provider), name=name or wire.configured(provider).name, options=options)
    details = find(config.name).describe(config).details
    said = {name: value for name, value in options.items() if name in REASONING_OPTIONS}
    assert {name: details[name] for name in details if name in REASONING_OPTIONS} == said


def test_reasoning_is_asked_of_gemini_within_its_generation_config() -> None:
    extra = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    config = EngineConfig(name="gemini", model="m", options={"reasoning_effort": "low", "extra_body": extra})
    settings = gemini_settings(config)
    body = settings.wire.to_body(settings, request())
    assert body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "low"}
    twice = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}}
    with pytest.raises(EngineError, match="thinkingLevel in extra_body, which reasoning_effort says: say it once"):
        gemini_settings(replace(config, options={**config.options, "extra_body": twice}))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "groq",
            {"reasoning_budget": 9},
            (
                "engine 'groq' knows no parameter for reasoning_budget: name the server's with "
                "--jsbench-engine-option budget_field=NAME, or leave it out"
            ),
        ),
        (
            "openai",
            {"api": "responses", "reasoning_effort": "low", "extra_body": {"reasoning": {"effort": "high"}}},
            "engine 'openai' was given reasoning.effort in extra_body, which reasoning_effort says: say it once",
        ),
        ("openai", {"reasoning_effort": 3}, "option 'reasoning_effort' of engine 'openai' is a word, not this int"),
        (
            "anthropic",
            {"reasoning_budget": -1},
            "option 'reasoning_budget' of engine 'anthropic' is a whole number, not this int",
        ),
        (
            "anthropic",
            {"reasoning_effort": "low", "extra_body": {"thinking": {"type": "enabled"}}},
            "engine 'anthropic' was given thinking.type in extra_body, which reasoning_effort says: say it once",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_one_line_before_any_call(name: str, options: dict[str, Any], said: str) -> None:
    config = EngineConfig(name=name, model="m", base_url="http://localhost:1", options=options)
    with pytest.raises(EngineError) as caught:
        find(name).describe(config)
    assert str(caught.value) == said


def test_tokens_of_reasoning_that_a_server_leaves_out_of_the_completion_are_output_all_the_same() -> None:
    usage: dict[str, Any] = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
    usage["completion_tokens_details"] = {"reasoning_tokens": 94}
    tokens = answer(CHAT, openai_wire.whole(TEXT, usage=usage)).usage
    assert (tokens.output_tokens, tokens.reasoning_tokens, tokens.answer_tokens) == (103, 94, 9)
