"""
Functions of the package called in a Python process of its own, for what could hang, crash or eat all memory.

A call is a line of JSON; the reply to it is a line for each value (`VALUE`), and a last one (`END`). The child ends
itself when a step takes longer than it may, and when its input closes. It is kept from call to call, whatever function
is called, and given no more of the environment than it needs; a call that goes beyond its bounds costs the child and
nothing else. The child's side of this is `child_service`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core.child_service import ABSENT, ALARM_STATUS, END, READY, VALUE, AlarmKind, best_alarm
from pytest_jsbench.core.json_values import as_dict

#: how a child ended in the middle of a reply
Ending = Literal["timeout", "memory", "crashed"]

#: seconds for the interpreter and its imports, on a machine that is busy with other workers
_START = 60.0
#: seconds for a child to go by itself once its input is closed
_GOODBYE = 2.0
#: seconds for a thread that has waited for a child to say how that ended
_SAID = 0.1
#: texts that a child keeps
_KEPT_TEXTS = 128
#: bytes of what it wrote as errors that are looked at
_LAST_WORDS = 10_000

#: what a child is given of this process's environment, beside the families; anything else could be a secret
PASSED = frozenset(
    {
        # where programs and libraries are found
        "PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
        # an interpreter that was moved, and where it may write its bytecode
        "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX",
        # the language, the time zone, a place for temporary files
        "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
        # without these nothing starts on Windows
        "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
        # where a measurement of test coverage is to be kept
        "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG",
    }
)  # fmt: skip
#: beginnings of names: the locale, and what tells libraries of numbers how many threads and which devices to use
PASSED_FAMILIES = ("LC_", "OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_")

# The parent's own copy of the package is imported, whichever is installed; the folder that holds it may hold anything
# else, and is searched for nothing but that. What the package itself imports is there before.
_BOOT = """
import importlib.util, json, os, sys, typing
try:
    import signal
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
except AttributeError:
    import faulthandler
    faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True, file=open(os.devnull, "w"))
config = json.loads(sys.stdin.buffer.readline())
sys.path.insert(0, config["home"])
importlib.import_module(config["package"])
del sys.path[0]
sys.path.extend(entry for entry in config["path"] if entry not in sys.path)
importlib.import_module(config["package"] + ".core.child_service").main(config["alarm"])
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # all that it holds goes at once, and not object by object
"""


def environment() -> dict[str, str]:
    """Take the part of this process's environment that a child needs."""
    return {name: value for name, value in os.environ.items() if name in PASSED or name.startswith(PASSED_FAMILIES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReply:
    """A child's reply to one request."""

    values: tuple[Any, ...]
    #: None where the child goes on
    ending: Ending | None = None
    #: the type of the error that ended the work before it was done, or `size`; None where the child's end did, or none
    error: str | None = None
    #: how the child or the work ended, for people: the last line that it wrote as errors, or the error's message
    detail: str = ""


class ChildNotStarted(Exception):
    """A child that was not there to be asked; the message says why, and how that can be mended."""


def check_of_packages() -> str:
    """The advice where a package that a child needs is absent or broken."""
    return f"run '{sys.executable} -m pip check'"


class ChildProcess:
    """A running child, which one thread at a time asks."""

    def __init__(self, alarm: AlarmKind) -> None:
        self._alarm_status = ALARM_STATUS[alarm]
        self._owner = os.getpid()
        #: of the texts that the child keeps
        self._keys: dict[str, int] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            self._process = _spawn(self._errors.fileno())
        except ChildNotStarted:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        package = Path(__file__).resolve().parents[1]
        path = [str(Path(entry).absolute()) for entry in sys.path]
        try:
            self._write({"home": str(package.parent), "package": package.name, "path": path, "alarm": alarm})
            if self._output.readline() != READY:
                raise ChildNotStarted(f"{self._ended([]).detail}; {check_of_packages()}")
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        """Tell whether it runs, and is this process's own, not that of the process this one was forked from."""
        if self._owner != os.getpid():
            self._process.returncode = 0  # keeps Popen from minding a child that is not ours
            return False
        if self._wait(0) is None:
            return True
        self._release()
        return False

    def exchange(self, request: Mapping[str, Any], *, kept: str | None = None) -> ChildReply:
        """Send a request, with a text for its first argument that the child is sent once, and read what is replied."""
        self._write(request if kept is None else {**request, "kept": self._key_of(kept)})
        lines: list[bytes] = []
        while (line := self._output.readline()).endswith(b"\n"):
            if not line.startswith(END):
                lines.append(line)
                continue
            reply = ChildReply(values=_values(lines), **json.loads(line.removeprefix(END)))
            if reply.error != "MemoryError":
                return reply
            self.kill()  # what is left of such work may not all have been given back
            return replace(reply, ending="memory")
        ended = self._ended(lines)
        self._release()
        return ended

    def _key_of(self, text: str) -> list[object]:
        """The key by which the child keeps the text, and the text itself where it has that not yet."""
        key = self._keys.get(text)
        if key is not None:
            return [key]
        full = len(self._keys) == _KEPT_TEXTS
        self._keys[text] = key = self._keys.pop(next(iter(self._keys))) if full else len(self._keys)
        return [key, text]

    def _write(self, message: Mapping[str, Any]) -> None:
        line = _ENCODER.encode(message).encode("ascii") + b"\n"
        # a pipe that nobody reads any more shows in the reply that does not come
        with contextlib.suppress(OSError):
            self._input.write(line)
            self._input.flush()

    def _ended(self, lines: list[bytes]) -> ChildReply:
        """Read how the child came to an end, and keep what it had replied."""
        status = self._wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        written = self._errors.read().decode("utf-8", "backslashreplace").split("\n")
        detail = next((line.strip() for line in reversed(written) if line.strip()), f"exit status {status}")
        # Rust says so before its backtrace
        no_memory = next((line.strip() for line in written if "memory allocation of" in line), "")
        ending: Ending = "crashed"
        if status == self._alarm_status:
            ending = "timeout"
        elif no_memory or detail.startswith("MemoryError"):
            ending, detail = "memory", no_memory or detail
        return ChildReply(values=_values(lines), ending=ending, detail=detail)

    def close(self) -> None:
        """End the process in good order: it goes when its input is closed."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._input.close()
        if self._wait(_GOODBYE) is None:
            self._process.kill()
        self._release()

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()
        self._release()

    def _wait(self, patience: float = math.inf) -> int | None:
        """
        The exit status; None where there is none after so many seconds.

        Popen's own `wait` takes a lock. An exception that a signal raises at the wrong moment leaves that lock taken,
        and the next `wait` never returns.
        """
        if sys.platform == "win32":
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(None if patience == math.inf else patience)
            return None
        end, pause = time.monotonic() + patience, 0.0005
        while self._process.returncode is None:
            try:
                pid, status = os.waitpid(self._process.pid, 0 if patience == math.inf else os.WNOHANG)
            except ChildProcessError:  # another thread has waited for it, and says so now, or was broken before
                time.sleep(_SAID)
                if self._process.returncode is None:
                    self._process.returncode = 0
                break
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
            elif (left := end - time.monotonic()) <= 0:
                return None
            else:
                time.sleep(min(pause, left))
                pause = min(2 * pause, 0.05)
        return self._process.returncode

    def _release(self) -> None:
        self._wait()
        with contextlib.suppress(OSError):
            self._input.close()
        self._output.close()
        self._errors.close()


_ENCODER = json.JSONEncoder(default=as_dict)


def _values(lines: list[bytes]) -> tuple[Any, ...]:
    return tuple(json.loads(str(line.removeprefix(VALUE), "ascii")) for line in lines)


def _spawn(errors: int) -> subprocess.Popen[bytes]:
    windows: dict[str, Any] = {}
    if sys.platform == "win32":
        windows["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", "-c", _BOOT, str(_START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            # a session of its own: Ctrl-C in the terminal is the parent's to handle
            start_new_session=True,
            **windows,
        )
    except OSError as error:
        raise ChildNotStarted(f"{error}; expected a Python at '{sys.executable}'") from error


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

    def __init__(self, *, memory: int | None = MEMORY, private: bool = False, alarm: AlarmKind | None = None) -> None:
        """`memory` counts all that the child maps, or only what is `private` to it; None: there is no bound."""
        self._memory, self._private = memory, private
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
            reply = self.values_of(function, *arguments, seconds=seconds, memory=self._memory, longest=LONGEST_REPLY)
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
        Call `package.module:function` for what it returns, or all that it yields; ChildNotStarted without a child.

        `kept` is its first argument, a text that the child is sent once; the first value has its time in seconds, and
        each of the others a second.
        """
        bounds = {"seconds": seconds, "memory": memory, "private": self._private, "longest": longest}
        with self._lock:
            child = self._child
            if child is None or not child.alive():
                self._forget()
                self._child = child = ChildProcess(self._alarm)
                self._end.callback(child.close)
            try:
                reply = child.exchange({"call": function, "arguments": arguments, **bounds}, kept=kept)
            except BaseException:
                # what is left of a reply that nobody waits for must not be taken for the next one
                self._forget()
                child.kill()
                raise
            if reply.ending is not None:
                self._forget()
        if reply.error == ABSENT:
            raise ChildNotStarted(f"{reply.detail}; {check_of_packages()}")
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
