"""A loopback HTTP server with scripted answers and faults, which records the requests."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it arrived, and when."""

    path: str
    headers: Mapping[str, str]
    #: Parsed JSON; bytes if it is not JSON, None without a body.
    body: Any
    at: float
    method: str = "POST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server writes: its pieces one by one, with a pause before each after the first."""

    pieces: tuple[bytes, ...]
    pause: float = 0.0
    #: End with a TCP reset.
    reset: bool = False
    #: Seconds to wait before the first byte.
    silence: float = 0.0
    #: Stop at the end without closing the connection.
    hang: bool = False
    #: Keep the connection open for the next request.
    keep: bool = False


@dataclass(slots=True)
class Provider:
    """Send replies in the order in which they were added; the last one is repeated."""

    replies: deque[Reply] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    #: Chooses the reply by the request, instead of the next in order.
    choose: Callable[[Asked], Reply] | None = None
    #: Number of connections that clients have opened, and of those that are closed.
    opened: int = 0
    closed: int = 0
    _socket: socket.socket = field(init=False)
    _closing: threading.Event = field(init=False, default_factory=threading.Event)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def url(self) -> str:
        """The root address."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def json(self, body: object, **how: Any) -> None:
        """Answer with a JSON body; the arguments are those of `json_reply`."""
        self.replies.append(json_reply(body, **how))

    def raw(self, body: bytes, **how: Any) -> None:
        """Answer with these bytes; the arguments are those of `raw_reply`."""
        self.replies.append(raw_reply(body, **how))

    def stream(self, *chunks: str, **how: Any) -> None:
        """Answer with a server-sent stream of these chunks; the arguments are those of `stream_reply`."""
        self.replies.append(stream_reply(*chunks, **how))

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=[connection], daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with self._lock:
            self.opened += 1
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            while self._answer(connection):
                pass
        with self._lock:
            self.closed += 1

    def _answer(self, connection: socket.socket) -> bool:
        """Read a request and answer it; return whether the connection stays open."""
        asked = _read(connection)
        with self._lock:
            self.asked.append(asked)
        reply = self.choose(asked) if self.choose else self._next()
        time.sleep(reply.silence)
        for number, piece in enumerate(reply.pieces):
            if number and self._closing.wait(reply.pause):
                return False
            connection.sendall(piece)
        if reply.hang:
            self._closing.wait()
        if reply.reset:
            time.sleep(0.05)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return reply.keep

    def _next(self) -> Reply:
        with self._lock:
            return self.replies.popleft() if len(self.replies) > 1 else self.replies[0]


def json_reply(body: object, **how: Any) -> Reply:
    """Return a reply with a JSON body; further arguments are those of `raw_reply`."""
    return raw_reply(json.dumps(body).encode(), kind="application/json", **how)


def raw_reply(
    body: bytes,
    *,
    status: int = 200,
    kind: str = "text/html",
    headers: Mapping[str, str] | None = None,
    silence: float = 0.0,
) -> Reply:
    """Return a reply that writes these bytes at once."""
    head = _head(status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})})
    return Reply(pieces=(head + body,), silence=silence)


def stream_reply(
    *chunks: str | bytes, pause: float = 0.0, reset: bool = False, cut: bool = False, kind: str = "text/event-stream"
) -> Reply:
    """Return a stream of these chunks, by default as server-sent events; with `reset` or `cut`, it has no end."""
    head = _head(200, {"content-type": kind, "transfer-encoding": "chunked"})
    pieces = [_chunk(text if isinstance(text, bytes) else text.encode()) for text in chunks if text]
    end = b"" if reset or cut else b"0\r\n\r\n"
    if not pause:
        pieces = [b"".join(pieces)]
    pieces[0] = head + pieces[0]
    pieces[-1] += end
    return Reply(pieces=tuple(pieces), pause=pause, reset=reset)


def dripping(reply: Reply, *, pause: float) -> Reply:
    """Return the same reply with its body sent one byte at a time."""
    head, _, body = b"".join(reply.pieces).partition(b"\r\n\r\n")
    drops = (body[place : place + 1] for place in range(len(body)))
    return Reply(pieces=(head + b"\r\n\r\n", *drops), pause=pause)


def dripping_head(reply: Reply, *, pause: float) -> Reply:
    """Return the same reply, sent one byte at a time from its first byte."""
    whole = b"".join(reply.pieces)
    return Reply(pieces=tuple(whole[place : place + 1] for place in range(len(whole))), pause=pause)


def keep_open(reply: Reply) -> Reply:
    """Return the same reply with the connection kept open."""
    pieces = (reply.pieces[0].replace(b"connection: close\r\n", b"", 1), *reply.pieces[1:])
    return replace(reply, pieces=pieces, keep=True)


def _read(connection: socket.socket) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _receive(connection)
    method, path, *_ = first.split()
    return Asked(path=path, headers=headers, body=_value(headers, body), at=time.perf_counter(), method=method)


def _value(headers: Mapping[str, str], body: bytes) -> Any:
    if not body or "json" not in headers.get("content-type", "json"):
        return body or None
    try:
        return json.loads(body)
    except ValueError:  # Google's SDK declares JSON lines as JSON
        return body


def _receive(connection: socket.socket) -> bytes:
    if data := connection.recv(65536):
        return data
    message = "the client has gone"
    raise ConnectionError(message)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(data: object, *, name: str | None = None) -> str:
    """Return one server-sent event."""
    prefix = f"event: {name}\n" if name else ""
    return f"{prefix}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


DONE = event("[DONE]")


def unreachable_url() -> str:
    """Return an address of this machine without a server."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return f"http://127.0.0.1:{port}"
