"""Limits that all processes of a run share: requests and tokens a minute, money, and what the provider asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pytest_jsbench.core.generations import Usage
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from pytest_jsbench.metrics.prices import Price

_LONGEST_SLEEP = 1.0


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


class SharedLimits(Protocol):
    """The limits and their state: requests and tokens of this minute, US dollars spent, and pauses."""

    @property
    def limits(self) -> RateLimits:
        """The limits that the user set."""

    @property
    def idle(self) -> bool:
        """Whether every call may be made at once: there is no limit, and no provider has asked to wait."""

    def reserve(self, estimate: Estimate, cost: float) -> Permit | float:
        """A permit, or the seconds to wait before the next try; Refused where no call may be made any more."""

    def account(self, permit: Permit, *, tokens: int, cost: float, output: int | None = None) -> None:
        """Replace what was reserved by what was used, and count the output tokens where they are known."""

    def pause(self, seconds: float) -> None:
        """Let no process call for so many seconds."""

    def spent(self) -> float:
        """US dollars that settled calls have cost so far."""

    def spend(self, cost: float) -> None:
        """Add US dollars that were not paid for calls, such as those of a batch."""

    def close(self) -> None:
        """Let go of the file or the connection."""


class Admission:
    """
    Decides when a call may be made, so that all processes together keep the limits.

    A worker makes one for each model that it calls, the controller one to add what batches cost; all of a run share
    their limits, by a file (`limits_file`) or an address (`limits_address`). The threads of the runners call `enter`
    before a call, `settle` or `release` after it, and `pause` when a provider asks to wait. One thread of an Admission
    waits for a permit at a time, the others wait for that thread. `stop` ends all waiting, from any thread; after it
    `enter` raises Refused. `close` comes last.
    """

    def __init__(self, shared: SharedLimits, *, price: Price | None = None) -> None:
        self._shared = shared
        self._price = price
        #: one thread of a process waits at the head of its queue; the others wait for that one
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._refusal = Refused(MissingReason.STOPPED, "the session ended first")

    def enter(self, estimate_of: Callable[[], Estimate]) -> Permit:
        """Wait until the call may be made; Refused where it may not."""
        start = time.perf_counter()
        if self._shared.idle:
            self._check()
            return Permit()
        estimate = estimate_of()
        cost = self._cost(Usage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)) or 0.0
        with self._turn:
            while True:
                self._check()
                admitted = self._shared.reserve(estimate, cost)
                if isinstance(admitted, Permit):
                    break
                self.sleep(min(admitted, _LONGEST_SLEEP))
        return replace(admitted, waited=time.perf_counter() - start)

    def settle(self, permit: Permit, usage: Usage) -> None:
        """Replace what was reserved by what was used; where that is not known the reservation stands."""
        known, cost = usage.total_tokens, self._cost(usage)
        tokens = permit.tokens if known is None else known
        self._shared.account(
            permit, tokens=tokens, cost=permit.cost if cost is None else cost, output=usage.output_tokens
        )

    def release(self, permit: Permit) -> None:
        """Give back what was reserved: the call failed before there was an answer."""
        self._shared.account(permit, tokens=0, cost=0.0)

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price(usage)

    def pause(self, seconds: float) -> None:
        """Let no process call for so many seconds: a provider's request to wait holds for all."""
        if not self._stopped.is_set():
            self._shared.pause(seconds)

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
        return self._shared.spent()

    def spend(self, cost: float) -> None:
        """Add US dollars that were not paid for calls, such as those of a batch."""
        self._shared.spend(cost)

    def close(self) -> None:
        """Stop, and let go of the shared limits."""
        self.stop()
        self._shared.close()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise self._refusal
