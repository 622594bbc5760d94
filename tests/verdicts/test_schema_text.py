from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from pytest_jsbench.core.errors import JudgeError
from pytest_jsbench.schemas.dialects import DIALECTS
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

LOOP: dict[str, Any] = {}
LOOP["items"] = LOOP


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


BROKEN: list[tuple[Any, str]] = [
    (5, "not_a_schema"),
    (None, "not_a_schema"),
    ([], "not_a_schema"),
    ("string", "not_a_schema"),
    (nested(300), "too_deep"),
    (nested(100_000), "too_deep"),
    ({"const": {1, 2}}, "not_json"),
    ({"const": float("nan")}, "not_json"),
    (LOOP, "not_json"),
    ({"const": "\ud800"}, "not_json"),
    ({"type": "text"}, "metaschema"),
    ({"minimum": "1"}, "metaschema"),
    ({"properties": []}, "metaschema"),
    ({"$schema": DRAFT_4, "required": []}, "metaschema"),
    # draft 4, 5.5.1: the array MUST have at least one element, and elements MUST be unique
    ({"$schema": DRAFT_4, "enum": []}, "metaschema"),
    ({"$schema": DRAFT_4, "properties": {"a": {"enum": ["x", "y", "x"]}}}, "metaschema"),
    ({"$schema": DRAFT_4, "items": {"enum": [{"a": 1}, {"a": 1.0}]}}, "metaschema"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "unknown_dialect"),
    ({"$schema": "https://example.com/mine"}, "unknown_dialect"),
    ({"$schema": 5}, "unknown_dialect"),
    ({"$ref": "#/$defs/none"}, "unresolvable_reference"),
    ({"properties": {"a": {"$ref": "https://example.com/x"}}}, "unresolvable_reference"),
    ({"$ref": "other.json"}, "unresolvable_reference"),
    ({"pattern": "("}, "pattern"),
    ({"patternProperties": {"[": {}}}, "pattern"),
]


@pytest.mark.parametrize(("schema", "reason"), BROKEN)
def test_a_broken_schema_is_found_before_and_excluded_after(judge: Judge, schema: Any, reason: str) -> None:
    problem = judge.inspect(schema)
    assert problem is not None
    assert (problem.failure_type, problem.reason) == (FailureType.INVALID_SCHEMA, reason)
    assert problem.message.isprintable()
    assert len(problem.message) <= 300
    verdict = judge.judge(schema, "not even JSON")
    assert (verdict.failure_type, verdict.valid) == (FailureType.INVALID_SCHEMA, None)
    assert (verdict.reason, verdict.message) == (problem.reason, problem.message)


@pytest.mark.parametrize(("schema", "reason"), BROKEN)
def test_jsonschema_alone_finds_the_same_schemas_broken(schema: Any, reason: str, jsonschema_judge: Judge) -> None:
    problem = jsonschema_judge.inspect(schema)
    assert problem is not None
    assert problem.reason == reason


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema#"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "http://json-schema.org/draft-04/schema#"},
        {"$ref": "#"},
        {"pattern": r"^PUBMED:\{d}"},
        {"patternProperties": {r"\_": {}}},
        {"required": []},
        # from draft 6 on an enum SHOULD have values, and distinct ones
        *({"$schema": later.uri, "enum": values} for later in DIALECTS[1:] for values in ([], [1, 1])),
        {"$schema": DRAFT_4, "enum": [1, True, "1"], "default": {"enum": []}, "x": {"enum": []}},
        {"$schema": DRAFT_4, "properties": {"enum": {"pattern": "^\\w$"}}},
        nested(120),
        MappingProxyType({"properties": MappingProxyType({"a": {"type": "string"}})}),
    ],
)
def test_a_sound_schema_has_no_problem(judge: Judge, schema: Any) -> None:
    assert judge.inspect(schema) is None


def test_a_mapping_of_any_kind_is_judged_by(judge: Judge) -> None:
    schema = MappingProxyType({"properties": MappingProxyType({"a": {"type": "string"}})})
    assert judge.judge(schema, '{"a": 1}').keyword == "type"


def test_the_verdict_names_the_dialect(judge: Judge) -> None:
    assert judge.judge({"$schema": "http://json-schema.org/draft-04/schema"}, "1").dialect == DRAFT_4
    assert judge.judge(True, "nonsense").dialect == "https://json-schema.org/draft/2020-12/schema"


def test_the_default_dialect_is_the_policys() -> None:
    schema = {"type": "integer"}
    with Judge(JudgePolicy(default_dialect=DRAFT_4)) as judge:
        assert judge.judge(schema, "1.0").valid is False
        assert judge.judge({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, "1.0").passed


def test_an_unknown_default_dialect_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(JudgeError, match=r"did you mean 'http://json-schema\.org/draft-07/schema#'"):
        Judge(JudgePolicy(default_dialect="http://json-schema.org/draft-07/scheme#"))
