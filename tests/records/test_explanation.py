from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import (
    Completion,
    FaultKind,
    FinishReason,
    Generation,
    GenerationParams,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.records.records import next_step
from pytest_jsbench.verdicts import FailureType, Note, Verdict
from tests import examples
from tests.examples import replace

PARAMS = GenerationParams(max_tokens=300, timeout=7.5)


def answered(text: str, response_format: ResponseFormat = ResponseFormat.JSON_SCHEMA) -> Completion:
    made = examples.completion(text)
    return replace(made, sent=Sent(response_format=response_format), finish_reason=FinishReason.STOP)


def failed(kind: FailureType, **changes: Any) -> Verdict:
    return replace(examples.VIOLATED, failure_type=kind, **changes)


@pytest.mark.parametrize(
    ("verdict", "generation", "step"),
    [
        (failed(FailureType.TRUNCATED), answered('{"n": '), "--jsbench-max-tokens, which is 300 tokens"),
        (failed(FailureType.TRUNCATED), answered('{"n": "' + "and so on and on " * 9), "the answer repeats itself"),
        (failed(FailureType.SYNTAX_ERROR), answered("Sure!", ResponseFormat.TEXT), "--jsbench-response-format"),
        (failed(FailureType.SYNTAX_ERROR), answered("Sure!"), ""),
        (failed(FailureType.HALLUCINATION), answered("{}"), "--jsbench-extra-fields=allow"),
        (failed(FailureType.UNSUPPORTED_SCHEMA), None, "`jsbench adapt`"),
        (failed(FailureType.UNJUDGED), answered("{}"), "--jsbench-judge-timeout"),
        (failed(FailureType.REFUSAL), None, "-v shows the prompt"),
        (examples.VIOLATED, answered("{}"), "the engine was sent minimum and did not enforce it"),
        (examples.VIOLATED, answered("{}", ResponseFormat.JSON_OBJECT), "json_object enforces no minimum"),
        (examples.VIOLATED, replace(answered("{}"), sent=None), ""),
        (replace(examples.VIOLATED, notes=(Note.ADAPTATION_LOSS,)), answered("{}"), ""),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.TIMEOUT), "more than 7.5 s"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.RATE_LIMITED), "--jsbench-rpm"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.SERVER), ""),
        (failed(FailureType.NO_CALL), answered(""), ""),
    ],
)
def test_the_next_step_names_what_can_be_changed(verdict: Verdict, generation: Generation | None, step: str) -> None:
    said = next_step(verdict, generation, PARAMS)

    assert step in said
    assert bool(step) == bool(said)
