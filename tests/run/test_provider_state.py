from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass, field

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign

REFUSED = CallEnd(sign=Sign.REFUSED, message="slow down")
DOWN = CallEnd(sign=Sign.DOWN, message="connection refused")
FATAL = CallEnd(sign=Sign.FATAL, message="no such key")
ANSWERED = CallEnd()
PATIENCE = 300.0


@dataclass(slots=True)
class Provider:
    """One provider's state, with a clock that only the test advances."""

    now: float = 1000.0
    state: ProviderState = field(default_factory=ProviderState)

    def ends(self, *ends: CallEnd, began: float | None = None) -> ProviderState:
        for end in ends:
            at = self.now if began is None else began
            self.state = self.state.after(end, began=at, now=self.now, patience=PATIENCE)
        return self.state

    def tried_until_given_up(self, end: CallEnd) -> float:
        """Return the seconds until the run gives up, if each call is made as soon as allowed."""
        started = self.now
        while not self.state.given_up:
            self.now += self.state.wait(self.now)
            self.ends(end)
        return self.now - started


@pytest.fixture
def provider() -> Provider:
    return Provider()


def refused(*, share_in_flight: float, retry_after: float | None = None) -> CallEnd:
    return CallEnd(sign=Sign.REFUSED, share_in_flight=share_in_flight, retry_after=retry_after)


def test_refusals_bring_the_calls_in_flight_to_those_that_were_borne(provider: Provider) -> None:
    began = provider.now
    provider.now += 0.1
    provider.ends(*[refused(share_in_flight=others / 64) for others in range(63, 19, -1)], began=began)

    assert provider.state.share_at(provider.now) == 20 / 64
    assert provider.state.wait(provider.now) == 1
    provider.now += 1
    assert provider.state.wait(provider.now, 20 / 64) == 0
    assert provider.state.wait(provider.now, 21 / 64) > 0


def test_refusals_leave_at_least_a_quarter_of_the_concurrency(provider: Provider) -> None:
    shares = []
    for _ in range(5):
        shares.append(provider.ends(refused(share_in_flight=0)).share)
        provider.now += provider.state.wait(provider.now)
    provider.ends(ANSWERED)
    shares.append(provider.ends(refused(share_in_flight=0)).share)

    assert shares == [0.25] * 5 + [0.25 / 4]


def test_all_wait_as_long_as_the_provider_asks(provider: Provider) -> None:
    provider.ends(CallEnd(sign=Sign.REFUSED, retry_after=20))
    assert provider.state.wait(provider.now) == 20
    # an answer to an earlier call does not end the pause
    provider.ends(ANSWERED)
    assert provider.state.wait(provider.now) == 20
    provider.now += 20
    assert provider.state.wait(provider.now) == 0


def test_where_it_does_not_say_how_long_pauses_grow_until_an_answer(provider: Provider) -> None:
    pauses = []
    for _ in range(7):
        provider.ends(REFUSED)
        pauses.append(provider.state.wait(provider.now))
        provider.now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    provider.ends(ANSWERED, REFUSED)
    assert provider.state.wait(provider.now) == 1


def test_concurrency_recovers_slowly_and_then_faster(provider: Provider) -> None:
    provider.ends(refused(share_in_flight=0.25, retry_after=60))
    calm = provider.now + 60

    shares = [provider.state.share_at(calm + seconds) for seconds in (-30, 0, 4, 8, 16)]

    assert shares == [0.25, 0.25, 0.25 + 1 / 64, 0.25 + 1 / 8, 1.0]
    assert not provider.state.describe(calm + 16)


def test_a_minutes_limit_is_outlived(provider: Provider) -> None:
    for _ in range(100):
        provider.ends(CallEnd(sign=Sign.REFUSED, retry_after=60))
        provider.now += 60
        provider.ends(ANSWERED)
    assert not provider.state.given_up


def test_a_provider_that_refuses_all_is_given_up_after_the_patience(provider: Provider) -> None:
    assert PATIENCE <= provider.tried_until_given_up(REFUSED) < PATIENCE + 30
    assert provider.state.given_up.endswith("slow down")


def test_a_single_refusal_before_a_long_silence_is_no_reason_to_give_up(provider: Provider) -> None:
    provider.ends(REFUSED)
    provider.now += 2 * PATIENCE
    assert not provider.ends(REFUSED).given_up


def test_a_pause_longer_than_the_patience_is_a_reason_to_give_up_at_once(provider: Provider) -> None:
    assert provider.ends(*[CallEnd(sign=Sign.REFUSED, retry_after=86_400)] * 5).given_up
    assert provider.now == Provider().now


def test_nine_broken_calls_are_nine_broken_calls(provider: Provider) -> None:
    provider.ends(*[DOWN] * 9, ANSWERED, *[DOWN] * 9)
    assert not provider.state.down
    assert provider.state.wait(provider.now) == 0


def test_a_provider_that_is_down_is_tried_now_and_then_until_it_answers(provider: Provider) -> None:
    provider.ends(ANSWERED, *[DOWN] * 10)
    waits = []
    for _ in range(6):
        waits.append(provider.state.wait(provider.now))
        provider.now += waits[-1]
        provider.ends(DOWN)
    assert waits == [1, 2, 4, 8, 16, 30]
    assert "connection refused" in provider.state.describe(provider.now)

    provider.ends(ANSWERED)
    assert not provider.state.down
    # calls do not all start at once when the provider is back
    assert provider.state.wait(provider.now, 1 / 4) == 0
    assert provider.state.wait(provider.now, 1 / 2) > 0


def test_calls_in_flight_at_an_outage_do_not_extend_the_pause(provider: Provider) -> None:
    began = provider.now
    provider.now += 1
    provider.ends(*[DOWN] * 64, began=began)
    assert provider.state.wait(provider.now) == 1


def test_a_call_without_an_answer_is_none_while_it_is_down(provider: Provider) -> None:
    provider.ends(*[DOWN] * 10)
    provider.now += 1
    provider.ends(CallEnd(sign=Sign.NOTHING))
    assert provider.state.wait(provider.now) == 2


@pytest.mark.parametrize(("known", "least"), [(True, PATIENCE), (False, PATIENCE / 10)])
def test_provider_that_never_answered_is_given_up_sooner(provider: Provider, known: bool, least: float) -> None:
    if known:
        provider.ends(ANSWERED)
    assert least <= provider.tried_until_given_up(DOWN) < least + 30


def test_what_would_break_each_call_ends_the_run_after_a_few(provider: Provider) -> None:
    provider.ends(*[FATAL] * 4, ANSWERED, *[FATAL] * 4)
    assert not provider.state.given_up
    assert provider.ends(FATAL).given_up == "5 calls in a row failed with: no such key"


@pytest.mark.parametrize(
    ("kind", "status", "sign"),
    [
        (FaultKind.RATE_LIMITED, 429, Sign.REFUSED),
        (FaultKind.CONNECTION, None, Sign.DOWN),
        (FaultKind.SERVER, 503, Sign.DOWN),
        # possibly the fault of one request
        (FaultKind.SERVER, 500, Sign.BROKEN),
        (FaultKind.AUTH, 401, Sign.FATAL),
        (FaultKind.QUOTA, 429, Sign.FATAL),
        # unknown model
        (FaultKind.BAD_REQUEST, 404, Sign.FATAL),
        # the fault of one request
        (FaultKind.BAD_REQUEST, 400, Sign.ANSWERED),
        # the model may be slow
        (FaultKind.TIMEOUT, None, Sign.NOTHING),
        (FaultKind.BAD_RESPONSE, None, Sign.NOTHING),
        (FaultKind.CRASH, None, Sign.NOTHING),
    ],
)
def test_what_a_broken_call_says_of_the_provider(kind: FaultKind, status: int | None, sign: Sign) -> None:
    assert CallEnd.of(CallError(kind, "m", status=status)).sign is sign


def test_closed_connection_says_less_of_the_provider_than_a_refused_one() -> None:
    assert CallEnd.of(CallError(FaultKind.CONNECTION, "m", closed=True)).sign is Sign.BROKEN


@dataclass(slots=True, kw_only=True)
class Limited:
    """A provider that refuses calls beyond its limit (Retry-After: 1), and a run with a simulated clock."""

    #: Number of calls that are refused in any case.
    first: int = 0
    #: Calls per second; those of one second may arrive together.
    rate: float = float("inf")
    at_once: int = 1000
    latency: float = 0.2
    now: float = 1000.0
    state: ProviderState = field(default_factory=ProviderState)
    #: Time of each call.
    calls: list[float] = field(default_factory=list)
    refusals: int = 0
    #: Time of the latest accepted call, and how many more would have been accepted then.
    room: tuple[float, float] = (0.0, 0.0)
    #: End, beginning and refusal of each call in flight.
    flying: list[tuple[float, float, bool]] = field(default_factory=list)

    def run(self, cases: int, *, in_flight: int) -> float:
        """Return the seconds until all cases are answered."""
        started = self.now
        while cases:
            share = (len(self.flying) + 1) / in_flight if self.flying else 0.0
            wait = self.state.wait(self.now, share)
            if len(self.flying) < min(in_flight, cases) and not wait:
                self._begin()
            elif self.flying and (self.flying[0][0] <= self.now + wait or not wait):
                cases -= self._end(in_flight)
            else:
                self.now += wait
        return self.now - started

    def _begin(self) -> None:
        at, room = self.room
        room = min(self.rate, room + (self.now - at) * self.rate)
        borne = sum(not refused for _, _, refused in self.flying) < self.at_once
        refused = len(self.calls) < self.first or room < 1 or not borne
        self.room = (self.now, room - (not refused))
        self.calls.append(self.now)
        heapq.heappush(self.flying, (self.now + (0.02 if refused else self.latency), self.now, refused))

    def _end(self, in_flight: int) -> bool:
        ends, began, refused = heapq.heappop(self.flying)
        self.now = max(self.now, ends)
        self.refusals += refused
        end = (
            CallEnd(sign=Sign.REFUSED, retry_after=1, share_in_flight=len(self.flying) / in_flight)
            if refused
            else ANSWERED
        )
        self.state = self.state.after(end, began=began, now=self.now, patience=PATIENCE)
        return not refused

    def most_together(self) -> int:
        """Return the maximum number of calls within a tenth of a second, after the first refusals."""
        later = [call for call in self.calls if call > self.calls[0] + 0.5]
        return max(bisect_left(later, call + 0.1) - place for place, call in enumerate(later))


@pytest.mark.parametrize(
    ("provider", "permitted", "refusals", "together"),
    [
        (Limited(first=300), 26, 300, 20),
        (Limited(rate=20), 500 / 20, 70, 20),
        (Limited(rate=200), 500 / 200, 10, 64),
        (Limited(at_once=16), 500 * 0.2 / 16, 60, 20),
        (Limited(at_once=4), 500 * 0.2 / 4, 90, 16),
        (Limited(at_once=1), 500 * 0.2, 180, 16),
        (Limited(rate=5, latency=10), 500 / 5 + 10, 110, 11),
        (Limited(at_once=16, latency=10), 500 * 10 / 16, 120, 20),
    ],
    ids=lambda value: "" if isinstance(value, Limited) else str(value),
)
def test_a_run_takes_about_as_long_as_the_providers_limit_makes_it(
    provider: Limited, permitted: float, refusals: int, together: int
) -> None:
    seconds = provider.run(500, in_flight=64)

    assert seconds <= 1.4 * permitted + 1
    assert provider.refusals <= refusals
    assert provider.most_together() <= together


BROKEN = CallEnd(sign=Sign.BROKEN, message="the connection was closed")


def test_calls_that_break_alone_do_not_slow_down_the_others(provider: Provider) -> None:
    provider.ends(ANSWERED, *[BROKEN] * 40)
    assert (provider.state.down, provider.state.wait(provider.now, 1.0)) == (False, 0)

    provider.now += 9
    provider.ends(*[BROKEN] * 20, ANSWERED)
    provider.now += 9
    provider.ends(*[BROKEN] * 20)
    assert not provider.state.down


def test_provider_that_breaks_each_call_for_longer_is_down(provider: Provider) -> None:
    provider.ends(ANSWERED, BROKEN)
    provider.now += 10
    provider.ends(*[BROKEN] * 10)
    assert provider.state.down
    assert PATIENCE - 10 <= provider.tried_until_given_up(BROKEN) < PATIENCE + 30
