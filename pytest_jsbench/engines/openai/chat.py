"""What Chat Completions is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.generations import CallError, FaultKind, FinishReason, ResponseFormat, Usage
from pytest_jsbench.engines.http.answer_builder import AnswerBuilder, count, is_one_piece, items, read_object
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from openai import APIResponse

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.openai.settings import OpenAISettings

#: OpenAI's own, and every other server's
_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens")


def to_arguments(settings: OpenAISettings, request: Request) -> dict[str, Any]:
    """The arguments of the SDK's `create`; what nobody asked for is not sent."""
    params = request.params
    arguments: dict[str, Any] = {
        "model": settings.model,
        "messages": request.prompt.to_messages(),
        **_format(settings, request.schema),
    }
    if params.temperature is not None:
        arguments["temperature"] = params.temperature
    if params.seed is not None:
        arguments["seed"] = params.seed
    if settings.streaming:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    return settings.limited(arguments, params.max_tokens, known=_TOKENS_FIELDS)


def _format(settings: OpenAISettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.TEXT:
            return {}
        case ResponseFormat.JSON_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case ResponseFormat.JSON_SCHEMA:
            shape = {"name": settings.schema_name, "schema": schema, "strict": settings.strict}
            return {"response_format": {"type": "json_schema", "json_schema": shape}}
        case ResponseFormat.TOOL:
            function = {"name": settings.schema_name, "parameters": schema, "strict": settings.strict}
            choice = {"type": "function", "function": {"name": settings.schema_name}}
            return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
        case never:
            assert_never(never)


_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def read(response: APIResponse[Any], watch: Stopwatch, *, streaming: bool) -> AnswerBuilder:
    """Read the body to its end; a server that was asked for a stream may still answer in one piece."""
    if streaming and not is_one_piece(response.http_response):
        return _read_stream(response.parse(), watch, response.http_response)
    return read_whole(read_object(response.http_response), watch)


def _read_stream(chunks: Any, watch: Stopwatch, body: httpx2.Response) -> AnswerBuilder:
    answer = AnswerBuilder(watch, streaming=True, body=body)
    for chunk in chunks:
        # two errors that the SDK takes for chunks: vLLM's, and Gemini's list
        if getattr(chunk, "object", None) == "error":
            raise EnclosedError(chunk.to_dict())
        if isinstance(chunk, list):
            raise EnclosedError([item.to_dict() if hasattr(item, "to_dict") else item for item in chunk])
        # the usage comes with the last choice, or after it with no choice at all
        _use(answer, chunk)
        for choice in items(chunk, "choices"):
            if not getattr(choice, "index", 0):
                _take(answer, choice, getattr(choice, "delta", None))
    return answer


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
    """Read an answer that came in one piece."""
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.construct(**body)
    choices = items(completion, "choices")
    if not choices:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any choices")
    answer = AnswerBuilder(watch, streaming=False)
    _use(answer, completion)
    message = getattr(choices[0], "message", None)
    _take(answer, choices[0], message)
    if message is None:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered with a choice that holds no message")
    if getattr(choices[0], "finish_reason", None) is None:
        answer.end(FinishReason.UNKNOWN)
    return answer


def _take(answer: AnswerBuilder, choice: Any, part: Any) -> None:
    """Take what a choice brings: all of it, or one delta."""
    if error := (getattr(choice, "model_extra", None) or {}).get("error"):
        raise EnclosedError(error)
    answer.add(getattr(part, "content", None))
    for call in items(part, "tool_calls"):
        answer.add(getattr(getattr(call, "function", None), "arguments", None))
    answer.refuse(getattr(part, "refusal", None))
    if reason := getattr(choice, "finish_reason", None):
        answer.end(_FINISH.get(reason, FinishReason.UNKNOWN))


def _use(answer: AnswerBuilder, part: Any) -> None:
    usage = getattr(part, "usage", None)
    if usage is None:
        return
    answer.usage = Usage(
        input_tokens=count(getattr(usage, "prompt_tokens", None)),
        output_tokens=count(getattr(usage, "completion_tokens", None)),
        cached_tokens=count(getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)),
        reasoning_tokens=count(getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)),
    )
