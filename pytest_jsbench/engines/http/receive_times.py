"""
Measure when data could first be read from a socket, on Linux.

With many streams in one process, a thread waits for the interpreter before it can read what has arrived. Two times
show how long: the kernel's timestamp of the last segment that a read returns, and the time at which `select` ended,
which the kernel leaves in the timeout. Python's own `select` returns only when the interpreter is free, and hides it.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard

from pytest_jsbench.core.timing import CLOCK_TOLERANCE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

#: Linux's SO_TIMESTAMPNS, also the type of the message with the timestamp, and its level; `socket` does not name it.
_SO_TIMESTAMPNS = 35
_SOL_SOCKET = 1
_TIMESPEC = struct.Struct("@ll")
#: Size of the buffer for the message.
_MESSAGE_SIZE = 64
#: Maximum number of seconds between two clocks that are read at one moment, and number of tries to do so.
_MOMENT = 0.00005
_TRIES = 5
#: Largest size of an encrypted record in bytes (RFC 5246, section 6.2.3, and its header).
_LONGEST_RECORD = (1 << 14) + 2048 + 5
#: Length of the header of a record, which begins with its type and ends with its length, and the type of data.
_RECORD_HEADER = 5
_APPLICATION_DATA = 23


class Read(NamedTuple):
    """Times of one read from a socket, by `time.perf_counter`."""

    #: Time at which the wait for data ended.
    woken: float
    #: Time at which the last segment of what was read arrived.
    received: float


class ReadTimes:
    """Times of the reads of one connection, which are measured from the start of a response to its first token."""

    def __init__(self) -> None:
        #: Times of the last read; None if they were not measured.
        self.last: Read | None = None
        #: Whether the times of the next read are measured.
        self.are_measured = False

    def end(self) -> Read | None:
        """Return the times of the last read, and measure no later reads, since that takes several microseconds each."""
        self.are_measured = False
        return self.last


class PlainReader:
    """Reads what has arrived at a plain socket, with the kernel's timestamp."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno

    def read_rest(self, _buffer: memoryview) -> int:
        """Return 0: what was read before has no rest, unlike a record of TLS."""
        return 0

    def read_into(self, buffer: memoryview) -> Arrived:
        """Read what has arrived; raise BlockingIOError if that is nothing."""
        size, messages, _, _ = self._sock.recvmsg_into((buffer,), _MESSAGE_SIZE)
        return Arrived(size, messages, is_last=True)


class TLSReader:
    """
    Reads what has arrived at a TLS socket, one record at a time.

    The kernel's timestamp is that of the encrypted data, which is looked at before `ssl` reads a record of it.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.fileno = sock.fileno
        self._looked_at = bytearray(_LONGEST_RECORD)
        #: Whether `ssl` has read a part of the next record, so that what is looked at begins with the rest of it.
        self._is_partial = False

    def read_rest(self, buffer: memoryview) -> int:
        """Read more of the record that was read before, and return its size; 0 if there is none."""
        return self._sock.recv_into(buffer) if self._sock.pending() else 0

    def read_into(self, buffer: memoryview) -> Arrived:
        """Read a record; raise BlockingIOError if none has arrived completely."""
        import ssl

        size, messages = self._look(self._looked_at)
        try:
            count = self._sock.recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):  # part of a record, or a message of the protocol itself
            self._is_partial = True
            raise BlockingIOError from None
        # what was looked at is of no record that was read: the record has arrived since
        read_at = None if self._is_partial or holds_record(self._looked_at[:size]) else time.perf_counter()
        self._is_partial = False
        try:
            is_last = not self._look(bytearray(1))[0]
        except BlockingIOError:
            is_last = True
        return Arrived(count, messages, is_last=is_last, read_at=read_at)

    def _look(self, buffer: bytearray) -> tuple[int, list[tuple[int, int, bytes]]]:
        """
        Look at what has arrived, and return its size and the kernel's messages; raise BlockingIOError if that is
        nothing.
        """
        try:
            # `ssl` hides this method of its sockets, since it would read encrypted data; here it only looks at it
            size, messages, _, _ = socket.socket.recvmsg_into(self._sock, (buffer,), _MESSAGE_SIZE, socket.MSG_PEEK)
        except BlockingIOError:
            raise
        except OSError:  # the connection has ended, which `ssl` reports after all that has arrived
            return 0, []
        return size, messages


def holds_record(data: bytes | bytearray) -> bool:
    """Return whether encrypted data hold a complete record with data of the application."""
    start = 0
    while start + _RECORD_HEADER <= len(data):
        end = start + _RECORD_HEADER + int.from_bytes(data[start + 3 : start + _RECORD_HEADER])
        if data[start] == _APPLICATION_DATA and end <= len(data):
            return True
        start = end
    return False


class Arrived(NamedTuple):
    """What was read from a socket."""

    #: Number of bytes.
    size: int
    #: Messages of the kernel, by level and type.
    messages: list[tuple[int, int, bytes]]
    #: Whether no more had arrived; otherwise, the timestamp may be that of later data.
    is_last: bool
    #: Time at which the data were read, if the messages are about earlier data.
    read_at: float | None = None


class TimedReceiver:
    """Reads from a socket, and notes when the data could be read."""

    def __init__(
        self,
        sock: socket.socket | ssl.SSLSocket,
        wait: Callable[[float], float],
        *,
        real_time: Callable[[], float] | None = None,
    ) -> None:
        """
        Let the kernel note when it receives data.

        Args:
            sock: Socket, plain or with TLS, which must not block when it is read.
            wait: Waits for data, at most some seconds, and returns the time at which the wait ended.
            real_time: Clock of the kernel's timestamps.

        """
        self._reader = TLSReader(sock) if _is_tls(sock) else PlainReader(sock)
        self._wait = wait
        self._real_time: Callable[[], float] = real_time or partial(time.clock_gettime, time.CLOCK_REALTIME)
        #: Times of the last read.
        self._last = Read(0.0, 0.0)
        #: Time at which the wait for the last read that left nothing ended; later data arrived after it.
        self._all_read = time.perf_counter()
        sock.setsockopt(_SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    @classmethod
    def of(cls, sock: object) -> Self | None:
        """Return a receiver for this socket; None if its times cannot be measured."""
        # A socket of another module may wait in its own way, as gevent's do, or be no socket, as for TLS inside of TLS.
        if type(sock).__module__ not in {"socket", "ssl"} or (select := find_select()) is None:
            return None
        readable: Any = sock
        try:
            return cls(readable, select.waiter(readable.fileno()))
        except OSError:
            return None

    def read_into(self, buffer: memoryview, remaining: Callable[[], float]) -> tuple[int, Read]:
        """
        Wait for data and read it; return the number of bytes, and the times.

        `remaining` returns the remaining seconds, and raises TimeoutError if none remain.
        """
        if size := self._reader.read_rest(buffer):
            return size, self._last
        while True:
            left = remaining()
            # the number of a closed socket may already be that of another file
            woken = self._wait(left) if self._reader.fileno() >= 0 else time.perf_counter()
            try:
                arrived = self._reader.read_into(buffer)
            except BlockingIOError:  # the wait was interrupted, or the time is over
                continue
            received = self._time_of(arrived.messages, woken) if arrived.read_at is None else arrived.read_at
            self._last = Read(woken, received if arrived.is_last else min(woken, received))
            self._all_read = woken if arrived.is_last else self._all_read
            return arrived.size, self._last

    def _time_of(self, messages: list[tuple[int, int, bytes]], woken: float) -> float:
        """Return the time of the timestamp; `woken` if there is none, or if the system's clock was set meanwhile."""
        for level, kind, data in messages:
            if kind == _SO_TIMESTAMPNS and level == _SOL_SOCKET and len(data) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                now, real_now = self._read_clocks()
                age: float = real_now - (seconds + nanoseconds * 1e-9)
                if -CLOCK_TOLERANCE <= age <= now - self._all_read + CLOCK_TOLERANCE:
                    return now - age
        return woken

    def _read_clocks(self) -> tuple[float, float]:
        """Return the times of both clocks at one moment; if this thread had to wait in between, read them again."""
        for _ in range(_TRIES):
            now = time.perf_counter()
            real_now = self._real_time()
            if time.perf_counter() - now <= _MOMENT:
                break
        return now, real_now


def _is_tls(sock: socket.socket) -> TypeGuard[ssl.SSLSocket]:
    return type(sock).__module__ == "ssl"


def first_arrival(read: Read, *, followed: bool) -> float:
    """
    Return the time at which the first event that a read completed had arrived.

    The kernel merges segments that wait to be read, and keeps the timestamp of the last. So if other events followed in
    the same read, the first may have arrived earlier, at the latest when the wait ended.
    """
    return min(read.woken, read.received) if followed else read.received


class Select:
    """The C function `select`, which leaves the remaining time in its argument."""

    def __init__(self, function: Callable[..., int] | None = None) -> None:
        """Load the function, unless another is given."""
        import ctypes

        class Timeout(ctypes.Structure):
            _fields_ = (("seconds", ctypes.c_long), ("microseconds", ctypes.c_long))

        self._ctypes = ctypes
        self._timeout = Timeout
        if function is None:
            function = found = ctypes.CDLL(None).select
            found.argtypes = (ctypes.c_int, *(ctypes.c_void_p,) * 4)
        self.function = function

    def waiter(self, descriptor: int) -> Callable[[float], float]:
        """Return a function that waits for data, at most some seconds, and returns the time at which the wait ended."""
        ctypes, call = self._ctypes, self.function
        word, bit = divmod(descriptor, 8 * ctypes.sizeof(ctypes.c_ulong))
        descriptors = (ctypes.c_ulong * (word + 1))()
        timeout = self._timeout()
        set_at, timeout_at = ctypes.addressof(descriptors), ctypes.addressof(timeout)
        mask, highest = 1 << bit, descriptor + 1

        def wait(seconds: float) -> float:
            descriptors[word] = mask
            timeout.seconds = whole = int(seconds)
            timeout.microseconds = int((seconds - whole) * 1e6)
            start = time.perf_counter()
            call(highest, set_at, None, None, timeout_at)
            left: float = timeout.seconds + timeout.microseconds * 1e-6
            return start + seconds - left

        return wait

    def leaves_time(self) -> bool:
        """Return whether the function changes its timeout; musl's does not."""
        timeout = self._timeout(0, 1)
        self.function(0, None, None, None, self._ctypes.addressof(timeout))
        return bool(timeout.microseconds == 0)


@cache
def find_select() -> Select | None:
    """Return the function; None if this system has none that leaves the remaining time."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        select = Select()
    except (ImportError, OSError, AttributeError):
        return None
    return select if select.leaves_time() else None
