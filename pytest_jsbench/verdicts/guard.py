"""One persistent child process, replaced when it hangs, crashes or eats all memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_jsbench.errors import JudgeError
from pytest_jsbench.verdicts.alarms import ALARM_STATUS, AlarmKind, best_alarm
from pytest_jsbench.verdicts.wire import LAST

if TYPE_CHECKING:
    from collections.abc import Mapping

#: how the child ended in the middle of an answer
Ending = Literal["timeout", "memory", "crashed"]

#: bytes of address space; judging the largest real schemas takes a tenth of it
_MEMORY = 4 << 30
#: seconds for the interpreter and its imports, on a machine that is busy with other workers
_START = 60
#: seconds for the child to go by itself once its input is closed
_GOODBYE = 2
#: schemas that the child keeps the text of
_KEPT_SCHEMAS = 256

# The packages are entered by their folders, without running their `__init__`: the child then has the parent's
# own version of them, and imports nothing that judging does not need.
_BOOT = """
import json, signal, sys, types
if hasattr(signal, "setitimer"):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
config = json.loads(sys.stdin.buffer.readline())
sys.path.extend(entry for entry in config["path"] if entry not in sys.path)
for name, folder in config["packages"].items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from pytest_jsbench.verdicts.child import main
main(config)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the child replied to one request."""

    #: the first and, where there are more, the last, which repeats those between with more details
    replies: tuple[dict[str, Any], ...]
    #: None when the answer is complete
    ending: Ending | None = None
    #: how the child ended, for people
    detail: str = ""


class Guard:
    """Passes requests to the child, one at a time; usable from any thread, and after a fork."""

    def __init__(self, policy: Mapping[str, Any], *, alarm: AlarmKind | None = None, memory: int = _MEMORY) -> None:
        self._alarm: AlarmKind = alarm or best_alarm()
        self._memory = memory
        self._policy = dict(policy)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        _guards.add(self)

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """The child's replies; JudgeError when no child can be started."""
        with self._lock:
            child = self._running()
            try:
                answer = child.exchange(request)
            except BaseException:
                # what is left of an answer that nobody waits for must not be taken for the next one
                self._child = None
                child.kill()
                raise
            if answer.ending is not None:
                self._child = None
            return answer

    def renew_lock(self) -> None:
        """Give up the lock, which a thread that this process does not have may hold since before the fork."""
        self._lock = threading.Lock()

    def _running(self) -> _Child:
        child = self._child
        if child is not None and not child.alive():
            self._child = child = None
        if child is None:
            self._child = child = _Child(self._config(), self._alarm)
        return child

    def _config(self) -> dict[str, Any]:
        verdicts = Path(__file__).resolve().parent
        return {
            "path": [str(Path(entry).absolute()) for entry in sys.path],
            "packages": {
                "pytest_jsbench": str(verdicts.parent),
                "pytest_jsbench.core": str(verdicts.parent / "core"),
                "pytest_jsbench.verdicts": str(verdicts),
            },
            "policy": self._policy,
            "alarm": self._alarm,
            "memory": self._memory,
        }

    def close(self) -> None:
        """Let the child go; a later request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.close()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork() -> None:
    for guard in list(_guards):
        guard.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Child:
    """One running child process."""

    def __init__(self, config: dict[str, Any], alarm: AlarmKind) -> None:
        self._alarm_status = ALARM_STATUS[alarm]
        self._owner = os.getpid()
        self._keys: dict[str, int] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            self._process = _spawn(self._errors.fileno())
        except JudgeError:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        try:
            self._write(config)
            greeting = self._read()
        except BaseException:
            self.kill()
            raise
        if greeting is None or "error" in greeting:
            found = greeting["error"] if greeting else self._last_words()
            self.kill()
            message = f"the judge's process did not start: {found}; run '{sys.executable} -m pip check'"
            raise JudgeError(message)

    def alive(self) -> bool:
        """Whether it runs, and is this process's own, not that of the process this one was forked from."""
        if self._owner != os.getpid():
            self._process.returncode = 0  # keeps Popen from minding a child that is not ours
            return False
        if self._process.poll() is None:
            return True
        self._release()
        return False

    def exchange(self, request: Mapping[str, Any]) -> Answer:
        """Send a request and read all that is replied."""
        self._write(self._with_key(request))
        lines: list[bytes] = []
        while (line := self._output.readline()).endswith(b"\n"):
            if line == LAST:
                return Answer(replies=_first_and_last(lines))
            lines.append(line)
        detail = self._last_words()
        ending = self._ending(detail)
        self._release()
        return Answer(replies=_first_and_last(lines), ending=ending, detail=detail)

    def _with_key(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request with a key for its schema, and without the text where the child has that already."""
        rest = dict(request)
        schema: str = rest["schema"]
        key = self._keys.get(schema)
        if key is not None:
            del rest["schema"]
        else:
            full = len(self._keys) == _KEPT_SCHEMAS
            key = self._keys.pop(next(iter(self._keys))) if full else len(self._keys)
            self._keys[schema] = key
        rest["key"] = key
        return rest

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message).encode("ascii") + b"\n"
        # a pipe that nobody reads any more shows in the reply that does not come
        with contextlib.suppress(OSError):
            self._input.write(line)
            self._input.flush()

    def _read(self) -> dict[str, Any] | None:
        line = self._output.readline()
        if not line.endswith(b"\n"):
            return None
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _last_words(self) -> str:
        """The end of what it wrote as errors, or its exit status."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "backslashreplace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        return words[-1] if words else f"exit status {status}"

    def _ending(self, detail: str) -> Ending:
        if self._process.returncode == self._alarm_status:
            return "timeout"
        return "memory" if "memory allocation of" in detail else "crashed"

    def close(self) -> None:
        """End the process in good order: it goes when its input is closed."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._release()

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()
        self._release()

    def _release(self) -> None:
        self._process.wait()
        with contextlib.suppress(OSError):
            self._input.close()
        self._output.close()
        self._errors.close()


def _first_and_last(lines: list[bytes]) -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, lines if len(lines) < 2 else (lines[0], lines[-1])))


def _spawn(errors: int) -> subprocess.Popen[bytes]:
    # the user's PYTHON… variables are for the user's programs (PYTHONINSPECT alone would keep the child from
    # ending); an interpreter that was moved needs its home
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") or name == "PYTHONHOME"
    }
    windows: dict[str, Any] = {}
    if sys.platform == "win32":
        windows["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", "-c", _BOOT, str(_START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            # a session of its own: Ctrl-C in the terminal is the parent's to handle
            start_new_session=True,
            **windows,
        )
    except OSError as error:
        message = f"the judge's process did not start: {error}; expected a Python at '{sys.executable}'"
        raise JudgeError(message) from error
