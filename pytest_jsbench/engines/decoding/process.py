"""A decoding library's process: started when it is needed, asked line by line, and ended when it hangs or breaks."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Any

from pytest_jsbench.engines.local_process import end, last_line, package_environment
from pytest_jsbench.engines.messages import one_line
from pytest_jsbench.generations import CallError, FaultKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.engines.decoding.child import LibrarySettings

COMMAND = (sys.executable, "-m", "pytest_jsbench.engines.decoding.child")


class LibraryProcess:
    """
    One library in one process; asked by one thread at a time.

    After a hang or a crash, which is a CallError of that kind, the next question meets a fresh process.
    """

    def __init__(self, settings: LibrarySettings, *, start_timeout: float, command: tuple[str, ...] = COMMAND) -> None:
        self._settings = settings
        self._start_timeout = start_timeout
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Load the library, where it is not loaded yet; CallError when that fails."""
        if self.running:
            return
        self.close()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(  # noqa: S603 (no word of the command is a user's)
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=package_environment(),
            text=True,
            encoding="utf-8",
        )
        reply = self._exchange(self._settings.to_line(), timeout=self._start_timeout, doing="load")
        if "ready" not in reply:
            self.close()
            message = f"{self._settings.library} cannot be loaded: {one_line(str(reply.get('error')))}"
            raise CallError(FaultKind.ENGINE, message)

    def ask(self, question: Mapping[str, Any], *, timeout: float, doing: str) -> Mapping[str, Any]:
        """The answer; CallError of kind hang or crash where none comes. `doing` is the half sentence of what it is."""
        self.start()
        reply = self._exchange(json.dumps(question) + "\n", timeout=timeout, doing=doing)
        if (reason := reply.get("broke")) is not None:
            self.close()
            raise self._crash(doing, str(reason))
        return reply

    def close(self) -> None:
        """End the process, if there is one, whatever it is doing."""
        process, log = self._process, self._log
        self._process = self._log = None
        if process is not None:
            process.kill()
            end(process)
        if log is not None:
            log.close()

    def _exchange(self, line: str, *, timeout: float, doing: str) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        hung = threading.Event()

        def kill() -> None:
            hung.set()
            process.kill()

        # a read of a pipe has no timeout, but ends when the process does; so does a write
        watchdog = threading.Timer(timeout, kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # it died; its log says why
                process.stdin.write(line)
                process.stdin.flush()
            reply = process.stdout.readline()
        finally:
            watchdog.cancel()
        if reply.endswith("\n"):
            if hung.is_set():  # at the last moment: the answer holds, the process does not
                self.close()
            data: dict[str, Any] = json.loads(reply)
            return data
        raise self._no_answer(process, hung=hung.is_set(), timeout=timeout, doing=doing)

    def _no_answer(self, process: subprocess.Popen[str], *, hung: bool, timeout: float, doing: str) -> CallError:
        status = process.wait()
        said = last_line(self._log) if self._log is not None else ""
        self.close()
        if hung:
            message = f"{self._settings.library} did not {doing} within {timeout:g} s; its process was ended"
            return CallError(FaultKind.HANG, message)
        return self._crash(doing, f"its process ended with status {status}{said and f': {said}'}")

    def _crash(self, doing: str, reason: str) -> CallError:
        message = f"{self._settings.library} crashed and did not {doing}: {reason}"
        return CallError(FaultKind.CRASH, one_line(message))
