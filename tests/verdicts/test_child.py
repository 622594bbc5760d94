from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_jsbench.verdicts import FailureType, Note, SchemaProblem, Verdict
from pytest_jsbench.verdicts.child import Clerk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.verdicts.in_process import InProcessJudge


class PanicException(BaseException):
    """As Rust's panics arrive: no Exception."""


class CountedAlarm:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.counting = False

    def set(self, seconds: float) -> None:
        self.times.append(seconds)
        self.counting = True

    def off(self) -> None:
        self.counting = False


class FaultyJudge:
    """Gives as many verdicts as it is told, then raises."""

    def __init__(self, verdicts: int, error: BaseException | None, instance: object, notes: tuple[Note, ...]) -> None:
        self._instance = instance
        self._notes = notes
        self._verdicts = verdicts
        self._error = error

    def inspect(self, _schema: str) -> SchemaProblem | None:
        if self._error is not None:
            raise self._error
        return None

    def judge(self, _schema: str, _text: str, *, truncated: bool) -> Iterator[Verdict]:
        for _ in range(self._verdicts):
            yield Verdict(failure_type=None, valid=not truncated, instance=self._instance, notes=self._notes)
        if self._error is not None:
            raise self._error


def serve(
    op: str,
    verdicts: int,
    error: BaseException | None,
    *,
    instance: object = (1,),
    notes: tuple[Note, ...] = (Note.FENCED,),
) -> tuple[list[dict[str, Any]], CountedAlarm]:
    sent: list[dict[str, Any]] = []
    alarm = CountedAlarm()
    judge = cast("InProcessJudge", FaultyJudge(verdicts, error, instance, notes))

    def send(line: bytes) -> None:
        assert not alarm.counting, "a slow reader is no slow judge"
        sent.append(json.loads(line))

    Clerk(judge, alarm, send, timeout=5).serve({"op": op, "schema": "{}", "text": "1", "truncated": False})
    return sent, alarm


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ZeroDivisionError("by zero"), "crashed"),
        (RecursionError(), "crashed"),
        (PanicException("unwrap on None"), "crashed"),
        (MemoryError(), "memory"),
    ],
)
@pytest.mark.parametrize("op", ["judge", "inspect"])
def test_a_fault_of_the_judge_is_nobodys_failure(op: str, error: BaseException, reason: str) -> None:
    replies, _ = serve(op, 0, error)
    said, last = replies
    assert last == {"last": True}
    found = said["verdict"] if op == "judge" else said["problem"]
    assert found["failure_type"] == FailureType.UNJUDGED
    assert found["reason"] == reason
    assert found["message"].startswith(type(error).__name__)


def test_a_fault_in_the_details_leaves_the_verdict() -> None:
    replies, _ = serve("judge", 1, ZeroDivisionError())
    assert [list(reply) for reply in replies] == [["verdict", "instance"], ["last"]]


def test_an_instance_that_only_a_part_of_the_text_holds_is_sent_once() -> None:
    replies, _ = serve("judge", 3, None)
    assert [list(reply) for reply in replies] == [["verdict", "instance"], ["verdict"], ["verdict"], ["last"]]
    replies, _ = serve("judge", 1, None, notes=(Note.DUPLICATE_KEYS,))
    assert [list(reply) for reply in replies] == [["verdict"], ["last"]]


def test_the_verdict_has_the_whole_time_and_each_detail_a_second() -> None:
    _, alarm = serve("judge", 3, None)
    assert alarm.times == [5, 1, 1, 1]
    assert not alarm.counting


def test_no_problem_is_an_answer_too() -> None:
    replies, _ = serve("inspect", 0, None)
    assert replies[0]["problem"] is None


def test_an_instance_that_cannot_be_sent_is_nobodys_failure() -> None:
    replies, alarm = serve("judge", 1, None, instance=object())
    assert replies[0]["verdict"]["reason"] == "crashed"
    assert not alarm.counting
