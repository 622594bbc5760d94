from __future__ import annotations

import json

import pytest

from pytest_jsbench.verdicts import FailureType, Note, SchemaProblem, SecondOpinion, Verdict, Violation
from pytest_jsbench.verdicts.verdict_json import problem_from_dict, problem_to_dict, verdict_from_dict, verdict_to_dict

VIOLATION = Violation(keyword="type", instance_path="$.a", schema_path="/properties/a/type", message="no")


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(failure_type=None, valid=True),
        Verdict(
            failure_type=FailureType.SCHEMA_VIOLATION,
            valid=False,
            reason="r",
            message="m",
            violations=(VIOLATION, VIOLATION),
            extra_fields=("$.a", "$.b"),
            misplaced_fields=("$.b",),
            notes=(Note.FENCED, Note.DUPLICATE_KEYS),
            dialect="d",
            second_opinion=SecondOpinion.DISAGREES,
        ),
    ],
)
def test_a_verdict_arrives_as_it_was_sent(verdict: Verdict) -> None:
    arrived = verdict_from_dict(json.loads(json.dumps(verdict_to_dict(verdict))), instance=[1])
    assert arrived == verdict
    assert arrived.instance == [1]


@pytest.mark.parametrize(
    "problem",
    [
        None,
        SchemaProblem(failure_type=FailureType.INVALID_SCHEMA, reason="r", message="m"),
        SchemaProblem(failure_type=FailureType.UNJUDGED, reason="r", message="m"),
    ],
)
def test_a_problem_arrives_as_it_was_sent(problem: SchemaProblem | None) -> None:
    assert problem_from_dict(json.loads(json.dumps(problem_to_dict(problem)))) == problem
