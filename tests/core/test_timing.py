from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from pytest_jsbench.core.timing import Stopwatch, Timing
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def watch(clock: Clock) -> Stopwatch:
    return Stopwatch(clock=clock.read)


def test_reasoning_time_ends_at_the_first_token_of_the_answer(watch: Stopwatch, clock: Clock) -> None:
    for seconds in (1, 2):
        clock.now = seconds
        watch.reasoning()
    for seconds in (4, 7):
        clock.now = seconds
        watch.token()
    watch.reasoning()
    clock.now = 8
    found = watch.stop()
    assert (found.ttft, found.reasoning_time, found.gct, found.tgt) == (4, 3, 3, 8)


def test_reasoning_in_the_content_ends_at_the_start_of_the_answer(watch: Stopwatch, clock: Clock) -> None:
    clock.now = 1
    watch.token()
    clock.now = 5
    arrived = watch.token()
    found = watch.stop(answer=arrived)
    assert (found.ttft, found.reasoning_time, found.gct) == (1, 4, 4)


@pytest.mark.parametrize(("reasoned", "answered"), [(True, False), (False, True), (False, False)])
def test_reasoning_time_is_none_without_reasoning_or_answer(
    watch: Stopwatch, clock: Clock, *, reasoned: bool, answered: bool
) -> None:
    clock.now = 1
    if reasoned:
        watch.reasoning()
    clock.now = 2
    if answered:
        watch.token()
    assert watch.stop().reasoning_time is None


def test_reasoning_and_answer_in_one_piece_arrive_at_one_time(watch: Stopwatch, clock: Clock) -> None:
    clock.now = 1
    watch.reasoning(piece=7)
    clock.now = 1.5
    watch.token(piece=7)
    assert watch.stop().reasoning_time is None


@pytest.mark.parametrize(
    ("arrived", "lateness"),
    [(3.0, 1.0), (4.0, 0.0), (4.0005, 0.0), (None, None), (-1.0, None), (5.0, None)],
    ids=["late", "at once", "clocks differ", "not measured", "before the request", "after the token"],
)
def test_lateness_is_the_time_from_the_arrival_to_the_stamp(
    watch: Stopwatch, clock: Clock, arrived: float | None, lateness: float | None
) -> None:
    clock.now = 4
    watch.token()
    clock.now = 6
    watch.token()
    assert watch.stop(arrived=arrived).ttft_lateness == lateness


def test_lateness_that_was_not_measured_is_not_recorded() -> None:
    old = b'{"tgt":1.0,"ttft":0.5,"gct":null,"grammar_compilation":null}'
    found = msgspec.json.decode(old, type=Timing)
    assert found.ttft_lateness is None
    assert msgspec.json.encode(found) == old
    late = structs.replace(found, ttft_lateness=0.25)
    assert msgspec.json.decode(msgspec.json.encode(late), type=Timing) == late
