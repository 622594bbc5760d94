"""
The judge: does this text conform to this schema, and if not, in what way does it not.

`judge.Judge` passes schema and text to a child process, where `in_process` decides. `schema_text` reads the schema,
`answer_text` the answer, `validation` holds one against the other with jsonschema-rs, `extra_fields`
finds the fields that it does not name, `second_opinion` asks jsonschema.
`judge.decide` also judges attempts that have no text. `verdicts` holds the values that a verdict is made of, and
says them in words.
"""

from __future__ import annotations

from pytest_jsbench.verdicts.judge import JUDGE_VERSION, Judge, decide
from pytest_jsbench.verdicts.verdicts import (
    NOT_THE_MODELS,
    UNDESCRIBED,
    FailureType,
    JudgePolicy,
    Note,
    SecondOpinion,
    Verdict,
    Violation,
)

__all__ = [
    "JUDGE_VERSION",
    "NOT_THE_MODELS",
    "UNDESCRIBED",
    "FailureType",
    "Judge",
    "JudgePolicy",
    "Note",
    "SecondOpinion",
    "Verdict",
    "Violation",
    "decide",
]
