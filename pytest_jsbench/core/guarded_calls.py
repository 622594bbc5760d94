"""
Call functions of the package in a child process, for work that could hang, crash or exhaust memory.

A call is sent as a line of JSON; the reply has one line for each value (`VALUE`) and a last line (`END`). The child
ends itself when a step exceeds its time limit, and when its input closes. The child is reused for all functions, and
gets only the part of the environment that it needs. A call that exceeds its limits ends the child and nothing else.
`child_service` is the child's program.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core import child_service
from pytest_jsbench.core.child_service import ABSENT, ALARM_STATUS, END, READY, VALUE, AlarmKind, create_alarm
from pytest_jsbench.core.json_values import as_dict, loads

#: Reason why a child ended before its reply was complete.
Ending = Literal["timeout", "memory", "crashed"]

#: Time limit for the interpreter to start and import modules, in seconds, on a machine that is busy with other workers.
_START = 60.0
#: Time limit for a child to exit after its input is closed, in seconds.
_EXIT = 2.0
#: Seconds that another thread may need to store the child's exit status after collecting it.
_STATUS = 0.1
#: Maximum number of texts that a child keeps for later calls, and their maximum total length in characters.
_KEPT_TEXTS = 128
_KEPT_LENGTH = 1_000_000
#: Maximum number of bytes that are read from the end of the child's standard error.
_ERROR_TAIL = 10_000

#: Environment variables that a child gets, in addition to `PASSED_FAMILIES`; any other variable could contain a secret.
PASSED = frozenset(
    {
        # search paths for programs and libraries
        "PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
        # a relocated interpreter, and its bytecode cache
        "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX",
        # language, time zone, directory for temporary files
        "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
        # required to start anything on Windows
        "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
        # settings of test coverage
        "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG",
    }
)  # fmt: skip
#: Prefixes of variables that a child gets: for the locale, and for the threads and devices of numeric libraries.
PASSED_FAMILIES = ("LC_", "OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_")

#: Program of the child: the module's file, since `python -m` would run the copy of the package that is installed.
_PROGRAM = child_service.__file__


def environment() -> dict[str, str]:
    """Return the part of this process's environment that a child needs."""
    return {name: value for name, value in os.environ.items() if name in PASSED or name.startswith(PASSED_FAMILIES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReply:
    """A child's reply to one request."""

    values: tuple[Any, ...]
    #: How the child ended; None if the child is still running.
    ending: Ending | None = None
    #: Type of the error that ended the work, or `size` for a reply that is too long; None if there was no error, or if
    #: the child ended.
    error: str | None = None
    #: Reason, for messages: the last line of standard error, or the error's message.
    detail: str = ""


class ChildNotStarted(Exception):
    """A child process could not be started; the message states the reason and a fix."""


def check_of_packages() -> str:
    """Return advice to check for missing or broken packages."""
    return f"run '{sys.executable} -m pip check'"


class ChildProcess:
    """A running child process, used by one thread at a time."""

    def __init__(self, alarm: AlarmKind, *, program: str = _PROGRAM, most_kept: int = _KEPT_TEXTS) -> None:
        self._alarm_status = ALARM_STATUS[alarm]
        self._most_kept = most_kept
        self._owner = os.getpid()
        #: Keys of the texts that the child keeps, by text, and the total length of the texts.
        self._keys: dict[str, int] = {}
        self._kept_length = 0
        self._next_key = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            self._process = _spawn(program, self._errors.fileno())
        except ChildNotStarted:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        package = Path(__file__).resolve().parents[1]
        path = [str(Path(entry).absolute()) for entry in sys.path]
        try:
            self.send({"home": str(package.parent), "package": package.name, "path": path, "alarm": alarm})
            if self._output.readline() != READY:
                raise ChildNotStarted(f"{self._reply_after_end([]).detail}; {check_of_packages()}")
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        """
        Return whether the child is running and belongs to this process; after a fork, it belongs
        only to the parent.
        """
        if self._owner != os.getpid():
            self._process.returncode = 0  # keeps Popen from waiting for another process's child
            return False
        if self._wait(0) is None:
            return True
        self._release()
        return False

    def exchange(self, request: Mapping[str, Any], *, kept: str | None = None) -> ChildReply:
        """
        Send a request and read the reply. `kept` is a text for the first argument; the child keeps the text, which is
        sent only once.
        """
        self.send(request if kept is None else {**request, **self._refer_to(kept)})
        lines: list[bytes] = []
        while (line := self._output.readline()).endswith(b"\n"):
            if not line.startswith(END):
                lines.append(line)
                continue
            reply = ChildReply(values=_values(lines), **loads(line.removeprefix(END)))
            if reply.error != "MemoryError":
                return reply
            self.kill()  # the child may not have freed all the memory of the failed work
            return replace(reply, ending="memory")
        ended = self._reply_after_end(lines)
        self._release()
        return ended

    def _refer_to(self, text: str) -> dict[str, list[Any]]:
        """
        Return the parts of a request that refer to a text: its key, followed by the text if the child does not have
        it yet, and the keys of the texts that the child drops.
        """
        key = self._keys.get(text)
        if key is not None:
            return {"kept": [key]}
        dropped: list[int] = []
        while self._keys and (len(self._keys) >= self._most_kept or self._kept_length + len(text) > _KEPT_LENGTH):
            oldest = next(iter(self._keys))
            dropped.append(self._keys.pop(oldest))
            self._kept_length -= len(oldest)
        self._keys[text] = self._next_key = self._next_key + 1
        self._kept_length += len(text)
        return {"kept": [self._next_key, text], "dropped": dropped}

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; if the child has ended, this is detected when its reply is read."""
        line = _ENCODER.encode(message).encode("ascii") + b"\n"
        with contextlib.suppress(OSError):
            self._input.write(line)
            self._input.flush()

    def _reply_after_end(self, lines: list[bytes]) -> ChildReply:
        """Return the values received so far, and how the child ended."""
        status = self._wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _ERROR_TAIL))
        written = self._errors.read().decode("utf-8", "backslashreplace").split("\n")
        detail = next((line.strip() for line in reversed(written) if line.strip()), f"exit status {status}")
        # Rust's line about memory is not the last line, because a backtrace follows.
        no_memory = next((line.strip() for line in written if "memory allocation of" in line), "")
        ending: Ending = "crashed"
        if status == self._alarm_status:
            ending = "timeout"
        elif no_memory or detail.startswith("MemoryError"):
            ending = "memory"
            detail = no_memory or detail
        return ChildReply(values=_values(lines), ending=ending, detail=detail)

    def close(self) -> None:
        """End the process gracefully, by closing its input."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._input.close()
        if self._wait(_EXIT) is None:
            self._process.kill()
        self._release()

    def kill(self) -> None:
        """Kill the process, and close its files."""
        self.kill_process()
        self._release()

    def kill_process(self) -> None:
        """Kill the process, but leave its files open for a thread that waits for a reply."""
        self._process.kill()

    def _wait(self, patience: float = math.inf) -> int | None:
        """
        Wait for the exit status; return None if the process is still running after `patience` seconds.

        Popen's own `wait` takes a lock; an exception raised by a signal at the wrong moment would leave the lock
        locked.
        """
        if sys.platform == "win32":
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(None if patience == math.inf else patience)
            return None
        end = time.monotonic() + patience
        pause = 0.0005
        while self._process.returncode is None:
            try:
                pid, status = os.waitpid(self._process.pid, 0 if patience == math.inf else os.WNOHANG)
            except ChildProcessError:  # another thread collected the status and may not have stored it yet
                time.sleep(_STATUS)
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
    return tuple(loads(line.removeprefix(VALUE)) for line in lines)


def _spawn(program: str, errors: int) -> subprocess.Popen[bytes]:
    windows: dict[str, Any] = {}
    if sys.platform == "win32":
        windows["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", program, str(_START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            # The child has its own session, so that only the parent handles Ctrl-C in the terminal.
            start_new_session=True,
            **windows,
        )
    except OSError as error:
        raise ChildNotStarted(f"{error}; expected a Python interpreter at '{sys.executable}'") from error


#: Default memory limit of a call in bytes.
MEMORY = 1 << 30
#: Maximum length of a reply in bytes of JSON.
LONGEST_REPLY = 16 << 20


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
        with self._lock:
            child = self._child
            if child is None or not child.alive():
                self._forget()
                self._child = child = self._start(self._alarm)
                self._end.callback(child.close)
            try:
                reply = child.exchange({"call": function, "arguments": arguments, **bounds}, kept=kept)
            except BaseException:
                # The rest of an abandoned reply must not be read as the next reply.
                self._forget()
                child.kill()
                raise
            if reply.ending is not None:
                self._forget()
        if reply.error == ABSENT:
            raise ChildNotStarted(f"{reply.detail}; {check_of_packages()}")
        return reply

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
            self.values_of(function, *arguments, seconds=_START, memory=self._memory)

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

    def renew_lock(self) -> None:
        """Replace the lock, because a thread of the parent process may have held it at the time of a fork."""
        self._lock = threading.Lock()


_calls: weakref.WeakSet[GuardedCalls] = weakref.WeakSet()


def _renew_locks() -> None:
    for calls in list(_calls):
        calls.renew_lock()


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
