from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.runner.provider_state import CallEnd, ProviderState, Sign

REFUSED = CallEnd(sign=Sign.REFUSED, message="slow down")
DOWN = CallEnd(sign=Sign.DOWN, message="connection refused")
FATAL = CallEnd(sign=Sign.FATAL, message="no such key")
ANSWERED = CallEnd()
PATIENCE = 300.0


@dataclass(slots=True)
class Provider:
    """One provider's state, and a clock that goes on only where a test says so."""

    now: float = 1000.0
    state: ProviderState = field(default_factory=ProviderState)

    def ends(self, *ends: CallEnd, began: float | None = None) -> ProviderState:
        for end in ends:
            at = self.now if began is None else began
            self.state = self.state.after(end, began=at, now=self.now, patience=PATIENCE)
        return self.state

    def tried_until_given_up(self, end: CallEnd) -> float:
        """Seconds until the run gives up, where each call is made as soon as it may be."""
        started = self.now
        while not self.state.given_up:
            self.now += self.state.wait(self.now)
            self.ends(end)
        return self.now - started


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_calls_that_were_in_flight_together_halve_their_number_once(provider: Provider) -> None:
    began = provider.now
    provider.now += 1
    provider.ends(*[REFUSED] * 60, began=began)

    assert provider.state.share == 0.5
    provider.now += 1
    provider.ends(REFUSED)
    assert provider.state.share == 0.25
    provider.ends(*[REFUSED] * 60)
    assert provider.state.share == 0.125


def test_all_wait_as_long_as_the_provider_asks(provider: Provider) -> None:
    provider.ends(CallEnd(sign=Sign.REFUSED, retry_after=20))
    assert provider.state.wait(provider.now) == 20
    # an answer to a call of before is no word against that
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


def test_the_number_in_flight_rises_again_by_steps_while_answers_come(provider: Provider) -> None:
    provider.ends(REFUSED, REFUSED, REFUSED)
    shares = []
    for _ in range(40):
        provider.now += 1
        shares.append(provider.ends(*[ANSWERED] * 50).share)
    assert shares[:2] == [0.125 + 1 / 16, 0.125 + 2 / 16]
    assert shares[-1] == 1.0
    assert not provider.state.describe(provider.now)


def test_a_long_pause_is_no_reason_to_rise_by_more_than_a_step(provider: Provider) -> None:
    provider.ends(REFUSED)
    provider.now += 60
    assert provider.ends(ANSWERED).share == 0.5 + 1 / 16


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
    assert provider.state.wait(provider.now) == 0


def test_calls_that_were_in_flight_when_it_went_down_do_not_lengthen_the_pause(provider: Provider) -> None:
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
def test_a_provider_that_stays_down_is_given_up_sooner_if_it_never_answered(
    provider: Provider, known: bool, least: float
) -> None:
    if known:
        provider.ends(ANSWERED)
    assert least <= provider.tried_until_given_up(DOWN) < least + 30


def test_what_would_break_each_call_ends_the_run_after_a_few(provider: Provider) -> None:
    provider.ends(*[FATAL] * 4, ANSWERED, *[FATAL] * 4)
    assert not provider.state.given_up
    assert provider.ends(FATAL).given_up == "5 calls in a row ended like this: no such key"


@pytest.mark.parametrize(
    ("kind", "status", "sign"),
    [
        (FaultKind.RATE_LIMITED, 429, Sign.REFUSED),
        (FaultKind.CONNECTION, None, Sign.DOWN),
        (FaultKind.SERVER, 503, Sign.DOWN),
        (FaultKind.AUTH, 401, Sign.FATAL),
        (FaultKind.QUOTA, 429, Sign.FATAL),
        # no such model
        (FaultKind.BAD_REQUEST, 404, Sign.FATAL),
        # what is wrong with one request
        (FaultKind.BAD_REQUEST, 400, Sign.ANSWERED),
        # the model may be slow
        (FaultKind.TIMEOUT, None, Sign.NOTHING),
        (FaultKind.BAD_RESPONSE, None, Sign.NOTHING),
        (FaultKind.CRASH, None, Sign.NOTHING),
    ],
)
def test_what_a_broken_call_says_of_the_provider(kind: FaultKind, status: int | None, sign: Sign) -> None:
    assert CallEnd.of(CallError(kind, "m", status=status)).sign is sign
