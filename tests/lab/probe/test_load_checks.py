"""Tests of the checks of the load with replies that are given, so that no server and no time decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pytest

from pytest_jsbench.lab.probe.check import Bench, CheckPlan, Outcome, ServerFault
from pytest_jsbench.lab.probe.enforcement import Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.load_checks import LOAD_CHECKS, check_after_load, check_mixed_load
from pytest_jsbench.lab.probe.question_calls import QuestionCall
from pytest_jsbench.lab.probe.questions import Words

CONFORMS, VIOLATES = Reply(kind=ReplyKind.CONFORMS), Reply(kind=ReplyKind.VIOLATES)
MIXED_UP = Reply(kind=ReplyKind.MIXED_UP, text="of another")
FAILED = Reply(kind=ReplyKind.UNDECIDED, message="The server is gone.")


@dataclass
class Questions:
    """Takes the place of `QuestionCalls`; a function replies to each question."""

    reply: Callable[[QuestionCall, int], Reply]
    asked: list[int] = field(default_factory=list)

    def ask(self, asked: Sequence[QuestionCall], *, in_flight: int) -> Replies:
        """Return the replies, and note the number of concurrent calls."""
        self.asked.append(in_flight)
        return Replies(planned=len(asked), replies=tuple(self.reply(each, in_flight) for each in asked))


def plan(levels: tuple[int, ...]) -> CheckPlan:
    return CheckPlan(
        names=(),
        variants={},
        offers_tools=False,
        sends_format=True,
        path="",
        levels=levels,
        constrained="constrained",
        plain="plain",
    )


def bench_of(questions: Questions, levels: tuple[int, ...] = (1, 8), **controls: Any) -> Bench:
    return Bench(
        plan(levels),
        cast("Any", None),
        cast("Any", questions),
        Words(Random(1)),
        controls=controls.get("before", {}),
        ask_controls=lambda: cast("Mapping[Any, Replies]", controls["after"]),
    )


def repeat(asked: QuestionCall, _: int) -> Reply:
    return Reply(kind=ReplyKind.CONFORMS, text=asked.question.wanted, wanted=asked.question.wanted)


@pytest.mark.parametrize(
    ("levels", "in_flight"), [((1, 32), 8), ((1, 16), 8), ((16,), 8), ((1, 2, 8, 32), 8), ((1, 2), 2), ((1, 3), 3)]
)
def test_load_is_the_highest_level_up_to_8(levels: tuple[int, ...], in_flight: int) -> None:
    questions = Questions(repeat)

    found = check_mixed_load(bench_of(questions, levels))

    assert found.passed
    assert questions.asked == [1, in_flight]
    assert [check.obstacle(plan(levels)) for check in LOAD_CHECKS] == ["", ""]


@pytest.mark.parametrize("failing", ["alone", "constrained"])
def test_mixed_up_answers_are_found_although_other_calls_fail(failing: str) -> None:
    def reply(asked: QuestionCall, in_flight: int) -> Reply:
        kind = "alone" if in_flight == 1 else asked.variant
        return FAILED if kind == failing else MIXED_UP if kind == "plain" else repeat(asked, in_flight)

    found = check_mixed_load(bench_of(Questions(reply), (1, 3)))

    assert found.faults == (ServerFault.PLAIN_MIXED_UP,)
    assert found.said == "at 3 in flight, 5 of 5 answers without a schema contain words of other requests"


@pytest.mark.parametrize("failing", ["alone", "plain", "constrained"])
def test_failed_calls_are_no_fault(failing: str) -> None:
    def reply(asked: QuestionCall, in_flight: int) -> Reply:
        kind = "alone" if in_flight == 1 else asked.variant
        return FAILED if kind == failing else repeat(asked, in_flight)

    found = check_mixed_load(bench_of(Questions(reply)))

    assert (found.outcome, found.said) == (Outcome.UNDECIDED, FAILED.message)


def controls(prompt: Reply, system: Reply) -> Mapping[str, Replies]:
    return {
        "prompt": Replies(planned=10, replies=(prompt,) * 10),
        "system message": Replies(planned=10, replies=(system,) * 10),
    }


@pytest.mark.parametrize(
    ("before", "after", "faults", "said"),
    [
        (controls(VIOLATES, FAILED), controls(CONFORMS, VIOLATES), ["control_changed"], "10 of 10 conform (before: 0"),
        (controls(VIOLATES, VIOLATES), controls(FAILED, MIXED_UP), ["control_mixed_up"], "10 of 10 answers contain"),
        (controls(VIOLATES, FAILED), controls(VIOLATES, MIXED_UP), ["control_mixed_up"], "10 of 10 answers contain"),
        (controls(VIOLATES, VIOLATES), controls(FAILED, VIOLATES), [], FAILED.message),
        (controls(VIOLATES, FAILED), controls(VIOLATES, VIOLATES), [], FAILED.message),
    ],
)
def test_fault_after_the_load_is_found_although_other_calls_fail(
    before: Mapping[str, Replies], after: Mapping[str, Replies], faults: list[str], said: str
) -> None:
    found = check_after_load(bench_of(Questions(repeat), before=before, after=after))

    assert found.faults == tuple(faults)
    assert found.outcome is (Outcome.FAULT if faults else Outcome.UNDECIDED)
    assert said in found.said
