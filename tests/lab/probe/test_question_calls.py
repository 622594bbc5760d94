"""Tests that questions and checks agree about refused requests."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pytest_jsbench.core.generations import Declined, DeclineReason, Failed, FaultKind, Generation
from pytest_jsbench.lab.probe.check import CheckAnswer
from pytest_jsbench.lab.probe.enforcement import ReplyKind
from pytest_jsbench.lab.probe.question_calls import QuestionCalls
from pytest_jsbench.lab.probe.questions import ProbeQuestion
from tests.support import examples

ANYTHING: Any = None


def bad_request(status: int | None) -> Failed:
    return Failed(kind=FaultKind.BAD_REQUEST, message="it is wrong", status=status)


@pytest.mark.parametrize(
    ("generation", "refused"),
    [
        *((bad_request(status), True) for status in (400, 422, 501)),
        *((bad_request(status), False) for status in (404, 405, 413, None)),
        (Failed(kind=FaultKind.AUTH, message="no key", status=401), False),
        (Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message="no schema"), True),
        (Declined(reason=DeclineReason.UNSUPPORTED_TOOLS, message="no tools"), True),
        (Declined(reason=DeclineReason.REFUSAL, message="sorry"), False),
    ],
)
def test_questions_and_checks_agree_which_requests_are_refused(generation: Generation, refused: bool) -> None:
    record = examples.record(generation=generation)
    questions = QuestionCalls(cast("Any", None))

    assert CheckAnswer(call=ANYTHING, record=record).refused is refused
    reply = questions.read(record, ProbeQuestion(schema=True, wanted=""), 0)
    assert reply.kind is (ReplyKind.REFUSED if refused else ReplyKind.UNDECIDED)
