"""Anthropic's Messages: its body and its answers."""

from __future__ import annotations

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
    Sent,
    Tools,
    Usage,
)
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.messages import MESSAGES
from pytest_jsbench.engines.registry import find
from tests.engines.anthropic_wire import TEXT, configured, delta, start, stop, typed, whole
from tests.engines.asking import CITY, complete, completion_of, fault, request
from tests.engines.provider import Provider, event
from tests.engines.reading import answer, body_of, read

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

ALL = Usage(input_tokens=23, output_tokens=9, cached_tokens=11, reasoning_tokens=3)


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider) -> None:
    expected = {
        "model": "m",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Name a city, as JSON."}],
        "max_tokens": 7,
        "output_config": {"format": {"type": "json_schema", "schema": CITY}},
        "stream": True,
    }
    assert body_of(configured(provider), system="Be brief.", max_tokens=7, seed=7) == expected
    assert body_of(configured(provider), system="Be brief.", max_tokens=7, temperature=0) == {
        **expected,
        "temperature": 0,
    }


def test_a_tool_is_strict_and_the_only_choice(provider: Provider) -> None:
    config = configured(provider, response_format=ResponseFormat.TOOL, options={"schema_name": "city"})
    engine = find("anthropic").build(config)
    pieces = (delta(kind="input_json_delta", partial_json=piece) for piece in ("", '{"a"', ": 1}"))
    provider.stream(start(), *pieces, stop("tool_use"))
    answer = complete(engine)
    assert (answer.text, answer.finish_reason) == ('{"a": 1}', FinishReason.STOP)
    tools = Tools(schemas={"city": None}, allowed=("city",), required=True)
    assert answer.sent == Sent(response_format=ResponseFormat.TOOL, tools=tools)
    body = provider.asked[0].body
    assert body["tools"] == [{"name": "city", "input_schema": CITY, "strict": True}]
    assert body["tool_choice"] == {"type": "tool", "name": "city", "disable_parallel_tool_use": True}
    assert "output_config" not in body
    engine.close()


def test_free_text_is_asked_for_without_a_schema_and_with_what_the_options_say(provider: Provider) -> None:
    provider.json(whole(TEXT))
    options = {"stream": False, "extra_body": {"thinking": {"type": "disabled"}}, "extra_headers": {"x-a": "b"}}
    config = configured(provider, response_format=ResponseFormat.TEXT, options=options)
    completion_of(config, request(max_tokens=60_000))
    (asked,) = provider.asked
    assert set(asked.body) == {"model", "messages", "max_tokens", "thinking"}
    assert asked.headers["x-a"] == "b"


def test_json_without_a_schema_is_not_offered() -> None:
    config = EngineConfig(name="anthropic", response_format=ResponseFormat.JSON_OBJECT)
    with pytest.raises(EngineError, match="no response format 'json_object'"):
        find("anthropic").describe(config)


def called(given: Any, *pieces: str) -> tuple[str, ...]:
    """A call whose block begins with an input, and goes on in pieces of it."""
    block = {"type": "tool_use", "id": "t", "name": "output", "input": given}
    begun = typed("content_block_start", index=0, content_block=block)
    deltas = [delta(kind="input_json_delta", partial_json=piece) for piece in pieces]
    return (start(), begun, *deltas, typed("content_block_stop", index=0), stop("tool_use"))


BEGUN = typed("content_block_start", index=0, content_block={"type": "text", "text": '{"a"'})
WORDLESS = typed("message_delta", delta={"stop_reason": ["end_turn"]})
ANSWERS: list[tuple[tuple[Any, ...], str, FinishReason]] = [
    ((whole({"type": "tool_use", "name": "output", "input": {"city": "Åre"}}, reason="tool_use"),),
     '{"city": "Åre"}', FinishReason.STOP),
    ((whole({"type": "hologram", "data": "x"}, {"type": "thinking", "thinking": "Hm"}, TEXT),),
     '{"city": "Oslo"}', FinishReason.STOP),
    ((start(), BEGUN, delta(": 1}"), stop()), '{"a": 1}', FinishReason.STOP),
    (called({}, ""), "{}", FinishReason.STOP),
    (called({}, "", '{"a"', ": 1}"), '{"a": 1}', FinishReason.STOP),
    (called({"city": "Åre"}), '{"city": "Åre"}', FinishReason.STOP),
    ((start(), delta("{}"), WORDLESS), "{}", FinishReason.UNKNOWN),
    # without the names of the events
    (tuple(piece.split("\n", 1)[1] for piece in (start(), delta("{}"), stop())), "{}", FinishReason.STOP),
    *(
        ((start(), delta("{}"), stop(word)), "{}", reason)
        for word, reason in {
            "end_turn": FinishReason.STOP,
            "stop_sequence": FinishReason.STOP,
            "max_tokens": FinishReason.LENGTH,
            "model_context_window_exceeded": FinishReason.LENGTH,
            "pause_turn": FinishReason.UNKNOWN,
        }.items()
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text", "reason"), ANSWERS)
def test_an_answer_is_its_text_and_why_it_ended(content: tuple[Any, ...], text: str, reason: FinishReason) -> None:
    completion = answer(MESSAGES, *content)
    assert (completion.text, completion.finish_reason) == (text, reason)


def test_what_the_cache_holds_is_counted_as_input() -> None:
    assert answer(MESSAGES, start(), delta("{}"), stop()).usage == ALL
    assert answer(MESSAGES, whole(TEXT)).usage == Usage(input_tokens=23, output_tokens=9, cached_tokens=11)


def test_pings_start_no_clock(provider: Provider, engine: Engine) -> None:
    thought = delta(kind="thinking_delta", thinking="Hm. ")
    provider.stream(start(), thought, typed("ping"), delta("{}"), stop(), pause=0.3)
    timing = complete(engine).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.ttft >= 0.89


SILENT = "the model's provider refused to answer"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"type": "refusal", "category": "bio", "explanation": "Not that."}, "Not that."),
        (None, SILENT),
        *(({"explanation": odd}, SILENT) for odd in (5, ["no"], "")),
    ],
)
def test_a_refusal_is_declined(details: Any, message: str) -> None:
    declined = read(MESSAGES, start(), delta('{"a'), stop("refusal", stop_details=details))
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.message, declined.usage) == (DeclineReason.REFUSAL, message, ALL)


def test_an_error_without_the_name_of_its_event_is_one(provider: Provider, engine: Engine) -> None:
    provider.stream(event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.SERVER, "Overloaded")


def test_a_message_without_an_end_or_content_is_no_answer() -> None:
    with pytest.raises(CallError) as caught:
        read(MESSAGES, {"type": "message"})
    assert caught.value.kind is FaultKind.BAD_RESPONSE
