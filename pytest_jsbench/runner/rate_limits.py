"""
Limits that all processes of a run share: requests and tokens a minute, money, and what the provider asks for.

The state is one SQLite file, which outlives any process that uses it, SIGKILL included. Requests and tokens are spaced
evenly, which is how providers refill. Before a call its tokens are reserved at what calls have used so far, its cost at
the worst; after it both are settled by its usage, so that the limit of cost is not passed.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.files import private
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.metrics.prices import Price

#: one row: when the next request may start, and the next token be asked for, and until when nothing may (monotonic
#: seconds); US dollars, and whether a call was refused for them; settled calls and their output tokens
_TABLES = (
    "CREATE TABLE state (next_request, next_token, paused_until, spent, refused, settled, output_tokens)",
    "INSERT INTO state VALUES (0, 0, 0, 0, 0, 0, 0)",
    # what calls in flight may cost, and when they are over at the latest
    "CREATE TABLE reserved (id INTEGER PRIMARY KEY, cost, until)",
)
#: settled calls from which on their mean says more than the most that an answer may have
_ENOUGH = 8
#: seconds to another look at a limit that waits for calls in flight
_LOOK_AGAIN = 0.1
_LONGEST_SLEEP = 1.0
#: seconds that a process may take to write two numbers, with many others waiting
_BUSY = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """What a user allows a run; None: no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    #: US dollars
    max_cost: float | None = None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_cost is None)

    def shared_by(self, processes: int) -> RateLimits:
        """One process's part, where they cannot see each other."""
        return RateLimits(
            requests_per_minute=self.requests_per_minute and self.requests_per_minute / processes,
            tokens_per_minute=self.tokens_per_minute and self.tokens_per_minute / processes,
            max_cost=self.max_cost and self.max_cost / processes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that one call can take."""

    input_tokens: int
    output_tokens: int
    #: seconds until it is over, one way or the other
    seconds: float


class Refused(Exception):
    """The call is not to be made."""

    def __init__(self, reason: MissingReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Leave to make one call, and what was reserved for it."""

    #: seconds spent waiting for it
    waited: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    reservation: int | None = None


class Admission:
    """Lets calls through as the limits allow; one for each process, all of them on the same file."""

    def __init__(self, path: Path, limits: RateLimits, *, price: Price | None = None) -> None:
        self._path = path
        self._limits = limits
        self._price = price
        #: one thread of a process waits at the head of its queue; the others wait for that one
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._refusal = Refused(MissingReason.STOPPED, "the session ended first")
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._lock = threading.Lock()

    def enter(self, estimate_of: Callable[[], Estimate]) -> Permit:
        """Wait until the call may be made; Refused when it may not be any more."""
        start = time.perf_counter()
        if not self._limits.any and not self._path.exists():  # nobody has asked for anything: nothing to look up
            self._check()
            return Permit()
        estimate = estimate_of()
        cost = self._cost(Usage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)) or 0.0
        with self._turn:
            while True:
                self._check()
                admitted = self._try(estimate, cost)
                if isinstance(admitted, Permit):
                    break
                self.sleep(min(admitted, _LONGEST_SLEEP))
        return replace(admitted, waited=time.perf_counter() - start)

    def settle(self, permit: Permit, usage: Usage) -> None:
        """Put what was used in the place of what was reserved; usage that is not known stays as it was reserved."""
        known, cost = usage.total_tokens, self._cost(usage)
        tokens = permit.tokens if known is None else known
        self._account(permit, tokens=tokens, cost=permit.cost if cost is None else cost, output=usage.output_tokens)

    def release(self, permit: Permit) -> None:
        """Nothing was used: the call broke before there was an answer."""
        self._account(permit, tokens=0, cost=0.0)

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price(usage)

    def pause(self, seconds: float) -> None:
        """Nobody calls for so long: the provider has asked one of us to wait, and means all."""
        if self._stopped.is_set():
            return
        with self._state() as state:
            state.execute("UPDATE state SET paused_until = MAX(paused_until, ?)", [time.monotonic() + seconds])

    def stop(self, refusal: Refused | None = None) -> None:
        """Let nothing through any more, and wake whoever waits."""
        if refusal is not None and not self._stopped.is_set():
            self._refusal = refusal
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Wait, unless stopped."""
        self._stopped.wait(seconds)

    def spent(self) -> float:
        """US dollars so far, by what calls have settled."""
        with self._state() as state:
            (spent,) = state.execute("SELECT spent FROM state").fetchone()
        return float(spent)

    def spend(self, cost: float) -> None:
        """Count US dollars that were paid beside the calls."""
        with self._state() as state:
            state.execute("UPDATE state SET spent = spent + ?", [cost])

    def close(self) -> None:
        """Let go of the file."""
        self.stop()
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _check(self) -> None:
        if self._stopped.is_set():
            raise self._refusal

    def _try(self, estimate: Estimate, cost: float) -> Permit | float:
        """Leave to make the call, or the seconds until it is worth another try."""
        now = time.monotonic()
        with self._state() as state:
            row = state.execute("SELECT * FROM state").fetchone()
            next_request, next_token, paused_until, spent, refused, settled, output_tokens = row
            wait = max(paused_until, next_request, next_token) - now
            if wait > 0 and not refused:
                return float(wait)
            reservation = None
            if (most := self._limits.max_cost) is not None:
                open_cost = _open_cost(state, now)
                if refused or spent + open_cost.lapsed + cost > most:
                    state.execute("UPDATE state SET refused = 1")
                    raise Refused(MissingReason.LIMIT, f"--jsbench-max-cost={most:g} would be passed")
                if spent + open_cost.lapsed + open_cost.reserved + cost > most:
                    return _LOOK_AGAIN
                reservation = _reserve(state, cost, until=now + estimate.seconds)
            output = estimate.output_tokens if settled < _ENOUGH else output_tokens // settled
            permit = Permit(tokens=estimate.input_tokens + output, cost=cost, reservation=reservation)
            state.execute(
                "UPDATE state SET next_request = ?, next_token = ?",
                [
                    _next(next_request, now, 1, self._limits.requests_per_minute),
                    _next(next_token, now, permit.tokens, self._limits.tokens_per_minute),
                ],
            )
        return permit

    def _account(self, permit: Permit, *, tokens: int, cost: float, output: int | None = None) -> None:
        limits = self._limits
        if not limits.any or self._closed:
            return
        with self._state() as state:
            if permit.reservation is not None:
                found = state.execute("DELETE FROM reserved WHERE id = ?", [permit.reservation]).rowcount
                # one that has lapsed was counted as spent
                state.execute("UPDATE state SET spent = spent + ?", [cost if found else cost - permit.cost])
            if limits.tokens_per_minute is not None:
                back = (permit.tokens - tokens) * 60 / limits.tokens_per_minute
                state.execute("UPDATE state SET next_token = next_token - ?", [back])
            if output is not None:
                state.execute("UPDATE state SET output_tokens = output_tokens + ?, settled = settled + 1", [output])

    @contextmanager
    def _state(self) -> Iterator[sqlite3.Connection]:
        """The file, for this thread of this process alone."""
        with self._lock:
            connection = self._connection = self._connection or _open(self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")


def _next(then: float, now: float, amount: float, per_minute: float | None) -> float:
    """When the next may start; what was not used in the last second is not lost, what is older is."""
    if per_minute is None:
        return then
    return max(then, now - 1) + amount * 60 / per_minute


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenCost:
    #: what calls in flight may still cost
    reserved: float
    #: what was reserved by processes that have died since
    lapsed: float


def _open_cost(state: sqlite3.Connection, now: float) -> _OpenCost:
    """What is reserved; the reservations of a process that died lapse, and count as spent from now on."""
    (lapsed,) = state.execute("SELECT TOTAL(cost) FROM reserved WHERE until < ?", [now]).fetchone()
    if lapsed:
        state.execute("DELETE FROM reserved WHERE until < ?", [now])
        state.execute("UPDATE state SET spent = spent + ?", [lapsed])
    (reserved,) = state.execute("SELECT TOTAL(cost) FROM reserved").fetchone()
    return _OpenCost(reserved=reserved, lapsed=lapsed)


def _reserve(state: sqlite3.Connection, cost: float, *, until: float) -> int | None:
    return state.execute("INSERT INTO reserved (cost, until) VALUES (?, ?)", [cost, until]).lastrowid


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(private(path), timeout=_BUSY, isolation_level=None, check_same_thread=False)
    # a process may be killed at any time, the machine need not be: what is in the system's hands is safe
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("BEGIN EXCLUSIVE")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")
    return connection
