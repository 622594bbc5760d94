from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_jsbench.core.generations import (
    CalledTool,
    Completion,
    FinishReason,
    ResponseFormat,
    Sent,
    Tools,
)
from pytest_jsbench.verdicts import FailureType, Judge, Verdict, decide

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = Tools(schemas={"find": CITY, "count": NUMBER}, allowed=("find", "count"), required=False)
NONE = replace(TOOLS, allowed=())
FORCED = replace(TOOLS, allowed=("find",), required=True)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


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
def test_a_tool_that_is_not_to_be_called_is_no_right_answer_whatever_its_arguments(
    judge: Judge, tools: Tools | None, name: str, failure_type: str, message: str
) -> None:
    verdict = decided(judge, answer(("find", '{"city": "Oslo"}'), (name, '{"city": "Oslo", "n": 1}'), tools=tools))

    assert (verdict.failure_type, verdict.tool, verdict.valid) == (failure_type, name, None)
    assert verdict.message == message


def test_under_auto_each_declared_tool_and_a_text_are_right(judge: Judge) -> None:
    assert decided(judge, answer(("count", '{"n": 1}'))).passed
    assert decided(judge, answer(text='{"any": 1}')).failure_type is not FailureType.NO_CALL


def test_a_text_where_a_call_was_required_is_no_call(judge: Judge) -> None:
    verdict = decided(judge, answer(text='{"city": "Oslo"}', tools=FORCED))

    assert (verdict.failure_type, verdict.tool) == (FailureType.NO_CALL, None)
    assert verdict.message == "no tool was called; expected a call of 'find'"


def test_an_answer_that_the_limit_ended_before_its_call_is_truncated(judge: Judge) -> None:
    assert decided(judge, answer(text="Let me", tools=FORCED, finish="length")).failure_type is FailureType.TRUNCATED
    cut = answer(("find", '{"city": "Oslo"}'), ("find", '{"ci'), tools=FORCED, finish="length")
    assert decided(judge, cut).failure_type is FailureType.TRUNCATED


def test_a_call_without_arguments_says_so_and_not_that_there_is_no_text(judge: Judge) -> None:
    verdict = decided(judge, answer(("find", "")))

    assert verdict.failure_type is FailureType.SYNTAX_ERROR
    assert verdict.message == "the tool is called without arguments; expected one JSON document"


def test_a_call_whose_name_the_server_leaves_out_is_judged_by_the_case_s_schema(judge: Judge) -> None:
    assert decided(judge, answer(("", "{}"), tools=FORCED)).passed
