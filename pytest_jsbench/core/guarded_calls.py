"""
Functions of the package called in a child process, so that a stranger's data can neither hang nor exhaust this one.

What goes there and comes back is JSON. The child is kept from call to call, whatever function is called; a call that
goes beyond its bounds costs the child and nothing else.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any

from pytest_jsbench.core.child_process import ChildNotStarted, ChildReply, KeptChild, Program, check_of_packages
from pytest_jsbench.core.child_service import AlarmKind, Service, best_alarm

#: bytes that a call may use
MEMORY = 1 << 30
#: bytes of JSON that a call may come to
LONGEST_REPLY = 16 << 20
#: the error of a call whose module cannot be imported
_ABSENT = "absent"


class BoundExceeded(Exception):
    """A call that was given up; the message goes on from what it was to do: `within 10 s`."""


class CallBroke(Exception):
    """A call that failed, by an error or with its whole process; the message says how."""


class GuardedCalls:
    """
    Calls functions in a child that it keeps; usable from any thread, and after a fork.

    A worker's judge, its prompts and adaptation call the one that `guarded_calls()` makes for the process. The first
    call starts the child, which serves one call at a time; a call that goes beyond its bounds ends it, and the next
    call starts another. It ends with `close`, or when nothing refers to it any more.
    """

    def __init__(self, *, memory: int = MEMORY, longest: int = LONGEST_REPLY, alarm: AlarmKind | None = None) -> None:
        self._memory, self._longest = memory, longest
        program = Program(module=__name__, settings={}, memory=None, alarm=alarm or best_alarm())
        self._child = KeptChild(program)
        self._end = weakref.finalize(self, self._child.close)
        self.let_go = self._child.let_go

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
                raise BoundExceeded(f"within {self._memory >> 20} MB of memory")
            case ChildReply(ending="crashed"):
                raise CallBroke(f"its process ended: {reply.detail}")
            case ChildReply(error="RecursionError"):
                raise BoundExceeded("as it is nested too deeply")
            case ChildReply(error="size"):
                raise BoundExceeded(f"within {self._longest >> 20} MB of text")
            case ChildReply(error=str(kind)):
                raise CallBroke(f"{kind}: {reply.detail}")
        return reply.values[0]

    def values_of(
        self,
        function: str,
        *arguments: Any,
        seconds: float,
        memory: int,
        longest: int | None = None,
        kept: str | None = None,
    ) -> ChildReply:
        """
        Call `package.module:function` for what it returns, or all that it yields; ChildNotStarted without a child.

        `kept` is its first argument, a text that the child is sent once; the first value has its time in seconds, and
        each of the others a second.
        """
        bounds = {"seconds": seconds, "memory": memory, "longest": longest}
        reply = self._child.ask({"call": function, "arguments": arguments, **bounds}, kept=kept)
        if reply.error == _ABSENT:
            raise ChildNotStarted(reply.detail, advice=check_of_packages())
        return reply

    def close(self) -> None:
        """Let the child go; a later call starts another."""
        self._child.close()


@functools.cache
def guarded_calls() -> GuardedCalls:
    """Those that this process shares until it ends."""
    return GuardedCalls()


def main(config: dict[str, Any]) -> None:
    """Serve calls until the input ends: what the child does."""
    service = Service(config)
    service.ready()
    for request in service.requests():
        service.limit_memory(request["memory"])
        module, _, name = request["call"].partition(":")
        try:
            importlib.import_module(module)  # in no call's time
        except ImportError as error:
            service.end(_ABSENT, f"{type(error).__name__}: {error}")
            continue
        work = functools.partial(_call, module, name, request["arguments"])
        service.answer(request["seconds"], work, longest=request["longest"])


def _call(module: str, name: str, arguments: list[Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*arguments)
