"""Servers of each HTTP API, streaming and not, for the runs with injected faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support import anthropic_wire as messages
from tests.support import cloud_wire
from tests.support import gemini_wire as gemini
from tests.support import openai_wire as chat
from tests.support import responses_wire as responses
from tests.support.provider import DONE, Provider, Reply, event, json_reply, stream_reply

TEXT = json.dumps({"city": "Oslo", "old": True})
_CUT = len(TEXT) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One API, streaming or not."""

    name: str
    engine: str
    #: Package that the engine requires.
    package: str = "urllib3"
    streaming: bool = True
    #: Further options of the engine.
    options: Mapping[str, Any] = field(default_factory=dict)
    secret: str
    configured: Callable[..., EngineConfig]
    #: An answer as events: the first half of its text, the rest, and the end.
    events: tuple[str, str, str]
    #: The same answer in one piece.
    body: dict[str, Any]
    error_event: Callable[[str], str]

    def config(self, provider: Provider) -> EngineConfig:
        """Return the engine's configuration."""
        return self.configured(provider, options={"stream": self.streaming, **self.options})

    def good(self) -> Reply:
        """Return an answer that conforms."""
        return stream_reply(*self.events) if self.streaming else json_reply(self.body)

    def error(self, words: str) -> dict[str, Any]:
        """Return an error's body."""
        return {"type": "error", "error": {"type": "some_error", "message": words}}


CHAT = Speaker(
    name="openai chat, streaming",
    engine="openai",
    secret=chat.SECRET,
    configured=chat.configured,
    events=(chat.chunk(TEXT[:_CUT]), chat.chunk(TEXT[_CUT:]), chat.chunk(finish="stop") + DONE),
    body=chat.whole(TEXT),
    error_event=lambda words: event({"error": {"type": "server_error", "message": words}}),
)
RESPONSES = Speaker(
    name="openai responses, streaming",
    engine="openai",
    secret=chat.SECRET,
    configured=responses.configured,
    events=(
        responses.start() + responses.delta(TEXT[:_CUT]),
        responses.delta(TEXT[_CUT:]),
        responses.stop(responses.whole(responses.message(TEXT))),
    ),
    body=responses.whole(responses.message(TEXT)),
    error_event=lambda words: responses.typed("error", code="server_error", message=words, param=None),
)
MESSAGES = Speaker(
    name="anthropic, streaming",
    engine="anthropic",
    secret=messages.SECRET,
    configured=messages.configured,
    events=(messages.start() + messages.delta(TEXT[:_CUT]), messages.delta(TEXT[_CUT:]), messages.stop()),
    body=messages.whole({"type": "text", "text": TEXT}),
    error_event=lambda words: event(messages.error_body(words, "overloaded_error"), name="error"),
)
GEMINI = Speaker(
    name="gemini, streaming",
    engine="gemini",
    secret=gemini.SECRET,
    configured=gemini.configured,
    events=(gemini.delta(TEXT[:_CUT]), gemini.delta(TEXT[_CUT:]), gemini.stop()),
    body=gemini.whole(gemini.part(TEXT)),
    error_event=lambda words: event({"error": {"status": "UNAVAILABLE", "message": words}}),
)
BEDROCK, VERTEX = "anthropic-bedrock", "anthropic-vertex"
_STREAMING = (CHAT, RESPONSES, MESSAGES, GEMINI)
_WHOLE = tuple(
    replace(speaker, name=speaker.name.replace("streaming", "in one piece"), streaming=False) for speaker in _STREAMING
)
#: The same calls through the official SDKs.
THROUGH_SDKS = tuple(
    replace(speaker, name=f"{speaker.name}, SDK", package=speaker.engine, options={"transport": "sdk"})
    for speaker in (*_STREAMING[:3], *_WHOLE[:3])
)
#: Each cloud either streaming or not, because the other APIs already test how answers are parsed.
SPEAKERS = (
    *_STREAMING,
    *_WHOLE,
    replace(CHAT, name="azure", engine="azure", configured=chat.azure),
    replace(_WHOLE[2], name=BEDROCK, engine=BEDROCK, package="botocore", configured=cloud_wire.bedrock),
    replace(MESSAGES, name=VERTEX, engine=VERTEX, package="google.auth", configured=cloud_wire.vertex),
    *THROUGH_SDKS,
)
