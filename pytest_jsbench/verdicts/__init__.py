"""
The judge: decide whether a text conforms to a schema, and if not, why.

`judge.Judge` passes schema and text to a child process, where `in_process` decides. `schema_text` reads the schema, and
`answer_text` reads the answer. `validation` validates the answer with jsonschema-rs, `extra_fields` finds fields that
the schema does not name, and `second_opinion` validates the answer with jsonschema. `judge.decide` also judges attempts
without text. `verdicts` defines the types of a verdict and its messages.

The names of `judge` are loaded on first use, since the child process needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.verdicts.verdicts import (
    NO_TOOL_CALLED,
    NOT_REWRITTEN,
    NOT_THE_MODELS,
    UNDESCRIBED,
    WITHOUT_SCHEMA,
    FailureType,
    JudgePolicy,
    Note,
    SecondOpinion,
    Verdict,
    Violation,
)

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.judge import JUDGE_VERSION, Judge, decide

__all__ = [
    "JUDGE_VERSION",
    "NOT_REWRITTEN",
    "NOT_THE_MODELS",
    "NO_TOOL_CALLED",
    "UNDESCRIBED",
    "WITHOUT_SCHEMA",
    "FailureType",
    "Judge",
    "JudgePolicy",
    "Note",
    "SecondOpinion",
    "Verdict",
    "Violation",
    "decide",
]


if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept every name

    def __getattr__(name: str) -> object:
        if name in {"JUDGE_VERSION", "Judge", "decide"}:
            from pytest_jsbench.verdicts import judge

            return getattr(judge, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
