"""The child's side of `child_process`: requests are read, worked on under an alarm, and replied to, in JSON."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any, Literal, Protocol, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: the line that follows the last of a reply
LAST = b'{"last": true}\n'
#: objects made, for each collection of cycles
_COLLECT_EVERY = 50_000

Message = dict[str, Any]


def encode(message: Message, default: Callable[[Any], object] | None = None) -> bytes:
    """The message as one line; `default` is called with what JSON does not know."""
    return json.dumps(message, default=default).encode("ascii") + b"\n"


AlarmKind = Literal["signal", "thread"]

#: the exit status of a process that its alarm ended
ALARM_STATUS: dict[AlarmKind, int] = {"signal": -14, "thread": 1}


class Alarm(Protocol):
    """Ends the process when it is not called off in time."""

    def set(self, seconds: float) -> None:
        """Begin to count, anew if it counts already."""

    def off(self) -> None:
        """Stop counting."""


class SignalAlarm:
    """The kernel's timer, with the signal's default action: it needs neither the GIL nor a Python frame."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def set(self, seconds: float) -> None:
        """Begin to count, anew if it counts already."""
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def off(self) -> None:
        """Stop counting."""
        signal.setitimer(signal.ITIMER_REAL, 0)


class ThreadAlarm:
    """The thread of faulthandler, which needs no GIL either; for Windows, which has no such timer."""

    def __init__(self) -> None:
        self._nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115 - held open as long as the process lives

    def set(self, seconds: float) -> None:
        """Begin to count, anew if it counts already."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._nowhere)

    def off(self) -> None:
        """Stop counting."""
        faulthandler.cancel_dump_traceback_later()


def best_alarm() -> AlarmKind:
    """The alarm that this platform has."""
    return "signal" if hasattr(signal, "setitimer") else "thread"


def make_alarm(kind: AlarmKind) -> Alarm:
    """The alarm of that kind, ready to be set."""
    match kind:
        case "signal":
            return SignalAlarm()
        case "thread":
            return ThreadAlarm()
        case _:
            assert_never(kind)


class Service:
    """What a child does beside its work; it is made first, as nothing but replies may reach the standard output."""

    def __init__(self, config: Message) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the process that started this one
        warnings.simplefilter("ignore")
        self._config = config
        self._output = os.fdopen(os.dup(1), "wb")
        # what a library prints there goes where errors go
        os.dup2(2, 1)
        #: ends the process when it is not called off in time
        self.alarm = make_alarm(config["alarm"])

    def limit_memory(self) -> None:
        """Hold this process to its memory, where the platform can."""
        if sys.platform == "win32":
            return
        import resource

        counted = resource.RLIMIT_AS if self._config["counted"] == "mapped" else resource.RLIMIT_DATA
        for kind, most in ((counted, self._config["memory"]), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(kind)[1]
            limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
            try:
                resource.setrlimit(kind, (limit, hard))
            except (ValueError, OSError):
                continue  # some platforms know the limit and refuse to set it

    def ready(self, **more: Any) -> None:
        """Say that requests can come."""
        _end_of_start()
        # what was imported stays, and what the work makes is freed without the collector but for a few cycles
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        self.send(encode({"ready": True, **more}))

    def fail(self, error: BaseException) -> None:
        """Say why no request can be worked on."""
        _end_of_start()
        self.send(encode({"error": f"{type(error).__name__}: {error}"}))

    def send(self, line: bytes) -> None:
        """Write to the parent."""
        self._output.write(line)
        self._output.flush()

    def requests(self) -> Iterator[Message]:
        """The requests, until the input ends."""
        return map(json.loads, sys.stdin.buffer)

    def answer(self, seconds: float, work: Callable[[], Message], *, longest: int | None = None) -> None:
        """Send the one reply that the work comes to in its time, or `broke` with what it came to instead."""
        self.alarm.set(seconds)
        try:
            line = encode(work())
            if longest is not None and len(line) > longest:
                line = encode({"broke": "size", "detail": f"a reply of {len(line)} bytes"})
        except BaseException as error:  # noqa: BLE001  a panic of Rust is no Exception
            line = encode({"broke": type(error).__name__, "detail": str(error)[:1000]})
        self.alarm.off()
        self.send(line + LAST)


def _end_of_start() -> None:
    """Call off the alarm that the parent's program set, for a start that hangs."""
    if sys.platform == "win32":
        faulthandler.cancel_dump_traceback_later()
    else:
        signal.setitimer(signal.ITIMER_REAL, 0)
