"""Examples of what servers of the Responses API send, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support import openai_wire
from tests.support.provider import Provider, event

USAGE = {
    "input_tokens": 20,
    "output_tokens": 9,
    "total_tokens": 29,
    "input_tokens_details": {"cached_tokens": 16},
    "output_tokens_details": {"reasoning_tokens": 4},
}


def typed(name: str, **data: Any) -> str:
    return event({"type": name, "sequence_number": 1, **data}, name=name)


def message(text: str | None = '{"city": "Oslo"}', *, refusal: str | None = None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if text is not None:
        parts.append({"type": "output_text", "text": text, "annotations": []})
    if refusal is not None:
        parts.append({"type": "refusal", "refusal": refusal})
    return {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": parts}


def called(arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "i", "call_id": "c", "name": "output", "arguments": arguments}


def whole(*output: Any, status: str | None = "completed", **more: Any) -> dict[str, Any]:
    data = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": status, "error": None}
    return {**data, "incomplete_details": None, "output": list(output or [message()]), "usage": USAGE, **more}


def incomplete(reason: str, *output: Any) -> dict[str, Any]:
    return whole(*output, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str, words: str) -> dict[str, Any]:
    return whole(status="failed", output=[], usage=None, error={"code": code, "message": words})


def start() -> str:
    begun = whole(status="in_progress", output=[], usage=None)
    return typed("response.created", response=begun) + typed("response.in_progress", response=begun)


def delta(text: str, kind: str = "output_text") -> str:
    return typed(f"response.{kind}.delta", item_id="i", output_index=0, content_index=0, delta=text)


def stop(response: dict[str, Any] | None = None) -> str:
    ended = response or whole()
    return typed(f"response.{ended['status']}", response=ended)


def configured(provider: Provider, *, options: dict[str, Any] | None = None, **changes: Any) -> EngineConfig:
    return replace(openai_wire.configured(provider, **changes), options={"api": "responses", **(options or {})})
