"""
Restart the local server when it stops answering, and find the call that stopped it.

llama.cpp compiles and applies all grammars in one loop, so a schema whose grammar never ends stops all other calls too.
The process that started the server runs a `Supervisor`, which restarts the server at the same address after the
server's process ended, or after a call reported that the server is stuck. The calls in flight at that time are repeated
one at a time, while no other call is in flight. A call that stops the server while it is the only call in flight is the
cause, and fails; the other calls get their answers. `RestartGuard` does this for the calls of one engine.

All processes of a run share a private directory (`SharedState`): `state.json` has the number of starts, `stuck-N`
reports that the server has been stuck since its N-th start, and each call in flight holds a lock on `calls.db`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_jsbench.core.call_lock import CallLock
from pytest_jsbench.core.files import private, write_atomically
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import Deadline, EnclosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from pytest_jsbench.core.call_lock import InFlight
    from pytest_jsbench.engines.http.client import Client

T = TypeVar("T")

#: Kinds of faults that a stopped server may cause in calls.
_OF_STOPPED_SERVER = frozenset({FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.SERVER, FaultKind.BAD_RESPONSE})
#: Share of a call's timeout after which the server is considered stuck if it answers no probe. The share is large,
#: because a large model may compute for a long time before its loop accepts requests.
_PATIENCE = 0.25
#: Minimum time after which the server is considered stuck, in seconds.
LEAST_PATIENCE = 5.0
#: Maximum duration of one probe, in seconds.
_PROBE = 2.0
#: Time between two checks of the shared state, in seconds.
_PAUSE = 0.1
#: Time allowed for a restart in addition to the server's start timeout, in seconds.
_RESTART_GRACE = 30.0
#: Maximum number of attempts to restart the server, because its port may still be in use for a moment.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of the server, as its supervisor writes it."""

    #: Number of starts so far.
    starts: int
    #: Whether the server accepts requests.
    ready: bool
    #: Reason why the server could not be restarted; empty if there was no such failure.
    failure: str = ""


class SharedState:
    """State of one server, shared by all processes of a run in a private directory named after the server's key."""

    def __init__(self, key: str) -> None:
        name = hashlib.sha256(f"state of {key}".encode()).hexdigest()[:24]
        self.folder = Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"
        self._calls = CallLock(self.folder / "calls.db")

    def create(self) -> None:
        """Create the directory for a server that has just started."""
        self.folder.mkdir(mode=0o700)
        self._calls.create()
        self.write(ServerState(starts=1, ready=True))

    def write(self, state: ServerState) -> None:
        """Replace the server's state on disk."""
        write_atomically(self.folder / "state.json", json.dumps(asdict(state)))

    def read(self) -> ServerState:
        """Read the server's state from disk."""
        return ServerState(**json.loads((self.folder / "state.json").read_text(encoding="utf-8")))

    def report_stuck(self, starts: int) -> None:
        """Report that the server has been stuck since start number `starts`."""
        private(self._report(starts))

    def is_reported(self, starts: int) -> bool:
        """Return whether a call reported that the server has been stuck since start number `starts`."""
        return self._report(starts).exists()

    def _report(self, starts: int) -> Path:
        return self.folder / f"stuck-{starts}"

    def register_call(self, *, alone: bool) -> AbstractContextManager[InFlight]:
        """
        Count a call as in flight during the block; if `alone`, make sure that no other call is in flight at the same
        time.
        """
        return self._calls.register(alone=alone)


class Supervisor:
    """Restarts the server; runs in a thread of the process that started the server."""

    def __init__(self, shared: SharedState, *, is_alive: Callable[[], bool], restart: Callable[[], str]) -> None:
        """
        Store the settings; `restart` stops a running server, starts it again, and returns the reason for a failure, if
        any.
        """
        self._shared = shared
        self._is_alive = is_alive
        self._restart = restart
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jsbench-local-server", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        starts = 1
        while not self._ended.wait(_PAUSE):
            if self._is_alive() and not self._shared.is_reported(starts):
                continue
            starts += 1
            # The state is written first, so that a call in flight does not mistake the new server for the previous one.
            self._shared.write(ServerState(starts=starts, ready=False))
            failure = self._try_to_restart()
            if self._ended.is_set():
                return
            self._shared.write(ServerState(starts=starts, ready=not failure, failure=failure))
            if failure:
                return

    def _try_to_restart(self) -> str:
        failure = ""
        for _ in range(_ATTEMPTS):
            failure = self._restart()
            if not failure or self._ended.wait(1.0):
                break
        return failure

    def stop(self, kill: Callable[[], None]) -> None:
        """End the thread; `kill` aborts a start of the server that is in progress."""
        self._ended.set()
        self._thread.join(2 * _PAUSE)
        while self._thread.is_alive():
            kill()
            self._thread.join(_PAUSE)


class RestartGuard:
    """Makes the calls of one engine, and repeats calls that a restart of the server interrupted."""

    def __init__(
        self,
        shared: SharedState,
        client: Client,
        probe: str,
        *,
        subject: str,
        start_timeout: float,
        least_patience: float = LEAST_PATIENCE,
    ) -> None:
        """
        Store the settings; `probe` is the address of a page that the server's own loop answers, and `subject` names the
        suspected cause in messages.
        """
        self._shared = shared
        self._client = client
        self._probe = probe
        self._subject = subject
        self._start_timeout = start_timeout
        self._least_patience = least_patience
        #: Tests with a call that may have stopped the server and that only the application can repeat.
        self._suspects: set[Hashable] = set()

    def call(self, make: Callable[[], T], *, timeout: float, test: Hashable, repeatable: bool) -> T:
        """
        Make a call; if the server stops while other calls are in flight too, repeat the call alone.

        Raise a CallError of kind hang or crash if this call stops the server. An interrupted call that is not
        repeatable fails, because part of its answer may have been passed on; the next call of the same test is made
        alone.
        """
        if test not in self._suspects:
            with self._shared.register_call(alone=False) as call:
                starts = self._wait_until_ready().starts
                try:
                    return make()
                except CallError as error:
                    # Other interrupted calls count as in flight until they notice the next start.
                    is_only = error.kind in _OF_STOPPED_SERVER and call.is_only() and self.starts() == starts
                    if not self._has_server_stopped(error, starts, timeout):
                        raise
                    if is_only:
                        raise self._blame(error) from None
            if not repeatable:
                self._suspects.add(test)
                message = "the local server was restarted during this call; repeat the call"
                raise CallError(FaultKind.CONNECTION, message)
        with self._shared.register_call(alone=True):
            starts = self._wait_until_ready().starts
            try:
                return make()
            except CallError as error:
                if not self._has_server_stopped(error, starts, timeout):
                    raise
                raise self._blame(error) from None

    def starts(self) -> int:
        """Return the number of the server's starts so far."""
        return self._shared.read().starts

    def has_restarted(self, since: int) -> bool:
        """Return whether the server was restarted after start number `since`; wait until the server is ready."""
        return self._wait_until_ready().starts != since

    def _has_server_stopped(self, error: CallError, starts: int, timeout: float) -> bool:
        """Return whether the server stopped during a failed call; if so, wait until the server is ready again."""
        if error.kind not in _OF_STOPPED_SERVER:
            return False
        end = time.monotonic() + max(self._least_patience, _PATIENCE * timeout)
        while time.monotonic() < end:
            if self.starts() == starts and self._answers():
                # The server may have answered after a restart that began in the meantime.
                return self.has_restarted(starts)
            if self.starts() != starts:
                break
            time.sleep(_PAUSE)
        self._shared.report_stuck(starts)
        self._wait_until_ready(starts + 1)
        return True

    def _answers(self) -> bool:
        """Return whether the server's loop, which computes the answers, accepts requests."""
        try:
            with closing(self._client.request("GET", self._probe, b"", headers={}, deadline=Deadline(_PROBE))) as reply:
                reply.read()
        except EnclosedError:
            return True  # an error response is an answer too
        except CallError:
            return False
        return True

    def _wait_until_ready(self, starts: int = 1) -> ServerState:
        """Wait until the server is ready after start number `starts`; raise CallError if it cannot be restarted."""
        end = time.monotonic() + self._start_timeout * _ATTEMPTS + _RESTART_GRACE
        while True:
            state = self._shared.read()
            if state.ready and state.starts >= starts:
                return state
            if state.failure or time.monotonic() > end:
                reason = state.failure or "the process that started it does not respond"
                raise CallError(FaultKind.ENGINE, f"the local server could not be restarted: {reason}")
            time.sleep(_PAUSE)

    def _blame(self, error: CallError) -> CallError:
        """Return the error for a call that stopped the server while no other call was in flight."""
        cause = f"{self._subject} ({error.message}, with no other call in flight); the server was restarted"
        if error.kind is FaultKind.TIMEOUT:
            message = f"the local server stopped answering while processing {cause}"
            return CallError(FaultKind.HANG, message, broke_server=True)
        message = f"the process of the local server ended while processing {cause}"
        return CallError(FaultKind.CRASH, message, broke_server=True)
