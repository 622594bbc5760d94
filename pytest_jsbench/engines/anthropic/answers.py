"""What a Messages server answered, in a stream or in one piece."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import FinishReason, Usage
from pytest_jsbench.engines.http.answer_builder import AnswerBuilder, count, is_one_piece, items, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from anthropic import APIResponse

    from pytest_jsbench.core.timing import Stopwatch

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
}


def read(response: APIResponse[Any], watch: Stopwatch, *, streaming: bool) -> AnswerBuilder:
    """Read the body to its end; a server that was asked for a stream may still answer in one piece."""
    if streaming and not is_one_piece(response.http_response):
        return _read_stream(response.parse(), watch, response.http_response)
    return read_whole(read_object(response.http_response), watch)


def _read_stream(events: Any, watch: Stopwatch, body: httpx2.Response) -> AnswerBuilder:
    answer = AnswerBuilder(watch, streaming=True, body=body)
    counts: dict[str, Any] = {}
    for event in events:
        match getattr(event, "type", None):
            case "message_start":
                _note(counts, getattr(getattr(event, "message", None), "usage", None))
            case "content_block_delta":
                # thinking and signatures are deltas too, but no content
                piece = getattr(event, "delta", None)
                answer.add(getattr(piece, "text", None))
                answer.add(getattr(piece, "partial_json", None))
            case "message_delta":
                _note(counts, getattr(event, "usage", None))
                _end(answer, getattr(event, "delta", None))
    answer.usage = _usage(counts)
    return answer


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
    """Read an answer that came in one piece."""
    from anthropic.types import Message

    answer = AnswerBuilder(watch, streaming=False)
    message = Message.construct(**body)
    for block in items(message, "content"):
        if getattr(block, "type", None) == "tool_use":
            answer.add(json.dumps(getattr(block, "input", None), ensure_ascii=False))
        else:
            answer.add(getattr(block, "text", None))
    _end(answer, message)
    counts: dict[str, Any] = {}
    _note(counts, getattr(message, "usage", None))
    answer.usage = _usage(counts)
    return answer


def _end(answer: AnswerBuilder, part: Any) -> None:
    reason = getattr(part, "stop_reason", None)
    if reason is None:
        return
    if reason == "refusal":
        details = getattr(part, "stop_details", None)
        answer.refuse(getattr(details, "explanation", None) or "the model's provider refused to answer")
    answer.end(_FINISH.get(reason, FinishReason.UNKNOWN))


def _note(counts: dict[str, Any], usage: Any) -> None:
    """Take the counts that are given; those of a later event are the sum so far."""
    details = getattr(usage, "output_tokens_details", None)
    given = {name: getattr(usage, name, None) for name in _COUNTS}
    given["thinking_tokens"] = getattr(details, "thinking_tokens", None)
    counts.update({name: value for name, value in given.items() if count(value) is not None})


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
