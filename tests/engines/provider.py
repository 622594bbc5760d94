"""A loopback HTTP server that answers as it is told, faults included, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server writes: its pieces one by one, with a pause before each after the first."""

    pieces: tuple[bytes, ...]
    pause: float = 0.0
    #: end with a TCP reset in the middle of the body
    reset: bool = False
    #: wait before the first byte
    silence: float = 0.0


@dataclass(slots=True)
class Provider:
    """Replies are given out in the order in which they were put in; the last one again and again."""

    replies: deque[Reply] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    _socket: socket.socket = field(init=False)
    _closing: threading.Event = field(init=False, default_factory=threading.Event)

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

    def json(
        self,
        body: object,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        silence: float = 0.0,
    ) -> None:
        """Answer with a JSON body."""
        data = json.dumps(body).encode()
        self.raw(data, status=status, kind="application/json", headers=headers, silence=silence)

    def raw(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "text/html",
        headers: Mapping[str, str] | None = None,
        silence: float = 0.0,
    ) -> None:
        """Answer with these bytes, in a single write."""
        head = _head(status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})})
        self.replies.append(Reply(pieces=(head + body,), silence=silence))

    def stream(self, *chunks: str, pause: float = 0.0, reset: bool = False) -> None:
        """Answer with a server-sent stream of these chunks; a reset leaves it without an end."""
        head = _head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        pieces = [_chunk(text.encode()) for text in chunks]
        end = b"" if reset else b"0\r\n\r\n"
        if not pause:
            pieces = [b"".join(pieces)]
        pieces[0] = head + pieces[0]
        pieces[-1] += end
        self.replies.append(Reply(pieces=tuple(pieces), pause=pause, reset=reset))

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            self.asked.append(_read(connection))
            reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
            time.sleep(reply.silence)
            for number, piece in enumerate(reply.pieces):
                if number and self._closing.wait(reply.pause):
                    return
                connection.sendall(piece)
            if reply.reset:
                time.sleep(0.05)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _read(connection: socket.socket) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return Asked(path=first.split()[1], headers=headers, body=json.loads(body))


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(data: object, *, name: str | None = None) -> str:
    """One server-sent event."""
    prefix = f"event: {name}\n" if name else ""
    return f"{prefix}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


DONE = event("[DONE]")


def unreachable_url() -> str:
    """An address of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return f"http://127.0.0.1:{port}"
