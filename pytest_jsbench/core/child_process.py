"""
A Python process of the package's own that does what could hang, crash or eat all memory, asked in lines of JSON.

A request is one line; the reply to it is a line for each value (`VALUE`), and a last one (`END`). The child ends itself
when a step takes longer than it may, and when its input closes; the next request meets a fresh one. It is given no more
of the environment than it needs. The child's side of this is `child_service`.
"""

from __future__ import annotations

import contextlib
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core.child_service import ALARM_STATUS, END, VALUE, AlarmKind, best_alarm
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
importlib.import_module(config["module"]).main(config)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # all that it holds goes at once, and not object by object
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The module that a child runs, and its bounds."""

    #: its `main` is called with what the child is told, of which `settings` are a part
    module: str
    settings: Mapping[str, Any]
    #: bytes, where the platform can hold a process to it; None: no bound but those of single requests
    memory: int | None
    #: what of its memory counts: all that is mapped, or only what it has for itself
    counted: Literal["mapped", "private"] = "mapped"
    start_timeout: float | None = None
    alarm: AlarmKind = field(default_factory=best_alarm)

    def to_config(self) -> dict[str, Any]:
        """All that the child is told."""
        package = Path(__file__).resolve().parents[1]
        return {
            "home": str(package.parent),
            "package": package.name,
            "path": [str(Path(entry).absolute()) for entry in sys.path],
            "module": self.module,
            "settings": dict(self.settings),
            "alarm": self.alarm,
            "memory": self.memory,
            "counted": self.counted,
        }


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
    """A child that was not there to be asked: why, and how that can be mended."""

    def __init__(self, reason: str, *, advice: str = "", ending: Ending | None = None) -> None:
        super().__init__(f"{reason}; {advice}" if advice else reason)
        self.reason = reason
        #: None where it said itself why it cannot work
        self.ending = ending


def check_of_packages() -> str:
    """The advice where a package that a child needs is absent or broken."""
    return f"run '{sys.executable} -m pip check'"


class ChildProcess:
    """A running child, which one thread at a time asks."""

    def __init__(self, program: Program) -> None:
        self._alarm_status = ALARM_STATUS[program.alarm]
        self._owner = os.getpid()
        #: of the texts that the child keeps
        self._keys: dict[str, int] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            self._process = _spawn(self._errors.fileno(), program.start_timeout or _START)
        except ChildNotStarted:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        try:
            self._write(program.to_config())
            #: what it said when it was ready
            self.greeting = self._greeting()
        except BaseException:
            self.kill()
            raise

    def _greeting(self) -> dict[str, Any]:
        line = self._output.readline()
        advice = check_of_packages()
        if not line.endswith(b"\n"):
            ended = self._ended([])
            raise ChildNotStarted(ended.detail, advice=advice, ending=ended.ending)
        greeting: dict[str, Any] = json.loads(line)
        if "error" in greeting:
            raise ChildNotStarted(greeting["error"], advice=advice)
        return greeting

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

    def close(self, patience: float = _GOODBYE) -> None:
        """End the process in good order: it goes when its input is closed."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._input.close()
        if self._wait(patience) is None:
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


def _spawn(errors: int, start_timeout: float) -> subprocess.Popen[bytes]:
    windows: dict[str, Any] = {}
    if sys.platform == "win32":
        windows["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", "-c", _BOOT, str(start_timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            # a session of its own: Ctrl-C in the terminal is the parent's to handle
            start_new_session=True,
            **windows,
        )
    except OSError as error:
        raise ChildNotStarted(str(error), advice=f"expected a Python at '{sys.executable}'") from error


class KeptChild:
    """A child that is started when it is needed; threads ask it in turn, also after a fork."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: held while a thread talks to the child
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        _kept.add(self)

    def ask(self, request: Mapping[str, Any], *, kept: str | None = None) -> ChildReply:
        """The child's reply, with a text that it is sent once; ChildNotStarted where there is none to be asked."""
        with self._lock:
            child = self._running()
            try:
                reply = child.exchange(request, kept=kept)
            except BaseException:
                # what is left of a reply that nobody waits for must not be taken for the next one
                self._child = None
                child.kill()
                raise
            if reply.ending is not None:
                self._child = None
            return reply

    def start(self) -> None:
        """Have a child running; ChildNotStarted where that fails."""
        with self._lock:
            self._running()

    def renew_lock(self) -> None:
        """Give up the lock, which a thread that this process does not have may hold since before the fork."""
        self._lock = threading.Lock()

    def _running(self) -> ChildProcess:
        child = self._child
        if child is None or not child.alive():
            self._child = None
            self._child = child = ChildProcess(self._program)
        return child

    def close(self) -> None:
        """Let the child go; a later request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def let_go(self) -> None:
        """End the child, unless a thread talks to it; a later request starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def kill(self) -> None:
        """End the child now; a later request starts another."""
        child, self._child = self._child, None
        if child is not None and child.alive():
            child.kill()


_kept: weakref.WeakSet[KeptChild] = weakref.WeakSet()


def _after_fork() -> None:
    for child in list(_kept):
        child.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
