"""
Limits that all processes of a run share: requests and tokens a minute, money, and what the provider bears.

Their state is one SQLite file, which outlives a killed process. Requests and tokens are spread evenly over the minute,
which is how providers refill. Before a call its tokens are reserved at the mean of the calls so far, and its cost at
the most that it can be; after the call both are replaced by what it used, so that the cost keeps its limit.
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

from pytest_jsbench.core.errors import exhausted
from pytest_jsbench.core.files import private
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.core.text import described
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign
from pytest_jsbench.settings.plan import RateLimits

if TYPE_CHECKING:
    from pytest_jsbench.metrics.prices import Price

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
_LONGEST_SLEEP = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that one call can use."""

    input_tokens: int
    output_tokens: int
    #: seconds until it has ended, with or without an answer
    seconds: float
    #: of the calls that its process may have in flight, those that are with it; 0: it is the only one
    share: float = 0.0


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
    #: who is called
    provider: str = ""
    #: whose requests and tokens of this minute it counts among
    server: str = ""
    #: when it was given, by the clock of whoever keeps the state; 0: nothing was wrong with any provider
    began: float = 0.0


class LimitsFile:
    """
    The limits of a run, as one process sees them in the file.

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
        """True while every call may be made at once: without a limit, and before a provider refuses or breaks one."""
        return not self.limits.any and not self._path.exists()

    def reserve(self, estimate: Estimate, cost: float, provider: str = "", server: str = "") -> Permit | float:
        """
        Reserve what a call can use, or return the seconds to wait; Refused where no call may be made any more.

        The cost is limited for all calls together, requests and tokens a minute for those of each server.
        """
        now = time.monotonic()
        with self._state() as state:
            (refused,) = state.execute("SELECT refused FROM state").fetchone()
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
                _count_lapsed(state, now)
                (spent,) = state.execute("SELECT spent FROM state").fetchone()
                (reserved,) = state.execute("SELECT TOTAL(cost) FROM reserved").fetchone()
                if refused or spent + cost > most:
                    state.execute("UPDATE state SET refused = 1")
                    raise Refused(MissingReason.LIMIT, f"--jsbench-max-cost={most:g} would be passed")
                if spent + reserved + cost > most:
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
        """
        Replace what was reserved by what was used, and count the output tokens where they are known.

        The result is the state of the provider, now that this call has ended so.
        """
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
                deleted = state.execute("DELETE FROM reserved WHERE id = ?", [permit.reservation]).rowcount
                # a reservation that has expired was counted as spent
                state.execute("UPDATE state SET spent = spent + ?", [cost if deleted else cost - permit.cost])
            if limits.tokens_per_minute is not None:
                back = (permit.tokens - tokens) * 60 / limits.tokens_per_minute
                state.execute("UPDATE servers SET next_token = next_token - ? WHERE name = ?", [back, permit.server])
            if output is not None and limits.any:
                state.execute(
                    "UPDATE servers SET output_tokens = output_tokens + ?, settled = settled + 1 WHERE name = ?",
                    [output, permit.server],
                )
            before = _provider(state, permit.provider)
            state_before = replace(before, known=before.known or permit.provider in self._answered)
            after = state_before.after(end, began=permit.began, now=now, patience=limits.patience)
            if after != before:
                _keep(state, permit.provider, after)
        return after

    def providers(self) -> dict[str, ProviderState]:
        """The state of each provider; empty where no call was ever refused or broken."""
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
    """Read when its next request may start and its next token may be asked for; settled calls and their tokens out."""
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
    """Reckon when the next may start; an allowance that is unused for more than a second is lost."""
    if per_minute is None:
        return then
    return max(then, now - 1) + amount * 60 / per_minute


def _count_lapsed(state: sqlite3.Connection, now: float) -> None:
    """Count as spent what calls had reserved that are over by now: their process has died."""
    state.execute("UPDATE state SET spent = spent + (SELECT TOTAL(cost) FROM reserved WHERE until < ?)", [now])
    state.execute("DELETE FROM reserved WHERE until < ?", [now])


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


class Admission:
    """
    Decides when a call may be made, so that all processes together keep the limits.

    A run's session makes one for each model and server that it calls; all share their limits by a file. The threads of
    the runners call `enter` before a call and `leave` after it. One thread of an Admission waits for a permit at a
    time, the others wait for that thread. `stop` ends all waiting, from any thread; after it `enter` raises Refused.
    `close` comes last.
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
    ) -> None:
        self._shared = shared
        self._price = price
        self._provider = provider
        self._server = server
        #: calls in flight where nothing is wrong; None: their number is not adapted
        self._concurrency = concurrency
        #: a file that is there once the run is interrupted, in whichever process
        self._interrupted = interrupted
        #: calls in flight, and the most of them so far
        self.flying = 0
        self.peak = 0
        self._counting = threading.Lock()
        #: one thread of a process waits at the head of its queue; the others wait for that one
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._refusal = Refused(MissingReason.STOPPED, "the session ended first")

    @property
    def patience(self) -> float:
        """Seconds that a provider may ask one call to wait, over all its tries."""
        return self._shared.limits.patience

    def enter(self, estimate_of: Callable[[], Estimate]) -> Permit:
        """Wait until the call may be made; Refused where it may not."""
        start = time.perf_counter()
        if self._shared.idle:
            self._check()
            self._fly(1)
            return Permit(provider=self._provider, server=self._server)
        estimate = estimate_of()
        cost = self._cost(Usage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)) or 0.0
        with self._turn:
            while True:
                self._check()
                request = replace(estimate, share=self._part_of(self.flying + 1) if self.flying else 0.0)
                try:
                    admitted = self._shared.reserve(request, cost, self._provider, self._server)
                except Refused as refused:
                    if refused.reason is MissingReason.UNAVAILABLE:  # the file need not be asked for each call left
                        self.stop(refused)
                    raise
                except Exception as error:
                    self._give_up(error)
                    raise self._refusal from error
                if isinstance(admitted, Permit):
                    self._fly(1)
                    break
                self.sleep(min(admitted, _LONGEST_SLEEP))
        return replace(admitted, waited=time.perf_counter() - start)

    def leave(self, permit: Permit, end: CallEnd, *, usage: Usage | None = None) -> ProviderState:
        """
        Replace what was reserved by what was used, now that the call has ended so; the result is the provider's state.

        A part of the usage that is not known stands as it was reserved. Without any usage the call failed before there
        was an answer, and all is given back.
        """
        tokens, cost, output = 0, 0.0, None
        if usage is not None:
            tokens = permit.tokens if usage.total_tokens is None else usage.total_tokens
            price = self._cost(usage)
            cost, output = permit.cost if price is None else price, usage.output_tokens
        self._fly(-1)
        try:
            return self._shared.account(
                permit,
                replace(end, beside=self._part_of(self.flying)),
                tokens=tokens,
                cost=cost,
                output=output,
            )
        except Exception as error:  # noqa: BLE001  the answer is paid for, and stands
            self._give_up(error)
            return ProviderState()

    def _give_up(self, error: Exception) -> None:
        """Permit no more calls, since nobody knows any longer what they would come to."""
        why = exhausted(error) or described(error)
        self.stop(Refused(MissingReason.EXHAUSTED, f"the limits of the run can no longer be kept: {why}"))

    def _part_of(self, calls: int) -> float:
        """So many calls, of those that this process may have in flight; 0 where their number is not adapted."""
        return calls / self._concurrency if self._concurrency else 0.0

    def _fly(self, calls: int) -> None:
        with self._counting:
            self.flying += calls
            self.peak = max(self.peak, self.flying)

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price(usage)

    def stop(self, refusal: Refused | None = None) -> None:
        """Permit no more calls, and wake the threads that wait."""
        if refusal is not None and not self._stopped.is_set():
            self._refusal = refusal
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds, or until `stop`."""
        self._stopped.wait(seconds)

    def close(self) -> None:
        """Stop, and let go of the shared limits."""
        self.stop()
        self._shared.close()

    def _check(self) -> None:
        if self._stopped.is_set() or (self._interrupted is not None and self._interrupted.exists()):
            raise self._refusal
