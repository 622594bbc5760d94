from __future__ import annotations

import math
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_jsbench.schemas.example_values import NoExample, make_example

#: Each definition needs the next one ten times: the last one a billion times.
DOUBLING = {
    str(level): {"prefixItems": [{"$ref": f"#/$defs/{level + 1}"}] * 10, "type": "array"} for level in range(9)
} | {"9": {"const": 1}}
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (True, {}),
        ({}, {}),
        ({"const": 4}, 4),
        ({"enum": ["EUR", "USD"]}, "EUR"),
        ({"type": "string", "pattern": "^A", "examples": ["A1"]}, "A1"),
        ({"type": "integer", "default": 8}, 1),
        ({"type": "string", "pattern": "^A", "default": "A1"}, "A1"),
        ({"enum": ["EUR", "USD"], "default": "EUR"}, "USD"),
        ({"enum": [None, "EUR"]}, "EUR"),
        ({"enum": ["EUR"], "default": "EUR"}, "EUR"),
        ({"type": "string"}, "example"),
        ({"type": "string", "minLength": 9}, "exampleex"),
        ({"type": "string", "maxLength": 2}, "ex"),
        ({"type": "string", "minLength": 9.0}, "exampleex"),
        ({"type": "string", "maxLength": 2.0}, "ex"),
        ({"type": "string", "maxLength": math.inf}, "example"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5, "multipleOf": 4}, 8),
        ({"type": "number", "exclusiveMinimum": 1}, 2),
        ({"type": "number", "maximum": 0}, 0),
        ({"type": ["null", "boolean"]}, True),
        ({"type": "null"}, None),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "example"),
        ({"oneOf": [{"type": "string", "pattern": "x"}, {"type": "null"}]}, None),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]}, [1, 2]),
        ({"type": "array", "items": [{"const": 1}]}, [1]),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"const": 3}}}, {"a": 3}),
        ({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}, {"b": 2, "a": 1}),
        ({"required": ["a"]}, {"a": {}}),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "const": 3}}}, 3),
    ],
)
def test_example_of_a_keyword(schema: Any, example: Any) -> None:
    assert make_example(schema) == example


def test_example_can_use_the_defaults() -> None:
    schema = {"properties": {"a": {"type": "integer", "default": 8}, "b": {"type": "integer"}}}

    assert make_example(schema, use_defaults=True) == {"a": 8, "b": 1}


def test_example_of_a_recursive_schema_conforms() -> None:
    assert Draft202012Validator(TREE).is_valid(make_example(TREE))


def test_example_can_omit_optional_properties() -> None:
    assert make_example(TREE, only_required=True) == {"name": "example"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (False, "no value conforms"),
        ({"type": "string", "pattern": "^A"}, "`pattern` needs an example"),
        ({"$ref": "other.json"}, "leaves the schema"),
        ({"$ref": "#/$defs/a"}, "cannot be resolved"),
        ({"$ref": "#"}, "without an end"),
        ({"required": ["a"], "properties": {"a": {"$ref": "#"}}}, "without an end"),
        ({"type": "array", "minItems": 10**9}, "more than 10,000 schemas"),
        ({"type": "string", "minLength": 10**9}, "more than 10,000 characters"),
        ({"type": "number", "minimum": math.inf}, "bounds are too large"),
        ({"type": "number", "minimum": math.inf, "multipleOf": math.inf}, "bounds are too large"),
        ({"type": "number", "minimum": 10**400, "multipleOf": 2.5}, "bounds are too large"),
        ({"$ref": "#/$defs/0", "$defs": DOUBLING}, "more than 10,000 schemas"),
    ],
)
def test_schema_without_an_example_is_named(schema: Any, problem: str) -> None:
    with pytest.raises(NoExample, match=problem):
        make_example(schema)
