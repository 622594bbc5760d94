from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas.contradictions import find_impossible_bound


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no value lies between minimum 5 and maximum 3"),
        ({"exclusiveMinimum": 3, "maximum": 3}, "no value lies between exclusiveMinimum 3 and maximum 3"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "no value lies between minLength 2 and maxLength 1"),
        ({"type": ["array", "null"], "minItems": 2, "maxItems": 1}, "no value lies between minItems 2 and maxItems 1"),
        ({"minProperties": 2, "maxProperties": 1}, "no value lies between minProperties 2 and maxProperties 1"),
        ({"type": "integer", "maximum": 2**64}, "maximum is not a 64-bit integer"),
        ({"type": "integer", "minimum": -(2**63)}, "minimum is not a 64-bit integer"),
    ],
)
def test_impossible_bounds_are_found_at_any_place(node: dict[str, Any], problem: str) -> None:
    assert find_impossible_bound(node) == f"{problem} at /"
    nested = {"properties": {"a": {"anyOf": [{"type": "null"}, node]}}}
    assert find_impossible_bound(nested) == f"{problem} at /properties/a/anyOf/1"


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"minimum": 3, "maximum": 3},
        {"type": "string", "minimum": 5, "maximum": 3},
        {"type": "number", "maximum": 2**64},
        {"minimum": 3, "exclusiveMinimum": True, "maximum": 3},
        {"const": {"minLength": 2, "maxLength": 1}},
        {"properties": {"minLength": {"type": "null"}, "maxLength": {"type": "null"}}},
    ],
)
def test_possible_bounds_are_not_reported(schema: Any) -> None:
    assert find_impossible_bound(schema) == ""
