from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

import pytest

from pytest_jsbench import verdicts
from pytest_jsbench.core.child_process import ChildProcess, ChildReply
from pytest_jsbench.core.child_service import AlarmKind
from pytest_jsbench.core.errors import JudgeError
from pytest_jsbench.core.generations import (
    CalledTool,
    Completion,
    Decided,
    Declined,
    DeclineReason,
    Failed,
    FaultKind,
    FinishReason,
    Generation,
    GrammarDecision,
    ResponseFormat,
    Sent,
    Tools,
    Usage,
)
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.fixture.conformance import judge
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Note, Verdict, decide, in_process
from pytest_jsbench.verdicts.judge import constants_of
from tests.support.examples import replace
from tests.support.stand_in_judge import StandInCalls, Trouble, troubled

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
RS_ONLY = JudgePolicy(validator="jsonschema-rs", timeout=60)


def test_the_convenience_keeps_one_judge_for_each_policy() -> None:
    assert judge(OPEN, '{"a": 1}').passed
    assert judge(OPEN, '{"b": 1}').failure_type == "hallucination"
    assert judge(OPEN, '{"b": 1}', policy=JudgePolicy(extra_fields="allow")).passed
    assert judge(OPEN, '{"a": 1', truncated=True).failure_type == "truncated"


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


def test_verdict_includes_any_instance(judge: Judge) -> None:
    for text, instance in (("null", None), ("[1.5, {}]", [1.5, {}]), ('"é\\u0000"', "é\x00")):
        assert judge.judge(True, text).instance == instance
    assert judge.judge({"type": "null"}, ' {"a": 1}').instance == {"a": 1}
    assert judge.judge(True, '```json\n{"a": 1e23}\n```').instance == {"a": 1e23}
    assert judge.judge(True, "~~~\n[1").instance is None
    with Judge(JudgePolicy(reasoning="strip")) as stripping:
        assert stripping.judge(True, "<think>[0]</think> [1]").instance == [1]


def test_long_text_is_accepted(judge: Judge) -> None:
    assert judge.judge({"type": "string"}, '"' + "x" * 9_000_000 + '"').passed
    assert judge.judge(True, "x" * 30_000_000).reason == "too_large"


def test_a_judge_that_was_started_early_judges_and_leaves_no_process(judge: Judge) -> None:
    with Judge(judge.policy) as early:
        early.start()
        early.start()
        assert early.judge({"type": "integer"}, "1").passed
    with Judge(judge.policy) as unasked:
        unasked.start()
    assert not [thread for thread in threading.enumerate() if thread.name == "jsbench-judge"]


def test_child_that_fails_to_start_early_is_reported_by_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with Judge() as judge:
        judge.start()
        with pytest.raises(JudgeError, match=r"did not start: .*expected a Python interpreter at '/no/such/python'"):
            judge.judge(True, "1")


def child_of(judge: Judge) -> ChildProcess:
    child = judge._calls._child
    assert child is not None
    return child


def test_nothing_runs_before_it_is_needed_and_after_it_is_closed() -> None:
    judge = Judge(RS_ONLY)
    assert judge._calls._child is None
    assert judge.judge(True, "1").passed
    process = child_of(judge)._process
    judge.close()
    assert process.returncode == 0
    assert judge.judge(True, "1").passed
    judge.close()


def test_garbage_collected_judge_ends_its_child() -> None:
    judge = Judge(RS_ONLY)
    judge.inspect(True)
    process = child_of(judge)._process
    del judge
    assert process.returncode == 0


def test_thread_alarm_ends_a_child_that_takes_too_long() -> None:
    policy = replace(RS_ONLY, timeout=0.4)
    with contextlib.closing(StandInCalls(alarm="thread")) as calls:
        judge = Judge(policy, calls=calls)
        assert judge.judge(True, "1").passed
        begin = time.perf_counter()
        verdict = judge.judge(troubled("validate"), "1")
        assert (verdict.failure_type, verdict.reason) == (FailureType.UNJUDGED, "timeout")
        assert 0.3 < time.perf_counter() - begin < 3
        assert judge.judge(True, "1").passed


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="of POSIX")
def test_a_child_that_died_idle_is_replaced_unnoticed() -> None:
    judge = Judge(RS_ONLY)
    judge.inspect(True)
    process = child_of(judge)._process
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert judge.judge(True, "1").passed
    assert child_of(judge)._process is not process


def test_judges_with_shared_calls_share_a_child_but_not_policies() -> None:
    calls = GuardedCalls()
    strict, lenient = (Judge(JudgePolicy(extra_fields=kind), calls=calls) for kind in ("fail", "allow"))
    for _ in range(2):
        assert strict.judge({"properties": {"a": {}}}, '{"b": 1}').failure_type is FailureType.HALLUCINATION
        assert lenient.judge({"properties": {"a": {}}}, '{"b": 1}').passed
    assert child_of(strict) is child_of(lenient) is calls._child
    strict.close()
    assert child_of(lenient).alive()
    calls.close()


@pytest.mark.parametrize(
    ("trouble", "message"),
    [("no memory in Rust", "memory allocation of 24 bytes failed"), ("no memory in Python", "MemoryError")],
)
def test_validator_out_of_memory_leaves_the_answer_unjudged(trouble: Trouble, message: str) -> None:
    with contextlib.closing(StandInCalls()) as calls:
        judge = Judge(RS_ONLY, calls=calls)
        verdict = judge.judge(troubled("validate", trouble), "1")
        assert (verdict.failure_type, verdict.reason) == (FailureType.UNJUDGED, "memory")
        assert message in verdict.message
        assert judge.judge(True, "1").passed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
def test_answer_beyond_the_memory_limit_is_unjudged() -> None:
    answer = json.dumps({f"k{number}": 1 for number in range(200_000)})
    with contextlib.closing(GuardedCalls()) as calls, Judge(RS_ONLY, calls=calls) as judge:
        judge.inspect(True)
        verdict = Judge(RS_ONLY, calls=calls, memory=64 << 20).judge({}, answer)
        assert (verdict.failure_type, verdict.reason) == (FailureType.UNJUDGED, "memory")
        assert "MemoryError" in verdict.message
        assert judge.judge(True, "1").passed


class ForgetfulChild(ChildProcess):
    """A child that keeps four texts, and lists the messages that were sent to it."""

    def __init__(self, alarm: AlarmKind, sent: list[Mapping[str, Any]]) -> None:
        self.sent = sent
        super().__init__(alarm, most_kept=4)

    def send(self, message: str) -> int:
        self.sent.append(json.loads(message))
        return super().send(message)


@pytest.fixture
def sent() -> list[Mapping[str, Any]]:
    return []


@pytest.fixture
def forgetful(sent: list[Mapping[str, Any]]) -> Iterator[Judge]:
    with contextlib.closing(GuardedCalls(start=partial(ForgetfulChild, sent=sent))) as calls:
        yield Judge(RS_ONLY, calls=calls)


def test_each_answer_is_judged_by_its_own_schema(forgetful: Judge) -> None:
    numbers = random.Random(7).choices(range(12), k=60)
    for number in numbers:
        assert forgetful.judge({"const": number}, str(number)).passed
        assert forgetful.judge({"const": number}, str(number + 1)).keyword == "const"


def test_a_schema_is_sent_once_while_the_child_keeps_it(forgetful: Judge, sent: list[Mapping[str, Any]]) -> None:
    forgetful.inspect(True)
    sent.clear()
    for _ in range(3):
        for number in range(3):
            assert forgetful.judge({"const": number}, str(number)).passed
    schemas = [text for message in sent for text in message["kept"][1:]]
    assert schemas == [json.dumps({"const": number}) for number in range(3)]
    assert len(sent) == 9


def test_child_keeps_schemas_up_to_a_total_length(forgetful: Judge, sent: list[Mapping[str, Any]]) -> None:
    schemas = [{"const": number, "title": letter * 400_000} for number, letter in enumerate("abc")]  # two fit
    for number in (0, 1, 2, 1, 0):
        assert forgetful.judge(schemas[number], str(number)).passed
    assert [message.get("dropped") for message in sent[1:]] == [[], [], [1], None, [2]]


def test_a_usable_schema_is_inspected_once(forgetful: Judge, sent: list[Mapping[str, Any]]) -> None:
    wrong = {"type": "text"}
    for schema in ({"const": 1}, wrong, {"const": 1}, wrong):
        assert (forgetful.inspect(schema) is None) is (schema is not wrong)

    assert len(sent) == 1 + 3  # the first message sets the child up


def test_another_child_is_sent_the_schema_anew(forgetful: Judge) -> None:
    for _ in range(2):
        assert forgetful.judge({"const": 1}, "1").passed
        child_of(forgetful).kill()


class BrokenCalls(GuardedCalls):
    """Calls that end with a given error."""

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
        (ChildReply(values=(), ending="timeout"), "timeout", "judging did not finish within 5 s"),
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


def test_instance_from_a_part_of_the_text_is_sent_once() -> None:
    policy = json.dumps(asdict(JudgePolicy()))

    for text, instance in (("```\n1.10\n```", "1.1"), ('{"a": 1, "a": 1}', "null")):
        (verdict, held), *details = in_process.judge_answer('{"type": "string"}', policy, text, False, False)
        assert (verdict["valid"], held) == (False, instance)
        assert [sorted(more) for more in details] == [["message", "second_opinion", "violations"]] * 2


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def completion(text: str, finish_reason: FinishReason = FinishReason.STOP) -> Completion:
    return Completion(text=text, finish_reason=finish_reason, timing=Timing(tgt=1))


@pytest.mark.parametrize(
    ("generation", "failure_type", "reason", "valid"),
    [
        (completion('{"a": 1}'), None, None, True),
        (completion('{"a": 1}', FinishReason.LENGTH), None, None, True),
        (completion('{"a": 1', FinishReason.LENGTH), "truncated", "incomplete", None),
        (completion("", FinishReason.LENGTH), "truncated", "empty", None),
        (completion('{"a": 1'), "syntax_error", "incomplete", None),
        (completion("\n", FinishReason.CONTENT_FILTER), "refusal", "content_filter", None),
        (completion('{"a": 1}', FinishReason.CONTENT_FILTER), None, None, True),
        (completion('{"a": ', FinishReason.CONTENT_FILTER), "refusal", "content_filter", None),
        (completion('{"a": "1"}', FinishReason.LENGTH), "schema_violation", None, False),
        (Declined(reason=DeclineReason.REFUSAL, message="I cannot"), "refusal", None, None),
        (Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message="no oneOf"), "unsupported_schema", None, None),
        *(
            (Failed(kind=kind, message="it broke", status=500), "api_error", kind.value, None)
            for kind in FaultKind
        ),
    ],
)  # fmt: skip
def test_every_generation_has_its_verdict(
    judge: Judge, generation: Generation, failure_type: str | None, reason: str | None, valid: bool | None
) -> None:
    verdict = decide(generation, SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason, verdict.valid) == (failure_type, reason, valid)
    assert bool(verdict.message) is not verdict.passed


def test_a_providers_message_is_made_fit_to_show(judge: Judge) -> None:
    failed = Failed(kind=FaultKind.SERVER, message="\x1b[31m" + "x" * 5000 + "\ud800")
    verdict = decide(failed, SCHEMA, judge)
    assert verdict.failure_type is FailureType.API_ERROR
    assert len(verdict.message) <= 300
    assert verdict.message.isprintable()


@pytest.mark.parametrize(
    ("accepted", "reason", "message"),
    [
        ({"v0": True, "v1": True, "i0": False}, None, ""),
        ({"v0": True, "v1": None, "i0": None}, None, ""),
        ({"v0": False, "v1": True, "i0": False}, "over_constraint", "1 of 2 valid answers rejected (v0)"),
        ({"v0": True, "v1": True, "i0": True}, "under_constraint", "1 of 1 invalid answers accepted (i0)"),
        (
            {"v0": False, "v1": False, "i0": True},
            "both",
            "2 of 2 valid answers rejected (v0), 1 of 1 invalid answers accepted (i0)",
        ),
    ],
)
def test_decisions_match_their_labels(
    judge: Judge, accepted: dict[str, bool | None], reason: str | None, message: str
) -> None:
    decisions = tuple(
        GrammarDecision(id=name, valid=name[0] == "v", accepted=decision) for name, decision in accepted.items()
    )

    verdict = decide(Decided(decisions=decisions, timing=Timing(tgt=1)), SCHEMA, judge)

    assert verdict.failure_type == (reason and FailureType.WRONG_DECISION)
    assert (verdict.valid, verdict.reason, verdict.message) == (None, reason, message)


TEXT = '{"a": 1}'


@pytest.mark.parametrize(
    ("finish", "failure_type"), [(FinishReason.STOP, "syntax_error"), (FinishReason.LENGTH, "truncated")]
)
@pytest.mark.parametrize(
    "reasoning",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"Hm. {{}}?\n\n{TEXT}",
        f"Hm.\n```json\n{TEXT}\n```\n",
        f"Hm.\n[\n{TEXT},\n{TEXT}\n]",
    ],
)
def test_answer_only_in_the_reasoning_channel_is_reported(
    judge: Judge, reasoning: str, finish: FinishReason, failure_type: str
) -> None:
    verdict = decide(replace(completion("", finish), reasoning=reasoning), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (failure_type, "in_reasoning")
    assert verdict.message == "no text: the answer is in the reasoning channel"


@pytest.mark.parametrize("reasoning", ["", "Hm.", "Is it {} or\n{?", f"{TEXT}\nNo, that is wrong."])
def test_reasoning_that_does_not_end_in_an_answer_leaves_an_empty_one(judge: Judge, reasoning: str) -> None:
    verdict = decide(replace(completion(""), reasoning=reasoning), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.SYNTAX_ERROR, "empty")


@pytest.mark.parametrize(("reasoning", "tokens"), [("Hm, it may be", None), ("", 40)])
def test_truncated_answer_reports_reasoning_up_to_the_token_limit(
    judge: Judge, reasoning: str, tokens: int | None
) -> None:
    reasoned = replace(completion("", FinishReason.LENGTH), reasoning=reasoning, usage=Usage(reasoning_tokens=tokens))
    verdict = decide(reasoned, SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.TRUNCATED, "empty")
    assert verdict.message == "no text: the model reasoned up to the token limit"


def test_reasoning_next_to_an_answer_is_never_judged(judge: Judge) -> None:
    verdict = decide(replace(completion('{"a": "x"}'), reasoning=TEXT), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.SCHEMA_VIOLATION, None)


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = Tools(schemas={"find": CITY, "count": NUMBER}, allowed=("find", "count"), required=False)
NONE = replace(TOOLS, allowed=())
FORCED = replace(TOOLS, allowed=("find",), required=True)


def answer(*calls: tuple[str, str], text: str = "", tools: Tools | None = TOOLS, finish: str = "stop") -> Completion:
    return Completion(
        text="\n".join(arguments for _, arguments in calls) or text,
        finish_reason=FinishReason(finish),
        timing=None,
        sent=Sent(response_format=ResponseFormat.TOOL, tools=tools),
        calls=tuple(CalledTool(name=name, arguments=arguments) for name, arguments in calls),
    )


def decided(judge: Judge, completion: Completion) -> Verdict:
    return decide(completion, {"type": "object"}, judge)


def test_several_calls_are_judged_each_by_its_own_tool_s_schema(judge: Judge) -> None:
    verdict = decided(judge, answer(("find", '{"city": "Oslo"}'), ("count", '{"n": 1}')))
    assert (verdict.passed, verdict.tool, verdict.instance) == (True, "find", {"city": "Oslo"})

    verdict = decided(judge, answer(("find", '{"city": "Oslo"}'), ("count", '{"n": "1"}'), ("find", "{}")))
    assert (verdict.failure_type, verdict.tool) == (FailureType.SCHEMA_VIOLATION, "count")
    assert verdict.message.startswith("call 2 of 3, count: ")


def test_several_calls_fail_if_the_request_allows_only_one(judge: Judge) -> None:
    calls = (("find", '{"city": "Oslo"}'), ("find", '{"city": "Rome"}'))

    verdict = decided(judge, answer(*calls, tools=replace(TOOLS, single=True)))
    forced = decided(judge, answer(*calls, tools=FORCED))
    free = decided(judge, answer(*calls))

    assert (verdict.failure_type, verdict.reason) == (FailureType.WRONG_TOOL, "several_calls")
    assert verdict.message == "tools were called 2 times; the request allows one call"
    assert (forced.passed, forced.notes) == (True, (Note.FORCED_TOOL_REPEATED,))
    assert (free.passed, free.notes) == (True, ())
    assert decided(judge, answer(calls[0], tools=replace(TOOLS, single=True))).passed


@pytest.mark.parametrize(
    ("made", "tool", "constants"),
    [
        (answer(("find", "{}")), "find", ()),
        (answer(("any", "{}"), tools=replace(TOOLS, schemas={"any": {"type": "object"}})), "any", ("{}",)),
        (answer(tools=replace(TOOLS, required=True)), None, ()),
        (answer(("drop", "{}")), "drop", ()),
        (answer(("find", "{}"), tools=replace(TOOLS, schemas={"find": None}, allowed=("find",))), "find", ("{}",)),
        (answer(text="{}"), None, ("{}",)),
    ],
)  # fmt: skip
def test_constant_answers_are_those_of_the_tools(
    judge: Judge, made: Completion, tool: str | None, constants: tuple[str, ...]
) -> None:
    assert constants_of(made, tool, {"type": "object"}, judge) == constants


UNDECLARED = "the tool 'drop' was called, but it is not declared; expected 'find' or 'count'"


@pytest.mark.parametrize(
    ("tools", "name", "failure_type", "message"),
    [
        (TOOLS, "drop", "unknown_tool", UNDECLARED),
        (FORCED, "drop", "unknown_tool", UNDECLARED),
        (FORCED, "count", "wrong_tool", "the tool 'count' was called, but it may not be called; expected 'find'"),
        (NONE, "find", "wrong_tool", "the tool 'find' was called, but it may not be called; expected no call"),
        (None, "find", "unknown_tool", "the tool 'find' was called, but it is not declared; expected no call"),
    ],
)  # fmt: skip
def test_call_of_a_forbidden_tool_never_passes(
    judge: Judge, tools: Tools | None, name: str, failure_type: str, message: str
) -> None:
    verdict = decided(judge, answer(("find", '{"city": "Oslo"}'), (name, '{"city": "Oslo", "n": 1}'), tools=tools))

    assert (verdict.failure_type, verdict.tool, verdict.valid) == (failure_type, name, None)
    assert verdict.message == message


def test_under_auto_each_declared_tool_and_a_text_are_right(judge: Judge) -> None:
    assert decided(judge, answer(("count", '{"n": 1}'))).passed
    assert decided(judge, answer(text='{"any": 1}')).failure_type is not FailureType.NO_CALL


def test_text_instead_of_a_required_call_fails(judge: Judge) -> None:
    verdict = decided(judge, answer(text='{"city": "Oslo"}', tools=FORCED))

    assert (verdict.failure_type, verdict.tool) == (FailureType.NO_CALL, None)
    assert verdict.message == "no tool was called; expected a call of 'find'"


def test_an_answer_that_the_limit_ended_before_its_call_is_truncated(judge: Judge) -> None:
    assert decided(judge, answer(text="Let me", tools=FORCED, finish="length")).failure_type is FailureType.TRUNCATED
    cut = answer(("find", '{"city": "Oslo"}'), ("find", '{"ci'), tools=FORCED, finish="length")
    assert decided(judge, cut).failure_type is FailureType.TRUNCATED


def test_an_answer_that_a_filter_cut_before_its_call_is_a_refusal(judge: Judge) -> None:
    cut = decided(judge, answer(text="Let me", tools=FORCED, finish="content_filter"))
    assert (cut.failure_type, cut.reason) == (FailureType.REFUSAL, "content_filter")
    whole = decided(judge, answer(text="{}", tools=FORCED, finish="content_filter"))
    assert whole.failure_type is FailureType.NO_CALL


def test_an_answer_with_an_unknown_finish_reason_is_judged_with_a_note(judge: Judge) -> None:
    ended = replace(completion('{"a": "1"}', FinishReason.UNKNOWN), finish_word="sunset")
    verdict = decide(ended, SCHEMA, judge)
    assert (verdict.failure_type, verdict.notes) == (FailureType.SCHEMA_VIOLATION, (Note.UNKNOWN_FINISH_REASON,))
    assert decide(replace(ended, finish_word=""), SCHEMA, judge).notes == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False, "description": "x"},
    ],
)
@pytest.mark.parametrize("arguments", ["", " "])
def test_empty_arguments_of_a_tool_without_parameters_are_an_empty_object(
    judge: Judge, schema: dict[str, Any], arguments: str
) -> None:
    tools = Tools(schemas={"now": schema}, allowed=("now",), required=True)
    verdict = decided(judge, answer(("now", arguments), tools=tools))
    assert (verdict.passed, verdict.instance, verdict.notes) == (True, {}, (Note.EMPTY_ARGUMENTS,))
    cut = decided(judge, answer(("now", arguments), tools=tools, finish="length"))
    assert cut.failure_type is FailureType.TRUNCATED


@pytest.mark.parametrize(
    "schema", [NUMBER, {**NUMBER, "required": []}, {"type": "array"}, {"$ref": "#/x"}, {"not": {}}]
)
def test_empty_arguments_of_any_other_tool_are_a_syntax_error(judge: Judge, schema: dict[str, Any]) -> None:
    tools = Tools(schemas={"find": schema}, allowed=("find",), required=True)
    verdict = decided(judge, answer(("find", ""), tools=tools))
    assert verdict.failure_type in (FailureType.SYNTAX_ERROR, FailureType.INVALID_SCHEMA)


def test_call_without_arguments_is_reported_as_such(judge: Judge) -> None:
    verdict = decided(judge, answer(("find", "")))

    assert verdict.failure_type is FailureType.SYNTAX_ERROR
    assert verdict.message == "the tool was called without arguments; expected one JSON document"


def test_call_without_name_is_judged_by_the_schema_of_the_case(judge: Judge) -> None:
    assert decided(judge, answer(("", "{}"), tools=FORCED)).passed
