"""
Functions of the package called in a child process, so that a stranger's data can neither hang nor exhaust this one.

What goes there and comes back is JSON. The child is kept from call to call, whatever function is called; a call that
goes beyond its bounds costs the child and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from typing import Any

from pytest_jsbench.core.child_process import ChildNotStarted, ChildProcess, ChildReply, check_of_packages
from pytest_jsbench.core.child_service import ABSENT, AlarmKind, best_alarm

#: bytes that a call may use
MEMORY = 1 << 30
#: bytes of JSON that a call may come to
LONGEST_REPLY = 16 << 20


class BoundExceeded(Exception):
    """A call that was given up; the message goes on from what it was to do: `within 10 s`."""


class CallBroke(Exception):
    """A call that failed, by an error or with its whole process; the message says how."""


class GuardedCalls:
    """
    Calls functions in a child that it keeps; threads call in turn, also after a fork.

    A worker's judge, its prompts and adaptation call the one that `guarded_calls()` makes for the process. The first
    call starts the child; a call that goes beyond its bounds ends it, and the next call starts another. It ends with
    `close`, or when nothing refers to this object any more.
    """

    def __init__(
        self,
        *,
        memory: int | None = MEMORY,
        private: bool = False,
        longest: int | None = LONGEST_REPLY,
        alarm: AlarmKind | None = None,
    ) -> None:
        """`memory` counts all that the child maps, or only what is `private` to it; None: there is no bound."""
        self._memory, self._private, self._longest = memory, private, longest
        self._alarm: AlarmKind = alarm or best_alarm()
        #: held while a thread talks to the child
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        #: what closes the child
        self._end = contextlib.ExitStack()
        weakref.finalize(self, self._end.close)
        _calls.add(self)

    def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        """Call `package.module:function`; BoundExceeded, CallBroke or ChildNotStarted where it returns nothing."""
        try:
            reply = self.values_of(function, *arguments, seconds=seconds, memory=self._memory, longest=self._longest)
        except RecursionError:
            raise BoundExceeded("as it is nested too deeply") from None
        match reply:
            case ChildReply(ending="timeout"):
                raise BoundExceeded(f"within {seconds:g} s")
            case ChildReply(ending="memory"):
                bound = "the memory there is" if self._memory is None else f"{self._memory >> 20} MB of memory"
                raise BoundExceeded(f"within {bound}")
            case ChildReply(ending="crashed"):
                raise CallBroke(f"its process ended: {reply.detail}")
            case ChildReply(error="RecursionError"):
                raise BoundExceeded("as it is nested too deeply")
            case ChildReply(error="size"):
                raise BoundExceeded(f"within {(self._longest or 0) >> 20} MB of text")
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
        Call `package.module:function` for what it returns, or all that it yields; ChildNotStarted without a child.

        `kept` is its first argument, a text that the child is sent once; the first value has its time in seconds, and
        each of the others a second.
        """
        bounds = {"seconds": seconds, "memory": memory, "private": self._private, "longest": longest}
        reply = self._exchange({"call": function, "arguments": arguments, **bounds}, kept)
        if reply.error == ABSENT:
            raise ChildNotStarted(f"{reply.detail}; {check_of_packages()}")
        return reply

    def _exchange(self, request: dict[str, Any], kept: str | None) -> ChildReply:
        with self._lock:
            child = self._child
            if child is None or not child.alive():
                self._forget()
                self._child = child = ChildProcess(self._alarm)
                self._end.callback(child.close)
            try:
                reply = child.exchange(request, kept=kept)
            except BaseException:
                # what is left of a reply that nobody waits for must not be taken for the next one
                self._forget()
                child.kill()
                raise
            if reply.ending is not None:
                self._forget()
            return reply

    def _forget(self) -> ChildProcess | None:
        child, self._child = self._child, None
        self._end.pop_all()
        return child

    def close(self) -> None:
        """Let the child go; a later call starts another."""
        if (child := self._forget()) is not None:
            child.close()

    def kill(self) -> None:
        """End the child now, whatever it is doing; a later call starts another."""
        if (child := self._forget()) is not None and child.alive():
            child.kill()

    def let_go(self) -> None:
        """End the child, unless a thread talks to it; a later call starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def renew_lock(self) -> None:
        """Give up the lock, which a thread that this process does not have may hold since before a fork."""
        self._lock = threading.Lock()


_calls: weakref.WeakSet[GuardedCalls] = weakref.WeakSet()


def _after_fork() -> None:
    for calls in list(_calls):
        calls.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def guarded_calls() -> GuardedCalls:
    """Those that this process shares until it ends."""
    return GuardedCalls()
