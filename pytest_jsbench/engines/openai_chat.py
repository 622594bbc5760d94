"""What Chat Completions is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.generations import ResponseFormat

if TYPE_CHECKING:
    from pytest_jsbench.cases import Schema
    from pytest_jsbench.engines.openai_settings import OpenAISettings
    from pytest_jsbench.generations import Request

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
