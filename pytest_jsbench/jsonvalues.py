"""Generations and verdicts as the JSON values of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from types import NoneType
from typing import Any, TypeVar, assert_never

from pytest_jsbench.generations import (
    Completion,
    Decided,
    Decision,
    Declined,
    DeclineReason,
    Failed,
    FaultKind,
    FinishReason,
    Generation,
    ResponseFormat,
    Sent,
    Usage,
)
from pytest_jsbench.timing import Timing
from pytest_jsbench.verdicts import FailureType, Note, SecondOpinion, Verdict, Violation

T = TypeVar("T")

#: what JSON calls the types that values are expected to be of
_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    list: "an array",
    Mapping: "an object",
    NoneType: "null",
}


def expect(value: Any, name: str, *kinds: type) -> Any:
    """The value, which is of one of these types (a boolean is no number); TypeError, by name, where it is not."""
    if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
        return value
    message = f"{name} is not {' or '.join(_NAMES[kind] for kind in kinds)}"
    raise TypeError(message)


def known(kind: type[T], data: Mapping[str, Any], *types: type) -> T:
    """A value of that dataclass, of these types alone; fields that it does not have are of a later version."""
    names = [one.name for one in fields(kind) if one.name in data]  # type: ignore[arg-type]
    return kind(**{name: expect(data[name], name, *types) if types else data[name] for name in names})


def generation_to_dict(generation: Generation) -> dict[str, Any]:
    """The generation as JSON values."""
    match generation:
        case Completion():
            return {
                "type": "completion",
                "text": generation.text,
                "finish_reason": generation.finish_reason.value,
                "timing": generation.timing and _timing_to_dict(generation.timing),
                "usage": _usage_to_dict(generation.usage),
                "sent": _sent_to_dict(generation.sent),
                **({"secret_replaced": True} if generation.secret_replaced else {}),
            }
        case Declined():
            return {
                "type": "declined",
                "reason": generation.reason.value,
                "message": generation.message,
                "timing": generation.timing and _timing_to_dict(generation.timing),
                "usage": _usage_to_dict(generation.usage),
                "sent": _sent_to_dict(generation.sent),
            }
        case Failed():
            return {
                "type": "failed",
                "kind": generation.kind.value,
                "message": generation.message,
                "status": generation.status,
            }
        case Decided():
            return {
                "type": "decided",
                "decisions": [asdict(decision) for decision in generation.decisions],
                "timing": _timing_to_dict(generation.timing),
            }
        case _:
            assert_never(generation)


def generation_from_dict(data: Mapping[str, Any]) -> Generation:
    """The inverse of `generation_to_dict`."""
    if data["type"] == "failed":
        message, status = expect(data["message"], "message", str), expect(data["status"], "status", int, NoneType)
        return Failed(kind=FaultKind(data["kind"]), message=message, status=status)
    if data["type"] == "decided":
        decisions = tuple(known(Decision, decision) for decision in data["decisions"])
        return Decided(decisions=decisions, timing=_timing_from_dict(data["timing"]))
    usage = known(Usage, data["usage"], int, NoneType)
    timing = None if data["timing"] is None else _timing_from_dict(data["timing"])
    sent = None
    if data["sent"] is not None:
        sent = _sent_from_dict(data["sent"])
    if data["type"] == "declined":
        return Declined(
            reason=DeclineReason(data["reason"]),
            message=expect(data["message"], "message", str),
            timing=timing,
            usage=usage,
            sent=sent,
        )
    if data["type"] == "completion":
        finish = FinishReason(data["finish_reason"])
        text = expect(data["text"], "text", str)
        replaced = expect(data.get("secret_replaced", False), "secret_replaced", bool)
        return Completion(
            text=text, finish_reason=finish, timing=timing, usage=usage, sent=sent, secret_replaced=replaced
        )
    message = f"generation.type is {data['type']!r}; expected completion, declined, failed or decided"
    raise ValueError(message)


def _timing_from_dict(data: Mapping[str, Any]) -> Timing:
    expect(data["tgt"], "tgt", float, int)
    timing = known(Timing, data, float, int, NoneType)
    return replace(timing, gct=timing.gct or None)  # 0.1.0 wrote 0 where nothing was measured


def _timing_to_dict(timing: Timing) -> dict[str, float | None]:
    return {
        "tgt": timing.tgt,
        "ttft": timing.ttft,
        "gct": timing.gct,
        "grammar_compilation": timing.grammar_compilation,
    }


def _usage_to_dict(usage: Usage) -> dict[str, int | None]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _sent_to_dict(sent: Sent | None) -> dict[str, Any] | None:
    if sent is None:
        return None
    known = {name: value for name in ("batch", "asked_otherwise") if (value := getattr(sent, name)) is not None}
    return {"response_format": sent.response_format.value, "schema": sent.schema, **known}


def _sent_from_dict(data: Mapping[str, Any]) -> Sent:
    response_format = ResponseFormat(data["response_format"])
    texts = {name: expect(data[name], name, str, NoneType) for name in ("batch", "asked_otherwise") if name in data}
    return Sent(response_format=response_format, schema=data["schema"], **texts)


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON values, without its instance."""
    return {
        "passed": verdict.passed,
        "valid": verdict.valid,
        "failure_type": verdict.failure_type and verdict.failure_type.value,
        "reason": verdict.reason,
        "message": verdict.message,
        "violations": [
            {
                "keyword": violation.keyword,
                "instance_path": violation.instance_path,
                "schema_path": violation.schema_path,
                "message": violation.message,
            }
            for violation in verdict.violations
        ],
        "extra_fields": list(verdict.extra_fields),
        "notes": [note.value for note in verdict.notes],
        "dialect": verdict.dialect,
        "second_opinion": verdict.second_opinion.value,
    }


def verdict_from_dict(data: Mapping[str, Any]) -> Verdict:
    """The inverse of `verdict_to_dict`, without the instance."""
    failure_type = data["failure_type"]
    return Verdict(
        failure_type=failure_type and FailureType(failure_type),
        valid=data["valid"],
        reason=expect(data["reason"], "reason", str, NoneType),
        message=expect(data["message"], "message", str),
        violations=tuple(known(Violation, violation, str) for violation in data["violations"]),
        extra_fields=tuple(expect(path, "a path in extra_fields", str) for path in data["extra_fields"]),
        notes=tuple(Note(note) for note in data["notes"]),
        dialect=data["dialect"],
        second_opinion=SecondOpinion(data["second_opinion"]),
    )
