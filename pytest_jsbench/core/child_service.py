"""
Run the calls of `guarded_calls` in the child process; an alarm ends the process if a call takes too long.

This file is the child's program. It imports nothing of the package before it knows where the parent's copy is.
"""

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
from typing import Any, Literal, NoReturn

#: Prefix of the lines of a reply that contain values, and prefix of its last line.
VALUE, END = b"=", b"."
#: First line, sent when the child is ready for requests.
READY = b"ready\n"
#: Error name for a call whose module cannot be imported.
ABSENT = "absent"
#: Maximum time for each value after the first, in seconds.
_DETAILS = 1.0
#: Maximum length of an error's message in characters.
_LONGEST_DETAIL = 1000
#: Number of new objects after which the garbage collector runs. With 50,000, errors of jsonschema, which are in
#: reference cycles, take another 7 MB, and judging takes the same time.
_COLLECT_EVERY = 10_000


def _encode(message: object) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


AlarmKind = Literal["signal", "thread"]

#: Exit status of a process that was ended by its alarm, by kind of alarm.
ALARM_STATUS: dict[AlarmKind, int] = {"signal": -14, "thread": 1}


class Alarm:
    """An alarm that ends the process unless switched off in time; it needs neither the GIL nor a Python frame."""

    def __init__(self, kind: AlarmKind) -> None:
        self._kind = kind
        if kind == "signal":
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        else:
            self._nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until the process ends

    def set(self, seconds: float) -> None:
        """Start or restart the countdown."""
        if self._kind == "signal":
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._nowhere)

    def off(self) -> None:
        """Stop the countdown."""
        if self._kind == "signal":
            signal.setitimer(signal.ITIMER_REAL, 0)
        else:
            faulthandler.cancel_dump_traceback_later()


def create_alarm() -> AlarmKind:
    """Return the best alarm of this platform: the kernel's timer, or on Windows a thread of faulthandler."""
    return "signal" if hasattr(signal, "setitimer") else "thread"


class Service:
    """Replies to the parent through pipes; created before anything else, so that standard output gets only replies."""

    def __init__(self, alarm: AlarmKind) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one handles Ctrl-C
        warnings.simplefilter("ignore")
        self._memory: int | None = None
        self._output = os.fdopen(os.dup(1), "wb")
        # Everything that libraries print goes to standard error.
        os.dup2(2, 1)
        #: Alarm that ends the process when a step exceeds its time limit.
        self.alarm = Alarm(alarm)
        Alarm(create_alarm()).off()  # `start` has set this alarm
        # Collections can be rare: imported objects are never freed, and reference counting frees nearly all other
        # objects.
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        self.send(READY)

    def limit_memory(self, most: int | None, *, private: bool) -> None:
        """Limit this process's mapped or private memory, if the platform supports it."""
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
                continue  # some platforms have this limit but refuse to set it

    def send(self, line: bytes) -> None:
        """Write a line to the parent process."""
        self._output.write(line)
        self._output.flush()

    def requests(self) -> Iterator[dict[str, Any]]:
        """
        Yield the requests until the input ends; if a request refers to a kept text, insert the text
        as first argument.
        """
        texts: dict[int, str] = {}
        for line in sys.stdin.buffer:
            request = json.loads(line)
            for key in request.get("dropped", ()):
                del texts[key]
            if "kept" in request:
                key, *sent = request["kept"]
                texts.update((key, text) for text in sent)
                request["arguments"].insert(0, texts[key])
            yield request

    def answer(self, seconds: float, work: Callable[[], object], *, longest: int | None = None) -> None:
        """
        Call `work`; send its result, and then a last line with the error, if any.

        If the result is an iterator, all its values are sent; the first may take `seconds`, each later value up to a
        second. Values that were sent before an error remain valid.
        """
        error = None
        detail = ""
        sent = 0
        try:
            self.alarm.set(seconds)
            result = work()
            values = result if isinstance(result, Iterator) else iter((result,))
            while (value := next(values, END)) is not END:
                line = _encode(value)
                self.alarm.off()  # the time that the parent needs to read the line does not count
                sent += len(line)
                if longest is not None and sent > longest:
                    error = "size"
                    detail = f"a reply of {sent} bytes"
                    break
                self.send(VALUE + line)
                self.alarm.set(min(seconds, _DETAILS))
        except BaseException as raised:  # noqa: BLE001  a Rust panic is not an Exception
            error = type(raised).__name__
            detail = str(raised)
        self.alarm.off()
        self.end(error, detail)

    def end(self, error: str | None = None, detail: str = "") -> None:
        """Send the last line of a reply, with the error that ended the work, if any."""
        self.send(END + _encode({"error": error, "detail": detail[:_LONGEST_DETAIL]}))


def serve(alarm: AlarmKind) -> None:
    """Serve calls until the input ends."""
    service = Service(alarm)
    for request in service.requests():
        service.limit_memory(request["memory"], private=request["private"])
        module, _, name = request["call"].partition(":")
        try:
            importlib.import_module(module)  # the call's time limit does not include the import
        except ImportError as error:
            service.end(ABSENT, f"{type(error).__name__}: {error}")
            continue
        work = functools.partial(_call, module, name, request["arguments"])
        service.answer(request["seconds"], work, longest=request["longest"])


def _call(module: str, name: str, arguments: list[Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*arguments)


def start(seconds: float) -> NoReturn:
    """Import the parent's copy of the package, within this time, and serve calls until the input ends."""
    Alarm(create_alarm()).set(seconds)
    config = json.loads(sys.stdin.buffer.readline())
    # The parent's copy is imported even if another copy is installed. Its directory may contain unrelated modules, so
    # only the package is looked up there.
    sys.path.insert(0, config["home"])
    importlib.import_module(config["package"])
    del sys.path[0]
    sys.path.extend(entry for entry in config["path"] if entry not in sys.path)
    serve(config["alarm"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # skips freeing objects one by one


if __name__ == "__main__":
    start(float(sys.argv[1]))
