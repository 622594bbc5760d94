from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_jsbench.verdicts import Judge, JudgePolicy, SecondOpinion

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_a_schema_is_read_by_its_own_draft(judge: Judge) -> None:
    dependent = {"$schema": DRAFT_4, "dependencies": {"a": ["b"]}, "properties": {"a": {}, "b": {}}}
    assert judge.judge(dependent, '{"a": 1}').keyword == "dependencies"
    siblings = {"$schema": DRAFT_7, "$ref": "#/definitions/s", "minLength": 5, "definitions": {"s": {"type": "string"}}}
    assert judge.judge(siblings, '"x"').passed
    exclusive = {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}
    assert judge.judge(exclusive, "1").valid is False
    assert judge.judge(exclusive, "2").passed
    assert judge.inspect({**exclusive, "$schema": DRAFT_7}) is not None
    anchored = {
        "$schema": DRAFT_4,
        "properties": {"a": {"$ref": "#x"}},
        "definitions": {"x": {"id": "#x", "type": "string"}},
    }
    assert judge.judge(anchored, '{"a": 1}').keyword == "type"
    pair = {"$schema": DRAFT_7, "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}
    assert judge.judge(pair, '["a", 1]').passed
    assert judge.judge(pair, '["a", 1, 2]').keyword == "additionalItems"
    assert judge.judge({"$schema": DRAFT_4, "type": "integer"}, "1.0").valid is False
    assert judge.judge({"type": "integer"}, "1.0").passed


def test_embedded_schema_is_read_by_its_own_draft(
    judge: Judge,
) -> None:
    embedded = {"$id": "https://e.org/e", "$schema": DRAFT_7, "dependentRequired": {"a": ["b"]}}
    by_uri, by_pointer = (
        judge.judge({"$ref": reference, "$defs": {"e": embedded}}, '{"a": 1}')
        for reference in ("https://e.org/e", "#/$defs/e")
    )
    assert (by_uri.valid, by_uri.second_opinion) == (True, SecondOpinion.AGREES)
    assert by_pointer.disputed


def test_a_property_may_be_called_like_a_keyword(judge: Judge) -> None:
    schema = {
        "type": "object",
        "properties": {"properties": {"type": "string"}, "required": {"type": "boolean"}},
        "required": ["properties", "required"],
        "additionalProperties": False,
    }
    assert judge.judge(schema, '{"properties": "x", "required": true}').passed
    assert judge.judge(schema, '{"properties": "x"}').keyword == "required"


def test_the_schema_itself_decides_and_stays_as_it_was(judge: Judge) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["b"]}
    before = copy.deepcopy(schema)
    assert judge.judge(schema, '{"b": 1}').passed
    assert judge.judge(schema, '{"a": "x"}').keyword == "required"
    assert schema == before


def test_two_schemas_with_the_same_id_do_not_meet(judge: Judge) -> None:
    text = {"$id": "https://example.org/same", "type": "string"}
    number = {"$id": "https://example.org/same", "type": "integer"}
    assert judge.judge(text, '"x"').passed
    assert judge.judge(number, '"x"').valid is False


def test_unknown_keywords_are_no_fault_of_a_schema(judge: Judge) -> None:
    schema = {"self": {"vendor": "x", "version": "1-0-0"}, "_format": "int32", "format": "int32", "type": "integer"}
    assert judge.inspect(schema) is None
    assert judge.judge(schema, "1").passed


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x.json", "https://example.org/x", "file:///etc/hostname"])
@pytest.mark.parametrize("validator", ["both", "jsonschema"])
def test_references_are_never_fetched(reference: str, validator: Any) -> None:
    with Judge(JudgePolicy(validator=validator)) as judge:
        problem = judge.inspect({"properties": {"a": {"$ref": reference}}})
    assert problem is not None
    assert problem.reason == "unresolvable_reference"
    assert reference in problem.message
