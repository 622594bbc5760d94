"""Verdicts as JSON values: in records, and on their way from the judge's child process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from types import NoneType
from typing import Any

from pytest_jsbench.core.json_values import expect
from pytest_jsbench.verdicts.verdicts import FailureType, Note, SchemaProblem, SecondOpinion, Verdict, Violation


def problem_to_dict(problem: SchemaProblem | None) -> dict[str, str] | None:
    """The problem as JSON values."""
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
        "tool": verdict.tool,
        "violations": [asdict(violation) for violation in verdict.violations],
        "extra_fields": list(verdict.extra_fields),
        "misplaced_fields": list(verdict.misplaced_fields),
        "notes": [note.value for note in verdict.notes],
        "order_kept": verdict.order_kept,
        "dialect": verdict.dialect,
        "second_opinion": verdict.second_opinion.value,
    }


def verdict_from_dict(data: Mapping[str, Any], instance: object = None) -> Verdict:
    """The inverse of `verdict_to_dict`, with the instance put back where it is known."""
    failure_type = data["failure_type"]
    return Verdict(
        failure_type=failure_type and FailureType(failure_type),
        valid=data["valid"],
        reason=expect(data["reason"], "reason", str, NoneType),
        message=expect(data["message"], "message", str),
        tool=expect(data["tool"], "tool", str, NoneType),
        violations=tuple(map(_violation, data["violations"])),
        extra_fields=_paths(data["extra_fields"], "extra_fields"),
        misplaced_fields=_paths(data["misplaced_fields"], "misplaced_fields"),
        notes=tuple(Note(note) for note in data["notes"]),
        order_kept=expect(data["order_kept"], "order_kept", bool, NoneType),
        dialect=data["dialect"],
        second_opinion=SecondOpinion(data["second_opinion"]),
        instance=instance,
    )


def _paths(data: Iterable[Any], name: str) -> tuple[str, ...]:
    return () if data == [] else tuple(expect(path, f"a path in {name}", str) for path in data)


def _violation(data: Mapping[str, Any]) -> Violation:
    return Violation(
        keyword=expect(data["keyword"], "keyword", str),
        instance_path=expect(data["instance_path"], "instance_path", str),
        schema_path=expect(data["schema_path"], "schema_path", str),
        message=expect(data["message"], "message", str),
    )
