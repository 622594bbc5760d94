"""Calls that wait for a child process while another thread uses it, and the thread that makes them."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable

from pytest_jsbench.core.child_process import ChildReply

#: Seconds without a call after which the thread ends.
_IDLE = 5.0


class WaitingCall:
    """A call that one thread waits for and another one makes; its lock is one of C, which no signal leaves locked."""

    def __init__(self, request: str, kept: str | None) -> None:
        """Take the arguments of `ChildProcess.send_request`."""
        self.request = request
        self.kept = kept
        #: Maximum size of the request, with the kept text, its key and those of texts to drop.
        self.most_bytes = len(request) + (0 if kept is None else len(json.dumps(kept))) + 2_000
        #: The reply without its values, which are in the lines; None until the call is made.
        self.reply: ChildReply | None = None
        self.lines: list[bytes] = []
        #: Error that is raised in the thread that waits; None if there is a reply.
        self.error: Exception | None = None
        #: Whether the thread waits no longer.
        self.has_left = False
        self._made = threading.Lock()
        self._made.acquire()

    def wait(self) -> None:
        """Wait until the call is made."""
        self._made.acquire()

    def finish(self, reply: ChildReply, lines: list[bytes]) -> None:
        """Set the reply, and wake the thread that waits for it."""
        self.reply, self.lines = reply, lines
        self._made.release()

    def fail(self, error: Exception) -> None:
        """Set the error, and wake the thread that waits."""
        self.error = error
        self._made.release()


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
