"""
Enforce limits that all processes of a run share: requests and tokens per minute, cost, and the provider's capacity.

The state is kept in one SQLite file, which remains intact if a process is killed. Requests and tokens are spread evenly
over the minute, because providers refill their quotas evenly. Before a call, its maximum cost and its expected tokens
are reserved; the expected length of an answer is the mean so far. After the call, both amounts are replaced by the
actual usage, so that the total stays within the cost limit.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import describe_exhaustion
from pytest_jsbench.core.files import private
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.core.text import describe_error
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign

if TYPE_CHECKING:
    from pytest_jsbench.core.arrivals import ArrivalRate
    from pytest_jsbench.metrics.prices import Price

_TABLES = (
    # one row: US dollars spent so far, and whether a call was refused because of the cost limit
    "CREATE TABLE state (spent, refused)",
    "INSERT INTO state VALUES (0, 0)",
    # times in monotonic seconds at which the next request may start and the next token may be used; number of settled
    # calls, and of their output tokens
    "CREATE TABLE servers (name TEXT PRIMARY KEY, next_request, next_token, settled, output_tokens)",
    # each state is a ProviderState as JSON
    "CREATE TABLE providers (name TEXT PRIMARY KEY, state TEXT)",
    # number and scheduled time of the next call to each server, if calls begin at a rate
    "CREATE TABLE starts (name TEXT PRIMARY KEY, number, due)",
    # maximum cost of each call in flight, and the latest time at which the call ends
    "CREATE TABLE reserved (id INTEGER PRIMARY KEY, cost, until)",
)
#: Number of calls with recorded usage after which their mean output replaces the maximum length of an answer in
#: estimates.
_MIN_SETTLED = 8
#: Seconds until a limit that depends on calls in flight is checked again.
_CHECK_INTERVAL = 0.1
#: Seconds that a process waits for the file while other processes write.
_BUSY_TIMEOUT = 30.0
_LONGEST_SLEEP = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The maximum usage of one call."""

    input_tokens: int
    output_tokens: int
    #: Maximum number of seconds until the call has ended, with or without an answer.
    seconds: float
    #: Fraction of the process's concurrency in flight, including this call; 0 if no other call is in flight.
    share: float = 0.0


class Refused(Exception):
    """Raised if a call may not be made; `reason` is the reason under which reports count the attempt."""

    def __init__(self, reason: MissingReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """The permission to make one call, with the amounts reserved for it."""

    #: Seconds spent waiting for the permit.
    waited: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    reservation: int | None = None
    #: Name of the provider to call.
    provider: str = ""
    #: Name of the server whose requests and tokens per minute the call counts towards.
    server: str = ""
    #: Monotonic time at which the permit was given; 0 if no limits applied.
    began: float = 0.0


class LimitsFile:
    """
    The limits of a run, stored in a file that its processes share.

    Each Admission has its own LimitsFile object. All methods are thread-safe: a lock admits one thread at a time, and
    the lock of the file admits one process. `close` is called last; afterwards no call is permitted, and reported usage
    is dropped.
    """

    def __init__(self, path: Path, limits: RateLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._path = path
        #: The processes of a run must have the same clock.
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._lock = threading.Lock()
        #: Providers that have answered; while their calls succeed, nothing is written to the file for them.
        self._answered: set[str] = set()

    @property
    def idle(self) -> bool:
        """True while all calls may be made at once: there are no limits, and no call was refused or failed."""
        return not self.limits.any and not self._path.exists()

    def reserve(self, estimate: Estimate, cost: float, provider: str = "", server: str = "") -> Permit | float:
        """
        Reserve the maximum usage of a call, or return the seconds to wait; raise Refused if no more calls may be made.

        The cost limit applies to all calls together; requests and tokens per minute are limited for each server.
        """
        now = self._clock()
        with self._state() as state:
            (refused,) = state.execute("SELECT refused FROM state").fetchone()
            next_request, next_token, settled, output_tokens = _read_server(state, server)
            provider_state = _read_provider(state, provider)
            if provider_state.given_up:
                raise Refused(MissingReason.UNAVAILABLE, provider_state.given_up)
            refused = refused and cost > 0  # calls without cost continue after the money is spent
            wait = max(provider_state.wait(now, estimate.share), next_request - now, next_token - now)
            if wait > 0 and not refused:
                return float(wait)
            reservation = None
            if (most := self.limits.max_cost) is not None and cost > 0:
                _count_lapsed(state, now)
                (spent,) = state.execute("SELECT spent FROM state").fetchone()
                (reserved,) = state.execute("SELECT TOTAL(cost) FROM reserved").fetchone()
                if refused or spent + cost > most:
                    state.execute("UPDATE state SET refused = 1")
                    raise Refused(MissingReason.LIMIT, f"--jsbench-max-cost={most:g} would be exceeded")
                if spent + reserved + cost > most:
                    return _CHECK_INTERVAL
                row = [cost, now + estimate.seconds]
                reservation = state.execute("INSERT INTO reserved (cost, until) VALUES (?, ?)", row).lastrowid
            output = estimate.output_tokens if settled < _MIN_SETTLED else output_tokens // settled
            permit = Permit(
                tokens=estimate.input_tokens + output,
                cost=cost,
                reservation=reservation,
                provider=provider,
                server=server,
                began=now,
            )
            if provider_state.down:
                _write_provider(state, provider, replace(provider_state, trying_until=now + estimate.seconds))
            state.execute(
                "UPDATE servers SET next_request = ?, next_token = ? WHERE name = ?",
                [
                    _next_start(next_request, now, 1, self.limits.requests_per_minute),
                    _next_start(next_token, now, permit.tokens, self.limits.tokens_per_minute),
                    server,
                ],
            )
        return permit

    def take_start(self, rate: ArrivalRate, server: str) -> float:
        """
        Return the scheduled time of the next call to the server; the schedule never waits for calls that begin late.

        The first call of all processes is due at once.
        """
        now = self._clock()
        with self._state() as state:
            row = state.execute("SELECT number, due FROM starts WHERE name = ?", [server]).fetchone()
            number, due = row or (0, now)
            following = [server, number + 1, due + rate.gap(number)]
            state.execute("INSERT OR REPLACE INTO starts VALUES (?, ?, ?)", following)
        return float(due)

    def now(self) -> float:
        """Return the time on the clock of the scheduled times."""
        return self._clock()

    def account(
        self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None = None
    ) -> ProviderState:
        """
        Replace the reserved amounts by the actual usage, and count the output tokens if their number is known.

        Return the state of the provider after the call.
        """
        if end.sign in (Sign.ANSWERED, Sign.NOTHING) and self.idle:
            if end.sign is Sign.ANSWERED:
                self._answered.add(permit.provider)
            return ProviderState()
        with suppress(Refused):  # raised if the session has ended; the state is then not needed
            return self._account(permit, end, tokens=tokens, cost=cost, output=output)
        return ProviderState()

    def _account(self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None) -> ProviderState:
        limits = self.limits
        now = self._clock()
        with self._state() as state:
            if permit.reservation is not None:
                deleted = state.execute("DELETE FROM reserved WHERE id = ?", [permit.reservation]).rowcount
                # an expired reservation was counted as spent
                state.execute("UPDATE state SET spent = spent + ?", [cost if deleted else cost - permit.cost])
            if limits.tokens_per_minute is not None:
                back = (permit.tokens - tokens) * 60 / limits.tokens_per_minute
                state.execute("UPDATE servers SET next_token = next_token - ? WHERE name = ?", [back, permit.server])
            if output is not None and limits.any:
                state.execute(
                    "UPDATE servers SET output_tokens = output_tokens + ?, settled = settled + 1 WHERE name = ?",
                    [output, permit.server],
                )
            before = _read_provider(state, permit.provider)
            state_before = replace(before, known=before.known or permit.provider in self._answered)
            after = state_before.after(end, began=permit.began, now=now, patience=limits.patience)
            if after != before:
                _write_provider(state, permit.provider, after)
        return after

    def providers(self) -> dict[str, ProviderState]:
        """Return the state of each provider; empty if no call was refused or failed."""
        if not self.idle:
            with suppress(Refused), self._state() as state:
                return {name: _parse_state(text) for name, text in state.execute("SELECT name, state FROM providers")}
        return {}

    def spent(self) -> float:
        """Return the cost of the settled calls so far in US dollars."""
        with self._state() as state:
            (spent,) = state.execute("SELECT spent FROM state").fetchone()
        return float(spent)

    def spend(self, cost: float) -> None:
        """Add US dollars that were spent on something other than single calls, such as a batch."""
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
        """Yield the connection, locked against other threads and processes; raise Refused if the file is closed."""
        with self._lock:
            if self._closed:
                raise Refused(MissingReason.STOPPED, "the session ended first")
            connection = self._connection = self._connection or _open(self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            finally:
                if connection.in_transaction:  # a full disk ends the transaction with an error
                    connection.execute("COMMIT")


def _read_server(state: sqlite3.Connection, name: str) -> tuple[float, float, int, int]:
    """
    Return a server's times for the next request and the next token, the number of settled calls, and their output
    tokens.
    """
    row = state.execute("SELECT * FROM servers WHERE name = ?", [name]).fetchone()
    if row is None:
        state.execute("INSERT INTO servers VALUES (?, 0, 0, 0, 0)", [name])
    _, next_request, next_token, settled, output_tokens = row or (name, 0.0, 0.0, 0, 0)
    return next_request, next_token, settled, output_tokens


def _read_provider(state: sqlite3.Connection, name: str) -> ProviderState:
    row = state.execute("SELECT state FROM providers WHERE name = ?", [name]).fetchone()
    return ProviderState() if row is None else _parse_state(row[0])


def _parse_state(text: str) -> ProviderState:
    return ProviderState(**json.loads(text))


def _write_provider(state: sqlite3.Connection, name: str, provider_state: ProviderState) -> None:
    state.execute("INSERT OR REPLACE INTO providers VALUES (?, ?)", [name, json.dumps(asdict(provider_state))])


def _next_start(then: float, now: float, amount: float, per_minute: float | None) -> float:
    """Return the time of the next request or token; an allowance that was unused for more than a second is lost."""
    if per_minute is None:
        return then
    return max(then, now - 1) + amount * 60 / per_minute


def _count_lapsed(state: sqlite3.Connection, now: float) -> None:
    """Count expired reservations as spent: the processes of these calls have died without reporting the actual cost."""
    state.execute("UPDATE state SET spent = spent + (SELECT TOTAL(cost) FROM reserved WHERE until < ?)", [now])
    state.execute("DELETE FROM reserved WHERE until < ?", [now])


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(private(path), timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    # no sync is needed: the data survives a killed process, and need not survive a crash of the machine
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("BEGIN EXCLUSIVE")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")
    return connection


class Admission:
    """
    Decides when a call may be made, so that all processes together stay within the limits.

    A run's session creates one object for each model and server that it calls; all objects share their limits through a
    file. The threads of the runners call `enter` before a call and `leave` after the call. One thread at a time waits
    for a permit, and the other threads wait for that thread. Any thread may call `stop`, which ends all waiting;
    afterwards `enter` raises Refused. `close` is called last.
    """

    def __init__(
        self,
        shared: LimitsFile,
        *,
        price: Price | None = None,
        provider: str = "",
        server: str = "",
        concurrency: int | None = None,
        interrupted: Path | None = None,
        clock: Callable[[], float] = time.perf_counter,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._wait = wait
        self._price = price
        self._provider = provider
        self._server = server
        #: Maximum number of calls in flight while there are no problems; None if the number is not adapted to the
        #: provider.
        self._concurrency = concurrency
        #: File whose existence shows that a process has interrupted the run.
        self._interrupted = interrupted
        #: Number of calls in flight now, and the maximum number so far.
        self.in_flight = 0
        self.peak = 0
        self._counting = threading.Lock()
        #: Held by the thread that waits for a permit; the other threads of the process wait for that thread.
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._refusal = Refused(MissingReason.STOPPED, "the session ended first")

    @property
    def patience(self) -> float:
        """Seconds that a provider may ask one call to wait, summed over all tries of the call."""
        return self._shared.limits.patience

    def enter(self, estimate_of: Callable[[], Estimate]) -> Permit:
        """Wait until the call may be made; raise Refused if the run makes no more calls."""
        start = self._clock()
        if self._shared.idle:
            self._check()
            self._change_in_flight(1)
            return Permit(provider=self._provider, server=self._server)
        estimate = estimate_of()
        cost = self._cost(Usage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)) or 0.0
        with self._turn:
            while True:
                self._check()
                request = replace(estimate, share=self._share(self.in_flight + 1) if self.in_flight else 0.0)
                try:
                    admitted = self._shared.reserve(request, cost, self._provider, self._server)
                except Refused as refused:
                    if refused.reason is MissingReason.UNAVAILABLE:  # so that the remaining calls do not read the file
                        self.stop(refused)
                    raise
                except Exception as error:
                    self._give_up(error)
                    raise self._refusal from error
                if isinstance(admitted, Permit):
                    self._change_in_flight(1)
                    break
                self.sleep(min(admitted, _LONGEST_SLEEP))
        return replace(admitted, waited=self._clock() - start)

    def take_start(self, rate: ArrivalRate) -> float:
        """Return the next scheduled start of a call to the server; raise Refused if the run makes no more calls."""
        self._check()
        try:
            return self._shared.take_start(rate, self._server)
        except Refused:
            raise
        except Exception as error:
            self._give_up(error)
            raise self._refusal from error

    def wait_until(self, due: float) -> None:
        """
        Wait for a scheduled start; raise Refused if the run makes no more calls.

        Each thread waits for its own start, so that no call delays another.
        """
        while (left := due - self._shared.now()) > 0:
            self.sleep(min(left, _LONGEST_SLEEP))
            self._check()

    def seconds_late(self, due: float) -> float:
        """Return the seconds since a scheduled start."""
        return max(0.0, self._shared.now() - due)

    def leave(self, permit: Permit, end: CallEnd, *, usage: Usage | None = None) -> ProviderState:
        """
        Replace the reserved amounts by the actual usage of a call that has ended, and return the provider's state.

        If part of the usage is unknown, the reserved amount is kept for that part. If there is no usage at all, the
        call failed before an answer, and its whole reservation is released.
        """
        tokens = 0
        cost = 0.0
        output = None
        if usage is not None:
            tokens = permit.tokens if usage.total_tokens is None else usage.total_tokens
            price = self._cost(usage)
            cost = permit.cost if price is None else price
            output = usage.output_tokens
        self._change_in_flight(-1)
        try:
            return self._shared.account(
                permit,
                replace(end, share_in_flight=self._share(self.in_flight)),
                tokens=tokens,
                cost=cost,
                output=output,
            )
        except Exception as error:  # noqa: BLE001  the answer is paid for, and is kept
            self._give_up(error)
            return ProviderState()

    def _give_up(self, error: Exception) -> None:
        """Permit no more calls, because their usage can no longer be recorded."""
        why = describe_exhaustion(error) or describe_error(error)
        self.stop(Refused(MissingReason.EXHAUSTED, f"the limits of the run can no longer be enforced: {why}"))

    def _share(self, calls: int) -> float:
        """
        Return this number of calls as a fraction of the process's concurrency; 0 if the concurrency is not adapted to
        the provider.
        """
        return calls / self._concurrency if self._concurrency else 0.0

    def _change_in_flight(self, calls: int) -> None:
        with self._counting:
            self.in_flight += calls
            self.peak = max(self.peak, self.in_flight)

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price(usage)

    def stop(self, refusal: Refused | None = None) -> None:
        """Permit no more calls, and wake the waiting threads."""
        if refusal is not None and not self._stopped.is_set():
            self._refusal = refusal
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Wait this many seconds, or until `stop` is called."""
        self._wait(self._stopped, seconds)

    def close(self) -> None:
        """Stop, and close the shared limits."""
        self.stop()
        self._shared.close()

    def _check(self) -> None:
        if self._stopped.is_set() or (self._interrupted is not None and self._interrupted.exists()):
            raise self._refusal
