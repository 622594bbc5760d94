"""What the Responses API is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.generations import CallError, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.http.answer_builder import AnswerBuilder, count, is_one_piece, items, read_object
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from openai import APIResponse

    from pytest_jsbench.core.cases import Message, Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.openai.settings import OpenAISettings


def to_arguments(settings: OpenAISettings, request: Request) -> dict[str, Any]:
    """The arguments of the SDK's `create`; the API has no seed, and nothing is left with the provider."""
    arguments: dict[str, Any] = {
        "model": settings.model,
        "input": [_item(message) for message in request.prompt.messages],
        # as chat does it: otherwise OpenAI keeps every answer for a month
        "store": False,
        **_format(settings, request.schema),
    }
    if request.params.temperature is not None:
        arguments["temperature"] = request.params.temperature
    if settings.streaming:
        arguments["stream"] = True
    return settings.limited(arguments, request.params.max_tokens, known=("max_output_tokens",))


def _item(message: Message) -> dict[str, Any]:
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    # the long form: llama.cpp takes no other for what the model said
    content = [{"type": "output_text", "text": message.content}]
    return {"type": "message", "role": message.role, "content": content}


def _format(settings: OpenAISettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.TEXT:
            return {}
        case ResponseFormat.JSON_OBJECT:
            return {"text": {"format": {"type": "json_object"}}}
        case ResponseFormat.JSON_SCHEMA:
            shape = {"name": settings.schema_name, "schema": schema, "strict": settings.strict}
            return {"text": {"format": {"type": "json_schema", **shape}}}
        case ResponseFormat.TOOL:
            tool = {"name": settings.schema_name, "parameters": schema, "strict": settings.strict}
            choice = {"type": "function", "name": settings.schema_name}
            return {"tools": [{"type": "function", **tool}], "tool_choice": choice}
        case never:
            assert_never(never)


_INCOMPLETE = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def read(response: APIResponse[Any], watch: Stopwatch, *, streaming: bool) -> AnswerBuilder:
    """Read the body to its end; a server that was asked for a stream may still answer in one piece."""
    if streaming and not is_one_piece(response.http_response):
        return _read_stream(response.parse(), watch, response.http_response)
    return read_whole(read_object(response.http_response), watch)


def _read_stream(events: Any, watch: Stopwatch, body: httpx2.Response) -> AnswerBuilder:
    answer = AnswerBuilder(watch, streaming=True, body=body)
    for event in events:
        match getattr(event, "type", None):
            # reasoning has deltas of its own, which are no content
            case "response.output_text.delta" | "response.function_call_arguments.delta":
                answer.add(getattr(event, "delta", None))
            case "response.refusal.delta":
                answer.refuse(getattr(event, "delta", None))
            case "response.completed" | "response.incomplete" | "response.failed":
                _finish(answer, getattr(event, "response", None))
            case "error":
                raise EnclosedError(event.to_dict())
    return answer


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
    """Read an answer that came in one piece."""
    from openai.types.responses import Response

    answer = AnswerBuilder(watch, streaming=False)
    _finish(answer, Response.construct(**body))
    return answer


def _finish(answer: AnswerBuilder, response: Any) -> None:
    """Take the response as a whole: why it ended, what it cost, and its text, unless that has come in deltas."""
    status = getattr(response, "status", None)
    answer.usage = _usage(getattr(response, "usage", None))
    if answer.empty:
        for item in items(response, "output"):
            _take(answer, item)
    match status:
        case "completed" if answer.empty and not isinstance(getattr(response, "output", None), list):
            raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any output")
        case "completed":
            answer.end(FinishReason.STOP)
        case "incomplete":
            reason = getattr(getattr(response, "incomplete_details", None), "reason", None)
            answer.end(_INCOMPLETE.get(str(reason), FinishReason.UNKNOWN))
        case "failed":
            raise EnclosedError(_failure(response))
        case None if not answer.empty:
            answer.end(FinishReason.UNKNOWN)
        case _:
            message = f"the server gave back a response that has not ended (status {status})"
            raise CallError(FaultKind.BAD_RESPONSE, message)


def _take(answer: AnswerBuilder, item: Any) -> None:
    """Take one item of the output: a message's text and refusals, or a call's arguments."""
    match getattr(item, "type", None):
        case "message":
            for part in items(item, "content"):
                answer.add(getattr(part, "text", None))
                answer.refuse(getattr(part, "refusal", None))
        case "function_call":
            answer.add(getattr(item, "arguments", None))


def _failure(response: Any) -> object:
    error = getattr(response, "error", None)
    if error is None:
        return {"message": "the response failed, and the server did not say why", "type": "server_error"}
    return error.to_dict() if hasattr(error, "to_dict") else error


def _usage(usage: Any) -> Usage:
    return Usage(
        input_tokens=count(getattr(usage, "input_tokens", None)),
        output_tokens=count(getattr(usage, "output_tokens", None)),
        cached_tokens=count(getattr(getattr(usage, "input_tokens_details", None), "cached_tokens", None)),
        reasoning_tokens=count(getattr(getattr(usage, "output_tokens_details", None), "reasoning_tokens", None)),
    )
