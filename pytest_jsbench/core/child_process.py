"""
A child process that calls functions of the package, and its requests and replies.

A request is a line of JSON; the reply has one line for each value (`VALUE`) and a last line (`END`). The child ends
itself when a step exceeds its time limit, and when its input closes. `child_service` is the child's program.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from pytest_jsbench.core import child_service
from pytest_jsbench.core.child_service import ALARM_STATUS, END, READY, VALUE, AlarmKind
from pytest_jsbench.core.json_values import loads

#: Reason why a child ended before its reply was complete.
Ending = Literal["timeout", "memory", "crashed"]

#: Time limit for the interpreter to start and import modules, in seconds, on a machine that is busy with other workers.
START = 60.0
#: Time limit for a child to exit after its input is closed, in seconds.
_EXIT = 2.0
#: Seconds that another thread may need to store the child's exit status after collecting it.
_STATUS = 0.1
#: Size of the pipe for requests in bytes.
_PIPE_SIZE = 1 << 18
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
        # limits of glibc's heaps
        "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_",
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


#: A reply without its values, and the lines of the values for `read_values`.
RawReply = tuple[ChildReply, list[bytes]]


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
        #: Number of bytes of requests that may wait in the pipe, besides the request that the child works on.
        self.room = _enlarge_pipe(self._input)
        package = Path(__file__).resolve().parents[1]
        path = [str(Path(entry).absolute()) for entry in sys.path]
        try:
            setup = {"home": str(package.parent), "package": package.name, "path": path, "alarm": alarm}
            self.send(json.dumps(setup))
            if self._output.readline() != READY:
                raise ChildNotStarted(f"{self._reply_after_end().detail}; {check_of_packages()}")
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

    def send_request(self, request: str, *, kept: str | None = None) -> int:
        """
        Send a request, which is a JSON object, and return its size in bytes.

        `kept` is a text for the first argument; the child keeps the text, which is sent only once.
        """
        if kept is not None:
            request = f"{request[:-1]}, {json.dumps(self._refer_to(kept))[1:]}"
        return self.send(request)

    def read_reply(self) -> RawReply:
        """Read the reply to the first request that has none; if the child ends, that is the reply."""
        lines: list[bytes] = []
        while (line := self._output.readline()).endswith(b"\n"):
            if not line.startswith(END):
                lines.append(line)
                continue
            reply = ChildReply(values=(), **loads(line.removeprefix(END)))
            if reply.error == "MemoryError":
                self.kill()  # the child may not have freed all the memory of the failed work
                reply = replace(reply, ending="memory")
            return reply, lines
        ended = self._reply_after_end()
        self._release()
        return ended, lines

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

    def send(self, message: str) -> int:
        """Send a message and return its size in bytes; that the child has ended is detected when its reply is read."""
        line = message.encode("ascii") + b"\n"
        with contextlib.suppress(OSError):
            self._input.write(line)
            self._input.flush()
        return len(line)

    def _reply_after_end(self) -> ChildReply:
        """Return how the child ended."""
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
        return ChildReply(values=(), ending=ending, detail=detail)

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


def _enlarge_pipe(pipe: IO[bytes]) -> int:
    """Enlarge a pipe if possible; return the number of bytes that it takes without a reader, or 0 if unknown."""
    if sys.platform != "linux":
        return 0
    import fcntl

    with contextlib.suppress(OSError):  # the system may allow less
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    try:
        return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // 2  # the kernel may fill a page only by half
    except OSError:  # in a sandbox
        return 0


def read_values(lines: list[bytes]) -> tuple[Any, ...]:
    """Parse the values of a reply."""
    return tuple(loads(line.removeprefix(VALUE)) for line in lines)


def _spawn(program: str, errors: int) -> subprocess.Popen[bytes]:
    windows: dict[str, Any] = {}
    if sys.platform == "win32":
        windows["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", program, str(START)],
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
