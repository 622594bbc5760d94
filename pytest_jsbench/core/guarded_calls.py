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
from dataclasses import replace
from typing import Any

from pytest_jsbench.core.call_queue import CallQueue, WaitingCall
from pytest_jsbench.core.child_process import (
    START,
    ChildNotStarted,
    ChildProcess,
    ChildReply,
    RawReply,
    check_of_packages,
    read_values,
)
from pytest_jsbench.core.child_service import ABSENT, AlarmKind, create_alarm
from pytest_jsbench.core.json_values import as_dict

#: Default memory limit of a call in bytes.
MEMORY = 1 << 30
#: Maximum length of a reply in bytes of JSON.
LONGEST_REPLY = 16 << 20
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
    ) -> None:
        """
        Limit the child, which `start` starts, to `memory` bytes of mapped memory, or of private memory if `private`;
        None means no limit. If `serves`, the child works between calls too, such as a server.
        """
        #: Whether the child works between calls, so that it must not be ended because it makes no call.
        self.serves = serves
        self._start = start
        self._memory = memory
        self._private = private
        self._alarm: AlarmKind = alarm or create_alarm()
        #: Locked while a thread communicates with the child.
        self._lock = threading.Lock()
        self._queue = self._create_queue()
        #: Locked while the call that the child works on changes, or its thread stops waiting.
        self._changing = threading.Lock()
        self._current: WaitingCall | None = None
        #: Whether this process has ended the child, so that its end says nothing about a call.
        self._was_killed = False
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
        reply, lines = self._exchange(request, kept)
        reply = replace(reply, values=read_values(lines))
        if reply.error == ABSENT:
            raise ChildNotStarted(f"{reply.detail}; {check_of_packages()}")
        return reply

    def _exchange(self, request: str, kept: str | None) -> RawReply:
        """Send a request and read its reply; if other threads use the child, let the queue's thread do so."""
        if self._lock.acquire(blocking=False):
            try:
                return self._make_alone(request, kept)
            finally:
                self._lock.release()
        call = WaitingCall(request, kept)
        if not self._queue.add(call):
            with self._lock:
                return self._make_alone(request, kept)
        try:
            call.wait()
        except BaseException:
            self._abandon(call)
            raise
        return call.result()

    def _make_alone(self, request: str, kept: str | None) -> RawReply:
        """Make a call in its own thread, which has locked the child."""
        child = self._find_child()
        try:
            child.send_request(request, kept=kept)
            reply, lines = child.read_reply()
        except BaseException:
            # The rest of an abandoned reply must not be read as the next reply.
            self._forget()
            child.kill()
            raise
        if reply.ending is not None:
            self._forget()
        return reply, lines

    def _make_waiting(self, first: WaitingCall) -> None:
        """Make a call that waits, and all that come meanwhile."""
        waiting = deque([first])
        with self._lock:
            while waiting:
                try:
                    child = self._find_child()
                except Exception as error:  # noqa: BLE001  raised again in the thread that waits for the call
                    waiting.popleft().finish(error)
                    continue
                self._make_with(child, waiting)
            self._current = None

    def _make_with(self, child: ChildProcess, waiting: deque[WaitingCall]) -> None:
        """
        Make the calls that wait until none does, or the child ends and leaves the others.

        Requests are sent ahead, so that the child always has work.
        """
        sent: deque[WaitingCall] = deque()
        try:
            while True:
                waiting += iter(self._queue.take, None)
                # a request that its pipe cannot hold would wait for the child, which might wait for this thread
                while waiting and (not sent or sum(call.most_bytes for call in (*sent, waiting[0])) <= child.room):
                    call = waiting.popleft()
                    if not call.has_left:
                        sent.append(call)
                        child.send_request(call.request, kept=call.kept)
                if not sent:
                    return
                with self._changing:
                    self._current = sent[0]
                reply, lines = child.read_reply()
                if reply.ending is not None:
                    self._forget()
                    if self._was_killed and not sent[0].has_left:  # because of another call
                        return
                sent.popleft().finish((reply, lines))
                if reply.ending is not None:
                    return
        except Exception as error:  # noqa: BLE001  raised again in the thread that waits for the call
            self._forget()
            child.kill()
            failed = sent or waiting
            if failed and not self._was_killed:  # by another thread, which also closes the child's files
                failed.popleft().finish(error)
        finally:
            waiting.extendleft(reversed(sent))

    def _abandon(self, call: WaitingCall) -> None:
        """Note that a call is not awaited any more; if the child works on it, end the child."""
        call.has_left = True
        with self._changing:
            child = self._child
            if self._current is call and not call.is_made and child is not None:
                self._was_killed = True
                child.kill_process()

    def _find_child(self) -> ChildProcess:
        """Return the child that is running, or start one; raise ChildNotStarted if that is impossible."""
        child = self._child
        if child is None or not child.alive():
            self._forget()
            self._was_killed = False
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
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.join()

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
        self._was_killed = True
        self._close_child()

    def _close_child(self) -> None:
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
                self._close_child()
            finally:
                self._lock.release()

    def renew_locks(self) -> None:
        """Replace the locks, because a thread of the parent process may have held one at the time of a fork."""
        self._lock = threading.Lock()
        self._queue = self._create_queue()
        self._changing = threading.Lock()

    def _create_queue(self) -> CallQueue:
        own = weakref.ref(self)

        def make(call: WaitingCall) -> None:
            """Make the call, without keeping this object, whose end ends the child."""
            if (calls := own()) is not None:
                calls._make_waiting(call)  # noqa: SLF001  of the same class

        return CallQueue(make)


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
