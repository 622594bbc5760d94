"""The injected faults, and the expected outcome of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pytest_jsbench.core.generations import DeclineReason, FaultKind
from tests.support.api_servers import Speaker
from tests.support.provider import Reply, dripping, dripping_head, event, json_reply, raw_reply, stream_reply

#: `LONGEST_BODY` in bytes during the run, so that an oversized answer is cheap.
OVERSIZED = 300_000
#: Seconds between two bytes; each single read of the client is in time.
DRIP = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """One fault."""

    name: str
    expected: FaultKind | DeclineReason
    serve: Callable[[Speaker], Reply]
    status: int | None = None
    #: Takes the whole time of a call.
    slow: bool = False
    #: Seconds that the server asks to wait.
    retry_after: float | None = None
    #: Expected part of the outcome's message.
    words: str = ""


def _status(number: int, expected: FaultKind, *, retry_after: float | None = None) -> Injected:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Injected(
        name=f"{number}" if retry_after is None else f"{number}, retry after {retry_after} s",
        expected=expected,
        serve=lambda speaker: json_reply(speaker.error(f"no, {speaker.secret}"), status=number, headers=headers),
        status=number,
        retry_after=retry_after,
    )


def _slow(name: str, serve: Callable[[Speaker], Reply]) -> Injected:
    """Return a fault that takes the whole time of a call."""
    return Injected(name=name, expected=FaultKind.TIMEOUT, serve=serve, slow=True)


def _body(name: str, body: Callable[[Speaker], bytes], kind: str, words: str = "") -> Injected:
    """Return a 200 whose body is not an answer of the API."""
    return Injected(
        name=name,
        expected=FaultKind.BAD_RESPONSE,
        serve=lambda speaker: raw_reply(body(speaker), kind=kind),
        words=words,
    )


def _rejected_schema(speaker: Speaker) -> Reply:
    return json_reply(speaker.error(f"Invalid schema: oneOf. {speaker.secret}"), status=400)


def _error_inside(speaker: Speaker) -> Reply:
    words = f"gone, {speaker.secret}"
    if speaker.streaming:
        return stream_reply(speaker.events[0], speaker.error_event(words))
    return json_reply({"error": {"type": "server_error", "message": words}})


def _half(speaker: Speaker, *, reset: bool = False) -> Reply:
    """Return a fault that closes the connection in the middle of the body."""
    if speaker.streaming:
        return stream_reply(speaker.events[0], reset=reset, cut=True)
    whole = speaker.good().pieces[0]
    return Reply(pieces=(whole[:-20],), reset=reset)


def _ended_early(speaker: Speaker) -> Reply:
    """Return a fault with a complete transfer of an incomplete answer."""
    if speaker.streaming:
        return stream_reply(speaker.events[0])
    return raw_reply(json.dumps(speaker.body).encode()[:-20], kind="application/json")


def _garbage(speaker: Speaker) -> bytes:
    garbage = b'{"half": \xff\xfe "' + speaker.secret.encode()
    return b"event: message_start\ndata: " + garbage + b"\n\n" if speaker.streaming else garbage


def _oversized(speaker: Speaker) -> Reply:
    long = "x" * 1000
    if speaker.streaming:
        return stream_reply(speaker.events[0], *[speaker.events[1].replace("true", long)] * 600)
    body = json.dumps(speaker.body).replace("Oslo", long * 600)
    return raw_reply(body.encode(), kind="application/json")


def _odd(speaker: Speaker, value: Any) -> Reply:
    if not speaker.streaming:
        return json_reply(value)
    name = value.get("type") if isinstance(value, dict) else "message_start"
    return stream_reply(event(value, name=name))


def _shape(name: str, value: Any) -> Injected:
    return Injected(name=name, expected=FaultKind.BAD_RESPONSE, serve=lambda speaker: _odd(speaker, value))


def _nested(speaker: Speaker) -> bytes:
    deep = b"[" * 100_000
    return b"event: message_start\ndata: " + deep + b"\n\n" if speaker.streaming else deep


def _kind(speaker: Speaker) -> str:
    return "text/event-stream" if speaker.streaming else "application/json"


FAULTS: tuple[Injected, ...] = (
    _slow("silence", lambda speaker: replace(speaker.good(), pieces=(), hang=True)),
    _slow("silence in the middle", lambda speaker: replace(_half(speaker), hang=True)),
    _slow("slow drip", lambda speaker: dripping(speaker.good(), pause=DRIP)),
    _slow("slow drip of the headers", lambda speaker: dripping_head(speaker.good(), pause=DRIP)),
    _slow(
        "slow drip of an error", lambda speaker: dripping(json_reply(speaker.error("x" * 1000), status=500), pause=DRIP)
    ),
    _status(429, FaultKind.RATE_LIMITED, retry_after=1),
    _status(429, FaultKind.RATE_LIMITED, retry_after=600),
    _status(500, FaultKind.SERVER),
    _status(529, FaultKind.SERVER),
    _status(408, FaultKind.TIMEOUT),
    _status(401, FaultKind.AUTH),
    _status(402, FaultKind.QUOTA),
    _status(413, FaultKind.BAD_REQUEST),
    Injected(
        name="a rejected schema",
        expected=DeclineReason.UNSUPPORTED_SCHEMA,
        serve=_rejected_schema,
        status=400,
        words="Invalid schema: oneOf. [key]",
    ),
    Injected(
        name="an error inside a 200", expected=FaultKind.SERVER, serve=_error_inside, status=200, words="gone, [key]"
    ),
    Injected(name="closed at once", expected=FaultKind.CONNECTION, serve=lambda _: Reply(pieces=())),
    Injected(name="reset at once", expected=FaultKind.CONNECTION, serve=lambda _: Reply(pieces=(), reset=True)),
    Injected(
        name="reset in the middle", expected=FaultKind.CONNECTION, serve=lambda speaker: _half(speaker, reset=True)
    ),
    Injected(name="closed in the middle", expected=FaultKind.CONNECTION, serve=_half),
    Injected(
        name="not HTTP", expected=FaultKind.CONNECTION, serve=lambda _: Reply(pieces=(b"220 smtp ready\r\n\r\n",))
    ),
    Injected(name="half an answer", expected=FaultKind.BAD_RESPONSE, serve=_ended_early),
    Injected(name="an oversized answer", expected=FaultKind.BAD_RESPONSE, serve=_oversized),
    Injected(
        name="an oversized error",
        expected=FaultKind.SERVER,
        serve=lambda speaker: raw_reply(
            b"x" * (4 * OVERSIZED) + speaker.secret.encode(), status=500, kind="text/plain"
        ),
        status=500,
    ),
    Injected(
        name="garbage",
        expected=FaultKind.BAD_RESPONSE,
        serve=lambda speaker: raw_reply(_garbage(speaker), kind=_kind(speaker)),
    ),
    Injected(
        name="deeper than any parser",
        expected=FaultKind.BAD_RESPONSE,
        serve=lambda speaker: raw_reply(_nested(speaker), kind=_kind(speaker)),
    ),
    Injected(
        name="an error deeper than any parser",
        expected=FaultKind.SERVER,
        serve=lambda _: raw_reply(b"[" * 100_000, status=500, kind="application/json"),
        status=500,
    ),
    _body("an empty body", lambda _: b"", "application/json"),
    _body("a web page", lambda speaker: f"<title>Log in, {speaker.secret}</title>".encode(), "text/html", "web page"),
    _body("plain words", lambda speaker: b"busy, " + speaker.secret.encode(), "text/plain"),
    _body("bytes", lambda _: bytes(range(256)), "application/octet-stream"),
    _shape("null", None),
    _shape("a list", [1]),
    _shape("a string", "hello"),
    _shape("an empty object", {}),
    _shape("chat of numbers", {"choices": [1], "usage": 5}),
    _shape("chat of nulls", {"choices": [{"index": 0, "message": None, "delta": None}], "error": None}),
    _shape("a response of numbers", {"type": "response.completed", "response": 5, "status": 5, "output": 5}),
    _shape("a message of numbers", {"type": "message_start", "message": 5, "content": 5, "usage": 5}),
    _shape("a delta of nothing", {"type": "message_delta", "content": [None]}),
)
