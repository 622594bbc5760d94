"""An answer while it arrives over HTTP: the events of a stream, and what they come to.

Events are read as the HTML standard says (section 9.2.6), and Amazon's frames. One rule is stricter: bytes that are no
UTF-8 are a fault. The standard puts U+FFFD in their place, which would change an answer. Bodies are read as plain JSON
values: an SDK's types would cost several times as much as the rest of a call, and would have to be doubted all the
same, since an SDK builds them of whatever a server says.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.generations import (
    CalledTool,
    CallError,
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    Usage,
)
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.text import counted, shortened
from pytest_jsbench.engines.http.calls import EnclosedError, count, enclosed, get, json_or_text, parse_json
from pytest_jsbench.verdicts.answer_text import start_of_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from botocore.eventstream import EventStreamMessage

    from pytest_jsbench.core.generations import Sent, Stopwatch
    from pytest_jsbench.engines.http.client import Response

#: bytes of one event; the longest is the one at the end of Responses, which holds the whole answer once more
LONGEST_EVENT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_DONE = "[DONE]"
#: Amazon's frames, in which Bedrock wraps the events of a stream
_FRAMED = "application/vnd.amazon.eventstream"
#: the status that a call of its own would have had; in a frame there is only the name
_STATUS = {
    "throttlingException": 429,
    "modelTimeoutException": 408,
    "validationException": 400,
    "serviceUnavailableException": 503,
}


class EventStream:
    """The events of one response, read once by the thread that made the call."""

    __slots__ = ("_response", "pieces")

    def __init__(self, response: Response) -> None:
        self._response = response
        #: how many pieces of the body have been read so far
        self.pieces = 0

    def __iter__(self) -> Iterator[Any]:
        """The JSON value of each event up to `[DONE]` or the body's end; EnclosedError for an event named `error`."""
        pieces = self._counted()
        framed = self._response.headers.get("content-type", "").startswith(_FRAMED)
        for name, data in read_frames(pieces) if framed else read_events(pieces):
            if name == "error":
                raise EnclosedError(json_or_text(data))
            if data.startswith(_DONE):
                # only a connection whose body was read to its end serves the next call: otherwise each would open one
                # of its own, and its time to the first token would hold a TLS handshake; the answer itself is whole
                self._response.shorten()
                with suppress(CallError):
                    for _ in pieces:
                        pass
                return
            # some servers keep the connection alive with events of these kinds
            if data and name != "ping":
                yield parse_json(data)

    def _counted(self) -> Iterator[bytes]:
        for piece in self._response.iter_bytes():
            self.pieces += 1
            yield piece


def read_events(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Name and data of each event that ends with an empty line; UnicodeDecodeError for bytes that are no UTF-8."""
    name = b""
    data: list[bytes] = []
    size = 0
    for line in _lines(pieces):
        if not line:
            if data:
                yield name.decode(), b"\n".join(data).decode()
            name, data, size = b"", [], 0
            continue
        size += len(line)
        if size > LONGEST_EVENT:
            raise _too_long()
        # a comment is a field without a name
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that end with CR LF, LF or CR, which may stand in two pieces."""
    #: the beginning of a line that goes on in the next piece
    held: list[bytes] = []
    size = 0
    after_cr = False
    mark = _BOM
    for piece in pieces:
        rest = piece[1:] if after_cr and piece.startswith(b"\n") else piece
        after_cr = rest.endswith(b"\r") or (after_cr and not piece)
        lines = rest.splitlines()
        unended = b"" if not lines or rest.endswith((b"\n", b"\r")) else lines.pop()
        if lines:
            if held:
                lines[0] = b"".join([*held, lines[0]])
                held, size = [], 0
            lines[0] = lines[0].removeprefix(mark)
            mark = b""
            yield from lines
        if unended:
            held.append(unended)
            size += len(unended)
            if size > LONGEST_EVENT:
                raise _too_long()


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
    values = body if isinstance(body, dict) else {}
    if frame.headers.get(":message-type") == "event":
        return "", base64.b64decode(str(values.get("bytes", ""))).decode()
    name = str(frame.headers.get(":exception-type") or frame.headers.get(":error-code"))
    words = values.get("message") or frame.headers.get(":error-message") or name
    return "error", json.dumps({"error": {"type": name, "code": _STATUS.get(name, 500), "message": words}})


def _too_long() -> CallError:
    return CallError(FaultKind.BAD_RESPONSE, f"an event of the stream is longer than {LONGEST_EVENT:,} bytes")


def is_one_piece(response: Response) -> bool:
    """True where the body is JSON and no stream; CallError for a web page."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        message = "the server answered with a web page, not JSON; is its address complete?"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    return bool(kind.endswith("json"))


def read_object(response: Response) -> dict[str, Any]:
    """The body, a JSON object; an error object in it is raised as EnclosedError."""
    is_one_piece(response)
    return enclosed(parse_json(response.read().decode("utf-8-sig")))


class AnswerBuilder:
    """Collects the pieces of one answer."""

    __slots__ = (
        *("_arrived", "_content", "_finish", "_not_text", "_pieces", "_reasoning", "_refusal", "_stream", "_watch"),
        *("_ids", "calls", "counts", "pending", "server_times", "usage"),
    )

    def __init__(self, watch: Stopwatch, *, stream: EventStream | None = None) -> None:
        self._watch = watch
        #: what it is read out of; None where it comes in one piece
        self._stream = stream
        #: of the content and of the calls' arguments, as they came
        self._pieces: list[str] = []
        #: when each of them came
        self._arrived: list[float] = []
        self._content: list[str] = []
        #: of each tool that is called, by the call's place: its name, and the pieces of its arguments
        self.calls: dict[object, tuple[list[str], list[str]]] = {}
        self._ids: dict[object, object] = {}
        self._not_text = False
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._finish: FinishReason | None = None
        self.usage = Usage()
        #: seconds by the server's own clock, by the names of `Timing`
        self.server_times: dict[str, float] = {}
        #: of tokens, by the API's own names
        self.counts: dict[str, int] = {}
        #: the arguments of the call that has begun, unless they come in pieces
        self.pending: str | None = None

    def note(self, usage: object, names: Iterable[str]) -> None:
        """Take the counts that are given; those of a later event are the sum so far."""
        given = {name: count(get(usage, name)) for name in names}
        self.counts.update({name: value for name, value in given.items() if value is not None})

    def add(self, piece: object) -> None:
        """A piece of content; what is empty is not one, and starts no clock."""
        self._content += self._arrive(piece)

    def call(
        self, place: object, *, own: object = None, name: object = None, arguments: object = None, whole: object = None
    ) -> None:
        """
        A tool's name, a piece of its arguments, or the whole of them unless pieces have come, of the call there.

        One whose `own` id is not that of the call there is another.
        """
        place = place if isinstance(place, int | str) else 0
        if own and own != self._ids.setdefault(place, own):
            self.calls[place, len(self.calls)], self._ids[place] = self.calls.pop(place), own
        names, pieces = self.calls.setdefault(place, ([], []))
        names += [name] if isinstance(name, str) and name else []
        pieces += self._arrive(arguments if pieces or whole is None else whole)

    def _arrive(self, piece: object) -> list[str]:
        """The piece, which has come; a JSON value that stands in the place of a text is written as one."""
        if piece is None or piece == "":
            return []
        if not isinstance(piece, str):
            piece, self._not_text = json.dumps(piece, ensure_ascii=False), True
        if self._stream is not None:
            self._arrived.append(self._watch.token(piece=self._stream.pieces))
        self._pieces.append(piece)
        return [piece]

    def begin_reasoning(self) -> None:
        """The model has begun to reason, though its provider may never show what it says."""
        if self._stream is not None:
            self._watch.reasoning(piece=self._stream.pieces)

    def reason(self, piece: object) -> None:
        """A piece of reasoning, which is no content."""
        if isinstance(piece, str) and piece:
            self.begin_reasoning()
            self._reasoning.append(piece)

    @property
    def reasoned(self) -> bool:
        """True once a text of reasoning has come."""
        return bool(self._reasoning)

    @property
    def empty(self) -> bool:
        """True until a text or a refusal has come."""
        return not self._pieces and not self._refusal

    @property
    def begun(self) -> str:
        """Describe what had come when a stream broke off; empty where nothing had."""
        if not self._arrived:
            return ""
        text = "".join(self._pieces)
        return f"after {counted(len(text), 'character')} in {self._watch.stop().tgt:.2f} s: {shortened(text)}"

    def refuse(self, piece: object) -> None:
        """A piece of the provider's refusal."""
        if isinstance(piece, str) and piece:
            self._refusal.append(piece)

    def end(self, reason: FinishReason) -> None:
        """Note why the text ended."""
        self._finish = reason

    def to_generation(self, sent: Sent) -> Completion | Declined:
        """Return the answer, now that nothing more comes."""
        arrived, content = "".join(self._pieces), "".join(self._content)
        timing = structs.replace(self._watch.stop(answer=self._answer_arrived(arrived)), **self.server_times)
        if refusal := "".join(self._refusal):
            return self._declined(refusal, sent)
        if self._finish is None:
            message = f"the answer broke off without a finish reason; {len(arrived)} characters of it were dropped"
            raise CallError(FaultKind.BAD_RESPONSE, message, broke_off=True)
        if self._finish is FinishReason.CONTENT_FILTER and not arrived:
            return self._declined("the provider's content filter let nothing through", sent)
        calls = tuple(
            CalledTool(name="".join(names[:1]), arguments="".join(pieces)) for names, pieces in self.calls.values()
        )
        return Completion(
            text="\n".join(call.arguments for call in calls) if calls else content,
            finish_reason=self._finish,
            timing=timing,
            usage=self.usage,
            sent=sent,
            reasoning="".join(self._reasoning),
            calls=calls,
            beside=content if calls else "",
            not_text=self._not_text,
        )

    def _answer_arrived(self, text: str) -> float | None:
        """Find when the answer itself came, in a stream of content that begins with reasoning; None in any other."""
        start = start_of_answer(text) if self._arrived else None
        if start is None:
            return None
        ends = accumulate(map(len, self._pieces))
        return next(at for at, end in zip(self._arrived, ends, strict=True) if end > start)

    def _declined(self, message: str, sent: Sent) -> Declined:
        return Declined(
            reason=DeclineReason.REFUSAL,
            message=one_line(message),
            timing=self._watch.stop(),
            usage=self.usage,
            sent=sent,
        )
