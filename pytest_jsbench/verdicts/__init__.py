"""
The judge: does this text conform to this schema, and if not, in what way does it not.

`judges.Judge` passes schema and text to a child process (`guard`, `child`), where `inprocess` decides.
`schemas` and `dialects` read the schema, `jsontext` the answer, `validation` holds one against the other with
jsonschema-rs, `unnamed` finds the fields that the schema names nowhere, `second` asks jsonschema. `decisions`
does the same for attempts that have no text. `model` holds what a verdict is made of.
"""

from __future__ import annotations

from pytest_jsbench.verdicts.judge import JUDGE_VERSION, Judge, decide
from pytest_jsbench.verdicts.verdicts import (
    FailureType,
    JudgePolicy,
    Note,
    SchemaProblem,
    SecondOpinion,
    Verdict,
    Violation,
)

__all__ = [
    "JUDGE_VERSION",
    "FailureType",
    "Judge",
    "JudgePolicy",
    "Note",
    "SchemaProblem",
    "SecondOpinion",
    "Verdict",
    "Violation",
    "decide",
]
