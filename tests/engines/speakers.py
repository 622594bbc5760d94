"""The servers of every API that is spoken over HTTP, streaming and not, as the fault-injecting run needs them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.engines import anthropic_wire, cloud_wire, gemini_wire, openai_wire, responses_wire
from tests.engines.provider import DONE, Provider, Reply, event, json_reply, stream_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_jsbench.engines.base import EngineConfig

TEXT = json.dumps({"city": "Oslo", "old": True})
_CUT = len(TEXT) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One API, in one way to answer."""

    name: str
    engine: str
    #: what the engine needs
    package: str
    streaming: bool
    secret: str
    configured: Callable[..., EngineConfig]
    #: an answer as events: the first half of its text, the rest, and the end
    events: tuple[str, str, str]
    #: the same answer in one piece
    body: dict[str, Any]
    error_event: Callable[[str], str]

    def config(self, provider: Provider) -> EngineConfig:
        """The engine's configuration."""
        return self.configured(provider, options={"stream": self.streaming})

    def good(self) -> Reply:
        """An answer that conforms."""
        return stream_reply(*self.events) if self.streaming else json_reply(self.body)

    def error(self, words: str) -> dict[str, Any]:
        """An error's body."""
        return {"type": "error", "error": {"type": "some_error", "message": words}}


def _chat_error(words: str) -> str:
    return event({"error": {"type": "server_error", "message": words}})


def _responses_error(words: str) -> str:
    return responses_wire.typed("error", code="server_error", message=words, param=None)


def _anthropic_error(words: str) -> str:
    return event(anthropic_wire.error_body(words, "overloaded_error"), name="error")


def _gemini_error(words: str) -> str:
    return event({"error": {"status": "UNAVAILABLE", "message": words}})


def _speakers(*, streaming: bool) -> tuple[Speaker, ...]:
    suffix = "streaming" if streaming else "in one piece"
    chat, responses, messages, gemini = openai_wire, responses_wire, anthropic_wire, gemini_wire
    return (
        Speaker(
            name=f"openai chat, {suffix}",
            engine="openai",
            package="urllib3",
            streaming=streaming,
            secret=chat.SECRET,
            configured=chat.configured,
            events=(chat.chunk(TEXT[:_CUT]), chat.chunk(TEXT[_CUT:]), chat.chunk(finish="stop") + DONE),
            body=chat.whole(TEXT),
            error_event=_chat_error,
        ),
        Speaker(
            name=f"openai responses, {suffix}",
            engine="openai",
            package="urllib3",
            streaming=streaming,
            secret=chat.SECRET,
            configured=responses.configured,
            events=(
                responses.start() + responses.delta(TEXT[:_CUT]),
                responses.delta(TEXT[_CUT:]),
                responses.stop(responses.whole(responses.message(TEXT))),
            ),
            body=responses.whole(responses.message(TEXT)),
            error_event=_responses_error,
        ),
        Speaker(
            name=f"anthropic, {suffix}",
            engine="anthropic",
            package="urllib3",
            streaming=streaming,
            secret=messages.SECRET,
            configured=messages.configured,
            events=(messages.start() + messages.delta(TEXT[:_CUT]), messages.delta(TEXT[_CUT:]), messages.stop()),
            body=messages.whole({"type": "text", "text": TEXT}),
            error_event=_anthropic_error,
        ),
        Speaker(
            name=f"gemini, {suffix}",
            engine="gemini",
            package="urllib3",
            streaming=streaming,
            secret=gemini.SECRET,
            configured=gemini.configured,
            events=(gemini.delta(TEXT[:_CUT]), gemini.delta(TEXT[_CUT:]), gemini.stop()),
            body=gemini.whole(gemini.part(TEXT)),
            error_event=_gemini_error,
        ),
    )


def _clouds() -> tuple[Speaker, ...]:
    """Each in one of the two ways: what reads their answers is that of the others."""
    chat, _, streamed, _ = _speakers(streaming=True)
    *_, whole, _ = _speakers(streaming=False)
    bedrock, vertex = "anthropic-bedrock", "anthropic-vertex"
    return (
        replace(chat, name="azure", engine="azure", configured=openai_wire.azure),
        replace(whole, name=bedrock, engine=bedrock, package="botocore", configured=cloud_wire.bedrock),
        replace(streamed, name=vertex, engine=vertex, package="google.auth", configured=cloud_wire.vertex),
    )


SPEAKERS = (*_speakers(streaming=True), *_speakers(streaming=False), *_clouds())
