"""
Test bounds that contradict each other or are too large.

Some of them make a decoding library look for a grammar without end, so the tests use bounds that no library reads:
numbers that are not integers, and a limit far below 64 bits.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas import contradictions
from pytest_jsbench.schemas.contradictions import find_impossible_bound


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({"type": "number", "minimum": 5, "maximum": 3}, "no value lies between minimum 5 and maximum 3"),
        ({"type": ["number", "null"], "minimum": 5, "maximum": 3}, "no value lies between minimum 5 and maximum 3"),
        (
            {"type": "number", "exclusiveMinimum": 3, "maximum": 3},
            "no value lies between exclusiveMinimum 3 and maximum 3",
        ),
        (
            {"type": "number", "minimum": 3, "exclusiveMaximum": 3},
            "no value lies between minimum 3 and exclusiveMaximum 3",
        ),
    ],
)
def test_impossible_bounds_are_found_at_any_place(node: dict[str, Any], problem: str) -> None:
    assert find_impossible_bound(node) == f"{problem} at /"
    nested = {"properties": {"a": {"anyOf": [{"type": "null"}, node]}}}
    assert find_impossible_bound(nested) == f"{problem} at /properties/a/anyOf/1"


def test_each_pair_of_bounds_is_compared() -> None:
    pairs = {(kind, lower, upper) for kind, lower, upper in contradictions._PAIRS}

    assert {(kind, lower) for kind, lower, _ in pairs} >= {
        ("string", "minLength"),
        ("array", "minItems"),
        ("array", "minContains"),
        ("object", "minProperties"),
        ("number", "minimum"),
        ("number", "exclusiveMinimum"),
    }
    assert all(upper in (lower.replace("min", "max"), "maximum", "exclusiveMaximum") for _, lower, upper in pairs)


@pytest.mark.parametrize(("bound", "is_found"), [(1000, True), (-1000, True), (999, False), (1000.0, False)])
def test_integer_bound_beyond_the_limit_is_found(bound: float, is_found: bool) -> None:
    problem = find_impossible_bound({"type": "integer", "maximum": bound}, too_large=1000)

    assert problem == ("maximum is not a 64-bit integer at /" if is_found else "")


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({"minimum": 100}, "minimum has more than 2 digits, and maximum is missing at /"),
        ({"minimum": 100.0}, "minimum has more than 2 digits, and maximum is missing at /"),
        ({"exclusiveMinimum": 99}, "exclusiveMinimum has more than 2 digits, and maximum is missing at /"),
        ({"maximum": -100}, "maximum has more than 2 digits, and minimum is missing at /"),
        ({"exclusiveMaximum": -99}, "exclusiveMaximum has more than 2 digits, and minimum is missing at /"),
        ({"minimum": 99}, ""),
        ({"minimum": -100}, ""),
        ({"maximum": 100}, ""),
        ({"minimum": 100, "maximum": 200}, ""),
        ({"minimum": 100, "exclusiveMaximum": 200}, ""),
        ({"maximum": -100, "exclusiveMinimum": -200}, ""),
        ({"minimum": 100, "type": "number"}, ""),
        ({"minimum": 1e30}, ""),
    ],
)
def test_open_range_of_large_integers_is_found(bounds: dict[str, Any], problem: str) -> None:
    assert find_impossible_bound({"type": "integer", **bounds}, most_digits=2) == problem
    if "type" not in bounds:
        assert find_impossible_bound({"type": ["null", "integer"], **bounds}, most_digits=2) == problem


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"minimum": 3, "maximum": 3},
        {"type": "string", "minimum": 5, "maximum": 3},
        {"minimum": 3, "exclusiveMinimum": True, "maximum": 3},
        {"properties": {"minLength": {"type": "null"}, "maxLength": {"type": "null"}}},
    ],
)
def test_possible_bounds_are_not_reported(schema: Any) -> None:
    assert find_impossible_bound(schema) == ""
