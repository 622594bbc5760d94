"""What a chat-completions server answered, in a stream or in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.engines.answers import Answer, count, is_one_piece, items, read_object
from pytest_jsbench.engines.provider_errors import EnclosedError
from pytest_jsbench.generations import CallError, FaultKind, FinishReason, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from openai import APIResponse

    from pytest_jsbench.timing import Stopwatch

_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def read(response: APIResponse[Any], watch: Stopwatch, *, streaming: bool) -> Answer:
    """Read the body to its end; a server that was asked for a stream may still answer in one piece."""
    if streaming and not is_one_piece(response.http_response):
        return _read_stream(response.parse(), watch, response.http_response)
    return read_whole(read_object(response.http_response), watch)


def _read_stream(chunks: Any, watch: Stopwatch, body: httpx2.Response) -> Answer:
    answer = Answer(watch, streaming=True, body=body)
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


def read_whole(body: Mapping[str, Any], watch: Stopwatch) -> Answer:
    """Read an answer that came in one piece."""
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.construct(**body)
    choices = items(completion, "choices")
    if not choices:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any choices")
    answer = Answer(watch, streaming=False)
    _use(answer, completion)
    message = getattr(choices[0], "message", None)
    _take(answer, choices[0], message)
    if message is None:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered with a choice that holds no message")
    if getattr(choices[0], "finish_reason", None) is None:
        answer.end(FinishReason.UNKNOWN)
    return answer


def _take(answer: Answer, choice: Any, part: Any) -> None:
    """Take what a choice brings: all of it, or one delta."""
    if error := (getattr(choice, "model_extra", None) or {}).get("error"):
        raise EnclosedError(error)
    answer.add(getattr(part, "content", None))
    for call in items(part, "tool_calls"):
        answer.add(getattr(getattr(call, "function", None), "arguments", None))
    answer.refuse(getattr(part, "refusal", None))
    if reason := getattr(choice, "finish_reason", None):
        answer.end(_FINISH.get(reason, FinishReason.UNKNOWN))


def _use(answer: Answer, part: Any) -> None:
    usage = getattr(part, "usage", None)
    if usage is None:
        return
    answer.usage = Usage(
        input_tokens=count(getattr(usage, "prompt_tokens", None)),
        output_tokens=count(getattr(usage, "completion_tokens", None)),
        cached_tokens=count(getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)),
        reasoning_tokens=count(getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)),
    )
