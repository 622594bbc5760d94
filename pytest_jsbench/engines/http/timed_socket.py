"""A socket with a deadline, which measures when data arrived."""

from __future__ import annotations

import io
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_jsbench.engines.http.receive_times import ReadTimes, TimedReceiver

if TYPE_CHECKING:
    from collections.abc import Callable

#: Size of the buffer of a connection, and of the largest piece of a body.
CHUNK_SIZE = 64 * 1024
#: Maximum ratio of a socket's timeout to the remaining time of a call.
_TIMEOUT_TOLERANCE = 1.01


class TimedSocket:
    """A connected socket with one timeout for the total time of all later operations."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._end = 0.0
        #: Timeout that the socket has now, in seconds; negative if unknown.
        self._timeout = -1.0
        #: Number of bytes received.
        self.received = 0
        self.read_times = ReadTimes()
        self._receiver = TimedReceiver.of(sock)
        self.close = sock.close
        self.fileno = sock.fileno
        inner = getattr(sock, "socket", sock)  # TLS inside a proxy's TLS
        #: Shuts down the connection alone: a TLS socket would also forget its keys, and another thread that reads from
        #: it would then read encrypted data.
        self.shutdown: Callable[[int], None] = inner.shutdown
        if isinstance(inner, socket.socket):
            self.shutdown = partial(socket.socket.shutdown, inner)
        #: Number of bytes that were decrypted, but not read.
        self.pending: Callable[[], int] = getattr(sock, "pending", int)

    def settimeout(self, seconds: float) -> None:
        """Set the timeout for the total time of all later operations, in seconds from now."""
        self._end = time.perf_counter() + seconds

    def shorten(self, seconds: float) -> None:
        """Reduce the remaining time to at most this number of seconds."""
        self._end = min(self._end, time.perf_counter() + seconds)

    def sendall(self, data: bytes) -> None:
        """Send all data."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.ready().send(rest) :]

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Open a stream for reading the next response; the times of its reads are measured at first."""
        self.read_times.are_measured = True
        return io.BufferedReader(_TimedReader(self, self._sock.makefile("rb", buffering=0)), CHUNK_SIZE)

    def ready(self) -> socket.socket:
        """
        Return the socket, with the remaining time as its timeout; raise TimeoutError if none remains.

        A timeout that is up to 1 % too long stays, since a system call for each piece of a stream would take long.
        """
        left = self.remaining()
        if not left <= self._timeout <= left * _TIMEOUT_TOLERANCE:
            self._sock.settimeout(left)
            self._timeout = left
        return self._sock

    def remaining(self) -> float:
        """Return the remaining time in seconds; raise TimeoutError if none remains."""
        left = self._end - time.perf_counter()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def read_into(self, buffer: Any, raw: io.RawIOBase) -> int | None:
        """Read from the socket, or from its stream `raw` if times are not measured."""
        count: int | None
        if self.read_times.are_measured and self._receiver is not None:
            if self._timeout != 0:
                self._sock.settimeout(0)
                self._timeout = 0.0
            count, self.read_times.last = self._receiver.read_into(buffer, self.remaining)
        else:
            self.ready()
            count = raw.readinto(buffer)
            self.read_times.last = None
        self.received += count or 0
        return count


class _TimedReader(io.RawIOBase):
    """A stream that reads from a socket within the remaining time."""

    def __init__(self, sock: TimedSocket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        return self._sock.read_into(buffer, self._raw)

    def close(self) -> None:
        self._raw.close()
        super().close()
