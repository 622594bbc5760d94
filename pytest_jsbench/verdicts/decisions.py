"""From what came back of an attempt to its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pytest_jsbench.core.text import printable
from pytest_jsbench.generations import Completion, Decided, Declined, DeclineReason, Failed, FinishReason
from pytest_jsbench.verdicts.model import FailureType, Verdict

if TYPE_CHECKING:
    from pytest_jsbench.cases import Schema
    from pytest_jsbench.generations import Generation
    from pytest_jsbench.verdicts.judges import Judge


def decide(generation: Generation, schema: Schema, judge: Judge) -> Verdict:
    """The verdict on an attempt; `schema` is the case's own, whatever the engine was sent."""
    match generation:
        case Completion():
            return _decide_completion(generation, schema, judge)
        case Declined():
            return _no_instance(*_declined(generation.reason), generation.message)
        case Failed():
            return _no_instance(FailureType.API_ERROR, generation.kind.value, generation.message)
        case Decided():
            return _judge_decisions(generation)
        case _:
            assert_never(generation)


def _decide_completion(completion: Completion, schema: Schema, judge: Judge) -> Verdict:
    if completion.finish_reason is FinishReason.CONTENT_FILTER and not completion.text.strip():
        message = "a content filter stopped the answer before any text"
        return _no_instance(FailureType.REFUSAL, FinishReason.CONTENT_FILTER.value, message)
    truncated = completion.finish_reason is FinishReason.LENGTH
    return judge.judge(schema, completion.text, truncated=truncated)


def _declined(reason: DeclineReason) -> tuple[FailureType, str | None]:
    match reason:
        case DeclineReason.UNSUPPORTED_SCHEMA:
            return FailureType.UNSUPPORTED_SCHEMA, None
        case DeclineReason.CONTEXT_LENGTH:
            # no fault that another call could mend: this model, asked so, cannot do this schema
            return FailureType.UNSUPPORTED_SCHEMA, reason.value
        case DeclineReason.REFUSAL:
            return FailureType.REFUSAL, None
        case _:
            assert_never(reason)


def _no_instance(failure_type: FailureType, reason: str | None, message: str) -> Verdict:
    return Verdict(failure_type=failure_type, valid=None, reason=reason, message=printable(message, cut="middle"))


def _judge_decisions(decided: Decided) -> Verdict:
    """Each decision is held against its label; nobody has to look at the schema."""
    found: dict[str, str] = {}
    for valid, reason, verb in ((True, "over_constraint", "rejected"), (False, "under_constraint", "accepted")):
        asked = [decision for decision in decided.decisions if decision.valid is valid]
        wrong = [decision for decision in asked if decision.wrong]
        if wrong:
            label = "valid" if valid else "invalid"
            found[reason] = f"{len(wrong)} of {len(asked)} {label} answers {verb} ({wrong[0].id})"
    if not found:
        return Verdict(failure_type=None, valid=None)
    reason = "both" if len(found) > 1 else next(iter(found))
    return _no_instance(FailureType.WRONG_DECISION, reason, ", ".join(found.values()))
