"""
Call functions of the package in a child process, for work that could hang, crash or exhaust memory.

The child is reused for all functions, and gets only the part of the environment that it needs. A call that exceeds its
limits ends the child and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pytest_jsbench.core.call_queue import CallQueue, WaitingCall
from pytest_jsbench.core.child_process import START, ChildNotStarted, ChildProcess, ChildReply, check_of_packages
from pytest_jsbench.core.child_service import ABSENT, AlarmKind, create_alarm
from pytest_jsbench.core.json_values import as_dict

#: Default memory limit of a call in bytes.
MEMORY = 1 << 30
#: Maximum length of a reply in bytes of JSON.
LONGEST_REPLY = 16 << 20
#: Number of calls after which a thread lets another one serve; its own call may have been the first of them.
_MOST_MADE = 64

_ENCODER = json.JSONEncoder(default=as_dict)


class BoundExceeded(Exception):
    """A call exceeded a limit; the message, such as `within 10 s`, completes a sentence about the call's work."""


class CallBroke(Exception):
    """A call failed, because of an error or because its process ended; the message states the reason."""


class GuardedCalls:
    """
    Calls functions in a child process that is kept between calls; threads take turns, also after a fork.

    The judge, prompts and adaptation of a worker share the instance that `guarded_calls()` returns. The first call
    starts the child; a call that exceeds its limits ends the child, and the next call starts another. The child ends
    with `close`, or when this object is garbage collected.
    """

    def __init__(
        self,
        *,
        memory: int | None = MEMORY,
        private: bool = False,
        serves: bool = False,
        alarm: AlarmKind | None = None,
        start: Callable[[AlarmKind], ChildProcess] = ChildProcess,
        most_made: int = _MOST_MADE,
    ) -> None:
        """
        Limit the child, which `start` starts, to `memory` bytes of mapped memory, or of private memory if `private`;
        None means no limit. If `serves`, the child works between calls too, such as a server. A thread makes about
        `most_made` calls of other threads next to its own.
        """
        self._most_made = most_made
        #: Whether the child works between calls, so that it must not be ended because it makes no call.
        self.serves = serves
        self._start = start
        self._memory = memory
        self._private = private
        self._alarm: AlarmKind = alarm or create_alarm()
        #: Locked while a thread communicates with the child.
        self._lock = threading.Lock()
        self._queue = CallQueue()
        self._child: ChildProcess | None = None
        self._starting: threading.Thread | None = None
        #: Exit stack that closes the child.
        self._end = contextlib.ExitStack()
        weakref.finalize(self, self._end.close)
        _calls.add(self)

    def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        """
        Call `package.module:function` and return its value; raise BoundExceeded, CallBroke or ChildNotStarted on
        failure.
        """
        try:
            reply = self.values_of(function, *arguments, seconds=seconds, memory=self._memory, longest=LONGEST_REPLY)
        except RecursionError:
            raise BoundExceeded("as it is nested too deeply") from None
        match reply:
            case ChildReply(ending="timeout"):
                raise BoundExceeded(f"within {seconds:g} s")
            case ChildReply(ending="memory"):
                bound = "the available memory" if self._memory is None else f"{self._memory >> 20} MB of memory"
                raise BoundExceeded(f"within {bound}")
            case ChildReply(ending="crashed"):
                raise CallBroke(f"its process ended: {reply.detail}")
            case ChildReply(error="RecursionError"):
                raise BoundExceeded("as it is nested too deeply")
            case ChildReply(error="size"):
                raise BoundExceeded(f"within {LONGEST_REPLY >> 20} MB of text")
            case ChildReply(error=str(kind)):
                raise CallBroke(f"{kind}: {reply.detail}")
        return reply.values[0]

    def values_of(
        self,
        function: str,
        *arguments: Any,
        seconds: float,
        memory: int | None,
        longest: int | None = None,
        kept: str | None = None,
    ) -> ChildReply:
        """
        Call `package.module:function` and return the child's reply, with the function's value or all values that it
        yields.

        `kept` is a text for the first argument; the child keeps the text, which is sent only once. `seconds` limits the
        time for the first value; each later value has one second. Raise ChildNotStarted if no child can be started.
        """
        bounds = {"seconds": seconds, "memory": memory, "private": self._private, "longest": longest}
        request = _ENCODER.encode({"call": function, "arguments": arguments, **bounds})
        call = WaitingCall(request, kept)
        queue = self._queue
        try:
            if queue.await_turn(call):
                self._serve(queue, call)
        finally:
            call.has_left = True  # first, since a signal may interrupt the following call before it begins
            queue.leave(call)
        reply = call.reply
        assert reply is not None
        if reply.error == ABSENT:
            raise ChildNotStarted(f"{reply.detail}; {check_of_packages()}")
        return reply

    def _serve(self, queue: CallQueue, own: WaitingCall) -> None:
        """
        Make waiting calls, at least the thread's own one; requests are sent ahead, so that the child always has work.

        A call that ends the child leaves the following ones to another child.
        """
        sent: deque[tuple[WaitingCall, int]] = deque()
        made = 0
        with self._lock:
            child = self._find_child()
            try:
                while own.reply is None or sent:
                    # a request that its pipe cannot hold would wait for the child, which might wait for this thread
                    room = child.room - sum(size for _, size in sent) if sent else None
                    is_due = not sent or made + len(sent) < self._most_made
                    if is_due and (call := queue.take(room)) is not None:
                        sent.append((call, child.send_request(call.request, kept=call.kept)))
                        continue
                    assert sent, "the thread's own call waits or was sent"
                    reply = child.read_reply()
                    sent.popleft()[0].finish(reply)
                    made += 1
                    if reply.ending is not None:
                        self._forget()
                        if own.reply is not None:
                            return
                        queue.put_back(call for call, _ in sent)
                        sent.clear()
                        child = self._find_child()
            except BaseException:
                # The rest of an abandoned reply must not be read as the next reply.
                self._forget()
                child.kill()
                raise
            finally:
                queue.put_back(call for call, _ in sent)

    def _find_child(self) -> ChildProcess:
        """Return the child that is running, or start one; raise ChildNotStarted if that is impossible."""
        child = self._child
        if child is None or not child.alive():
            self._forget()
            self._child = child = self._start(self._alarm)
            self._end.callback(child.close)
        return child

    def start(self, function: str, *arguments: Any) -> None:
        """
        Start the child in the background with a call that imports what later calls need; they report its error.

        A later call waits until this one has ended. A child that runs or starts already is not started again.
        """
        if self._starting is not None or self.is_running():
            return
        starting = threading.Thread(target=self._start_child, args=(function, arguments), name="jsbench-child")
        starting.daemon = True
        with contextlib.suppress(RuntimeError):  # if no thread can be started, the next call starts the child
            starting.start()
            self._starting = starting

    def _start_child(self, function: str, arguments: Sequence[Any]) -> None:
        with contextlib.suppress(ChildNotStarted, OSError, MemoryError):
            self.values_of(function, *arguments, seconds=START, memory=self._memory)

    def _await_start(self) -> None:
        """Wait until a child that was started in the background has ended its first call, so that it can be ended."""
        if self._starting is not None and self._starting is not threading.current_thread():
            self._starting.join()
            self._starting = None

    def _forget(self) -> ChildProcess | None:
        child = self._child
        self._child = None
        self._end.pop_all()
        return child

    def is_running(self) -> bool:
        """Return whether a child is running."""
        child = self._child
        return child is not None and child.alive()

    def close(self) -> None:
        """End the child gracefully; a later call starts another."""
        self._await_start()
        if (child := self._forget()) is not None:
            child.close()

    def kill(self) -> None:
        """Kill the child, even during a call of another thread; a later call starts another."""
        child = self._forget()
        if child is None or not child.alive():
            return
        if self._lock.acquire(blocking=False):
            try:
                child.kill()
            finally:
                self._lock.release()
        else:
            child.kill_process()  # the thread that made the call still reads the files

    def let_go(self) -> None:
        """End the child unless a call is running; a later call starts another."""
        self._await_start()
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def renew_locks(self) -> None:
        """Replace the locks, because a thread of the parent process may have held one at the time of a fork."""
        self._lock = threading.Lock()
        self._queue = CallQueue()


_calls: weakref.WeakSet[GuardedCalls] = weakref.WeakSet()


def _renew_locks() -> None:
    for calls in list(_calls):
        calls.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def end_idle_children() -> None:
    """
    End the children of this process that make no call and serve nothing, to free their memory; a later call starts
    another child.
    """
    for calls in list(_calls):
        if not calls.serves:
            calls.let_go()


@functools.cache
def guarded_calls() -> GuardedCalls:
    """Return the instance that all code in this process shares."""
    return GuardedCalls()
