"""The judge that everyone else calls."""

from __future__ import annotations

import dataclasses
import functools
import platform
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pytest_jsbench.contracts import Contract, SchemaSource
from pytest_jsbench.core.child_process import ChildReply
from pytest_jsbench.errors import JudgeError, nearest
from pytest_jsbench.verdicts.dialects import DIALECTS, find_dialect
from pytest_jsbench.verdicts.guard import Guard
from pytest_jsbench.verdicts.jsontext import LONGEST_TEXT
from pytest_jsbench.verdicts.model import FailureType, JudgePolicy, SchemaProblem, Verdict
from pytest_jsbench.verdicts.schemas import write_schema
from pytest_jsbench.verdicts.wire import problem_from_dict, verdict_from_dict

if TYPE_CHECKING:
    from pytest_jsbench.cases import Schema

#: of the rules by which verdicts are reached; verdicts of different versions are not to be compared
JUDGE_VERSION = "1"

_DEFAULT_POLICY = JudgePolicy()


class Judge:
    """Decides on answers under one policy, in a child process of its own; usable from any thread."""

    def __init__(self, policy: JudgePolicy = _DEFAULT_POLICY) -> None:
        if find_dialect(policy.default_dialect) is None:
            known = nearest(policy.default_dialect, [dialect.uri for dialect in DIALECTS])
            message = f"unknown dialect '{policy.default_dialect}': {known}"
            raise JudgeError(message)
        self.policy = policy
        self._guard = Guard(dataclasses.asdict(policy))
        self._end = weakref.finalize(self, self._guard.close)

    def inspect(self, schema: Schema) -> SchemaProblem | None:
        """Why nothing can be judged by the schema; None when all is well."""
        text = write_schema(schema)
        if isinstance(text, SchemaProblem):
            return text
        answer = self._guard.ask({"op": "inspect", "schema": text})
        if answer.replies:
            return problem_from_dict(answer.replies[0]["problem"])
        reason, message = self._why_not(answer)
        return SchemaProblem(failure_type=FailureType.UNJUDGED, reason=reason, message=message)

    def judge(self, schema: Schema, text: str, *, truncated: bool = False) -> Verdict:
        """The verdict on an answer; `truncated` says that the provider stopped it at the token limit."""
        written = write_schema(schema)
        if isinstance(written, SchemaProblem):
            return Verdict(
                failure_type=written.failure_type, valid=None, reason=written.reason, message=written.message
            )
        # one character over the limit is as much too long as any number of them
        text = text[: LONGEST_TEXT + 1]
        answer = self._guard.ask({"op": "judge", "schema": written, "text": text, "truncated": truncated})
        if answer.replies:
            # each reply repeats the verdict with more of its details; what came before the child ended stands
            return verdict_from_dict(answer.replies[-1]["verdict"], answer.replies[0].get("instance"))
        reason, message = self._why_not(answer)
        return Verdict(failure_type=FailureType.UNJUDGED, valid=None, reason=reason, message=message)

    def _why_not(self, answer: ChildReply) -> tuple[str, str]:
        if answer.ending == "timeout":
            return "timeout", f"the judge had not decided after {self.policy.timeout:g} s"
        return str(answer.ending), f"the judge's process ended: {answer.detail}"

    @property
    def versions(self) -> dict[str, str]:
        """What took part in the verdicts: the judge's own rules, the libraries, Python."""
        from importlib.metadata import version

        return {
            "judge": JUDGE_VERSION,
            "jsonschema-rs": version("jsonschema-rs"),
            "jsonschema": version("jsonschema"),
            "python": platform.python_version(),
        }

    def close(self) -> None:
        """Let the child process go; it is started again when it is needed again."""
        self._guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


@functools.cache
def _shared(policy: JudgePolicy) -> Judge:
    return Judge(policy)


def judge(
    schema: SchemaSource, text: str, *, policy: JudgePolicy = _DEFAULT_POLICY, truncated: bool = False
) -> Verdict:
    """
    The verdict on one answer, by a judge that this process keeps for the policy until it ends.

    The schema is a JSON Schema, a Pydantic model, dataclass or TypedDict, or the path of a schema file.
    """
    contract = Contract.of(schema, folder=Path.cwd())
    return _shared(policy).judge(contract.schema, text, truncated=truncated)
