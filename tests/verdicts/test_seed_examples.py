from __future__ import annotations

import json

from pytest_jsbench.verdicts import FailureType, Judge

SCHEMA = {
    "properties": {
        "dimensions": {
            "properties": {
                "height": {"description": "The height", "type": "number"},
                "radius": {"description": "The radius", "type": "number"},
                "width": {"description": "The width", "type": "number"},
            },
            "required": ["width", "height", "radius"],
            "type": "object",
        },
        "shape": {"description": "The shape for which to calculate the area", "type": "string"},
    },
    "required": ["shape", "dimensions"],
    "type": "object",
}
CORRECT = {"shape": "rectangle", "dimensions": {"width": 10.5, "height": 20.0, "radius": 5.0}}


def test_the_correct_output_passes(judge: Judge) -> None:
    verdict = judge.judge(SCHEMA, json.dumps(CORRECT, indent=2))
    assert verdict.passed
    assert verdict.valid
    assert verdict.instance == CORRECT


def test_the_missing_closing_brace_is_a_syntax_error(judge: Judge) -> None:
    verdict = judge.judge(SCHEMA, '{\n  "shape": "rectangle",\n  "dimensions": {\n    "width": 10.5\n  }')
    assert verdict.failure_type is FailureType.SYNTAX_ERROR
    assert verdict.reason == "incomplete"
    assert verdict.valid is None


def test_the_width_as_a_string_is_a_schema_violation(judge: Judge) -> None:
    verdict = judge.judge(SCHEMA, json.dumps(CORRECT).replace("10.5", '"10.5"'))
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert verdict.keyword == "type"
    assert verdict.violations[0].instance_path == "$.dimensions.width"
    assert verdict.violations[0].schema_path == "/properties/dimensions/properties/width/type"


def test_the_color_and_the_comment_are_a_hallucination(judge: Judge) -> None:
    answer = {**CORRECT, "color": "blue", "comment": "This is a nice shape"}
    verdict = judge.judge(SCHEMA, json.dumps(answer))
    assert verdict.failure_type is FailureType.HALLUCINATION
    assert verdict.extra_fields == ("$.color", "$.comment")
    assert verdict.valid is True
