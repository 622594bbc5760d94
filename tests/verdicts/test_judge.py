from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import pytest

from pytest_jsbench import verdicts
from pytest_jsbench.core.child_process import ChildReply
from pytest_jsbench.core.errors import JudgeError
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.fixture.conformance import judge
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Verdict, in_process

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_the_convenience_keeps_one_judge_for_each_policy() -> None:
    assert judge(SCHEMA, '{"a": 1}').passed
    assert judge(SCHEMA, '{"b": 1}').failure_type == "hallucination"
    assert judge(SCHEMA, '{"b": 1}', policy=JudgePolicy(extra_fields="allow")).passed
    assert judge(SCHEMA, '{"a": 1', truncated=True).failure_type == "truncated"


def test_the_versions_name_all_that_took_part(judge: Judge) -> None:
    assert judge.versions == {
        "judge": verdicts.JUDGE_VERSION,
        "jsonschema-rs": version("jsonschema-rs"),
        "jsonschema": version("jsonschema"),
        "regress": version("regress"),
        "python": sys.version.split()[0],
    }


def test_importing_the_package_imports_no_validator_and_no_pytest() -> None:
    program = (
        "import sys, pytest_jsbench.verdicts; "
        "print([name for name in ('jsonschema', 'jsonschema_rs', 'referencing', 'pytest') if name in sys.modules])"
    )
    root = next(iter(verdicts.__path__)).rsplit("pytest_jsbench", 1)[0]
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert output == "[]\n"


def test_the_instance_is_part_of_the_verdict_whatever_it_is(judge: Judge) -> None:
    for text, instance in (("null", None), ("[1.5, {}]", [1.5, {}]), ('"é\\u0000"', "é\x00")):
        assert judge.judge(True, text).instance == instance
    assert judge.judge({"type": "null"}, ' {"a": 1}').instance == {"a": 1}
    assert judge.judge(True, '```json\n{"a": 1e23}\n```').instance == {"a": 1e23}
    assert judge.judge(True, "~~~\n[1").instance is None
    stripping = Judge(JudgePolicy(reasoning="strip"))
    with stripping:
        assert stripping.judge(True, "<think>[0]</think> [1]").instance == [1]


def test_a_text_of_any_length_is_taken(judge: Judge) -> None:
    assert judge.judge({"type": "string"}, '"' + "x" * 9_000_000 + '"').passed
    assert judge.judge(True, "x" * 30_000_000).reason == "too_large"


def test_all_public_names_are_there() -> None:
    assert all(hasattr(verdicts, name) for name in verdicts.__all__)


def test_a_judge_that_was_started_early_judges_and_leaves_no_process(judge: Judge) -> None:
    with Judge(judge.policy) as early:
        early.start()
        early.start()
        assert early.judge({"type": "integer"}, "1").passed
    with Judge(judge.policy) as unasked:
        unasked.start()
    assert not [thread for thread in threading.enumerate() if thread.name == "jsbench-judge"]


def test_a_child_that_cannot_be_started_early_is_told_of_by_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with Judge() as judge:
        judge.start()
        with pytest.raises(JudgeError, match="did not start"):
            judge.judge(True, "1")


class BrokenCalls(GuardedCalls):
    """Calls that end as they are told."""

    def __init__(self, reply: ChildReply) -> None:
        super().__init__()
        self._reply = reply

    def values_of(self, *_: Any, **__: Any) -> ChildReply:
        return self._reply


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        (ChildReply(values=(), error="ZeroDivisionError", detail="by zero"), "crashed", "ZeroDivisionError: by zero"),
        (ChildReply(values=(), error="PanicException", detail="None"), "crashed", "PanicException: None"),
        (ChildReply(values=(), error="MemoryError", ending="memory"), "memory", "MemoryError: "),
        (ChildReply(values=(), ending="crashed", detail="-11"), "crashed", "the judge's process ended: -11"),
        (ChildReply(values=(), ending="timeout"), "timeout", "the judge had not decided after 5 s"),
    ],
)
def test_a_fault_of_the_judge_is_nobodys_failure(reply: ChildReply, reason: str, message: str) -> None:
    judge = Judge(calls=BrokenCalls(reply))

    for outcome in (judge.judge(True, "1"), judge.inspect(True)):
        assert outcome is not None
        assert (outcome.failure_type, outcome.reason, outcome.message) == (FailureType.UNJUDGED, reason, message)


def test_a_fault_in_the_details_leaves_the_verdict() -> None:
    first = Verdict(failure_type=None, valid=True).to_dict(), "null"

    assert Judge(calls=BrokenCalls(ChildReply(values=(first,), ending="timeout"))).judge(True, "1").passed


def test_an_instance_that_only_a_part_of_the_text_holds_is_sent_once() -> None:
    policy = json.dumps(asdict(JudgePolicy()))

    for text, instance in (("```\n1.10\n```", "1.1"), ('{"a": 1, "a": 1}', "null")):
        (verdict, held), *details = in_process.judged('{"type": "string"}', policy, text, False)
        assert (verdict["valid"], held) == (False, instance)
        assert [sorted(more) for more in details] == [["message", "second_opinion", "violations"]] * 2
