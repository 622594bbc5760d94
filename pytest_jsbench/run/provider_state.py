"""
The state of a provider, as all processes of a run know it together, and what that means for the next call.

A refusal (429) makes all calls wait, and after that no more are in flight than were borne; while nothing is refused
their number rises again, slowly at first. A provider that is down is asked by one call now and then, until it answers.
A run gives up after its patience, and at once where each call would be refused for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_jsbench.core.generations import CallError, FaultKind

#: the part of it for a server that has never answered: its address may be wrong
_AT_FIRST = 0.1
#: calls in a row that found nobody, or a broken server, after which only one at a time is made
_DOWN_AFTER = 10
#: calls in a row that each later call would share the fate of
_FATAL_AFTER = 5
#: rounds of refusals without an answer before the run may give up
_ROUNDS = 3
#: what one time of refusals leaves at least of the calls in flight; and what is left of all while nothing is answered
_LEAST = 1 / 4
#: seconds without a refusal in which the calls in flight rise from none to all, with the third power of the time: near
#: the number that was borne slowly, then ever faster, since the provider may bear more by now
_RISE = 16.0
#: seconds until it is looked again whether one more call may be in flight
_LOOK_AGAIN = 0.02
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Sign(StrEnum):
    """A sign of the provider's health, which the end of a call gives."""

    ANSWERED = "answered"
    #: what was wrong may have been this call's alone
    NOTHING = "nothing"
    #: too many calls
    REFUSED = "refused"
    #: nobody is there, or it is broken
    DOWN = "down"
    #: The connection was closed, or the server failed, maybe because of this request alone.
    BROKEN = "broken"
    #: no key, no money, no such model: each call would end so
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
#: Seconds without an answer during which broken calls are taken for faults of their own requests.
_BROKEN_ALONE = 10.0
#: characters of a fault's words
_LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """The end of a call, as far as it tells something of the provider."""

    sign: Sign = Sign.ANSWERED
    message: str = ""
    #: seconds that the provider asked to wait
    retry_after: float | None = None
    #: of the calls that its process may have in flight, those that still were: so many were borne where it was refused
    beside: float = 1.0

    @classmethod
    def of(cls, error: CallError) -> CallEnd:
        """The end of a call that broke."""
        no_such_model = error.kind is FaultKind.BAD_REQUEST and error.status == _NOT_FOUND
        sign = Sign.FATAL if no_such_model else _SIGNS.get(error.kind, Sign.NOTHING)
        # another schema may be answered: only connections that are refused, and gateways, speak for the whole server
        if sign is Sign.DOWN and (error.closed or error.status == _INTERNAL_ERROR):
            sign = Sign.BROKEN
        return cls(sign=sign, message=error.message[:_LONGEST_MESSAGE], retry_after=error.retry_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderState:
    """
    The state of a provider at one moment; times are monotonic seconds of one machine.

    `after` gives the next state for each call that ends. Whoever keeps it lets one process at a time read and write.
    """

    #: of the calls that each process may have in flight, when they were last slowed down
    share: float = 1.0
    #: to which refusals of calls that were in flight together bring it at the lowest
    least: float = 0.0
    #: when calls were last slowed down; the end of a call that began before says nothing new
    slowed_at: float = 0.0
    paused_until: float = 0.0
    #: until when one call is trying whether the provider is back
    trying_until: float = 0.0
    #: since when there was no answer, though calls ended; None: the last one was answered
    failing_since: float | None = None
    #: of calls in a row
    downs: int = 0
    fatals: int = 0
    #: pauses in a row without an answer
    pauses: int = 0
    #: whether it ever answered
    known: bool = False
    #: the latest fault
    message: str = ""
    #: why no more calls are made; empty while they are
    given_up: str = ""

    @property
    def down(self) -> bool:
        """True while only one call at a time is made, to find out whether it is back."""
        return self.downs >= _DOWN_AFTER

    def share_at(self, now: float) -> float:
        """Of the calls that each process may have in flight, those that it now may."""
        calm = max(now - max(self.slowed_at, self.paused_until), 0.0)
        return min(1.0, self.share + (calm / _RISE) ** 3)

    def wait(self, now: float, share: float = 0.0) -> float:
        """Seconds until a call may be made, or this may be asked again; with it so many would be in flight."""
        trying = min(self.trying_until - now, _SHORTEST_PAUSE) if self.down else 0.0
        full = _LOOK_AGAIN if share > self.share_at(now) else 0.0
        return max(self.paused_until - now, trying, full)

    def after(self, end: CallEnd, *, began: float, now: float, patience: float) -> ProviderState:
        """The state once a call has ended that began at that time."""
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
                    share = min(self.share_at(now), _LEAST)
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
            least = min(share, _LEAST) if self.pauses else share * _LEAST
            state = replace(self._paused(now, end.retry_after), share=share, least=least)
        share = max(state.least, min(state.share, end.beside))
        return replace(state, share=share, paused_until=max(state.paused_until, now + (end.retry_after or 0.0)))

    def _paused(self, now: float, seconds: float | None) -> ProviderState:
        """Pause for the seconds that the provider asks, or, where it says none, longer each time."""
        if seconds is None:
            seconds = min(_SHORTEST_PAUSE * 2.0**self.pauses, _LONGEST_PAUSE)
        until = max(self.paused_until, now + seconds)
        return replace(self, paused_until=until, pauses=self.pauses + 1, slowed_at=now)

    def _why_give_up(self, failing: float, patience: float) -> str:
        if self.fatals >= _FATAL_AFTER:
            return f"{self.fatals} calls in a row ended like this: {self.message}"
        if self.down and failing >= (patience if self.known else patience * _AT_FIRST):
            return f"no call was answered for {failing:.0f} s: {self.message}"
        if self.pauses >= _ROUNDS and failing >= patience:
            return f"each call was refused for {failing:.0f} s: {self.message}"
        return ""

    def describe(self, now: float) -> str:
        """Describe it to whoever watches; empty where all is well."""
        if self.given_up:
            return f"given up, what is left is not run: {self.given_up}"
        if self.down:
            return f"no answer, so one call at a time tries again: {self.message}"
        if (share := self.share_at(now)) < 1.0 or self.wait(now):
            waiting = f", all wait {self.wait(now):.0f} s" if self.wait(now) >= 1 else ""
            return f"slowed down to {100 * share:.0f} % of the calls in flight after refusals{waiting}"
        return ""
