"""Examples of what OpenAI servers send, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support.provider import Provider, event

SECRET = "sk-test-0123456789abcdef"
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def chunk(content: Any = None, *, finish: str | None = None, usage: Any = None, **delta: Any) -> str:
    if content is not None:
        delta["content"] = content
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return event({**data, "usage": usage})


def usage_chunk(usage: Any = USAGE) -> str:
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage})


def whole(content: Any = '{"city": "Oslo"}', *, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": more.pop("refusal", None)}
    message |= more.pop("message", {})
    choice = {"index": 0, "message": message, "finish_reason": finish}
    data = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {**data, "usage": USAGE, **more}


def configured(provider: Provider, **changes: Any) -> EngineConfig:
    config = EngineConfig(name="openai", model="m", base_url=f"{provider.url}/v1", api_key=SECRET)
    return replace(config, **changes)


#: API version of an Azure resource, which answers in OpenAI's format.
AZURE_VERSION = "2025-04-01-preview"


def azure(provider: Provider, *, options: dict[str, Any] | None = None, **changes: Any) -> EngineConfig:
    config = configured(provider, **{"name": "azure", "base_url": provider.url, **changes})
    return replace(config, options={"api_version": AZURE_VERSION, **(options or {})})


def error_body(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
