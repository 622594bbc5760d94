"""
The state of a run's limits, which all of its processes share: one SQLite file, which outlives a killed process.

Requests and tokens are spread evenly over the minute, which is how providers refill. Before a call its tokens are
reserved at the mean of the calls so far, and its cost at the most that it can be; after the call both are replaced by
what it used, so that the cost keeps its limit.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.files import private
from pytest_jsbench.runner.provider_state import CallEnd, ProviderState, Sign
from pytest_jsbench.runner.rate_limits import Estimate, Permit, RateLimits, Refused
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = (
    # one row: US dollars spent, and whether a call was refused for them
    "CREATE TABLE state (spent, refused)",
    "INSERT INTO state VALUES (0, 0)",
    # when the next request may start and the next token may be asked for (monotonic seconds); settled calls and their
    # output tokens
    "CREATE TABLE servers (name TEXT PRIMARY KEY, next_request, next_token, settled, output_tokens)",
    # a ProviderState as JSON
    "CREATE TABLE providers (name TEXT PRIMARY KEY, state TEXT)",
    # what calls in flight may cost, and the latest time at which they end
    "CREATE TABLE reserved (id INTEGER PRIMARY KEY, cost, until)",
)
#: settled calls after which their mean is used instead of the most that an answer may have
_ENOUGH = 8
#: seconds until a limit that waits for calls in flight is checked again
_LOOK_AGAIN = 0.1
#: seconds that a process waits for the file while others write
_BUSY = 30.0


class LimitsFile:
    """
    The limits of a run, as one process sees them in the file; a SharedLimits.

    Each Admission has one. Any thread may call any method: a lock lets one at a time in, and the file's own lock one
    process. `close` comes last; after it no call is permitted, and what a call reports is dropped.
    """

    def __init__(self, path: Path, limits: RateLimits) -> None:
        self.limits = limits
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._lock = threading.Lock()
        #: providers that have answered, of which nothing is written while all is well
        self._answered: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether there is no limit, and no provider has refused or broken a call."""
        return not self.limits.any and not self._path.exists()

    def reserve(self, estimate: Estimate, cost: float, provider: str = "", server: str = "") -> Permit | float:
        """A permit, or the seconds to wait before the next try; Refused where the cost would pass its limit."""
        now = time.monotonic()
        with self._state() as state:
            spent, refused = state.execute("SELECT spent, refused FROM state").fetchone()
            next_request, next_token, settled, output_tokens = _server(state, server)
            standing = _provider(state, provider)
            if standing.given_up:
                raise Refused(MissingReason.UNAVAILABLE, standing.given_up)
            refused = refused and cost > 0  # what costs nothing goes on when the money is spent
            wait = max(standing.wait(now, estimate.share), next_request - now, next_token - now)
            if wait > 0 and not refused:
                return float(wait)
            reservation = None
            if (most := self.limits.max_cost) is not None and cost > 0:
                open_cost = _open_cost(state, now)
                if refused or spent + open_cost.lapsed + cost > most:
                    state.execute("UPDATE state SET refused = 1")
                    raise Refused(MissingReason.LIMIT, f"--jsbench-max-cost={most:g} would be passed")
                if spent + open_cost.lapsed + open_cost.reserved + cost > most:
                    return _LOOK_AGAIN
                row = [cost, now + estimate.seconds]
                reservation = state.execute("INSERT INTO reserved (cost, until) VALUES (?, ?)", row).lastrowid
            output = estimate.output_tokens if settled < _ENOUGH else output_tokens // settled
            permit = Permit(
                tokens=estimate.input_tokens + output,
                cost=cost,
                reservation=reservation,
                provider=provider,
                server=server,
                began=now,
            )
            if standing.down:
                _keep(state, provider, replace(standing, trying_until=now + estimate.seconds))
            state.execute(
                "UPDATE servers SET next_request = ?, next_token = ? WHERE name = ?",
                [
                    _next(next_request, now, 1, self.limits.requests_per_minute),
                    _next(next_token, now, permit.tokens, self.limits.tokens_per_minute),
                    server,
                ],
            )
        return permit

    def account(
        self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None = None
    ) -> ProviderState:
        """Replace what was reserved by what was used; how the provider is doing, now that a call has ended so."""
        if end.sign in (Sign.ANSWERED, Sign.NOTHING) and self.idle:
            if end.sign is Sign.ANSWERED:
                self._answered.add(permit.provider)
            return ProviderState()
        with suppress(Refused):  # nobody asks any more: the session has ended
            return self._account(permit, end, tokens=tokens, cost=cost, output=output)
        return ProviderState()

    def _account(self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None) -> ProviderState:
        limits, now = self.limits, time.monotonic()
        with self._state() as state:
            if permit.reservation is not None:
                found = state.execute("DELETE FROM reserved WHERE id = ?", [permit.reservation]).rowcount
                # a reservation that has expired was counted as spent
                state.execute("UPDATE state SET spent = spent + ?", [cost if found else cost - permit.cost])
            if limits.tokens_per_minute is not None:
                back = (permit.tokens - tokens) * 60 / limits.tokens_per_minute
                state.execute("UPDATE servers SET next_token = next_token - ? WHERE name = ?", [back, permit.server])
            if output is not None and limits.any:
                state.execute(
                    "UPDATE servers SET output_tokens = output_tokens + ?, settled = settled + 1 WHERE name = ?",
                    [output, permit.server],
                )
            before = _provider(state, permit.provider)
            known = replace(before, known=before.known or permit.provider in self._answered)
            after = known.after(end, began=permit.began, now=now, patience=limits.patience)
            if after != before:
                _keep(state, permit.provider, after)
        return after

    def providers(self) -> dict[str, ProviderState]:
        """How each provider is doing; none where no call was ever refused or broken."""
        if not self.idle:
            with suppress(Refused), self._state() as state:
                return {name: _read(text) for name, text in state.execute("SELECT name, state FROM providers")}
        return {}

    def spent(self) -> float:
        """US dollars that settled calls have cost so far."""
        with self._state() as state:
            (spent,) = state.execute("SELECT spent FROM state").fetchone()
        return float(spent)

    def spend(self, cost: float) -> None:
        """Add US dollars that were not paid for calls, such as those of a batch."""
        with self._state() as state:
            state.execute("UPDATE state SET spent = spent + ?", [cost])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _state(self) -> Iterator[sqlite3.Connection]:
        """The file, locked for this thread of this process; Refused once it is closed."""
        with self._lock:
            if self._closed:
                raise Refused(MissingReason.STOPPED, "the session ended first")
            connection = self._connection = self._connection or _open(self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                if connection.in_transaction:  # a full disk has ended it, and that is to be said
                    connection.execute("COMMIT")


def _server(state: sqlite3.Connection, name: str) -> tuple[float, float, int, int]:
    """When its next request may start and its next token may be asked for; settled calls and their output tokens."""
    row = state.execute("SELECT * FROM servers WHERE name = ?", [name]).fetchone()
    if row is None:
        state.execute("INSERT INTO servers VALUES (?, 0, 0, 0, 0)", [name])
    _, next_request, next_token, settled, output_tokens = row or (name, 0.0, 0.0, 0, 0)
    return next_request, next_token, settled, output_tokens


def _provider(state: sqlite3.Connection, name: str) -> ProviderState:
    row = state.execute("SELECT state FROM providers WHERE name = ?", [name]).fetchone()
    return ProviderState() if row is None else _read(row[0])


def _read(text: str) -> ProviderState:
    return ProviderState(**json.loads(text))


def _keep(state: sqlite3.Connection, name: str, standing: ProviderState) -> None:
    state.execute("INSERT OR REPLACE INTO providers VALUES (?, ?)", [name, json.dumps(asdict(standing))])


def _next(then: float, now: float, amount: float, per_minute: float | None) -> float:
    """When the next may start; an allowance that is unused for more than a second is lost."""
    if per_minute is None:
        return then
    return max(then, now - 1) + amount * 60 / per_minute


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenCost:
    #: what calls in flight may still cost
    reserved: float
    #: what processes that died had reserved
    lapsed: float


def _open_cost(state: sqlite3.Connection, now: float) -> _OpenCost:
    """What is reserved; reservations of a process that died expire, and count as spent from then on."""
    (lapsed,) = state.execute("SELECT TOTAL(cost) FROM reserved WHERE until < ?", [now]).fetchone()
    if lapsed:
        state.execute("DELETE FROM reserved WHERE until < ?", [now])
        state.execute("UPDATE state SET spent = spent + ?", [lapsed])
    (reserved,) = state.execute("SELECT TOTAL(cost) FROM reserved").fetchone()
    return _OpenCost(reserved=reserved, lapsed=lapsed)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(private(path), timeout=_BUSY, isolation_level=None, check_same_thread=False)
    # what the operating system has taken survives a killed process; a crash of the machine need not be survived
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("BEGIN EXCLUSIVE")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")
    return connection
