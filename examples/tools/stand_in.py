"""A stand-in for the model: it calls both functions at once, and then repeats their results."""

from __future__ import annotations

from typing import Any

from pytest_jsbench import Request

CALLS = [{"name": name, "arguments": {"city": "Rome"}} for name in ("get_weather", "get_time")]


def answer(request: Request) -> dict[str, Any]:
    """Return the answer to the conversation so far."""
    results = [message.content for message in request.prompt.messages if message.role == "tool"]
    return {"text": " ".join(results)} if results else {"calls": CALLS}
