from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.arrivals import ArrivalRate
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.limits import Admission, Estimate, LimitsFile, Permit, Refused
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign
from tests.support.clock import Clock

#: A call with 100 tokens in and at most 1,000 out, which ends after a minute.
ESTIMATE = Estimate(input_tokens=100, output_tokens=1000, seconds=60)


def price(usage: Usage) -> float | None:
    """Return one cent per thousand tokens."""
    return None if usage.total_tokens is None else usage.total_tokens / 100_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def admission(path: Path, clock: Clock, **options: Any) -> Admission:
    """Return the admission of a process, which waits without taking time."""
    return Admission(LimitsFile(path, RateLimits(), clock=clock.read), clock=clock.read, wait=clock.wait, **options)


def wait_for_start(admission: Admission, rate: ArrivalRate) -> float:
    due = admission.take_start(rate)
    admission.wait_until(due)
    return due


class Two:
    """The admissions of two processes that share their limits."""

    def __init__(self, first: LimitsFile, second: LimitsFile, clock: Clock) -> None:
        self.spent = first.spent
        first_admission, second_admission = (
            Admission(shared, price=price, clock=clock.read, wait=clock.wait) for shared in (first, second)
        )
        self.both = (first_admission, second_admission)

    def enter(self, number: int, estimate: Estimate = ESTIMATE) -> Permit:
        return self.both[number % 2].enter(lambda: estimate)


@pytest.fixture
def two_with(path: Path, close: list[Admission], clock: Clock) -> Callable[..., Two]:
    """Create the admissions of two processes on one file."""

    def make(**reported: float) -> Two:
        first, second = (LimitsFile(path, RateLimits(**reported), clock=clock.read) for _ in range(2))
        two = Two(first, second, clock)
        close.extend(two.both)
        return two

    return make


@pytest.fixture
def close() -> Iterator[list[Admission]]:
    opened: list[Admission] = []
    yield opened
    for admission in opened:
        admission.close()


def test_without_limits_nothing_is_estimated_and_nothing_is_written(path: Path) -> None:
    def never() -> Estimate:
        raise AssertionError

    admission = Admission(LimitsFile(path, RateLimits()))
    admission.leave(admission.enter(never), CallEnd(), usage=Usage(input_tokens=1, output_tokens=1))
    admission.close()

    assert not path.exists()


def test_provider_that_has_answered_is_known_without_a_file(path: Path) -> None:
    shared = LimitsFile(path, RateLimits())
    permit = Permit(provider="engine m")

    shared.account(permit, CallEnd(), tokens=1, cost=0.0)
    unknown = shared.account(Permit(provider="engine o"), CallEnd(sign=Sign.DOWN), tokens=0, cost=0.0)
    known = shared.account(permit, CallEnd(sign=Sign.DOWN), tokens=0, cost=0.0)
    shared.close()

    assert (unknown.known, known.known) == (False, True)


def test_requests_are_spaced_over_all_processes(two_with: Callable[..., Two]) -> None:
    two = two_with(requests_per_minute=600)

    permits = [two.enter(number) for number in range(14)]

    # a second's worth at once, then one each tenth of a second
    assert [permit.waited for permit in permits] == pytest.approx([0] * 11 + [0.1] * 3)


def test_calls_of_all_processes_have_one_schedule(path: Path, clock: Clock, close: list[Admission]) -> None:
    close += [admission(path, clock, server=name) for name in ("a", "a", "b")]
    rate = ArrivalRate.parse("4/s")

    starts = [wait_for_start(close[number % 2], rate) for number in range(5)]

    assert starts == [1000.0, 1000.25, 1000.5, 1000.75, 1001.0]
    assert clock.now == 1001.0
    assert wait_for_start(close[2], rate) == 1001.0  # another server has a schedule of its own


def test_schedule_does_not_wait_for_late_calls(path: Path, clock: Clock, close: list[Admission]) -> None:
    close.append(admission(path, clock))
    rate = ArrivalRate.parse("4/s")

    wait_for_start(close[0], rate)
    clock.now += 0.6
    starts = [wait_for_start(close[0], rate) for _ in range(2)]

    assert starts == [1000.25, 1000.5]
    assert [close[0].seconds_late(due) for due in starts] == pytest.approx([0.35, 0.1])
    assert wait_for_start(close[0], rate) == 1000.75
    assert close[0].seconds_late(1000.75) == 0.0


def test_end_of_the_run_ends_the_wait_for_a_start(path: Path, clock: Clock, close: list[Admission]) -> None:
    close.append(admission(path, clock))
    rate = ArrivalRate.parse("0.01/s")
    wait_for_start(close[0], rate)
    clock.meanwhile = close[0].stop

    with pytest.raises(Refused, match="the session ended first"):
        wait_for_start(close[0], rate)
    assert clock.now < 1002


def test_rate_limits_are_per_server_and_the_budget_is_shared(path: Path) -> None:
    shared = LimitsFile(path, RateLimits(requests_per_minute=6, max_cost=1.0))

    first = [shared.reserve(ESTIMATE, 0.25, "engine model", name) for name in ("openai a", "openai b")]
    again = shared.reserve(ESTIMATE, 0.25, "engine another", "openai a")

    assert all(isinstance(permit, Permit) for permit in first)
    assert isinstance(again, float)
    with pytest.raises(Refused, match="--jsbench-max-cost=1 would be exceeded"):
        shared.reserve(ESTIMATE, 1.5, "engine model", "openai c")
    assert isinstance(shared.reserve(ESTIMATE, 0.0, "engine free", "ours"), Permit)
    shared.close()


def test_tokens_that_were_not_used_are_given_back(two_with: Callable[..., Two]) -> None:
    # A thousand at once, and a thousand per second: each call reserves 1,100, and the first one returns 1,000 of them.
    two = two_with(tokens_per_minute=60_000)
    two.both[0].leave(two.enter(0), CallEnd(), usage=Usage(input_tokens=100, output_tokens=0))

    assert [two.enter(number).waited for number in (1, 0)] == pytest.approx([0, 0.2])


def test_after_some_calls_their_mean_is_reserved(two_with: Callable[..., Two]) -> None:
    two = two_with(tokens_per_minute=6_000_000)
    for number in range(8):
        two.both[number % 2].leave(two.enter(number), CallEnd(), usage=Usage(input_tokens=100, output_tokens=50))

    assert two.enter(0).tokens == 150


def test_no_call_is_made_that_could_pass_the_most_that_a_run_may_cost(two_with: Callable[..., Two]) -> None:
    two = two_with(max_cost=0.03)
    two.both[0].leave(two.enter(0), CallEnd(), usage=Usage(input_tokens=500, output_tokens=500))
    two.both[1].leave(two.enter(1), CallEnd(), usage=Usage(input_tokens=500, output_tokens=500))

    with pytest.raises(Refused, match=r"--jsbench-max-cost=0\.03 would be exceeded") as refused:
        two.enter(0)

    assert refused.value.reason is MissingReason.LIMIT
    assert two.spent() == pytest.approx(0.02)
    # a smaller call would fit, but the cases that run must not depend on their size
    with pytest.raises(Refused):
        two.enter(1, Estimate(input_tokens=1, output_tokens=1, seconds=60))


def test_other_costs_reduce_the_limit_of_calls(path: Path, close: list[Admission]) -> None:
    shared = LimitsFile(path, RateLimits(max_cost=0.05))
    admission = Admission(shared, price=price)
    close.append(admission)
    shared.spend(0.035)

    permit = admission.enter(lambda: ESTIMATE)
    admission.leave(permit, CallEnd(), usage=Usage(input_tokens=100, output_tokens=900))

    with pytest.raises(Refused, match=r"--jsbench-max-cost=0\.05 would be exceeded"):
        admission.enter(lambda: ESTIMATE)
    assert shared.spent() == pytest.approx(0.045)


def test_a_call_waits_for_those_in_flight_to_say_what_they_cost(two_with: Callable[..., Two], clock: Clock) -> None:
    two = two_with(max_cost=0.02)
    in_flight = two.enter(0)
    clock.meanwhile = lambda: two.both[0].leave(in_flight, CallEnd(), usage=Usage(input_tokens=50, output_tokens=50))

    assert two.enter(1).waited > 0


def test_usage_that_is_not_reported_costs_what_was_reserved(two_with: Callable[..., Two]) -> None:
    two = two_with(max_cost=1)
    two.both[0].leave(two.enter(0), CallEnd(), usage=Usage())

    assert two.spent() == pytest.approx(0.011)


def test_reservation_of_a_dead_process_counts_as_spent(two_with: Callable[..., Two], clock: Clock) -> None:
    two = two_with(max_cost=0.02)
    lost = two.enter(0, ESTIMATE)
    clock.now += ESTIMATE.seconds + 1

    small = Estimate(input_tokens=100, output_tokens=100, seconds=60)
    two.both[1].leave(two.enter(1, small), CallEnd(), usage=Usage(input_tokens=0, output_tokens=0))
    assert two.spent() == pytest.approx(0.011)
    # even if its process was alive after all, it is not counted twice
    two.both[0].leave(lost, CallEnd(), usage=Usage(input_tokens=100, output_tokens=100))
    assert two.spent() == pytest.approx(0.002)


def test_who_is_told_to_wait_makes_all_wait(two_with: Callable[..., Two]) -> None:
    two = two_with()
    assert two.enter(1).waited == 0
    two.both[0].leave(two.enter(0), CallEnd(sign=Sign.REFUSED, retry_after=7))

    assert two.enter(1).waited == pytest.approx(7)


def test_who_waits_is_woken_and_refused_when_the_session_ends(path: Path) -> None:
    admission = Admission(LimitsFile(path, RateLimits()))
    admission.leave(admission.enter(lambda: ESTIMATE), CallEnd(sign=Sign.REFUSED, retry_after=60))
    timer = threading.Timer(0.05, admission.stop)
    timer.start()
    start = time.monotonic()

    with pytest.raises(Refused) as refused:
        admission.enter(lambda: ESTIMATE)

    assert refused.value.reason is MissingReason.STOPPED
    assert time.monotonic() - start < 30
    timer.join()
    admission.close()


def test_a_call_that_ends_after_the_session_is_nobodys_business(path: Path) -> None:
    admission = Admission(LimitsFile(path, RateLimits(max_cost=1)), price=price)
    permit = admission.enter(lambda: ESTIMATE)
    admission.close()

    admission.leave(permit, CallEnd(), usage=Usage(input_tokens=1, output_tokens=1))


def test_after_their_end_limits_permit_nothing_and_leave_their_file_alone(path: Path) -> None:
    shared = LimitsFile(path, RateLimits(max_cost=1))
    shared.spend(0.25)
    shared.close()
    path.unlink()

    for ask in (lambda: shared.reserve(ESTIMATE, 0.01), lambda: shared.spend(0.5), shared.spent):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.reason is MissingReason.STOPPED
    assert shared.account(Permit(), CallEnd(sign=Sign.REFUSED), tokens=1, cost=0.1) == ProviderState()
    assert shared.providers() == {}
    assert not path.exists()


def test_refusal_reduces_concurrency_to_the_accepted_share(path: Path, close: list[Admission], clock: Clock) -> None:
    first, second = (admission(path, clock, provider="p", concurrency=4) for _ in range(2))
    close.extend([first, second])
    begun = [first.enter(lambda: ESTIMATE) for _ in range(3)]
    first.leave(begun[0], CallEnd(sign=Sign.REFUSED, retry_after=0))
    flying = [second.enter(lambda: ESTIMATE) for _ in range(2)]
    clock.meanwhile = lambda: second.leave(flying[0], CallEnd(sign=Sign.NOTHING))

    assert [permit.waited for permit in flying] == [0, 0]
    assert second.enter(lambda: ESTIMATE).waited > 0


def test_what_a_run_has_given_up_on_is_not_called_by_any_process(two_with: Callable[..., Two]) -> None:
    two = two_with()
    wrong = CallEnd(sign=Sign.FATAL, message="Incorrect API key provided")
    for number in range(5):
        two.both[number % 2].leave(two.enter(number), wrong)

    for number in range(2):
        with pytest.raises(Refused, match="5 calls in a row failed with: Incorrect API key provided") as refused:
            two.enter(number)
        assert refused.value.reason is MissingReason.UNAVAILABLE


def test_while_a_provider_is_down_one_call_of_all_processes_tries_it(
    two_with: Callable[..., Two], clock: Clock
) -> None:
    two = two_with()
    for number in range(10):
        two.both[number % 2].leave(two.enter(number), CallEnd(sign=Sign.DOWN, message="refused"))
    trying = two.enter(0)
    clock.meanwhile = lambda: two.both[0].leave(trying, CallEnd())

    assert two.enter(1).waited > 0


def test_another_provider_is_called_as_before(path: Path, close: list[Admission], clock: Clock) -> None:
    wrong, right = (admission(path, clock, provider=name) for name in ("wrong", "right"))
    close.extend([wrong, right])
    for _ in range(5):
        wrong.leave(wrong.enter(lambda: ESTIMATE), CallEnd(sign=Sign.FATAL, message="no"))

    assert right.enter(lambda: ESTIMATE).waited == 0


def test_unwritable_limits_keep_the_answer_and_stop_calls(
    path: Path, close: list[Admission], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = LimitsFile(path, RateLimits(requests_per_minute=60_000))
    close.append(admission := Admission(shared))
    permit = admission.enter(lambda: ESTIMATE)

    def broken(*_: object, **__: object) -> ProviderState:
        message = "unable to open database file"
        raise sqlite3.OperationalError(message)

    monkeypatch.setattr(shared, "account", broken)

    assert admission.leave(permit, CallEnd()) == ProviderState()
    with pytest.raises(Refused, match="can no longer be enforced: OperationalError: unable to open") as refused:
        admission.enter(lambda: ESTIMATE)
    assert refused.value.reason is MissingReason.EXHAUSTED


def test_limits_that_cannot_be_asked_refuse_the_call_before_it_is_made(
    path: Path, close: list[Admission], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = LimitsFile(path, RateLimits(requests_per_minute=60_000))
    close.append(admission := Admission(shared))

    def broken(*_: object) -> Permit:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(shared, "reserve", broken)

    with pytest.raises(Refused, match=r"out of open files \(ulimit -n\)") as refused:
        admission.enter(lambda: ESTIMATE)
    assert refused.value.reason is MissingReason.EXHAUSTED


def test_a_full_disk_under_the_limits_is_said_as_one(path: Path, close: list[Admission]) -> None:
    shared = LimitsFile(path, RateLimits(max_cost=1.0))
    with shared._state() as state:
        state.execute("PRAGMA max_page_count = 8")
    admission = Admission(shared, price=price, server="x" * 1_000_000)
    close.append(admission)

    for _ in range(2):
        with pytest.raises(Refused, match=r"can no longer be enforced: OperationalError: database or disk is full$"):
            admission.enter(lambda: ESTIMATE)
