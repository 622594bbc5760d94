from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core import child_process
from pytest_jsbench.verdicts import Judge, JudgePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setattr(child_process, "_KEPT_TEXTS", 4)
    with Judge(JudgePolicy(validator="jsonschema-rs")) as judge:
        yield judge


@pytest.fixture
def sent(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    judge.inspect(True)
    child = judge._calls._child
    assert child is not None
    messages: list[dict[str, Any]] = []
    write = child._write

    def spy(message: dict[str, Any]) -> None:
        messages.append(message)
        write(message)

    monkeypatch.setattr(child, "_write", spy)
    return messages


def test_each_answer_is_judged_by_its_own_schema_however_many_there_are(judge: Judge) -> None:
    numbers = random.Random(7).choices(range(12), k=300)
    for number in numbers:
        assert judge.judge({"const": number}, str(number)).passed
        assert judge.judge({"const": number}, str(number + 1)).keyword == "const"


def test_a_schema_is_sent_once_while_the_child_keeps_it(judge: Judge, sent: list[dict[str, Any]]) -> None:
    for _ in range(3):
        for number in range(3):
            assert judge.judge({"const": number}, str(number)).passed
    schemas = [text for message in sent for text in message["kept"][1:]]
    assert schemas == [json.dumps({"const": number}) for number in range(3)]
    assert len(sent) == 9


def test_another_child_is_sent_the_schema_anew(judge: Judge) -> None:
    for _ in range(2):
        assert judge.judge({"const": 1}, "1").passed
        child = judge._calls._child
        assert child is not None
        child.kill()
