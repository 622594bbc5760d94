"""Chat Completions: what is asked, and how its answers are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.http.answers import AnswerBuilder
from pytest_jsbench.engines.http.calls import EnclosedError, as_object, count, get, items, parts
from pytest_jsbench.engines.providers.provider import WireFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.providers.provider import Formats, ProviderSettings

PATH = "/chat/completions"
#: of the other API, whose module is imported by those alone who speak it
RESPONSES_PATH = "/responses"
#: what a part of the content that is text is called; some servers leave it out
_TEXT_PARTS = ("text", "output_text", None)
#: parts that some servers send without a list around one
_ALONE = ("text", "output_text", "thinking", "refusal", "image_url")


def to_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    """The body of one call; what nobody asked for is not sent."""
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [turn.to_dict() for turn in turns(settings, request)],
        **settings.sampling(request.params),
        **FORMATS[settings.response_format](settings, request.schema),
    }
    if settings.streaming and settings.stream_options:
        body["stream_options"] = {"include_usage": True}
    return finished(settings, body, request)


def turns(settings: ProviderSettings, request: Request) -> list[Message]:
    """The conversation, in roles that the server knows."""
    return [
        replace(turn, role="system") if turn.role == "developer" and not settings.takes_developer else turn
        for turn in request.prompt.messages
    ]


def finished(settings: ProviderSettings, body: dict[str, Any], request: Request) -> dict[str, Any]:
    """The body with what both APIs of OpenAI call by one name."""
    if settings.streaming:
        body["stream"] = True
    if settings.single_call and settings.response_format is ResponseFormat.TOOL:
        body["parallel_tool_calls"] = False
    return settings.with_extra(body, repeat=request.repeat)


def shape(settings: ProviderSettings, **schema: Any) -> dict[str, Any]:
    """The schema with its name, and whether it is to be held to."""
    return {"name": settings.schema_name, **schema, "strict": settings.strict}


def _json_schema(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": shape(settings, schema=schema)}}


def _tool(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    choice = {"type": "function", "function": {"name": settings.schema_name}}
    return {
        "tools": [{"type": "function", "function": shape(settings, parameters=schema)}],
        "tool_choice": choice,
    }


FORMATS: Formats = {
    ResponseFormat.JSON_SCHEMA: _json_schema,
    ResponseFormat.JSON_OBJECT: lambda *_: {"response_format": {"type": "json_object"}},
    ResponseFormat.TOOL: _tool,
    ResponseFormat.TEXT: lambda *_: {},
}
_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def _take_chunk(answer: AnswerBuilder, event: Any) -> None:
    chunk = as_object(event)
    # the usage comes with the last choice, or after it with no choice at all
    _use(answer, chunk.get("usage"))
    _time(answer, chunk)
    for each in items(chunk, "choices"):
        choice = as_object(each)
        if not choice.get("index"):
            _take(answer, choice, choice.get("delta"))


def _take_whole(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    choices = items(body, "choices")
    if not choices:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any choices")
    _use(answer, body.get("usage"))
    _time(answer, body)
    choice = as_object(choices[0])
    message = choice.get("message")
    _take(answer, choice, message)
    if message is None:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered with a choice that holds no message")
    if choice.get("finish_reason") is None:
        answer.end(FinishReason.UNKNOWN)


def _take(answer: AnswerBuilder, choice: Mapping[str, Any], message: object) -> None:
    """Take what a choice brings: all of it, or one delta."""
    if error := choice.get("error"):
        raise EnclosedError(error)
    part = as_object(message)
    content = part.get("content")
    if isinstance(content, str):  # as in nearly all of a stream's thousands of deltas
        answer.add(content)
    elif get(content, "type") in _ALONE or (isinstance(content, list) and all(map(_is_part, content))):
        for piece in parts(content):
            _add(answer, piece)
    else:  # nothing, or the answer itself, which the server has read
        answer.add(content)
    # the second is vLLM's, Groq's, OpenRouter's; a server that sends both says the same twice
    if reasoning := part.get("reasoning_content") or part.get("reasoning"):
        answer.reason(reasoning)
    if calls := part.get("tool_calls"):
        _take_calls(answer, calls)
    if refusal := part.get("refusal"):
        answer.refuse(refusal)
    if reason := choice.get("finish_reason"):
        answer.end(_FINISH.get(str(reason), FinishReason.UNKNOWN))


def _take_calls(answer: AnswerBuilder, calls: object) -> None:
    for number, call in enumerate(parts(calls)):
        if (function := get(call, "function")) is not None:  # a custom tool's call has none, and no schema
            place, name, arguments = get(call, "index"), get(function, "name"), get(function, "arguments")
            # Gemini's endpoint gives all calls one index, and each its id
            answer.call(number if place is None else place, own=get(call, "id"), name=name, arguments=arguments)


def _is_part(piece: object) -> bool:
    """True of an element that is a part of a content; a list of others is itself the answer, read."""
    return isinstance(piece, str) or "text" in as_object(piece) or isinstance(get(piece, "type"), str)


def _add(answer: AnswerBuilder, piece: object) -> None:
    """Add content: a text, or one part of a list of parts, of which those of reasoning and pictures are no answer."""
    if not isinstance(piece, dict):
        answer.add(piece)
    elif piece.get("type") in _TEXT_PARTS:
        answer.add(piece.get("text"))
    elif piece.get("type") == "thinking":
        for part in items(piece, "thinking"):
            answer.reason(get(part, "text"))
    else:
        answer.refuse(piece.get("refusal"))


def _use(answer: AnswerBuilder, usage: object) -> None:
    if usage is None:
        return
    prompt, completion = count(get(usage, "prompt_tokens")), count(get(usage, "completion_tokens"))
    thought = count(get(usage, "completion_tokens_details", "reasoning_tokens"))
    if thought and prompt is not None and completion is not None:
        # xAI leaves them out of the completion, and only the sum of all tells
        apart = get(usage, "total_tokens") == prompt + completion + thought
        completion += thought if apart else 0
    answer.usage = Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=count(get(usage, "prompt_tokens_details", "cached_tokens")),
        reasoning_tokens=thought,
    )


#: of a time that a server may say; more is none
_LONGEST = 1e8
#: where servers say how long they took: llama.cpp, Cerebras and Groq
_SECONDS = {"server_queue": "queue_time", "server_prefill": "prompt_time", "server_decode": "completion_time"}
_SERVER_TIMES = (
    ("timings", 1e-3, {"server_prefill": "prompt_ms", "server_decode": "predicted_ms"}),
    ("time_info", 1.0, _SECONDS),
    ("usage", 1.0, _SECONDS),
)


def _time(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    """Take the times of the server's own clock, where it tells them."""
    for group, unit, names in _SERVER_TIMES:
        for name, theirs in names.items():
            value = get(body, group, theirs)
            if type(value) in (int, float) and 0 <= value < _LONGEST:
                answer.server_times[name] = value * unit


CHAT = WireFormat(to_body=to_body, formats=FORMATS, take=_take_chunk, take_whole=_take_whole)
