"""The Responses API: what is asked, and how its answers are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.http.answers import AnswerBuilder
from pytest_jsbench.engines.http.calls import EnclosedError, count, get, items, parts
from pytest_jsbench.engines.providers.chat import finished, shape, turns
from pytest_jsbench.engines.providers.provider import WireFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.providers.provider import Formats, ProviderSettings


def to_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    """The body of one call; what nobody asked for is not sent."""
    body: dict[str, Any] = {
        "model": settings.model,
        "input": [item for turn in turns(settings, request) for item in _input_items(turn)],
        "store": False,  # as chat does it: otherwise OpenAI keeps every answer for a month
        **settings.sampling(request.params),
        **FORMATS[settings.response_format](settings, request.schema),
    }
    return finished(settings, body, request)


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


def _json_schema(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    return {"text": {"format": {"type": "json_schema", **shape(settings, schema=schema)}}}


def _tool(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    tools = [{"type": "function", **shape(settings, parameters=schema)}]
    return {"tools": tools, "tool_choice": {"type": "function", "name": settings.schema_name}}


FORMATS: Formats = {
    ResponseFormat.JSON_SCHEMA: _json_schema,
    ResponseFormat.JSON_OBJECT: lambda *_: {"text": {"format": {"type": "json_object"}}},
    ResponseFormat.TOOL: _tool,
    ResponseFormat.TEXT: lambda *_: {},
}
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
            _finish(answer, get(event, "response"))


def _finish(answer: AnswerBuilder, response: object) -> None:
    """Take the response as a whole: why it ended, what it cost, and its text, unless that has come in deltas."""
    status = get(response, "status")
    answer.usage = _usage(get(response, "usage"))
    if not answer.reasoned:
        answer.reason(_APART.join(_reasoning(response)))
    if answer.empty:
        answer.calls.clear()  # of which no arguments came
        for item in items(response, "output"):
            _take(answer, item)
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


def _take(answer: AnswerBuilder, item: object) -> None:
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


RESPONSES = WireFormat(to_body=to_body, formats=FORMATS, take=_take_event, take_whole=_finish)
