"""
A judge whose validators hang, die or fill the memory if the schema's `$comment` requires it.

The repository must not contain input that makes a real validator hang. `StandInCalls` sends a judge's requests to this
module, which the child imports. It judges as the package does, except that one step misbehaves. For the guards around
the child there is no difference.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pytest_jsbench.core.child_process import ChildReply
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.verdicts import SecondOpinion, in_process
from pytest_jsbench.verdicts.extra_fields import FieldNames
from pytest_jsbench.verdicts.in_process import Compiled, InProcessJudge
from pytest_jsbench.verdicts.verdicts import JudgePolicy, Verdict, Violation

Step = Literal["compile", "validate", "first violation", "all violations", "second opinion"]
Trouble = Literal["hang", "no memory in Python", "no memory in Rust"]


def troubled(step: Step, trouble: Trouble = "hang", **schema: Any) -> dict[str, Any]:
    """Return a schema for which one step of judging hangs or ends its process."""
    return {**schema, "$comment": f"{trouble}: {step}"}


class StandInCalls(GuardedCalls):
    """Calls of a judge that this module answers."""

    def values_of(self, function: str, *arguments: Any, **bounds: Any) -> ChildReply:
        return super().values_of(f"{__name__}:{function.partition(':')[2]}", *arguments, **bounds)


def _misbehave(trouble: str) -> None:
    match trouble:
        case "hang":
            time.sleep(600)
        case "no memory in Python":
            raise MemoryError
        case "no memory in Rust":
            print("memory allocation of 24 bytes failed", file=sys.stderr, flush=True)
            os._exit(134)
        case _:
            raise AssertionError(f"unknown trouble {trouble!r}")


@dataclass(frozen=True)
class TroubledValidator:
    """Validator of a schema with trouble in one of its steps."""

    validator: Any
    trouble: str
    step: str

    def is_valid(self, instance: Any) -> bool:
        self._reach("validate")
        valid: bool = self.validator.is_valid(instance)
        return valid

    def violations(self, instance: Any, names: FieldNames, *most: int) -> tuple[Violation, ...]:
        self._reach("first violation")
        if most != (1,):
            self._reach("all violations")
        violations: tuple[Violation, ...] = self.validator.violations(instance, names, *most)
        return violations

    def opinion(self, instance: Any, *, valid: bool) -> SecondOpinion:
        self._reach("second opinion")
        opinion: SecondOpinion = self.validator.opinion(instance, valid=valid)
        return opinion

    def _reach(self, step: Step) -> None:
        if step == self.step:
            _misbehave(self.trouble)


class TroubledJudge(InProcessJudge):
    """Judge that reads the misbehaving step from a schema's `$comment`."""

    def compile(self, schema_text: str) -> Compiled | Verdict:
        schema = json.loads(schema_text)
        comment = schema.get("$comment", "") if isinstance(schema, dict) else ""
        trouble, separator, step = comment.partition(": ")
        if separator and step == "compile":
            _misbehave(trouble)
        compiled = super().compile(schema_text)
        if separator and isinstance(compiled, Compiled):
            second = compiled.second_validator
            validator: Any = TroubledValidator(compiled.validator, trouble, step)
            compiled.validator = validator
            # as if the schema had references: the first violation is requested before all of them
            compiled.may_refer = True
            vars(compiled)["second_validator"] = second and TroubledValidator(second, trouble, step)
        return compiled


@functools.cache
def _judge(policy: str) -> TroubledJudge:
    values = json.loads(policy)
    return TroubledJudge(JudgePolicy(**{**values, "ignored_fields": tuple(values["ignored_fields"])}))


vars(in_process)["_judge"] = _judge


def inspect_schema(schema: str, policy: str) -> Any:
    return in_process.inspect_schema(schema, policy)


def constants(schema: str, policy: str) -> Any:
    return in_process.constants(schema, policy)


def judge_answer(schema: str, policy: str, text: str, truncated: bool, trivial: bool) -> Iterator[Any]:
    return in_process.judge_answer(schema, policy, text, truncated, trivial)
