"""Tests of what the calls in an answer show."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pytest_jsbench.core.generations import CalledTool, FinishReason
from pytest_jsbench.lab.probe.check import CheckAnswer
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
