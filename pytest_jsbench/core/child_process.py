"""
A Python process of the package's own that does what could hang, crash or eat all memory, asked in lines of JSON.

A request is one line; the reply to it is one line or more, and then `LAST`. The child ends itself when a step takes
longer than it may, and when its input closes; the next request meets a fresh one. It is given no more of
the environment than it needs. The child's side of this is `child_service`.
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
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core.child_service import ALARM_STATUS, LAST, AlarmKind, best_alarm

#: how a child ended in the middle of a reply
Ending = Literal["timeout", "memory", "crashed"]

#: seconds for the interpreter and its imports, on a machine that is busy with other workers
_START = 60.0
#: seconds for a child to go by itself once its input is closed
_GOODBYE = 2.0
#: seconds for a thread that has waited for a child to say how that ended
_SAID = 0.1
#: bytes of requests that can wait for a child, and those of the page that it has begun to read
_PIPE, _PART_READ = 1 << 20, 8192
#: bytes of JSON that a character takes at most, beyond the Unicode plane 0, and that a request takes beside its texts
_CHARACTER, _REQUEST = 12, 300
#: requests that wait for one thread's turn, whose own reply waits for theirs
_MOST_AT_ONCE = 9
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

# The packages on the way to the module are entered by their folders, without running their `__init__`: the child
# then has the parent's own version of them, and imports nothing that it does not need.
_BOOT = """
import importlib, json, os, sys, types
try:
    import signal
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
except AttributeError:
    import faulthandler
    faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True, file=open(os.devnull, "w"))
config = json.loads(sys.stdin.buffer.readline())
sys.path.extend(entry for entry in config["path"] if entry not in sys.path)
for name, folder in config["packages"].items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
importlib.import_module(config["module"]).main(config)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # all that it holds goes at once, and not object by object
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a child runs, and within which bounds."""

    #: its `main` is called with what the child is told, of which `settings` are a part
    module: str
    settings: Mapping[str, Any]
    #: bytes, where the platform can hold a process to it; None: no bound
    memory: int | None
    #: what of its memory counts: all that is mapped, or only what it has for itself
    counted: Literal["mapped", "private"] = "mapped"
    start_timeout: float | None = None
    alarm: AlarmKind = field(default_factory=best_alarm)

    def to_config(self) -> dict[str, Any]:
        """All that the child is told."""
        home = Path(__file__).resolve().parents[1]
        # the folders of this package and of those inside it that hold the module
        inside = self.module.split(".")[1:-1] if self.module.startswith(f"{home.name}.") else []
        return {
            "path": [str(Path(entry).absolute()) for entry in sys.path],
            "packages": {
                ".".join((home.name, *inside[:n])): str(home.joinpath(*inside[:n])) for n in range(len(inside) + 1)
            },
            "module": self.module,
            "settings": dict(self.settings),
            "alarm": self.alarm,
            "memory": self.memory,
            "counted": self.counted,
        }


def environment() -> dict[str, str]:
    """What a child is given of this process's environment."""
    return {name: value for name, value in os.environ.items() if name in PASSED or name.startswith(PASSED_FAMILIES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReply:
    """What a child replied to one request."""

    #: the first and, where there are more, the last, which repeats those between with more details
    replies: tuple[dict[str, Any], ...]
    #: None when the reply is complete
    ending: Ending | None = None
    #: the child's exit status, once it has ended
    status: int | None = None
    #: the last line that it wrote as errors; empty where there is none
    said: str = ""

    @property
    def detail(self) -> str:
        """How the child ended, for people."""
        return self.said or f"exit status {self.status}"


class ChildNotStarted(Exception):
    """A child that was not there to be asked: why, and how that can be mended."""

    def __init__(self, reason: str, *, advice: str = "", ending: Ending | None = None) -> None:
        super().__init__(f"{reason}; {advice}" if advice else reason)
        self.reason = reason
        #: None where it said itself why it cannot work
        self.ending = ending


class ChildProcess:
    """One running child; asked by one thread at a time."""

    def __init__(self, program: Program) -> None:
        self._alarm_status = ALARM_STATUS[program.alarm]
        self._owner = os.getpid()
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
        advice = f"run '{sys.executable} -m pip check'"
        if not line.endswith(b"\n"):
            ended = self._ended([])
            raise ChildNotStarted(ended.detail, advice=advice, ending=ended.ending)
        greeting: dict[str, Any] = json.loads(line)
        if "error" in greeting:
            raise ChildNotStarted(greeting["error"], advice=advice)
        return greeting

    def alive(self) -> bool:
        """Whether it runs, and is this process's own, not that of the process this one was forked from."""
        if self._owner != os.getpid():
            self._process.returncode = 0  # keeps Popen from minding a child that is not ours
            return False
        if self._wait(0) is None:
            return True
        self._release()
        return False

    def exchange(self, request: Mapping[str, Any]) -> ChildReply:
        """Send a request and read all that is replied."""
        self.send([request])
        return self.receive()

    def send(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """Send requests, to each of which there will be a reply; after the first no more than there is `room` for."""
        self._write(*requests)

    def receive(self) -> ChildReply:
        """Read all that is replied to the first request that has no reply yet."""
        lines: list[bytes] = []
        while (line := self._output.readline()).endswith(b"\n"):
            if line == LAST:
                return ChildReply(replies=_first_and_last(lines))
            lines.append(line)
        ended = self._ended(lines)
        self._release()
        return ended

    def _write(self, *messages: Mapping[str, Any]) -> None:
        lines = b"".join(_ENCODER.encode(message).encode("ascii") + b"\n" for message in messages)
        # a pipe that nobody reads any more shows in the reply that does not come
        with contextlib.suppress(OSError):
            self._input.write(lines)
            self._input.flush()

    def room(self) -> int:
        """
        Bytes of requests that can wait for the child while nobody reads its replies; 0 where not known.

        With more of them the child could wait for a reader, and whoever is to read for the child.
        """
        if sys.platform != "linux":
            return 0
        import fcntl

        with contextlib.suppress(OSError):  # more than the system allows each user
            fcntl.fcntl(self._input, fcntl.F_SETPIPE_SZ, _PIPE)
        try:
            return max(0, fcntl.fcntl(self._input, fcntl.F_GETPIPE_SZ) - _PART_READ)
        except OSError:
            return 0

    def _ended(self, lines: list[bytes]) -> ChildReply:
        """What it had replied, and how it came to an end."""
        status = self._wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        written = self._errors.read().decode("utf-8", "backslashreplace").split("\n")
        said = next((line.strip() for line in reversed(written) if line.strip()), "")
        # Rust says so before its backtrace
        no_memory = next((line.strip() for line in written if "memory allocation of" in line), "")
        ending: Ending = "crashed"
        if status == self._alarm_status:
            ending = "timeout"
        elif no_memory or said.startswith("MemoryError"):
            ending, said = "memory", no_memory or said
        return ChildReply(replies=_first_and_last(lines), ending=ending, status=status, said=said)

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


def _as_dict(value: object) -> object:
    """A mapping that is no dict, such as a read-only view of one."""
    if isinstance(value, Mapping):
        return dict(value)
    message = f"found {type(value).__name__}, expected only JSON values"
    raise TypeError(message)


_ENCODER = json.JSONEncoder(default=_as_dict)


def _first_and_last(lines: list[bytes]) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(str(line, "ascii")) for line in (lines if len(lines) < 2 else (lines[0], lines[-1])))


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


class _Asked:
    """A request of one thread, which waits for the reply, or for its turn to ask the child."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = request
        #: None: it is this thread's turn
        self.future: Future[ChildReply | None] = Future()
        #: whether the thread waits no longer, because it has broken
        self.gone = False

    @property
    def size(self) -> float:
        """The most bytes that it can take; endless where it has other parts than texts and whole numbers."""
        sizes = {str: len, int: lambda _: 0, bool: lambda _: 0}
        characters = sum(sizes.get(type(value), lambda _: math.inf)(value) for value in self.request.values())
        return _REQUEST + _CHARACTER * characters


class KeptChild:
    """
    A child that is started when it is needed; asked from any thread, and after a fork.

    One thread at a time talks to it. Where the child may be sent several requests `at once`, that thread also sends
    some of those that wait, if they are of texts and whole numbers, and gives their threads the replies: the child is
    faster than one thread after another wakes up. It takes the requests in order; those behind one over which it ends
    go to the next child. The main thread, which a signal can interrupt between any two steps, asks for itself alone.
    """

    def __init__(self, program: Program, *, at_once: bool = False) -> None:
        self._program = program
        self._at_once = at_once
        #: held while a thread talks to the child
        self._lock = threading.Lock()
        #: held while what follows is looked at, and never by the main thread
        self._turns = threading.Lock()
        self._waiting: deque[_Asked] = deque()
        #: whether it is some thread's turn, which then stands first or talks to the child
        self._taken = False
        self._child: ChildProcess | None = None
        self._room: float = 0
        _kept.add(self)

    def ask(self, request: Mapping[str, Any]) -> ChildReply:
        """The child's reply; ChildNotStarted where there is none to be asked."""
        asked = _Asked(request)
        if not self._at_once or threading.current_thread() is threading.main_thread():
            with self._lock:
                return self._exchange(asked, deque())
        with self._turns:
            self._waiting.append(asked)
            first, self._taken = not self._taken, True
        reply = None if first else self._wait(asked)
        return self._talk(asked) if reply is None else reply

    def _wait(self, asked: _Asked) -> ChildReply | None:
        try:
            return asked.future.result()
        except BaseException:
            with self._turns:
                asked.gone = True
                its_turn = asked.future.done() and asked.future.result() is None
            if its_turn:
                self._end_turn()
            raise

    def _talk(self, asked: _Asked) -> ChildReply:
        """The reply to the request, which stands first; some of those behind it get theirs, the others wait on."""
        others: deque[_Asked] = deque()
        try:
            with self._lock:
                self._waiting.remove(asked)
                while self._waiting and len(others) < _MOST_AT_ONCE:
                    others.append(self._waiting.popleft())
                return self._exchange(asked, others)
        finally:
            self._end_turn(others)

    def _end_turn(self, unanswered: Sequence[_Asked] = ()) -> None:
        with self._turns:
            self._waiting.extendleft(reversed(unanswered))
            while self._waiting and self._waiting[0].gone:
                self._waiting.popleft()
            self._taken = bool(self._waiting)
            if self._taken:
                self._waiting[0].future.set_result(None)

    def _exchange(self, asked: _Asked, others: deque[_Asked]) -> ChildReply:
        """The reply; what is left in `others` has none."""
        child = self._running()
        with_it = []
        room = self._room
        for other in others:
            if (room := room - other.size) < 0:
                break
            with_it.append(other)
        try:
            child.send([one.request for one in (asked, *with_it)])
            reply = child.receive()
        except BaseException:
            # what is left of a reply that nobody waits for must not be taken for the next one
            self._end_now(child)
            raise
        try:
            found = reply
            for other in with_it:
                if found.ending is not None:
                    break
                found = child.receive()
                others.remove(other)
                other.future.set_result(found)
        except Exception:  # noqa: BLE001  of another's reply, which its own thread asks for once more
            self._end_now(child)
            return reply
        if found.ending is not None:
            self._child = None
        return reply

    def _end_now(self, child: ChildProcess) -> None:
        self._child = None
        child.kill()

    def start(self) -> None:
        """Have a child running; ChildNotStarted where that fails."""
        with self._lock:
            self._running()

    def renew_locks(self) -> None:
        """Give up the locks, which threads that this process does not have may hold since before the fork."""
        self._lock, self._turns = threading.Lock(), threading.Lock()
        self._waiting.clear()
        self._taken = False

    def _running(self) -> ChildProcess:
        child = self._child
        if child is not None and not child.alive():
            self._child = child = None
        if child is None:
            self._child = child = self._start()
            self._room = child.room() if self._at_once else 0
        return child

    def _start(self) -> ChildProcess:
        return ChildProcess(self._program)

    def close(self) -> None:
        """Let the child go; a later request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def kill(self) -> None:
        """End the child now; a later request starts another."""
        child, self._child = self._child, None
        if child is not None and child.alive():
            child.kill()


_kept: weakref.WeakSet[KeptChild] = weakref.WeakSet()


def _after_fork() -> None:
    for child in list(_kept):
        child.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
