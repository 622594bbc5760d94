"""Put layers around an engine: recorded answers, retries, and the limits that all processes of a run share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind, Request, Usage
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.engines.base import CachingEngine
from pytest_jsbench.records.records import AnsweredBy
from pytest_jsbench.records.setting_differences import REMEMBERED
from pytest_jsbench.run.limits import Admission, Estimate
from pytest_jsbench.run.provider_state import CallEnd, Sign

if TYPE_CHECKING:
    from pytest_jsbench.core.arrivals import ArrivalRate
    from pytest_jsbench.records.call_load import PlainCall

#: Faults after which the same call may succeed if it is retried.
RETRIED = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.TIMEOUT,
        FaultKind.CONNECTION,
        FaultKind.SERVER,
        FaultKind.BAD_RESPONSE,
    }
)
#: Faults of calls that the provider may have answered and charged for.
_MAY_COST = frozenset({FaultKind.TIMEOUT, FaultKind.BAD_RESPONSE})
#: Minimum number of bytes per token in a prompt or a schema.
_BYTES_PER_TOKEN = 2
_ONE_AT_A_TIME = "if single calls succeed, set --jsbench-concurrency=1"
#: Maximum number of seconds that a call may take beyond its own timeout.
_GRACE = 10.0
#: Maximum number of seconds before a retry, unless the provider asks for more.
_LONGEST_BACK_OFF = 30.0
#: Number of doublings after which the default first back-off exceeds the longest.
_DOUBLINGS = 6
_LONGEST_RETRY_AFTER = 120.0
#: Seconds that count as waiting time if the provider refuses a call (429) without stating how long to wait.
_SHORTEST_WAIT = 1.0


@dataclass(slots=True, kw_only=True)
class Tries:
    """The results of an attempt's earlier tries that affect the next try."""

    #: Seconds spent waiting for the limits.
    waited: float = 0.0
    #: Total number of seconds that the provider asked this call to wait.
    provider_wait: float = 0.0
    #: Number of tries that ended because the provider is overloaded, or down for all calls; these tries do not count as
    #: retries.
    uncounted: int = 0
    #: True if the latest try does not count: all calls then wait together for their next permit, and this call does not
    #: back off by itself.
    wait_together: bool = False
    #: True once the engine has answered the latest try, even if the answer turns out to be unusable.
    answered: bool = False
    #: Outcome of the latest failed try.
    fault: Failed | None = None
    #: True once the run has given up on the provider.
    given_up: bool = False
    #: Source of an answer that was taken from recordings; None if the run's engine was called.
    answered_by: AnsweredBy | None = None
    #: Number of tries before the last one.
    retries: int = 0
    #: Whether the call continues a conversation, so that it is no arrival of its own and has no scheduled start.
    continues: bool = False
    #: Scheduled start of the first try on the clock of the limits; None without a rate.
    due: float | None = None
    #: Seconds between the scheduled start and the begin of the first try; None without a rate.
    late: float | None = None
    #: Time when the first try began, in seconds since 1970; None before it.
    began: float | None = None
    #: Time when the last try ended, in seconds since 1970; None before it.
    ended: float | None = None
    #: Plain calls that were made next to the call.
    plain: list[PlainCall] = field(default_factory=list)

    def begin(self, now: float, admission: Admission | None) -> None:
        """Note that a try begins at this time, in seconds since 1970; only the first try counts."""
        self.answered = False
        if self.began is not None:
            return
        self.began = now
        if self.due is not None and admission is not None:
            self.late = admission.seconds_late(self.due)

    @property
    def counted(self) -> int:
        """The number of tries that count, including the last one."""
        return self.retries + 1 - self.uncounted


#: Makes one call, or passes it on to the layer below.
Call = Callable[[Request, Tries], Completion | Declined]


class Layer(Protocol):
    """A layer around an engine."""

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Answer the request, or pass it on to the layer below."""


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """Answers from the engine's recordings, which need no call and count towards no limit."""

    engine: CachingEngine

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Return the recorded answer, if any."""
        recorded = self.engine.remembered(request)
        if recorded is None:
            return below(request, tries)
        tries.answered_by = AnsweredBy(engine=REMEMBERED, model=recorded.model)
        return recorded.answer


@dataclass(frozen=True, slots=True)
class ScheduledStarts:
    """Starts of calls at a rate, whatever the answers do; retries of a call have no start of their own."""

    rate: ArrivalRate
    #: Limits, which keep the schedule of all processes, and whose end ends a wait.
    admission: Admission

    def take(self) -> float:
        """Return the next scheduled start; raise Refused if the run makes no more calls."""
        return self.admission.take_start(self.rate)

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Wait for the call's scheduled start, or else for the next one, and make the call."""
        if not tries.continues:
            tries.due = self.take() if tries.due is None else tries.due
            self.admission.wait_until(tries.due)
        return below(request, tries)


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries of a call after transient faults, each after a longer wait."""

    #: Maximum number of retries.
    most: int
    #: Limits, whose patience applies and whose end ends a wait; None if there are no limits.
    admission: Admission | None
    #: Waits for a number of seconds if there are no limits.
    sleep: Callable[[float], None]
    #: Maximum number of seconds before the first retry.
    first_back_off: float
    #: Returns a random number between two numbers.
    uniform: Callable[[float, float], float]

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Make the call, again after each transient fault; raise the fault of the last try."""
        sleep = self.sleep if self.admission is None else self.admission.sleep
        while True:
            try:
                return below(request, tries)
            except CallError as error:
                if not self._may_retry(request, error, tries):
                    raise
                wait = self._back_off(error, tries)
            tries.retries += 1
            sleep(wait)

    def _may_retry(self, request: Request, error: CallError, tries: Tries) -> bool:
        if request.origin.exchange is not None:  # an application retries its calls itself
            return False
        patience = _LONGEST_RETRY_AFTER if self.admission is None else self.admission.patience
        if error.kind not in RETRIED or (error.retry_after or 0.0) > patience or tries.provider_wait > patience:
            return False
        return not tries.given_up and tries.counted <= self.most

    def _back_off(self, error: CallError, tries: Tries) -> float:
        """
        Return the seconds to wait before the next try; 0 if the admission makes all calls wait.

        The wait has full jitter: it is a random part of a longest wait, which doubles with each try that counts. It is
        at least the provider's `Retry-After`.
        """
        if tries.wait_together:
            return 0.0
        longest = min(self.first_back_off * 2.0 ** min(tries.counted - 1, _DOUBLINGS), _LONGEST_BACK_OFF)
        return max(self.uniform(0.0, longest), error.retry_after or 0.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that all processes of a run share; the maximum usage of a call is reserved before the call."""

    admission: Admission

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Wait for a permit, make the call, and account for its usage."""
        admission = self.admission
        permit = admission.enter(lambda: maximum_usage(request))
        tries.waited += permit.waited
        in_flight = admission.in_flight
        usage = None
        end = CallEnd(sign=Sign.NOTHING)
        try:
            generation = below(request, tries)
            usage = generation.usage
            end = CallEnd()
        except CallError as error:
            usage = Usage() if error.kind in _MAY_COST else None
            if error.was_truncated and (most := max(in_flight, admission.in_flight)) > 1:
                error.message += f" ({most} calls were in flight; {_ONE_AT_A_TIME})"
            end = CallEnd.of(error)
            tries.fault = failed_call(error)
            raise
        finally:
            if usage is None and tries.answered:
                usage = Usage()
            state = admission.leave(permit, end, usage=usage)
            tries.given_up = bool(state.given_up)
            if end.sign is Sign.REFUSED:
                tries.provider_wait += end.retry_after or _SHORTEST_WAIT
            shared = end.sign is Sign.REFUSED or (end.sign is Sign.DOWN and state.down)
            tries.wait_together = shared and admission.patience > 0
            tries.uncounted += tries.wait_together
        return generation


def maximum_usage(request: Request) -> Estimate:
    """
    Estimate the maximum usage of a call; the schema counts in addition to the prompt, since most
    engines send both.
    """
    texts = (text for message in request.prompt.messages for text in message.texts)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    size += len(json.dumps(request.schema))
    size += 0 if request.offer is None else len(json.dumps(to_json(request.offer.tools)))
    return Estimate(
        input_tokens=-(-size // _BYTES_PER_TOKEN),
        output_tokens=request.params.max_tokens,
        seconds=request.params.timeout + _GRACE,
    )


def failed_call(error: CallError) -> Failed:
    """Return the outcome of a call that raised this error."""
    return Failed(kind=error.kind, message=error.message, status=error.status, broke_server=error.broke_server)
