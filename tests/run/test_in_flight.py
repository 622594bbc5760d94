from __future__ import annotations

import threading
from functools import partial

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.run.in_flight import CallsInFlight

#: Maximum seconds for anything to happen, even on a busy machine.
PATIENCE = 30.0


def test_as_many_calls_run_at_once_as_may_be_in_flight() -> None:
    calls: CallsInFlight[int] = CallsInFlight(3)
    together = threading.Barrier(3)
    for number in range(3):
        calls.add(number, lambda: together.wait(PATIENCE))

    assert sorted(calls.take(number) for number in range(3)) == [0, 1, 2]
    assert len(calls) == 0


def test_what_a_call_raised_is_raised_where_its_result_is_taken() -> None:
    calls: CallsInFlight[float] = CallsInFlight(1)
    calls.add("broken", lambda: 1 / 0)
    calls.add("well", lambda: 1.0)

    with pytest.raises(ZeroDivisionError):
        calls.take("broken")
    assert calls.take("well") == 1.0


def test_discarded_result_occupies_no_place() -> None:
    calls: CallsInFlight[str] = CallsInFlight(1)
    calls.add("dropped", lambda: "not awaited")
    assert "dropped" in calls

    calls.drop("dropped")
    calls.drop("never added")

    assert len(calls) == 0
    assert "dropped" not in calls


def test_after_the_stop_no_call_begins() -> None:
    calls: CallsInFlight[None] = CallsInFlight(1)
    begun, go_on, made = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        made.append("first")

    calls.add("first", first)
    calls.add("second", partial(made.append, "second"))
    assert begun.wait(PATIENCE)
    calls.stop()
    go_on.set()
    calls.take("first")
    calls.drop("second")

    calls.add("third", partial(made.append, "third"))

    assert calls.stopped
    assert made == ["first"]


def test_after_the_stop_its_threads_end() -> None:
    before = set(threading.enumerate())
    calls: CallsInFlight[int] = CallsInFlight(2)
    ours = set(threading.enumerate()) - before
    calls.add("one", lambda: 1)
    assert calls.take("one") == 1

    calls.stop()

    assert len(ours) == 2
    for thread in ours:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in ours)


def test_a_machine_without_threads_is_one_line_with_the_option_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, iter(range(100))

    def limited(self: threading.Thread) -> None:
        if next(started) == 3:
            message = "can't start new thread"
            raise RuntimeError(message)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)

    with pytest.raises(EngineError, match=r"^only 3 of 16 threads .*ulimit -u.* --jsbench-concurrency$"):
        CallsInFlight(16)
