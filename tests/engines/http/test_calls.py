from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http import calls
from pytest_jsbench.engines.http.calls import Deadline, parse_json

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


@pytest.mark.parametrize("value", ["\ud800", float("nan")])
def test_a_request_that_no_json_can_hold_is_the_engines_fault(value: object) -> None:
    with pytest.raises(CallError, match="the request cannot be made") as caught:
        calls.to_json({"schema": value})
    assert caught.value.kind is FaultKind.ENGINE


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a":1}', '{"a": 1} \r\n'])
def test_a_value_is_read_with_the_white_space_around_it(text: str) -> None:
    assert parse_json(text) == {"a": 1}


@pytest.mark.parametrize("text", ['{"a":1} {"b":2}', '{"a":1}x', '{"a":', "", "\ufeff{}"])
def test_what_is_not_one_whole_value_is_refused_in_the_words_of_the_standard_library(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as found:
        parse_json(text)
    assert str(found.value) == str(expected.value)
