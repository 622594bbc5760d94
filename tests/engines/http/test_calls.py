from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError
from pytest_jsbench.engines.http import calls
from pytest_jsbench.engines.http.calls import Deadline

SECONDS = 10.0


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calls, "time", clock)
    return clock


def test_a_call_that_breaks_after_its_time_broke_because_of_it(clock: Clock) -> None:
    deadline = Deadline(SECONDS)

    def late() -> Any:
        clock.now += SECONDS
        raise ValueError("whatever")

    explain: Callable[[Exception], Any] = lambda error: error  # noqa: E731
    with pytest.raises(CallError, match="no complete answer within 10 s"):
        calls.settle(late, explain, deadline=deadline)
