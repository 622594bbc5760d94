"""Limits that all processes of a run share: requests and tokens a minute, money, and what the provider bears."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pytest_jsbench.core.arguments import arguments, number
from pytest_jsbench.core.errors import exhausted
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.core.text import described
from pytest_jsbench.runner.provider_state import PATIENCE, CallEnd, ProviderState
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.metrics.prices import Price

_LONGEST_SLEEP = 1.0


@arguments(
    requests_per_minute=number("a number above 0", above=0),
    tokens_per_minute=number("a number above 0", above=0),
    max_cost=number("US dollars, at least 0", least=0),
    patience=number("seconds, at least 0", least=0),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits that a user sets for a run; None: no limit. Those of a minute hold for each server by itself."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    #: US dollars
    max_cost: float | None = None
    #: seconds without any answer after which the run gives up on a provider
    patience: float = PATIENCE

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_cost is None)


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


class SharedLimits(Protocol):
    """The limits and their state: requests and tokens of this minute, US dollars spent, and how providers are doing."""

    @property
    def limits(self) -> RateLimits:
        """The limits that the user set."""

    @property
    def idle(self) -> bool:
        """Whether every call may be made at once: there is no limit, and no provider has refused or broken a call."""

    def reserve(self, estimate: Estimate, cost: float, provider: str = "", server: str = "") -> Permit | float:
        """
        A permit, or the seconds to wait before the next try; Refused where no call may be made any more.

        The cost is limited for all calls together, requests and tokens a minute for those of each server.
        """

    def account(
        self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None = None
    ) -> ProviderState:
        """
        Replace what was reserved by what was used, and count the output tokens where they are known.

        What comes back is how the provider is doing, now that this call has ended so.
        """

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
    their limits by a file (`limits_file`). The threads of the runners call `enter`
    before a call and `leave` after it. One thread of an Admission waits for a permit at a time, the others wait for
    that thread. `stop` ends all waiting, from any thread; after it `enter` raises Refused. `close` comes last.
    """

    def __init__(
        self,
        shared: SharedLimits,
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
        #: calls in flight
        self.flying = 0
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
                asked = replace(estimate, share=self._part_of(self.flying + 1) if self.flying else 0.0)
                try:
                    admitted = self._shared.reserve(asked, cost, self._provider, self._server)
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
        Say how the call ended, and replace what was reserved by what was used.

        What of the usage is not known stands as it was reserved; without any, the call failed before there was an
        answer, and all is given back. What comes back is how the provider is doing.
        """
        tokens = cost = output = None
        if usage is None:
            tokens, cost = 0, 0.0
        else:
            tokens, cost, output = usage.total_tokens, self._cost(usage), usage.output_tokens
        self._fly(-1)
        try:
            state = self._shared.account(
                permit,
                replace(end, beside=self._part_of(self.flying)),
                tokens=permit.tokens if tokens is None else tokens,
                cost=permit.cost if cost is None else cost,
                output=output,
            )
        except Exception as error:  # noqa: BLE001  the answer is paid for, and stands
            self._give_up(error)
            state = ProviderState()
        return state

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
        if self._stopped.is_set() or (self._interrupted is not None and self._interrupted.exists()):
            raise self._refusal
