"""Tests of what the calls in an answer show."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from pytest_jsbench.core.generations import CalledTool, FinishReason
from pytest_jsbench.lab.probe.check import CheckAnswer, ServerFault
from pytest_jsbench.lab.probe.questions import Words
from pytest_jsbench.lab.probe.tool_answers import ProbeTool, ToolAnswer, make_tool
from tests.support import examples

ANYTHING: Any = None


def answer_of(
    *calls: CalledTool, tools: tuple[ProbeTool, ...] = (), finish: FinishReason = FinishReason.STOP
) -> ToolAnswer:
    completion = examples.replace(examples.completion(), calls=calls, finish_reason=finish)
    record = examples.record(generation=completion)
    return ToolAnswer(tools=tools, answer=CheckAnswer(call=ANYTHING, record=record), streamed=False)


@pytest.mark.parametrize(
    ("finish", "whole"),
    [
        (FinishReason.STOP, True),
        (FinishReason.UNKNOWN, True),
        (FinishReason.LENGTH, False),
        (FinishReason.CONTENT_FILTER, False),
        (FinishReason.REJECTED, False),
    ],
)
def test_answer_that_the_model_did_not_end_is_no_evidence(finish: FinishReason, whole: bool) -> None:
    call = CalledTool(name="store", arguments="{}")

    assert answer_of(finish=finish).is_text is whole
    assert answer_of(call, finish=finish).calls == ((call,) if whole else ())
    assert not answer_of(call, finish=finish).is_text


STRICT, LOOSE = (make_tool(Words(Random(seed)), strict=seed == 1) for seed in (1, 2))


def faults_of(tool: ProbeTool, arguments: str) -> list[ServerFault]:
    answer = answer_of(CalledTool(name=tool.tool.name, arguments=arguments), tools=(STRICT, LOOSE))
    return [fault for _, fault in answer.faulty_calls]


@pytest.mark.parametrize("between", ["", " ", "\n", ", "])
def test_arguments_of_several_calls_are_joined_only_in_a_strict_tool(between: str) -> None:
    joined = f'{{"a": 1}}{between}{{"b": 2}}'

    assert faults_of(STRICT, joined) == [ServerFault.ARGUMENTS_JOINED]
    # nothing keeps the model from writing them itself
    assert faults_of(LOOSE, joined) == []


@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"a": 1} and more', "", "[" * 100_000])
def test_arguments_that_are_no_second_value_are_not_joined(arguments: str) -> None:
    assert faults_of(STRICT, arguments) == [ServerFault.STRICT_IGNORED]


def test_many_values_in_a_row_are_read_only_up_to_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    read = json.JSONDecoder.raw_decode
    places = []

    def noted(self: json.JSONDecoder, text: str, place: int = 0) -> Any:
        places.append(place)
        return read(self, text, place)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", noted)

    assert faults_of(STRICT, "1 " * 1000) == [ServerFault.ARGUMENTS_JOINED]
    assert places == [0, 2]
