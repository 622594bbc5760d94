"""What the Responses API is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.generations import ResponseFormat

if TYPE_CHECKING:
    from pytest_jsbench.cases import Schema
    from pytest_jsbench.engines.openai_settings import OpenAISettings
    from pytest_jsbench.generations import Request
    from pytest_jsbench.prompts import Message


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
