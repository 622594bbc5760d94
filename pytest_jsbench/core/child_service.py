"""The child's side of `guarded_calls`: it calls the functions that it is asked for, under an alarm, and replies."""

from __future__ import annotations

import faulthandler
import functools
import gc
import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

#: what stands before the JSON of a value, and of what ended the reply
VALUE, END = b"=", b"."
#: what the child says once it can be asked
READY = b"ready\n"
#: the error of a call whose module cannot be imported
ABSENT = "absent"
#: seconds for each value after the first
_DETAILS = 1.0
#: characters of an error's message
_LONGEST_DETAIL = 1000
#: objects made, for each collection of cycles
_COLLECT_EVERY = 50_000


def _encode(message: object) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


AlarmKind = Literal["signal", "thread"]

#: the exit status of a process that its alarm ended
ALARM_STATUS: dict[AlarmKind, int] = {"signal": -14, "thread": 1}


class Alarm:
    """Ends the process when it is not called off in time; it needs neither the GIL nor a Python frame."""

    def __init__(self, kind: AlarmKind) -> None:
        self._kind = kind
        if kind == "signal":
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        else:
            self._nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115 - held open as long as the process lives

    def set(self, seconds: float) -> None:
        """Begin to count, anew if it counts already."""
        if self._kind == "signal":
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._nowhere)

    def off(self) -> None:
        """Stop counting."""
        if self._kind == "signal":
            signal.setitimer(signal.ITIMER_REAL, 0)
        else:
            faulthandler.cancel_dump_traceback_later()


def best_alarm() -> AlarmKind:
    """The alarm that this platform has: the kernel's timer, or on Windows a thread of faulthandler."""
    return "signal" if hasattr(signal, "setitimer") else "thread"


class Service:
    """The child's own end of the pipes; it is made first, as nothing but replies may reach the standard output."""

    def __init__(self, alarm: AlarmKind) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the process that started this one
        warnings.simplefilter("ignore")
        self._memory: int | None = None
        self._output = os.fdopen(os.dup(1), "wb")
        # what a library prints there goes where errors go
        os.dup2(2, 1)
        #: ends the process when it is not called off in time
        self.alarm = Alarm(alarm)
        Alarm(best_alarm()).off()  # which the parent's program has set, for a start that hangs
        # what was imported stays, and what the work makes is freed without the collector but for a few cycles
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        self.send(READY)

    def limit_memory(self, most: int | None, *, private: bool) -> None:
        """Hold this process to that much memory, of all that is mapped or of its own, where the platform can."""
        if sys.platform == "win32" or most is None or most == self._memory:
            return
        import resource

        self._memory = most
        counted = resource.RLIMIT_DATA if private else resource.RLIMIT_AS
        for kind, bound in ((counted, most), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(kind)[1]
            limit = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            try:
                resource.setrlimit(kind, (limit, hard))
            except (ValueError, OSError):
                continue  # some platforms know the limit and refuse to set it

    def send(self, line: bytes) -> None:
        """Write to the parent."""
        self._output.write(line)
        self._output.flush()

    def requests(self) -> Iterator[dict[str, Any]]:
        """The requests, until the input ends; a text that came once is the first argument wherever it is named."""
        texts: dict[int, str] = {}
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if "kept" in request:
                key, *sent = request["kept"]
                texts.update((key, text) for text in sent)
                request["arguments"].insert(0, texts[key])
            yield request

    def answer(self, seconds: float, work: Callable[[], object], *, longest: int | None = None) -> None:
        """
        Send what the work comes to, and how it ended.

        Where it is an iterator each of its values is sent, the first within the time and the others within a second
        each; what was sent before a fault stands.
        """
        error, detail, sent = None, "", 0
        try:
            self.alarm.set(seconds)
            result = work()
            values = result if isinstance(result, Iterator) else iter((result,))
            while (value := next(values, END)) is not END:
                line = _encode(value)
                self.alarm.off()  # a slow reader is no slow work
                sent += len(line)
                if longest is not None and sent > longest:
                    error, detail = "size", f"a reply of {sent} bytes"
                    break
                self.send(VALUE + line)
                self.alarm.set(min(seconds, _DETAILS))
        except BaseException as raised:  # noqa: BLE001  a panic of Rust is no Exception
            error, detail = type(raised).__name__, str(raised)
        self.alarm.off()
        self.end(error, detail)

    def end(self, error: str | None = None, detail: str = "") -> None:
        """Say that the reply is complete, or which error ended it."""
        self.send(END + _encode({"error": error, "detail": detail[:_LONGEST_DETAIL]}))


def main(alarm: AlarmKind) -> None:
    """Serve calls until the input ends."""
    service = Service(alarm)
    for request in service.requests():
        service.limit_memory(request["memory"], private=request["private"])
        module, _, name = request["call"].partition(":")
        try:
            importlib.import_module(module)  # in no call's time
        except ImportError as error:
            service.end(ABSENT, f"{type(error).__name__}: {error}")
            continue
        work = functools.partial(_call, module, name, request["arguments"])
        service.answer(request["seconds"], work, longest=request["longest"])


def _call(module: str, name: str, arguments: list[Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*arguments)
