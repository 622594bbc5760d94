"""Wire formats: the engine options of each, and the responses of the server, from the tests' helpers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support import anthropic_wire as messages
from tests.support import gemini_wire as gemini
from tests.support import openai_wire as chat
from tests.support import responses_wire as responses
from tests.support.provider import DONE

#:  Names of statuses in OpenAI's, Anthropic's and Google's errors.
_STATUSES = {
    401: ("invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
    429: ("rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: ("server_error", "api_error", "INTERNAL"),
    503: ("server_error", "overloaded_error", "UNAVAILABLE"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One wire format, for client and server."""

    engine: str
    #:  Path of the engine's base URL, after the server's address.
    root: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    #:  Part of the path of each call.
    path: str
    #:  Returns the response body for a text.
    whole: Callable[[str], dict[str, Any]]
    #:  The same as events: before the text, for each part, and after the whole text.
    begin: str = ""
    delta: Callable[[str], str]
    end: Callable[[str], str]
    #:  Returns an error body for a message and a status.
    error: Callable[[str, int], dict[str, Any]]


def _openai_error(message: str, status: int) -> dict[str, Any]:
    return chat.error_body(message, code=_STATUSES[status][0])


WIRE_FORMATS = {
    "chat": WireFormat(
        engine="openai",
        root="/v1",
        path="/chat/completions",
        whole=chat.whole,
        delta=chat.chunk,
        end=lambda _: chat.chunk(finish="stop", usage=chat.USAGE) + DONE,
        error=_openai_error,
    ),
    "responses": WireFormat(
        engine="openai",
        root="/v1",
        options={"api": "responses"},
        path="/responses",
        whole=lambda text: responses.whole(responses.message(text)),
        begin=responses.start(),
        delta=responses.delta,
        end=lambda text: responses.stop(responses.whole(responses.message(text))),
        error=_openai_error,
    ),
    "messages": WireFormat(
        engine="anthropic",
        path="/messages",
        whole=lambda text: messages.whole({"type": "text", "text": text}),
        begin=messages.start(),
        delta=messages.delta,
        end=lambda _: messages.stop(),
        error=lambda message, status: messages.error_body(message, _STATUSES[status][1]),
    ),
    "generateContent": WireFormat(
        engine="gemini",
        path="enerateContent",
        whole=lambda text: gemini.whole(gemini.part(text)),
        delta=gemini.delta,
        end=lambda _: gemini.stop(),
        error=lambda message, status: gemini.error_body(message, _STATUSES[status][2], code=status),
    ),
}


def wire_format_of(path: str) -> WireFormat | None:
    """Return the format of a call, by its path."""
    return next((wire for wire in WIRE_FORMATS.values() if wire.path in path), None)
