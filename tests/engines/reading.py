"""Answers that are read straight out of what a server sends, and bodies straight out of a request: without a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import Completion, Declined, ResponseFormat, Sent, Stopwatch
from pytest_jsbench.engines.http.answers import EventStream
from pytest_jsbench.engines.registry import find
from tests.engines.asking import request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.providers.provider import WireFormat

SENT = Sent(response_format=ResponseFormat.TOOL)


class Body:
    """A response, as far as it matters to a stream."""

    def __init__(self, *pieces: str) -> None:
        self.unread = [piece.encode() for piece in pieces]
        self.headers: dict[str, str] = {}

    def iter_bytes(self) -> Iterator[bytes]:
        while self.unread:
            time.sleep(0.001)  # so that times are in order
            yield self.unread.pop(0)

    def shorten(self) -> None:
        """What follows the last words is read in a moment."""


def events(*pieces: str) -> EventStream:
    """The events of a body that comes in these pieces."""
    body: Any = Body(*pieces)
    return EventStream(body)


def read(wire: WireFormat, *content: str | dict[str, Any]) -> Completion | Declined:
    """The answer that comes in these events, or that this one object is."""
    if isinstance(content[0], dict):
        return wire.read_whole(content[0], Stopwatch()).to_generation(SENT)
    return wire.read_stream(events(*map(str, content)), Stopwatch()).to_generation(SENT)


def answer(wire: WireFormat, *content: str | dict[str, Any]) -> Completion:
    """The same, which is no refusal."""
    completion = read(wire, *content)
    assert isinstance(completion, Completion)
    return completion


def body_of(config: EngineConfig, **asked: Any) -> dict[str, Any]:
    """What an engine that is configured so is asked for a request."""
    settings = find(config.name).settings(config)  # type: ignore[attr-defined]
    body: dict[str, Any] = settings.wire.to_body(settings, request(**asked))
    return body
