"""Examples of what Gemini sends, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support.provider import Provider, event

SECRET = "AIzaSyTest-0123456789abcdef"
USAGE = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 29, "cachedContentTokenCount": 16}
THOUGHTS = {"thoughtsTokenCount": 4}


def part(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


def whole(*parts: Any, finish: Any = "STOP", usage: Any = USAGE | THOUGHTS, **more: Any) -> dict[str, Any]:
    """Return an answer, or one event of a stream."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}


def chunk(*parts: Any, finish: Any = None, usage: Any = None, **more: Any) -> str:
    """Return an event before the last, with the token counts so far."""
    return event(whole(*parts, finish=finish, usage=usage or {"promptTokenCount": 20}, **more))


def delta(text: str, **more: Any) -> str:
    return chunk(part(text, **more))


def stop(finish: Any = "STOP", **more: Any) -> str:
    return chunk(finish=finish, usage=USAGE | THOUGHTS, **more)


TEXT = part('{"city": "Oslo"}')


def configured(provider: Provider, **changes: Any) -> EngineConfig:
    config = EngineConfig(name="gemini", model="m", base_url=provider.url, api_key=SECRET)
    return replace(config, **changes)


def error_body(message: str, status: str = "INVALID_ARGUMENT", *details: Any, code: int = 400) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(period: str, delay: str = "36s") -> dict[str, Any]:
    """Return the two details of a 429, as quoted in issue trackers."""
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": f"GenerateRequestsPer{period}PerProjectPerModel-FreeTier",
        "quotaValue": "20",
    }
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return error_body("You exceeded your current quota.", "RESOURCE_EXHAUSTED", failure, retry, code=429)
