"""Verdicts as builtins, on their way from the child process."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from pytest_jsbench.core.json_values import expect, known
from pytest_jsbench.verdicts.verdicts import FailureType, Note, SchemaProblem, SecondOpinion, Verdict, Violation


def verdict_to_wire(verdict: Verdict) -> dict[str, Any]:
    """All but the instance, as builtins."""
    return {
        "failure_type": verdict.failure_type and verdict.failure_type.value,
        "valid": verdict.valid,
        "reason": verdict.reason,
        "message": verdict.message,
        "violations": [
            (each.keyword, each.instance_path, each.schema_path, each.message) for each in verdict.violations
        ],
        "extra_fields": verdict.extra_fields,
        "notes": [note.value for note in verdict.notes],
        "dialect": verdict.dialect,
        "second_opinion": verdict.second_opinion.value,
    }


def verdict_from_wire(data: dict[str, Any], instance: object) -> Verdict:
    """The inverse of `verdict_to_dict`, with the instance put back."""
    failure_type = data["failure_type"]
    return Verdict(
        failure_type=failure_type and FailureType(failure_type),
        valid=data["valid"],
        reason=data["reason"],
        message=data["message"],
        violations=tuple(map(_violation, data["violations"])),
        extra_fields=tuple(data["extra_fields"]),
        notes=tuple(map(Note, data["notes"])),
        dialect=data["dialect"],
        second_opinion=SecondOpinion(data["second_opinion"]),
        instance=instance,
    )


def _violation(parts: list[str]) -> Violation:
    keyword, instance_path, schema_path, message = parts
    return Violation(keyword=keyword, instance_path=instance_path, schema_path=schema_path, message=message)


def problem_to_dict(problem: SchemaProblem | None) -> dict[str, str] | None:
    """The problem as builtins."""
    if problem is None:
        return None
    return {
        "failure_type": problem.failure_type.value,
        "reason": problem.reason,
        "message": problem.message,
    }


def problem_from_dict(data: dict[str, str] | None) -> SchemaProblem | None:
    """The inverse of `problem_to_dict`."""
    if data is None:
        return None
    unjudged = data["failure_type"] == FailureType.UNJUDGED
    return SchemaProblem(
        failure_type=FailureType.UNJUDGED if unjudged else FailureType.INVALID_SCHEMA,
        reason=data["reason"],
        message=data["message"],
    )


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
