from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    Declined,
    DeclineReason,
    Failed,
    FaultKind,
    FinishReason,
    Generation,
    GrammarDecision,
    Timing,
    Usage,
)
from pytest_jsbench.verdicts import FailureType, Judge, decide

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
def test_decisions_are_held_against_their_labels(
    judge: Judge, accepted: dict[str, bool | None], reason: str | None, message: str
) -> None:
    decisions = tuple(GrammarDecision(id=name, valid=name[0] == "v", accepted=said) for name, said in accepted.items())

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
def test_an_answer_that_stands_in_the_reasoning_channel_alone_is_named_so(
    judge: Judge, reasoning: str, finish: FinishReason, failure_type: str
) -> None:
    verdict = decide(replace(completion("", finish), reasoning=reasoning), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (failure_type, "in_reasoning")
    assert verdict.message == "no text at all: the answer stands in the reasoning channel"


@pytest.mark.parametrize("reasoning", ["", "Hm.", "Is it {} or\n{?", f"{TEXT}\nNo, that is wrong."])
def test_reasoning_that_does_not_end_in_an_answer_leaves_an_empty_one(judge: Judge, reasoning: str) -> None:
    verdict = decide(replace(completion(""), reasoning=reasoning), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.SYNTAX_ERROR, "empty")


@pytest.mark.parametrize(("reasoning", "tokens"), [("Hm, it may be", None), ("", 40)])
def test_reasoning_to_the_limit_of_tokens_is_said_of_a_truncated_answer(
    judge: Judge, reasoning: str, tokens: int | None
) -> None:
    reasoned = replace(completion("", FinishReason.LENGTH), reasoning=reasoning, usage=Usage(reasoning_tokens=tokens))
    verdict = decide(reasoned, SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.TRUNCATED, "empty")
    assert verdict.message == "no text at all: the model reasoned until the limit of tokens"


def test_the_reasoning_beside_an_answer_is_never_judged(judge: Judge) -> None:
    verdict = decide(replace(completion('{"a": "x"}'), reasoning=TEXT), SCHEMA, judge)
    assert (verdict.failure_type, verdict.reason) == (FailureType.SCHEMA_VIOLATION, None)
