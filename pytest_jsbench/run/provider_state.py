"""
Track the state of a provider, which all processes of a run share, and compute when the next call may be made.

After a refusal (429), all calls wait; then only as many calls are in flight as the provider accepted. Without further
refusals, this number rises again, slowly at first. A provider that is down gets one call at a time until it answers. A
run gives up on the provider after --jsbench-patience, and at once if every further call would be rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_jsbench.core.generations import CallError, FaultKind

#: Fraction of the patience that applies to a server that has never answered, because its address may be wrong.
_PATIENCE_BEFORE_ANSWER = 0.1
#: Number of consecutive calls without a working server, after which only one call at a time is made.
_DOWN_AFTER = 10
#: Number of consecutive calls after which the run gives up if each had a fault that would affect every further call.
_FATAL_AFTER = 5
#: Number of rounds of refusals without an answer before the run may give up.
_ROUNDS = 3
#: Minimum fraction of the concurrency that remains after one round of refusals; also the maximum fraction while no call
#: is answered.
_MIN_SHARE = 1 / 4
#: Seconds without a refusal in which the concurrency rises from zero to its maximum. It rises with the third power of
#: the time: slowly near the number of calls that the provider accepted and faster later, since the provider may then
#: accept more calls.
_RECOVERY = 16.0
#: Seconds between checks whether another call may be in flight.
_CHECK_INTERVAL = 0.02
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Sign(StrEnum):
    """Conclusion about the provider's health from the end of one call."""

    ANSWERED = "answered"
    #: The fault may concern only this call.
    NOTHING = "nothing"
    #: The provider refused the call because there were too many calls.
    REFUSED = "refused"
    #: There is no server at the address, or the server does not work.
    DOWN = "down"
    #: The connection was closed, or the server failed, possibly because of this request alone.
    BROKEN = "broken"
    #: The key is invalid, the quota is used up or the model does not exist: every call would fail in this way.
    FATAL = "fatal"


_SIGNS = {
    FaultKind.RATE_LIMITED: Sign.REFUSED,
    FaultKind.CONNECTION: Sign.DOWN,
    FaultKind.SERVER: Sign.DOWN,
    FaultKind.AUTH: Sign.FATAL,
    FaultKind.QUOTA: Sign.FATAL,
    FaultKind.BAD_REQUEST: Sign.ANSWERED,
}
_NOT_FOUND, _INTERNAL_ERROR = 404, 500
#: Seconds without an answer during which failures of calls are attributed to the individual requests.
_BROKEN_ALONE = 10.0
#: Maximum number of characters of a fault's message.
_LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """The end of a call, with the facts that concern the state of the provider."""

    sign: Sign = Sign.ANSWERED
    message: str = ""
    #: Seconds that the provider asked to wait.
    retry_after: float | None = None
    #: Fraction of the process's concurrency that is still in flight when the call ends; after a refusal, these calls
    #: were accepted.
    share_in_flight: float = 1.0

    @classmethod
    def of(cls, error: CallError) -> CallEnd:
        """Return the CallEnd for a call that failed."""
        no_such_model = error.kind is FaultKind.BAD_REQUEST and error.status == _NOT_FOUND
        sign = Sign.FATAL if no_such_model else _SIGNS.get(error.kind, Sign.NOTHING)
        # Another schema may succeed: only refused connections and gateway errors show that the whole server is down.
        if sign is Sign.DOWN and (error.closed or error.status == _INTERNAL_ERROR):
            sign = Sign.BROKEN
        return cls(sign=sign, message=error.message[:_LONGEST_MESSAGE], retry_after=error.retry_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderState:
    """
    The state of a provider at one time; times are in monotonic seconds of one machine.

    `after` returns the next state for each call that ends. The caller must ensure that only one process at a time reads
    and writes the state.
    """

    #: Fraction of the concurrency that was allowed at the time of the last slowdown.
    share: float = 1.0
    #: Lower bound of the share when calls that were in flight together are refused.
    least: float = 0.0
    #: Time of the last slowdown; refused calls that began earlier do not reduce the share below `least`.
    slowed_at: float = 0.0
    paused_until: float = 0.0
    #: Time until which one call tests whether the provider works again.
    trying_until: float = 0.0
    #: Time since which no call has been answered, although calls ended; None if the last call was answered.
    failing_since: float | None = None
    #: Number of consecutive calls that found no working server.
    downs: int = 0
    fatals: int = 0
    #: Number of consecutive pauses without an answer.
    pauses: int = 0
    #: True if the provider has answered at least once.
    known: bool = False
    #: Message of the latest fault.
    message: str = ""
    #: Reason why no more calls are made; empty while they are made.
    given_up: str = ""

    @property
    def down(self) -> bool:
        """True while only one call at a time is made, to determine whether the provider works again."""
        return self.downs >= _DOWN_AFTER

    def share_at(self, now: float) -> float:
        """Return the fraction of each process's concurrency that is allowed at this time."""
        calm = max(now - max(self.slowed_at, self.paused_until), 0.0)
        return min(1.0, self.share + (calm / _RECOVERY) ** 3)

    def wait(self, now: float, share: float = 0.0) -> float:
        """
        Return the seconds until a call may be made, or until `wait` should be called again; `share` is the
        fraction of the process's concurrency that is in use, including the new call.
        """
        trying = min(self.trying_until - now, _SHORTEST_PAUSE) if self.down else 0.0
        full = _CHECK_INTERVAL if share > self.share_at(now) else 0.0
        return max(self.paused_until - now, trying, full)

    def after(self, end: CallEnd, *, began: float, now: float, patience: float) -> ProviderState:
        """Return the state after the end of a call that began at the given time."""
        match end.sign:
            case Sign.NOTHING if not self.down:
                return self
            case Sign.ANSWERED:
                return self._after_answer()
            case Sign.FATAL:
                state = replace(self, fatals=self.fatals + 1)
            case Sign.REFUSED if (end.retry_after or 0.0) > patience:
                state = replace(self, fatals=self.fatals + 1)
            case Sign.REFUSED:
                state = self._after_refusal(end, began=began, now=now)
            case Sign.BROKEN if not self.down and now - (self.failing_since or now) < _BROKEN_ALONE:
                return replace(self, failing_since=self.failing_since or now, message=end.message)
            case Sign.DOWN | Sign.BROKEN | Sign.NOTHING:
                state = replace(self, downs=self.downs + 1)
                if state.down and began >= self.slowed_at:
                    share = min(self.share_at(now), _MIN_SHARE)
                    state = replace(state._paused(now, None), share=share, trying_until=0.0)  # noqa: SLF001  its own class
        since = now if self.failing_since is None else self.failing_since
        state = replace(state, failing_since=since, message=end.message)
        return replace(state, given_up=self.given_up or state._why_give_up(now - since, patience))  # noqa: SLF001

    def _after_answer(self) -> ProviderState:
        return replace(
            self,
            paused_until=0.0 if self.down else self.paused_until,
            trying_until=0.0,
            failing_since=None,
            downs=0,
            fatals=0,
            pauses=0,
            known=True,
        )

    def _after_refusal(self, end: CallEnd, *, began: float, now: float) -> ProviderState:
        state = self
        if began >= self.slowed_at:
            share = self.share_at(now)
            least = min(share, _MIN_SHARE) if self.pauses else share * _MIN_SHARE
            state = replace(self._paused(now, end.retry_after), share=share, least=least)
        share = max(state.least, min(state.share, end.share_in_flight))
        return replace(state, share=share, paused_until=max(state.paused_until, now + (end.retry_after or 0.0)))

    def _paused(self, now: float, seconds: float | None) -> ProviderState:
        """
        Return the state with a pause as long as the provider asks; if the provider states no time, each pause is longer
        than the previous pause.
        """
        if seconds is None:
            seconds = min(_SHORTEST_PAUSE * 2.0**self.pauses, _LONGEST_PAUSE)
        until = max(self.paused_until, now + seconds)
        return replace(self, paused_until=until, pauses=self.pauses + 1, slowed_at=now)

    def _why_give_up(self, failing: float, patience: float) -> str:
        if self.fatals >= _FATAL_AFTER:
            return f"{self.fatals} calls in a row failed with: {self.message}"
        if self.down and failing >= (patience if self.known else patience * _PATIENCE_BEFORE_ANSWER):
            return f"no call was answered for {failing:.0f} s: {self.message}"
        if self.pauses >= _ROUNDS and failing >= patience:
            return f"all calls in the last {failing:.0f} s were rejected: {self.message}"
        return ""

    def describe(self, now: float) -> str:
        """Describe a problem for the progress line and the summary; return an empty text if there is no problem."""
        if self.given_up:
            return f"given up; the remaining attempts are not made: {self.given_up}"
        if self.down:
            return f"provider is down; retrying one call at a time: {self.message}"
        if (share := self.share_at(now)) < 1.0 or self.wait(now):
            waiting = f"; all calls wait {self.wait(now):.0f} s" if self.wait(now) >= 1 else ""
            return f"reduced to {100 * share:.0f} % of the concurrency after rejected calls{waiting}"
        return ""
