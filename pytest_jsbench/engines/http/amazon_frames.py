"""Amazon's frames (`application/vnd.amazon.eventstream`), in which Bedrock wraps the events of a stream."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from botocore.eventstream import EventStreamMessage

    from pytest_jsbench.engines.http.client import Response

_KIND = "application/vnd.amazon.eventstream"
#: the status that a call of its own would have had; in a frame there is only the name
_STATUS = {
    "throttlingException": 429,
    "modelTimeoutException": 408,
    "validationException": 400,
    "serviceUnavailableException": 503,
}


def is_framed(response: Response) -> bool:
    """Whether the body is made of such frames."""
    kind: str = response.headers.get("content-type", "")
    return kind.startswith(_KIND)


def read_frames(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Name and data of the event in each frame; `error` for an exception. CallError for what is no frame."""
    from botocore.eventstream import EventStreamBuffer, ParserError

    buffer = EventStreamBuffer()
    for piece in pieces:
        buffer.add_data(piece)
        while True:
            try:
                frame = next(buffer, None)
            except ParserError as error:
                message = f"the stream holds a broken frame: {type(error).__name__}"
                raise CallError(FaultKind.BAD_RESPONSE, message) from None
            if frame is None:
                break
            yield _event(frame)


def _event(frame: EventStreamMessage) -> tuple[str, str]:
    body = parse_json(frame.payload.decode())
    said = body if isinstance(body, dict) else {}
    if frame.headers.get(":message-type") == "event":
        return "", base64.b64decode(str(said.get("bytes", ""))).decode()
    name = str(frame.headers.get(":exception-type") or frame.headers.get(":error-code"))
    words = said.get("message") or frame.headers.get(":error-message") or name
    return "error", json.dumps({"error": {"type": name, "code": _STATUS.get(name, 500), "message": words}})
