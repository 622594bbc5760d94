"""
Read answers over HTTP: events of a stream, or a body in one piece.

A stream consists of server-sent events, parsed as in the HTML standard (section 9.2.6), or of Amazon's frames. Invalid
UTF-8 is an error: the standard would insert U+FFFD, which would change the answer. Bodies are parsed to plain JSON
values and not to an SDK's types, because creating these takes several times as long as the rest of a call.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.http.calls import EnclosedError, check_body, json_or_text, parse_json
from pytest_jsbench.engines.http.receive_times import first_arrival

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from botocore.eventstream import EventStreamMessage

    from pytest_jsbench.engines.http.client import Response
    from pytest_jsbench.engines.http.receive_times import Read

#: Maximum size of an event in bytes; the last event of Responses is the longest, because it repeats the whole answer.
LONGEST_EVENT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_DONE = "[DONE]"
#: Content type of Amazon's frames, in which Bedrock wraps the events of a stream.
_FRAMED = "application/vnd.amazon.eventstream"
#: HTTP status that an unstreamed call would have returned, by the exception's name in the frame.
_STATUS = {
    "throttlingException": 429,
    "modelTimeoutException": 408,
    "validationException": 400,
    "serviceUnavailableException": 503,
}


class HasHeaders(Protocol):
    """A response of any HTTP library."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; names are case-insensitive."""


class ArrivingEvents(Protocol):
    """The events of one response, in the order of their arrival."""

    @property
    def pieces(self) -> int:
        """Number of pieces of the body that have been read."""

    @property
    def first_content_at(self) -> float | None:
        """Time at which the marked event had arrived, by `time.perf_counter`; None if that was not measured."""

    def mark_first_content(self) -> None:
        """Mark the last event, which is the first with content."""

    def __iter__(self) -> Iterator[Any]:
        """Yield each event as a JSON value; raise EnclosedError for an error."""


class EventStream:
    """The events of one response, which are read once, by the thread that made the call."""

    __slots__ = ("_marked", "_marked_is_followed", "_response", "pieces")

    def __init__(self, response: Response) -> None:
        self._response = response
        #: Number of pieces of the body that have been read.
        self.pieces = 0
        #: The read that completed the marked event, and whether the same read completed later events.
        self._marked: Read | None = None
        self._marked_is_followed = False

    @property
    def first_content_at(self) -> float | None:
        """Time at which the marked event had arrived, by `time.perf_counter`; None if that was not measured."""
        return None if self._marked is None else first_arrival(self._marked, followed=self._marked_is_followed)

    def mark_first_content(self) -> None:
        """Mark the last event, which is the first with content."""
        self._marked = self._response.read_times.end()

    def __iter__(self) -> Iterator[Any]:
        """Yield the JSON value of each event up to `[DONE]` or the end; raise EnclosedError for an `error` event."""
        pieces = self._count_pieces()
        framed = self._response.headers.get("content-type", "").startswith(_FRAMED)
        for name, data in read_frames(pieces) if framed else read_events(pieces):
            if name == "error":
                raise EnclosedError(json_or_text(data))
            if self._marked is not None and self._marked is self._response.read_times.last:
                self._marked_is_followed = True
            if data.startswith(_DONE):
                # The answer is complete, but the body is read to its end so that the connection can be reused.
                # Otherwise each call would open a connection, and its time to the first token would include a TLS
                # handshake.
                self._response.shorten()
                with suppress(CallError):
                    for _ in pieces:
                        pass
                return
            # some servers send events without data, or named ping, to keep the connection alive
            if data and name != "ping":
                yield parse_json(data)

    def _count_pieces(self) -> Iterator[bytes]:
        for piece in self._response.iter_bytes():
            self.pieces += 1
            yield piece


def read_events(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """
    Yield the name and data of each event that ends with an empty line; raise UnicodeDecodeError for
    invalid UTF-8.
    """
    name = b""
    data: list[bytes] = []
    size = 0
    for line in _lines(pieces):
        if not line:
            if data:
                yield name.decode(), b"\n".join(data).decode()
            name = b""
            data = []
            size = 0
            continue
        size += len(line)
        if size > LONGEST_EVENT:
            raise _event_too_long()
        # A comment has an empty field name, so it is ignored.
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines, which end with CR LF, LF or CR; a CR LF may be split across two pieces."""
    #: Start of a line that continues in the next piece.
    started: list[bytes] = []
    size = 0
    after_cr = False
    mark = _BOM
    for piece in pieces:
        rest = piece[1:] if after_cr and piece.startswith(b"\n") else piece
        after_cr = rest.endswith(b"\r") or (after_cr and not piece)
        lines = rest.splitlines()
        unfinished = b"" if not lines or rest.endswith((b"\n", b"\r")) else lines.pop()
        if lines:
            if started:
                lines[0] = b"".join([*started, lines[0]])
                started = []
                size = 0
            lines[0] = lines[0].removeprefix(mark)
            mark = b""
            yield from lines
        if unfinished:
            started.append(unfinished)
            size += len(unfinished)
            if size > LONGEST_EVENT:
                raise _event_too_long()


def read_frames(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """
    Yield the name and data of each frame's event; the name is `error` for an exception frame. Raise CallError for an
    invalid frame.
    """
    from botocore.eventstream import EventStreamBuffer, ParserError

    buffer = EventStreamBuffer()
    for piece in pieces:
        buffer.add_data(piece)
        while True:
            try:
                frame = next(buffer, None)
            except ParserError as error:
                message = f"the stream contains an invalid frame: {type(error).__name__}"
                raise CallError(FaultKind.BAD_RESPONSE, message) from None
            if frame is None:
                break
            yield _event(frame)


def _event(frame: EventStreamMessage) -> tuple[str, str]:
    body = parse_json(frame.payload.decode())
    values = body if isinstance(body, dict) else {}
    if frame.headers.get(":message-type") == "event":
        return "", base64.b64decode(str(values.get("bytes", ""))).decode()
    name = str(frame.headers.get(":exception-type") or frame.headers.get(":error-code"))
    words = values.get("message") or frame.headers.get(":error-message") or name
    return "error", json.dumps({"error": {"type": name, "code": _STATUS.get(name, 500), "message": words}})


def _event_too_long() -> CallError:
    return CallError(FaultKind.BAD_RESPONSE, f"an event of the stream is longer than {LONGEST_EVENT:,} bytes")


def is_json_body(response: HasHeaders) -> bool:
    """Return whether the body is JSON instead of a stream; raise CallError for a web page."""
    kind = content_type(response.headers)
    if kind == "text/html":
        message = "the server answered with a web page, not JSON; is its address complete?"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    return kind.endswith("json")


def content_type(headers: Mapping[str, str]) -> str:
    """Return the content type without its parameters, in lower case; empty if not given."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def read_object(response: Response) -> dict[str, Any]:
    """Return the JSON object in the body; raise EnclosedError for an error object, CallError for anything else."""
    is_json_body(response)
    text = response.read().decode("utf-8-sig")
    try:
        value = parse_json(text)
    except json.JSONDecodeError as error:
        raise fault_of_body(text, content_type(response.headers)) or error from None
    return check_body(value)


def fault_of_body(text: str, kind: str) -> CallError | None:
    """Return the error for a body that is not JSON; None if its format is unknown. `kind` is the content type."""
    found = _describe_body(text, kind)
    return CallError(FaultKind.BAD_RESPONSE, f"expected a JSON object, found {found}") if found else None


_EVENT_FIELD = re.compile(r"(?:data|event|id|retry)?:", re.ASCII)


def _describe_body(text: str, kind: str) -> str:
    """Describe a body that is not JSON, for an error message; empty if its format is unknown."""
    declared = f"content type {one_line(kind)}" if kind else "no content type"
    lines = text.split("\n")
    if not text.strip():
        return "an empty body"
    if _EVENT_FIELD.match(text.lstrip()):
        return f"server-sent events with {declared}; a stream has the content type text/event-stream"
    if text.lstrip().startswith("<"):
        return f"a web page with {declared}; is the address complete?"
    if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines if line.strip()):
        return f"several JSON objects, one per line, with {declared}; is this the address of another API?"
    return ""
