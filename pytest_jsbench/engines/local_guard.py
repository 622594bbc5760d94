"""
Restart the local server when it stops answering, and find the call that stopped it.

llama.cpp compiles and applies all grammars in one loop, so a schema whose grammar never ends stops every other call
too. The process that started the server runs a `Supervisor`: it restarts the server at the same address after its
process ended, or after a call reported that it is stuck. The calls in flight at that time are repeated, one at a time
and with no other call next to them. A call that stops the server while it is the only one is the cause, and fails; the
others get their answers. `RestartGuard` does this for the calls of one engine.

All processes of a run share a private directory (`SharedState`): `state.json` has the number of starts, `stuck-N`
reports that the server is stuck since its N-th start, and a lock on `calls.db` is held by each call in flight.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_jsbench.core.files import private, write_atomically
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import Deadline, EnclosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from pytest_jsbench.engines.http.client import Client

T = TypeVar("T")

#: Faults of calls that a stopped server may have caused.
_OF_STOPPED_SERVER = frozenset({FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.SERVER, FaultKind.BAD_RESPONSE})
#: Seconds without an answer to any probe after which the server is stuck: at least so many, and this part of the call's
#: timeout, since a large model may compute for long before its loop looks for requests.
_LEAST_PATIENCE, _PATIENCE = 5.0, 0.25
#: Seconds for one probe.
_PROBE = 2.0
#: Seconds between two looks at the shared state.
_PAUSE = 0.1
#: Seconds, beyond those for a start, in which the supervisor must have restarted the server.
_RESTART_GRACE = 30.0
#: Maximum number of seconds that a call waits for the others; each of them ends by its own timeout long before.
_LONGEST_WAIT = 24 * 3600.0
#: Number of attempts to start the server again, whose port may be in use for a moment.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of the server, as its supervisor writes it."""

    #: Number of starts so far.
    starts: int
    #: Whether the server accepts requests.
    ready: bool
    #: Why the server could not be restarted; empty if it could.
    failure: str = ""


class InFlight:
    """A call in flight, for as long as its connection is open."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def is_only(self) -> bool:
        """Return whether no other call is in flight; other calls are then kept from starting, or from returning."""
        try:
            # a commit succeeds only while no other process has a shared lock
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("INSERT INTO calls VALUES (0)")
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError:
            return False
        return True


class SharedState:
    """State of one server that the processes of a run share, in a private directory named after the server's key."""

    def __init__(self, key: str) -> None:
        name = hashlib.sha256(f"state of {key}".encode()).hexdigest()[:24]
        self.folder = Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"

    def create(self) -> None:
        """Create the directory, for a server that has just started."""
        self.folder.mkdir(mode=0o700)
        with closing(self._connect()) as connection:
            connection.execute("CREATE TABLE calls (call)")
        self.write(ServerState(starts=1, ready=True))

    def write(self, state: ServerState) -> None:
        """Replace the state."""
        write_atomically(self.folder / "state.json", json.dumps(asdict(state)))

    def read(self) -> ServerState:
        """Read the state."""
        return ServerState(**json.loads((self.folder / "state.json").read_text(encoding="utf-8")))

    def report_stuck(self, starts: int) -> None:
        """Report that the server, since this start, does not answer."""
        private(self._report(starts))

    def is_reported(self, starts: int) -> bool:
        """Return whether a call reported that the server, since this start, does not answer."""
        return self._report(starts).exists()

    def _report(self, starts: int) -> Path:
        return self.folder / f"stuck-{starts}"

    @contextmanager
    def in_flight(self, *, alone: bool) -> Iterator[InFlight]:
        """Count a call as in flight during the block; if `alone`, wait until it is the only one and stays that."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN EXCLUSIVE" if alone else "BEGIN")
            # a transaction has its shared lock from its first read on
            connection.execute("SELECT call FROM calls LIMIT 1").fetchall()
            yield InFlight(connection)

    def _connect(self) -> sqlite3.Connection:
        path = private(self.folder / "calls.db")
        return sqlite3.connect(path, timeout=_LONGEST_WAIT, isolation_level=None)


class Supervisor:
    """Restarts the server, in a thread of the process that started it."""

    def __init__(self, shared: SharedState, *, is_alive: Callable[[], bool], restart: Callable[[], str]) -> None:
        """`restart` ends the server if it still runs, starts it again, and returns why that failed, or nothing."""
        self._shared = shared
        self._is_alive, self._restart = is_alive, restart
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jsbench-local-server", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        starts = 1
        while not self._ended.wait(_PAUSE):
            if self._is_alive() and not self._shared.is_reported(starts):
                continue
            starts += 1
            # first, so that no call takes the new server for the one that it was sent to
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
        """End the thread; `kill` ends a start of the server that is under way."""
        self._ended.set()
        self._thread.join(2 * _PAUSE)
        while self._thread.is_alive():
            kill()
            self._thread.join(_PAUSE)


class RestartGuard:
    """Makes the calls of one engine, and repeats those that a restart of the server interrupted."""

    def __init__(self, shared: SharedState, client: Client, probe: str, *, subject: str, start_timeout: float) -> None:
        """`probe` is the address of a page that the server's loop itself answers; `subject` is for messages."""
        self._shared, self._client, self._probe = shared, client, probe
        self._subject = subject
        self._start_timeout = start_timeout
        #: Tests with a call that may have stopped the server and that only the application can repeat.
        self._suspects: set[Hashable] = set()

    def call(self, make: Callable[[], T], *, timeout: float, test: Hashable, repeatable: bool) -> T:
        """
        Make a call, and repeat it alone if another call may have stopped the server meanwhile.

        CallError of kind hang or crash if the call stops the server. A call that is not repeatable, since part of its
        answer may have been passed on, fails if it was interrupted; the next one of the same test is made alone.
        """
        if test not in self._suspects:
            with self._shared.in_flight(alone=False) as call:
                starts = self._wait_until_ready().starts
                try:
                    return make()
                except CallError as error:
                    # others in flight count as such until they see the next start
                    is_only = error.kind in _OF_STOPPED_SERVER and call.is_only() and self.starts() == starts
                    if not self._stopped_server(error, starts, timeout):
                        raise
                    if is_only:
                        raise self._blame(error) from None
            if not repeatable:
                self._suspects.add(test)
                message = "the local server was restarted during this call; repeat the call"
                raise CallError(FaultKind.CONNECTION, message)
        with self._shared.in_flight(alone=True):
            starts = self._wait_until_ready().starts
            try:
                return make()
            except CallError as error:
                if not self._stopped_server(error, starts, timeout):
                    raise
                raise self._blame(error) from None

    def starts(self) -> int:
        """Return the number of the server's starts so far."""
        return self._shared.read().starts

    def interrupted(self, since: int) -> bool:
        """Return whether the server was restarted since this start; wait until it is ready."""
        return self._wait_until_ready().starts != since

    def _stopped_server(self, error: CallError, starts: int, timeout: float) -> bool:
        """Return whether the server was stopped during a failed call; wait until it is ready again."""
        if error.kind not in _OF_STOPPED_SERVER:
            return False
        end = time.monotonic() + max(_LEAST_PATIENCE, _PATIENCE * timeout)
        while time.monotonic() < end:
            if self.starts() == starts and self._answers():
                # it may have answered after a restart that began in between
                return self.interrupted(starts)
            if self.starts() != starts:
                break
            time.sleep(_PAUSE)
        self._shared.report_stuck(starts)
        self._wait_until_ready(starts + 1)
        return True

    def _answers(self) -> bool:
        """Return whether the loop that computes answers takes requests."""
        try:
            with closing(self._client.request("GET", self._probe, b"", headers={}, deadline=Deadline(_PROBE))) as reply:
                reply.read()
        except EnclosedError:
            return True  # an error is an answer
        except CallError:
            return False
        return True

    def _wait_until_ready(self, starts: int = 1) -> ServerState:
        """Wait until the server is ready after so many starts; CallError if it cannot be restarted."""
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
        """Return the fault of a call that stopped the server while it was the only one."""
        after = f"{self._subject} ({error.message}, with no other call in flight); the server was restarted"
        if error.kind is FaultKind.TIMEOUT:
            return CallError(FaultKind.HANG, f"the local server stopped answering on {after}")
        return CallError(FaultKind.CRASH, f"the process of the local server ended on {after}")
