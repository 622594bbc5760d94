"""
Limits that all processes of a run share: requests and tokens a minute, money, and what the provider asks for.

The state is one SQLite file, so that it survives when a process is killed. Requests and tokens are spread evenly over
the minute, which is how providers refill. Before a call its tokens are reserved at the mean of the calls so far, and
its cost at the most that it can be; after the call both are replaced by what it used, so that the cost keeps its limit.
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

#: one row: when the next request may start and the next token may be asked for, until when all calls pause (monotonic
#: seconds); US dollars spent, and whether a call was refused for them; settled calls and their output tokens
_TABLES = (
    "CREATE TABLE state (next_request, next_token, paused_until, spent, refused, settled, output_tokens)",
    "INSERT INTO state VALUES (0, 0, 0, 0, 0, 0, 0)",
    # what calls in flight may cost, and the latest time at which they end
    "CREATE TABLE reserved (id INTEGER PRIMARY KEY, cost, until)",
)
#: settled calls after which their mean is used instead of the most that an answer may have
_ENOUGH = 8
#: seconds until a limit that waits for calls in flight is checked again
_LOOK_AGAIN = 0.1
_LONGEST_SLEEP = 1.0
#: seconds that a process waits for the file while others write
_BUSY = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits that a user sets for a run; None: no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    #: US dollars
    max_cost: float | None = None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_cost is None)

    def shared_by(self, processes: int) -> RateLimits:
        """The part of one process, where the processes share no file."""
        return RateLimits(
            requests_per_minute=self.requests_per_minute and self.requests_per_minute / processes,
            tokens_per_minute=self.tokens_per_minute and self.tokens_per_minute / processes,
            max_cost=self.max_cost and self.max_cost / processes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that one call can use."""

    input_tokens: int
    output_tokens: int
    #: seconds until it has ended, with or without an answer
    seconds: float


class Refused(Exception):
    """The call may not be made; the reason is what the report counts the attempt under."""

    def __init__(self, reason: MissingReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """The permission to make one call, and what was reserved for it."""

    #: seconds spent waiting for it
    waited: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    reservation: int | None = None


class Admission:
    """
    Decides when a call may be made, so that all processes together keep the limits.

    A worker makes one for each model that it calls, the controller one to add what batches cost; all of a run are on
    one file. The threads of the runners call `enter` before a call, `settle` or `release` after it, and `pause` when a
    provider asks to wait. One thread of an Admission waits for a permit at a time, the others wait for that thread.
    `stop` ends all waiting, from any thread; after it `enter` raises Refused. `close` comes last.
    """

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
        """Wait until the call may be made; Refused where it may not."""
        start = time.perf_counter()
        if not self._limits.any and not self._path.exists():  # there is no limit, and no provider has asked to wait
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
        """Replace what was reserved by what was used; where that is not known the reservation stands."""
        known, cost = usage.total_tokens, self._cost(usage)
        tokens = permit.tokens if known is None else known
        self._account(permit, tokens=tokens, cost=permit.cost if cost is None else cost, output=usage.output_tokens)

    def release(self, permit: Permit) -> None:
        """Give back what was reserved: the call failed before there was an answer."""
        self._account(permit, tokens=0, cost=0.0)

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price(usage)

    def pause(self, seconds: float) -> None:
        """Let no process call for so many seconds: a provider's request to wait holds for all."""
        if self._stopped.is_set():
            return
        with self._state() as state:
            state.execute("UPDATE state SET paused_until = MAX(paused_until, ?)", [time.monotonic() + seconds])

    def stop(self, refusal: Refused | None = None) -> None:
        """Permit no more calls, and wake the threads that wait."""
        if refusal is not None and not self._stopped.is_set():
            self._refusal = refusal
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds, or until `stop`."""
        self._stopped.wait(seconds)

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
        """Stop, and close the file."""
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
        """A permit, or the seconds to wait before the next try."""
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
                # a reservation that has expired was counted as spent
                state.execute("UPDATE state SET spent = spent + ?", [cost if found else cost - permit.cost])
            if limits.tokens_per_minute is not None:
                back = (permit.tokens - tokens) * 60 / limits.tokens_per_minute
                state.execute("UPDATE state SET next_token = next_token - ?", [back])
            if output is not None:
                state.execute("UPDATE state SET output_tokens = output_tokens + ?, settled = settled + 1", [output])

    @contextmanager
    def _state(self) -> Iterator[sqlite3.Connection]:
        """The file, locked for this thread of this process."""
        with self._lock:
            connection = self._connection = self._connection or _open(self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")


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


def _reserve(state: sqlite3.Connection, cost: float, *, until: float) -> int | None:
    return state.execute("INSERT INTO reserved (cost, until) VALUES (?, ?)", [cost, until]).lastrowid


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
