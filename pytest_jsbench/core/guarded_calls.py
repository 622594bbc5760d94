"""
A function of the package called in a child process, so that a stranger's data can neither hang nor exhaust this one.

What goes there and comes back is JSON. The child is kept from call to call; a call that goes beyond its bounds costs
the child and nothing else.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any

from pytest_jsbench.core.child_process import KeptChild, Program
from pytest_jsbench.core.child_service import Service

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
    Calls functions in a child that it keeps; usable from any thread, and after a fork.

    Prompts and adaptation call the one that `guarded_calls()` makes for the process. The first call starts the child,
    which serves one call at a time; a call that goes beyond its bounds ends it, and the next call starts another. It
    ends with `close`, or when nothing refers to it any more.
    """

    def __init__(self, *, memory: int = MEMORY, longest: int = LONGEST_REPLY) -> None:
        self._memory, self._longest = memory, longest
        settings = {"longest": longest}
        self._child = KeptChild(Program(module=__name__, settings=settings, memory=memory))
        self._end = weakref.finalize(self, self._child.close)

    def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        """What `package.module:function` returns; BoundExceeded, CallBroke or ChildNotStarted where it does not."""
        try:
            reply = self._child.ask({"call": function, "arguments": arguments, "seconds": seconds})
        except RecursionError:
            raise BoundExceeded("as it is nested too deeply") from None
        if not reply.replies:
            if reply.ending == "crashed":
                raise CallBroke(f"its process ended: {reply.detail}")
            raise BoundExceeded(self._in_memory() if reply.ending == "memory" else f"within {seconds:g} s")
        match reply.replies[0]:
            case {"value": value}:
                return value
            case {"broke": "RecursionError"}:
                raise BoundExceeded("as it is nested too deeply")
            case {"broke": "MemoryError"}:
                self._child.kill()  # what is left of such a call may not all have been given back
                raise BoundExceeded(self._in_memory())
            case {"broke": "size"}:
                raise BoundExceeded(f"within {self._longest >> 20} MB of text")
            case {"broke": kind, "detail": detail}:
                raise CallBroke(f"{kind}: {detail}")
        message = f"expected a value or an error, found {str(reply.replies[0])[:100]}"
        raise CallBroke(message)

    def _in_memory(self) -> str:
        return f"within {self._memory >> 20} MB of memory"

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
    service.limit_memory()
    service.ready()
    for request in service.requests():
        module, _, name = request["call"].partition(":")
        function = getattr(importlib.import_module(module), name)  # what it imports is in no call's time
        work = functools.partial(_work, function, request["arguments"])
        service.answer(request["seconds"], work, longest=config["settings"]["longest"])


def _work(function: Any, arguments: list[Any]) -> dict[str, Any]:
    return {"value": function(*arguments)}
