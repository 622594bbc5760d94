from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pytest_jsbench.core import generations
from pytest_jsbench.core.generations import Stopwatch


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(generations, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def set_to(seconds: float) -> None:
        clock.now = seconds

    return set_to


def test_reasoning_time_ends_at_the_first_token_of_the_answer(at: Callable[[float], None]) -> None:
    watch = Stopwatch()
    for seconds in (1, 2):
        at(seconds)
        watch.reasoning()
    for seconds in (4, 7):
        at(seconds)
        watch.token()
    watch.reasoning()
    at(8)
    found = watch.stop()
    assert (found.ttft, found.reasoning_time, found.gct, found.tgt) == (4, 3, 3, 8)


def test_reasoning_in_the_content_ends_at_the_start_of_the_answer(at: Callable[[float], None]) -> None:
    watch = Stopwatch()
    at(1)
    watch.token()
    at(5)
    arrived = watch.token()
    found = watch.stop(answer=arrived)
    assert (found.ttft, found.reasoning_time, found.gct) == (1, 4, 4)


@pytest.mark.parametrize(("reasoned", "answered"), [(True, False), (False, True), (False, False)])
def test_reasoning_time_is_none_without_reasoning_or_answer(
    at: Callable[[float], None], *, reasoned: bool, answered: bool
) -> None:
    watch = Stopwatch()
    at(1)
    if reasoned:
        watch.reasoning()
    at(2)
    if answered:
        watch.token()
    assert watch.stop().reasoning_time is None


def test_reasoning_and_answer_in_one_piece_arrive_at_one_time(at: Callable[[float], None]) -> None:
    watch = Stopwatch()
    at(1)
    watch.reasoning(piece=7)
    at(1.5)
    watch.token(piece=7)
    assert watch.stop().reasoning_time is None
