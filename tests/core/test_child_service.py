from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.core.child_service import VALUE, Alarm, Service

#: The last line of a reply without an error.
WELL = ("end", None, "")


class PanicException(BaseException):
    """Stand-in for a Rust panic, which is not an Exception."""


class CountedAlarm(Alarm):
    def __init__(self) -> None:
        self.times: list[float] = []
        self.counting = False

    def set(self, seconds: float) -> None:
        self.times.append(seconds)
        self.counting = True

    def off(self) -> None:
        self.counting = False


class Recorded(Service):
    """A service that records what it sends, and does not change its process's signals and streams."""

    def __init__(self) -> None:
        self.counted = self.alarm = CountedAlarm()
        self.sent: list[Any] = []

    def send(self, line: bytes) -> None:
        assert not self.counted.counting, "a slow reader is no slow work"
        content = json.loads(line[1:])
        self.sent.append(content if line.startswith(VALUE) else ("end", content["error"], content["detail"]))


@pytest.fixture
def service() -> Recorded:
    return Recorded()


def steps(values: list[Any], error: BaseException | None = None) -> Iterator[Any]:
    yield from values
    if error is not None:
        raise error


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), RecursionError(), PanicException("unwrap on None"), MemoryError()]
)
def test_error_ends_the_reply_and_keeps_values_already_sent(service: Recorded, error: BaseException) -> None:
    service.answer(5, lambda: steps([1, 2], error))

    assert service.sent == [1, 2, ("end", type(error).__name__, str(error))]
    assert not service.counted.counting


def test_first_value_has_the_whole_time_and_others_a_second(service: Recorded) -> None:
    service.answer(5, lambda: steps([1, 2, 3]))

    assert service.sent == [1, 2, 3, WELL]
    assert service.counted.times == [5, 1, 1, 1]
    assert not service.counted.counting


def test_a_value_that_cannot_be_sent_is_an_error(service: Recorded) -> None:
    service.answer(5, object)

    assert [line[:2] for line in service.sent] == [("end", "TypeError")]


def test_length_of_a_reply_is_bounded(service: Recorded) -> None:
    service.answer(5, lambda: iter(["x" * 40] * 1000), longest=100)

    assert service.sent[:2] == ["x" * 40] * 2
    assert service.sent[2][:2] == ("end", "size")
