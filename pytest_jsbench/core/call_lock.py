"""
Count the calls in flight over all processes of a run, and make a call while no other call is in flight.

Each call in flight has a shared lock on an SQLite file, and a call that must be alone has the exclusive lock. SQLite
releases the lock of a process that dies, and lets no new call start while a call waits to be alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pytest_jsbench.core.files import private

#: Maximum time that a call waits for the other calls, in seconds; each of them reaches its own timeout long before.
_LONGEST_WAIT = 24 * 3600.0


class InFlight:
    """A call in flight, registered until its SQLite connection is closed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def is_only(self) -> bool:
        """Return whether this is the only call in flight; if so, no other call can start until this call has ended."""
        try:
            # a commit succeeds only while no other process has a shared lock
            self._connection.execute("PRAGMA busy_timeout = 0")
            # the commit keeps its lock, so that no call reaches a stopped server before it is restarted
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("INSERT INTO calls VALUES (0)")
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError:
            return False
        return True


class CallLock:
    """The lock of the calls to one server; any thread of any process of the run may register a call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Create the file, unless another process has created it."""
        with closing(self._connect()) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS calls (call)")

    @contextmanager
    def register(self, *, alone: bool) -> Iterator[InFlight]:
        """
        Count a call as in flight during the block; if `alone`, make sure that no other call is in flight at the same
        time.
        """
        with closing(self._connect()) as connection:
            connection.execute("BEGIN EXCLUSIVE" if alone else "BEGIN")
            # SQLite takes the shared lock at the first read in a transaction.
            connection.execute("SELECT call FROM calls LIMIT 1").fetchall()
            yield InFlight(connection)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(private(self._path), timeout=_LONGEST_WAIT, isolation_level=None)
