"""Let one thread at a time make the calls of all threads that wait for the same child process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from pytest_jsbench.core.child_process import ChildReply

#: Seconds after which a waiting thread checks that a thread serves, since an exception in a signal handler can end that
#: thread's work at any place.
_CHECK = 1.0


class WaitingCall:
    """A call that one thread waits for, and that this thread or another one makes."""

    def __init__(self, request: str, kept: str | None) -> None:
        """Take the arguments of `ChildProcess.send_request`."""
        self.request = request
        self.kept = kept
        self.reply: ChildReply | None = None
        #: Whether its thread waits no longer; if that thread served, another one serves.
        self.has_left = False
        #: Set when the call has a reply, or when its thread is to serve.
        self.woken = threading.Event()

    @property
    def most_bytes(self) -> int:
        """Maximum size of the request with the kept text, in which each character may be escaped, and its key."""
        return len(self.request) + 2 * len(self.kept or "") + 1_000

    def finish(self, reply: ChildReply) -> None:
        """Set the reply, and wake the thread that waits for it."""
        self.reply = reply
        self.woken.set()


class CallQueue:
    """
    Calls of threads that wait for a child process; one of these threads serves, which means that it makes the calls.

    If each thread made its own call, the child would have nothing to do whenever one thread gives way to another, which
    takes milliseconds if many threads run.
    """

    def __init__(self, *, check: float = _CHECK) -> None:
        """Let a waiting thread check each `check` seconds that a thread serves."""
        self._check = check
        self._lock = threading.Lock()
        self._waiting: deque[WaitingCall] = deque()
        #: The call whose thread serves; None if no call waits.
        self._serving: WaitingCall | None = None

    def await_turn(self, call: WaitingCall) -> bool:
        """
        Add a call and wait; return True if its thread is to serve, False if the call has a reply.

        Its thread sets `has_left` and calls `leave` afterwards, whatever happens.
        """
        with self._lock:
            self._waiting.append(call)
        self._claim(call)
        while self._serving is not call and call.reply is None:
            call.woken.wait(self._check)
            self._claim(call)
        return call.reply is None

    def _claim(self, call: WaitingCall) -> None:
        """Let the thread of the call serve if no other one does."""
        with self._lock:
            if call.reply is None and (self._serving is None or self._serving.has_left):
                self._serving = call
                if call not in self._waiting:  # the thread that had taken it was interrupted
                    self._waiting.appendleft(call)

    def take(self, room: int | None = None) -> WaitingCall | None:
        """Remove and return the next call; None if there is none, or if it may have more bytes than `room`."""
        with self._lock:
            if not self._waiting or (room is not None and self._waiting[0].most_bytes > room):
                return None
            return self._waiting.popleft()

    def put_back(self, calls: Iterable[WaitingCall]) -> None:
        """Add calls that were taken, and have no reply, as the next ones."""
        with self._lock:
            self._waiting.extendleft(reversed([call for call in calls if not call.has_left]))

    def leave(self, call: WaitingCall) -> None:
        """Remove a call whose thread has left; if that thread served, let the thread of the next call serve."""
        with self._lock:
            with suppress(ValueError):
                self._waiting.remove(call)
            if self._serving is call:
                self._serving = following = self._waiting[0] if self._waiting else None
                if following is not None:
                    following.woken.set()
