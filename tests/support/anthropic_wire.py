"""Examples of what Anthropic servers send, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support.provider import Provider, event

SECRET = "sk-ant-test-0123456789abcdef"
INPUT = {"input_tokens": 5, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11, "output_tokens": 1}


def typed(name: str, **data: Any) -> str:
    return event({"type": name, **data}, name=name)


def start(usage: Any = INPUT) -> str:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    return typed("message_start", message={**message, "stop_reason": None, "usage": usage})


def delta(text: str | None = None, *, kind: str = "text_delta", **more: Any) -> str:
    content = {"text": text} if text is not None else {}
    return typed("content_block_delta", index=0, delta={"type": kind, **content, **more})


def stop(reason: str = "end_turn", **more: Any) -> str:
    usage = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}}
    ended = typed("message_delta", delta={"stop_reason": reason, "stop_sequence": None, **more}, usage=usage)
    return ended + typed("message_stop")


def whole(*content: Any, reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    data = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return {**data, "stop_reason": reason, "usage": {**INPUT, "output_tokens": 9}, **more}


TEXT = {"type": "text", "text": '{"city": "Oslo"}'}


def configured(provider: Provider, **changes: Any) -> EngineConfig:
    config = EngineConfig(name="anthropic", model="m", base_url=provider.url, api_key=SECRET)
    return replace(config, **changes)


def error_body(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}
