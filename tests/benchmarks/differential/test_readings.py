"""Alternative readings of a pair: their effect, and what they leave unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.differential.questions import SchemaQuestion
from benchmarks.differential.readings import RESTATEMENTS
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_7, DRAFT_2020_12, Dialect


def enums(schema: Any, dialect: Dialect) -> list[Any]:
    question = SchemaQuestion(name="one", schema=schema, dialect=dialect, texts=("1",))
    others = RESTATEMENTS["enums of distinct values"](question)
    return [other.schema for other in others if isinstance(other, SchemaQuestion)]


@pytest.mark.parametrize(
    ("values", "once"), [([1, 2, 1], [1, 2]), ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], [{"a": 1, "b": 2}])]
)
def test_a_value_that_an_enum_has_twice_is_asked_once(values: list[Any], once: list[Any]) -> None:
    assert enums({"enum": values}, DRAFT_7) == [{"enum": once}]


def test_an_enum_without_values_is_asked_as_what_nothing_conforms_to() -> None:
    assert enums({"enum": [], "type": "null"}, DRAFT_2020_12) == [{"type": "null", "not": {}}]


def test_an_enum_of_distinct_values_is_not_asked_again() -> None:
    assert enums({"enum": [1, True, "1", [1]]}, DRAFT_7) == []


def test_draft_4_wants_the_values_of_an_enum_to_differ_so_that_no_other_way_means_the_same() -> None:
    assert enums({"enum": [1, 1]}, DRAFT_4) == []


@pytest.mark.parametrize("dialect", [DRAFT_4, DRAFT_7])
def test_values_that_only_doubles_take_for_the_same_are_asked_once(dialect: Dialect) -> None:
    assert enums({"enum": [2**53, 2**53 + 1]}, dialect) == [{"enum": [2**53]}]
