"""Calls that wait for a child process while another thread uses it, and the thread that makes them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from pytest_jsbench.core.child_process import RawReply

#: Seconds without a call after which the thread ends.
_IDLE = 5.0
#: Maximum number of bytes of a character in JSON, which is that of two escapes.
_LONGEST_ESCAPE = 12
#: Maximum number of bytes that name the kept text and the texts to drop.
_LONGEST_KEYS = 2_000


class WaitingCall:
    """
    A call that one thread waits for and another one makes.

    The thread waits for a raw lock, because a signal handler's exception could leave the lock of a `Condition` locked.
    """

    def __init__(self, request: str, kept: str | None) -> None:
        """Take the arguments of `ChildProcess.send_request`."""
        self.request = request
        self.kept = kept
        escape = 2 if kept is None or (kept.isascii() and kept.isprintable()) else _LONGEST_ESCAPE
        #: Maximum size of the request, with the kept text and the keys of texts.
        self.most_bytes = len(request) + escape * len(kept or "") + _LONGEST_KEYS
        #: Whether the thread waits no longer.
        self.has_left = False
        #: The reply, as `ChildProcess.read_reply` returns it, or the error to raise; None until the call is made.
        self._outcome: RawReply | Exception | None = None
        self._made = threading.Lock()
        self._made.acquire()

    @property
    def is_made(self) -> bool:
        """Whether the call has a reply or an error."""
        return self._outcome is not None

    def wait(self) -> None:
        """Wait until the call is made."""
        self._made.acquire()

    def finish(self, outcome: RawReply | Exception) -> None:
        """Set the reply, or the error of the call, and wake the thread that waits."""
        self._outcome = outcome
        self._made.release()

    def result(self) -> RawReply:
        """Return the reply of a call that is made, or raise its error."""
        assert self._outcome is not None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class CallQueue:
    """
    Calls that wait, and a thread that makes them; it begins with the first call and ends when no more come.

    If each thread waited for its turn to use the child, the child would have nothing to do whenever one thread gives
    way to another, which takes milliseconds if many threads run. Signals interrupt only the main thread, and so never
    the thread that makes the calls.
    """

    def __init__(self, make: Callable[[WaitingCall], None], *, idle: float = _IDLE) -> None:
        """Make calls with `make`, which takes the first that waits; end the thread `idle` seconds after the last."""
        self._make = make
        self._idle = idle
        self._waiting: queue.SimpleQueue[WaitingCall] = queue.SimpleQueue()
        #: Locked while the thread is started, and while it decides to end.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, call: WaitingCall) -> bool:
        """Add a call; return False if no thread can be started to make it."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._make_all, name="jsbench-calls", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
            self._waiting.put(call)
        return True

    def take(self) -> WaitingCall | None:
        """Return the next call; None if none waits."""
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None

    def _make_all(self) -> None:
        while True:
            try:
                call = self._waiting.get(timeout=self._idle)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._thread = None
                        return
                continue
            self._make(call)
            del call  # while it waits, the thread keeps no reply in memory
