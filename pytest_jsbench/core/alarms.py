"""Ending the child process from within, whatever it is busy with."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Literal, Protocol, assert_never

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
