"""The end of one call, also for an answer that keeps dripping."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pytest_jsbench.generations import CallError, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

#: the longest wait for a connection
_CONNECT_SECONDS = 10.0


class Deadline:
    """
    A number of seconds from now.

    A client's own timeout is per read: a server that sends an SSE comment every second never meets it.
    """

    __slots__ = ("_end", "_timers", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.perf_counter() + seconds
        self._timers: list[threading.Timer] = []

    @property
    def remaining(self) -> float:
        """Seconds until it; never negative."""
        return max(0.0, self._end - time.perf_counter())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.remaining == 0.0

    def to_timeout(self) -> httpx2.Timeout:
        """What is left, as the SDKs take it: a bound for connecting and one for each read."""
        import httpx2

        remaining = self.remaining
        return httpx2.Timeout(remaining, connect=min(_CONNECT_SECONDS, remaining))

    def fault(self) -> CallError:
        """What a call is that did not end before it."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Inside, each response of a client with `cut_at_deadline` as its hook ends at the deadline."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)
            for timer in self._timers:
                timer.cancel()

    def cut(self, response: httpx2.Response) -> None:
        """At the deadline its connection is shut, and whoever reads it fails."""
        timer = threading.Timer(self.remaining, shut, [response])
        timer.daemon = True
        timer.start()
        self._timers.append(timer)


_RUNNING: ContextVar[Deadline | None] = ContextVar("running", default=None)


def cut_at_deadline(response: httpx2.Response) -> None:
    """A client's hook for responses, called before the body is read, also by the SDK that reads an error's."""
    if (deadline := _RUNNING.get()) is not None:
        deadline.cut(response)


def shut(response: httpx2.Response) -> None:
    """Shut the connection under whoever reads the body."""
    stream = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # not SSLSocket.shutdown, which takes the TLS state away under the thread that reads
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
