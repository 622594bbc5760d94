"""What `generateContent` answered, in a stream or in one piece."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import FinishReason, Usage
from pytest_jsbench.engines.http.answer_builder import AnswerBuilder, count, get, items, parts
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.http.event_stream import EventStream

#: what its words mean; any other is unknown
FINISH = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    # the limit of one request: the rest could be asked for
    "CONTINUATION": FinishReason.LENGTH,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION"),
            *("MODEL_ARMOR", "PUP_LIMITED_DISABLED", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        FinishReason.CONTENT_FILTER,
    ),
    # what the model wrote is no call of the tool; it is not shown, or only in the words of a message
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"),
        FinishReason.REJECTED,
    ),
}


def read_stream(stream: EventStream, watch: Stopwatch) -> AnswerBuilder:
    """Read the events of a stream, each of which has the form of a whole answer."""
    answer = AnswerBuilder(watch, stream=stream)
    counts: dict[str, int] = {}
    for event in stream:
        if get(event, "error") is not None:
            raise EnclosedError(event)
        _read(answer, event, counts)
    answer.usage = _usage(counts)
    return answer


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
    """Read an answer that came in one piece."""
    answer = AnswerBuilder(watch)
    counts: dict[str, int] = {}
    _read(answer, body, counts)
    answer.usage = _usage(counts)
    return answer


def _read(answer: AnswerBuilder, part: object, counts: dict[str, int]) -> None:
    # a later event's are the sum so far
    given = {name: count(get(part, "usageMetadata", name)) for name in _COUNTS}
    counts.update({name: value for name, value in given.items() if value is not None})
    if (blocked := get(part, "promptFeedback", "blockReason")) is not None:
        said = get(part, "promptFeedback", "blockReasonMessage")
        answer.refuse(said if isinstance(said, str) and said else f"the provider blocked the prompt: {blocked}")
    for candidate in items(part, "candidates")[:1]:
        for piece in parts(get(candidate, "content", "parts")):
            _add(answer, piece)
        _end(answer, candidate)


def _add(answer: AnswerBuilder, piece: object) -> None:
    if get(piece, "thought") is True:
        answer.reason(get(piece, "text"))
    elif (call := get(piece, "functionCall")) is not None:
        given = get(call, "args")
        # of an empty object the API says nothing
        arguments = "{}" if given is None else json.dumps(given, ensure_ascii=False)
        answer.call(len(answer.calls), name=get(call, "name"), arguments=arguments)
    else:
        answer.add(get(piece, "text") if isinstance(piece, dict) else piece)


def _end(answer: AnswerBuilder, candidate: object) -> None:
    reason = get(candidate, "finishReason")
    if reason is None:
        return
    finish = FINISH.get(str(reason), FinishReason.UNKNOWN)
    if finish is FinishReason.CONTENT_FILTER and answer.empty:
        said = get(candidate, "finishMessage")
        answer.refuse(said if isinstance(said, str) and said else f"the provider let nothing through: {reason}")
    answer.end(finish)


_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")


def _usage(counts: Mapping[str, int]) -> Usage:
    thoughts = counts.get("thoughtsTokenCount")
    written = [number for number in (counts.get("candidatesTokenCount"), thoughts) if number is not None]
    return Usage(
        # what the cache holds is in it
        input_tokens=counts.get("promptTokenCount"),
        # the API's own count of candidates leaves thoughts out, and is absent where there is nothing else
        output_tokens=sum(written) if written else None,
        cached_tokens=counts.get("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )
