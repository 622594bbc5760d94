"""OpenAI's two APIs, Chat Completions and Responses: what is asked, and how their answers are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.http.answers import AnswerBuilder
from pytest_jsbench.engines.http.calls import EnclosedError, as_object, count, get, items, parts
from pytest_jsbench.engines.providers.provider import WireFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.providers.provider import ProviderSettings

CHAT_PATH = "/chat/completions"
RESPONSES_PATH = "/responses"
#: what a part of the content that is text is called; some servers leave it out
_TEXT_PARTS = ("text", "output_text", None)
#: parts that some servers send without a list around one
_ALONE = ("text", "output_text", "thinking", "refusal", "image_url")


def _chat_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    usage = {"stream_options": {"include_usage": True}} if settings.streaming and settings.stream_options else {}
    return settings.body(request, {"messages": [turn.to_dict() for turn in _turns(settings, request)], **usage})


def _turns(settings: ProviderSettings, request: Request) -> list[Message]:
    """The conversation, in roles that the server knows."""
    return [
        replace(turn, role="system") if turn.role == "developer" and not settings.takes_developer else turn
        for turn in request.prompt.messages
    ]


def _shape(settings: ProviderSettings, **schema: Any) -> dict[str, Any]:
    """The schema with its name, and whether it is to be held to."""
    return {"name": settings.schema_name, **schema, "strict": settings.strict}


def _chat_form(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {"response_format": {"type": "json_schema", "json_schema": _shape(settings, schema=schema)}}
        case ResponseFormat.JSON_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case ResponseFormat.TOOL:
            tools = [{"type": "function", "function": _shape(settings, parameters=schema)}]
            return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": settings.schema_name}}}
        case ResponseFormat.TEXT:
            return {}


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
            _take_choice(answer, choice, choice.get("delta"))


def _take_choices(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    choices = items(body, "choices")
    if not choices:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any choices")
    _use(answer, body.get("usage"))
    _time(answer, body)
    choice = as_object(choices[0])
    message = choice.get("message")
    _take_choice(answer, choice, message)
    if message is None:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered with a choice that holds no message")
    if choice.get("finish_reason") is None:
        answer.end(FinishReason.UNKNOWN)


def _take_choice(answer: AnswerBuilder, choice: Mapping[str, Any], message: object) -> None:
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


CHAT = WireFormat(to_body=_chat_body, form=_chat_form, take=_take_chunk, take_whole=_take_choices)


def _response_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    turns = [item for turn in _turns(settings, request) for item in _input_items(turn)]
    # unstored, as chat does it: otherwise OpenAI keeps every answer for a month
    return settings.body(request, {"input": turns, "store": False})


def _input_items(turn: Message) -> Iterator[dict[str, Any]]:
    """The items of one turn: calls and results are items of their own."""
    if turn.role == "tool":
        yield {"type": "function_call_output", "call_id": turn.tool_call_id, "output": turn.content}
    elif turn.role != "assistant":
        yield {"role": turn.role, "content": turn.content}
    elif turn.content or not turn.tool_calls:
        # the long form: llama.cpp takes no other for what the model said
        content = [{"type": "output_text", "text": turn.content}]
        yield {"type": "message", "role": turn.role, "content": content}
    for call in turn.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _response_form(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {"text": {"format": {"type": "json_schema", **_shape(settings, schema=schema)}}}
        case ResponseFormat.JSON_OBJECT:
            return {"text": {"format": {"type": "json_object"}}}
        case ResponseFormat.TOOL:
            tools = [{"type": "function", **_shape(settings, parameters=schema)}]
            return {"tools": tools, "tool_choice": {"type": "function", "name": settings.schema_name}}
        case ResponseFormat.TEXT:
            return {}


#: between the parts of a summary
_APART = "\n\n"
_INCOMPLETE = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def _take_event(answer: AnswerBuilder, event: object) -> None:
    match get(event, "type"):
        case "response.output_text.delta":
            answer.add(get(event, "delta"))
        case "response.function_call_arguments.delta":
            answer.call(get(event, "item_id"), arguments=get(event, "delta"))
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            answer.reason(get(event, "delta"))
        case "response.reasoning_summary_part.added" if answer.reasoned:
            answer.reason(_APART)
        case "response.output_item.added" if get(event, "item", "type") == "reasoning":
            answer.begin_reasoning()
        case "response.output_item.added" if get(event, "item", "type") == "function_call":
            answer.call(get(event, "item", "id"), name=get(event, "item", "name"))
        case "response.refusal.delta":
            answer.refuse(get(event, "delta"))
        case "response.completed" | "response.incomplete" | "response.failed":
            _take_response(answer, get(event, "response"))


def _take_response(answer: AnswerBuilder, response: object) -> None:
    """Take the response as a whole: why it ended, what it cost, and its text, unless that has come in deltas."""
    status = get(response, "status")
    answer.usage = _usage(get(response, "usage"))
    if not answer.reasoned:
        answer.reason(_APART.join(_reasoning(response)))
    if answer.empty:
        answer.calls.clear()  # of which no arguments came
        for item in items(response, "output"):
            _take_item(answer, item)
    match status:
        case "completed" if answer.empty and not isinstance(get(response, "output"), list):
            raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any output")
        case "completed":
            answer.end(FinishReason.STOP)
        case "incomplete":
            reason = get(response, "incomplete_details", "reason")
            answer.end(_INCOMPLETE.get(str(reason), FinishReason.UNKNOWN))
        case "failed":
            unexplained = {"message": "the response failed, and the server did not say why", "type": "server_error"}
            raise EnclosedError(get(response, "error") or unexplained)
        case None if not answer.empty:
            answer.end(FinishReason.UNKNOWN)
        case _:
            message = f"the server gave back a response that has not ended (status {status})"
            raise CallError(FaultKind.BAD_RESPONSE, message)


def _take_item(answer: AnswerBuilder, item: object) -> None:
    """Take one item of the output: a message's text and refusals, or a call's arguments."""
    match get(item, "type"):
        case "message":
            for part in parts(get(item, "content")):
                answer.add(get(part, "text") if get(part, "type") else part)
                answer.refuse(get(part, "refusal"))
        case "function_call":
            answer.call(get(item, "id"), name=get(item, "name"), arguments=get(item, "arguments"))


def _reasoning(response: object) -> Iterator[str]:
    """The texts of the items of reasoning: all of it, a summary, or nothing."""
    for item in items(response, "output"):
        if get(item, "type") == "reasoning":
            shown = items(item, "content") or items(item, "summary")
            yield from (text for part in shown if isinstance(text := get(part, "text"), str))


def _usage(usage: object) -> Usage:
    return Usage(
        input_tokens=count(get(usage, "input_tokens")),
        output_tokens=count(get(usage, "output_tokens")),
        cached_tokens=count(get(usage, "input_tokens_details", "cached_tokens")),
        reasoning_tokens=count(get(usage, "output_tokens_details", "reasoning_tokens")),
    )


RESPONSES = WireFormat(to_body=_response_body, form=_response_form, take=_take_event, take_whole=_take_response)
