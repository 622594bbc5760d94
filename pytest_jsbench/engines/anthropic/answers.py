"""What a Messages server answered, in a stream or in one piece."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import FinishReason, Usage
from pytest_jsbench.engines.http.answer_builder import AnswerBuilder, count, get, parts
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.http.event_stream import EventStream

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
}
#: blocks of reasoning, of which some show nothing
_THINKING = ("thinking", "redacted_thinking")


def read_stream(stream: EventStream, watch: Stopwatch) -> AnswerBuilder:
    """Read the events of a stream."""
    answer = AnswerBuilder(watch, stream=stream)
    counts: dict[str, int] = {}
    #: of a tool's block; of an empty object no piece comes
    whole: str | None = None
    for event in stream:
        match get(event, "type"):
            case "message_start":
                _note(counts, get(event, "message", "usage"))
            case "content_block_start":
                block = get(event, "content_block")
                if get(block, "type") in _THINKING:
                    answer.begin_reasoning()
                answer.add(get(block, "text"))
                if get(block, "type") == "tool_use":
                    whole = _input(block)
                    answer.call(get(event, "index"), name=get(block, "name"))
            case "content_block_delta":
                answer.reason(get(event, "delta", "thinking"))
                answer.add(get(event, "delta", "text"))
                if piece := get(event, "delta", "partial_json"):
                    answer.call(get(event, "index"), arguments=piece)
            case "content_block_stop" if whole is not None:
                answer.call(get(event, "index"), whole=whole)
                whole = None
            case "message_delta":
                _note(counts, get(event, "usage"))
                _end(answer, get(event, "delta"))
            case "error":
                raise EnclosedError(event)
    answer.usage = _usage(counts)
    return answer


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
    """Read an answer that came in one piece."""
    answer = AnswerBuilder(watch)
    for number, block in enumerate(parts(body.get("content"))):
        if get(block, "type") == "tool_use":
            answer.call(number, name=get(block, "name"), arguments=_input(block))
        else:
            answer.reason(get(block, "thinking"))
            answer.add(get(block, "text") if get(block, "type") else block)
    _end(answer, body)
    counts: dict[str, int] = {}
    _note(counts, get(body, "usage"))
    answer.usage = _usage(counts)
    return answer


def _input(block: object) -> str | None:
    """The arguments of a call, which the API has as an object."""
    value = get(block, "input")
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _end(answer: AnswerBuilder, part: object) -> None:
    reason = get(part, "stop_reason")
    if reason is None:
        return
    if reason == "refusal":
        explanation = get(part, "stop_details", "explanation")
        said = isinstance(explanation, str) and explanation
        answer.refuse(said or "the model's provider refused to answer")
    answer.end(_FINISH.get(str(reason), FinishReason.UNKNOWN))


def _note(counts: dict[str, int], usage: object) -> None:
    """Take the counts that are given; those of a later event are the sum so far."""
    given = {name: count(get(usage, name)) for name in _COUNTS}
    given["thinking_tokens"] = count(get(usage, "output_tokens_details", "thinking_tokens"))
    counts.update({name: value for name, value in given.items() if value is not None})


_CACHE_READ = "cache_read_input_tokens"
_INPUT = ("input_tokens", "cache_creation_input_tokens", _CACHE_READ)
_COUNTS = (*_INPUT, "output_tokens")


def _usage(counts: Mapping[str, int]) -> Usage:
    known = "input_tokens" in counts
    return Usage(
        # the API's own `input_tokens` leaves out what the cache holds
        input_tokens=sum(counts.get(name, 0) for name in _INPUT) if known else None,
        output_tokens=counts.get("output_tokens"),
        cached_tokens=counts.get(_CACHE_READ),
        reasoning_tokens=counts.get("thinking_tokens"),
    )
