"""Parse answers from what a server sends, and build bodies from requests, without a server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_jsbench.core.generations import CallError, Completion, Declined, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.http.answers import EventStream
from pytest_jsbench.engines.http.calls import Deadline, check_body, convert_parsing_errors, settle
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.http.receive_times import ReadTimes
from pytest_jsbench.engines.providers.anthropic_messages import MESSAGES
from pytest_jsbench.engines.providers.gemini import GENERATE_CONTENT
from pytest_jsbench.engines.providers.openai_apis import CHAT, RESPONSES
from pytest_jsbench.engines.providers.provider import WireFormat
from pytest_jsbench.engines.registry import find
from tests.support.engine_calls import request
from tests.support.openai_wire import SECRET

WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GENERATE_CONTENT}
#: What servers send, and the outcome of each.
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "engines" / "providers" / "answers.jsonl").read_text("utf-8").splitlines()
]

SENT = Sent(response_format=ResponseFormat.TOOL)


class Body:
    """A response with the attributes that a stream needs."""

    def __init__(self, *pieces: str | bytes) -> None:
        self.unread = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
        self.headers: dict[str, str] = {}
        self.read_times = ReadTimes()

    def iter_bytes(self) -> Iterator[bytes]:
        while self.unread:
            time.sleep(0.001)  # so that times increase
            yield self.unread.pop(0)

    def shorten(self) -> None:
        """Do nothing: the rest is available at once."""


def events(*pieces: str | bytes) -> EventStream:
    """Return the events of a body that arrives in these pieces."""
    body: Any = Body(*pieces)
    return EventStream(body)


def outcome(wire: WireFormat, content: EventStream | object) -> Completion | Declined | CallError:
    """Return an engine's outcome for these events, or for an answer in one piece."""

    def read() -> Completion | Declined:
        with convert_parsing_errors():
            if isinstance(content, EventStream):
                return wire.read_stream(content, Stopwatch()).to_generation(SENT)
            return wire.read_whole(check_body(content), Stopwatch()).to_generation(SENT)

    def explain(error: Exception) -> Completion | Declined | CallError:
        return explain_error(error, SENT, address="http://h", model="m", secret=SECRET)

    try:
        return settle(read, explain, deadline=Deadline(60))
    except CallError as error:
        return error


def body_of(config: EngineConfig, **asked: Any) -> dict[str, Any]:
    """Return the body of a request from an engine with this configuration."""
    settings = find(config.name).settings(config)  # type: ignore[attr-defined]
    body: dict[str, Any] = settings.wire.to_body(settings, request(**asked))
    return body


def as_row(result: Completion | Declined | CallError) -> dict[str, Any]:
    """Return an outcome in the form of the table, without default values."""
    fields: dict[str, Any]
    match result:
        case CallError():
            return {"fault": result.kind.value, "message": result.message, "status": result.status}
        case Declined():
            fields = {"declined": result.reason.value, "message": result.message}
        case Completion():
            fields = {
                "text": result.text,
                "finish": result.finish_reason.value,
                "reasoning": result.reasoning,
                "calls": [[call.name, call.arguments] for call in result.calls],
                "beside": result.beside,
                "not_text": result.not_text,
                "finish_word": result.finish_word,
                "timed": result.timing is not None and result.timing.ttft is not None,
                "reasoning_timed": result.timing is not None and result.timing.reasoning_time is not None,
            }
    usage = {name: count for name, count in asdict(result.usage).items() if count is not None}
    return {name: value for name, value in {**fields, "usage": usage}.items() if value not in ("", [], {}, False)}
