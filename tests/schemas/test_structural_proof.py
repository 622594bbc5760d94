from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from pytest_jsbench.schemas.sample_values import sample_values
from pytest_jsbench.schemas.structural_proof import StructuralProof
from tests.support.fuzzing import examples
from tests.support.random_schemas import schemas

STRING = {"type": "string"}
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
    "required": ["v"],
}
LIST = {"$defs": {"N": NODE}, "$ref": "#/$defs/N"}
STRICT_LIST = {"$defs": {"N": {**NODE, "required": ["v", "next"], "additionalProperties": False}}, "$ref": "#/$defs/N"}


def dynamic(kind: str) -> Any:
    """Return a schema whose meaning depends on a definition that nothing else tells apart."""
    return {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": kind}}}


def covers(outer: Any, inner: Any) -> bool:
    return StructuralProof(outer, inner).covers()


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (True, STRING),
        (STRING, False),
        ({"type": ["string", "null"]}, STRING),
        ({"type": "number"}, {"type": "integer", "minimum": 1}),
        ({"minimum": 1}, {"minimum": 2}),
        ({"maxLength": 9}, {"maxLength": 8, "pattern": "^a"}),
        ({"enum": ["a", "b"]}, {"const": "a"}),
        (STRING, {"enum": ["a", "b"]}),
        ({"type": "integer"}, {"enum": [1, 1.0, 10**400]}),
        ({"type": ["number", "null"]}, {"enum": [1, 1.5, None]}),
        ({"anyOf": [STRING, {"type": "null"}]}, STRING),
        ({"anyOf": [{"type": "null"}, STRING]}, {"anyOf": [STRING, {"type": "null"}]}),
        (STRING, {"oneOf": [{"const": "a"}, {"const": "b"}]}),
        ({"properties": {"a": STRING}}, {"properties": {"a": STRING}, "required": ["a"]}),
        ({"properties": {"a": STRING}}, {"additionalProperties": False}),
        (
            {"properties": {"a": STRING}},
            {"allOf": [{"properties": {"a": STRING}}, {"properties": {"a": STRING}, "additionalProperties": False}]},
        ),
        (STRING, {"unevaluatedProperties": False, "allOf": [STRING, {"properties": {"a": STRING}}]}),
        (
            {"additionalProperties": {"type": "integer"}},
            {"properties": {"a": {"const": 1}}, "additionalProperties": False},
        ),
        ({"type": "array", "items": STRING}, {"type": "array", "prefixItems": [STRING], "items": {"const": "x"}}),
        ({"prefixItems": [STRING]}, {"items": STRING}),
        ({"$ref": "#/$defs/S", "$defs": {"S": STRING}}, {"allOf": [{"type": "string"}], "minLength": 1}),
        (LIST, STRICT_LIST),
        (LIST, {**NODE, "$defs": {"N": NODE}}),
    ],
)
def test_containment_is_proved(outer: Any, inner: Any) -> None:
    assert covers(outer, inner)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (STRING, True),
        (STRING, {"type": ["string", "null"]}),
        ({"minimum": 2}, {"minimum": 1}),
        ({"required": ["a"]}, {"properties": {"a": STRING}}),
        ({"additionalProperties": False}, {"properties": {"a": STRING}, "additionalProperties": False}),
        ({"pattern": "^a"}, {"pattern": "^ab"}),
        ({"oneOf": [STRING, {"minLength": 1}]}, STRING),
        ({"items": STRING}, {"prefixItems": [STRING]}),
        ({"properties": {"a": STRING}}, {"patternProperties": {"^a": {"type": "integer"}}}),
        (
            {"properties": {"a": STRING}, "additionalProperties": False},
            {"allOf": [{"properties": {"a": STRING}}, {"properties": {"b": STRING}, "additionalProperties": False}]},
        ),
        (STRICT_LIST, LIST),
        ({"$ref": "#"}, STRING),
        ({"anyOf": [{"$ref": "#"}]}, STRING),
        ({"$ref": "https://example.com/other"}, STRING),
        (dynamic("string"), dynamic("integer")),
        ({"type": "integer"}, {"enum": [1, True]}),
        ({"type": "integer"}, {"const": 1.5}),
    ],
)
def test_nothing_is_proved_without_a_reason(outer: Any, inner: Any) -> None:
    assert not covers(outer, inner)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"additionalProperties": STRING}, {"additionalProperties": STRING, "properties": {"a": {}}}),
        ({"additionalProperties": STRING}, {"additionalProperties": STRING, "patternProperties": {"^a": {}}}),
        ({"items": STRING}, {"items": STRING, "prefixItems": [{}]}),
        ({"items": STRING}, {"prefixItems": [{}]}),
        ({"contains": STRING}, {"contains": STRING, "minContains": 0}),
        ({"maxContains": 1}, {"contains": STRING}),
        ({"then": STRING}, {"if": {"minLength": 1}}),
        ({"unevaluatedProperties": False}, {"properties": {"a": {}}}),
        ({"unevaluatedItems": False}, {"prefixItems": [{}]}),
    ],
)
def test_keywords_that_depend_on_others_are_not_merged(first: Any, second: Any) -> None:
    merged = {**first, **second}

    for parts in ([first, second], [second, first]):
        assert not covers(merged, {"allOf": parts}) or not covers({"allOf": parts}, merged)


LEAVES = [
    {},
    STRING,
    {"const": 1},
    {"minimum": 2},
    {"type": ["null", "integer"]},
    {"minLength": 1},
    {"pattern": "^e"},
    False,
]


@examples(200)
@given(schemas(LEAVES), schemas(LEAVES), st.booleans())
def test_no_value_contradicts_a_proof(first: Any, second: Any, both: bool) -> None:
    outer = first
    inner = {"allOf": [first, second]} if both else second
    if covers(outer, inner):
        wide = Draft202012Validator(outer)
        narrow = Draft202012Validator(inner)
        values = [*sample_values(outer, most=60), *sample_values(inner, most=60)]
        assert [value for value in values if narrow.is_valid(value) and not wide.is_valid(value)] == []
