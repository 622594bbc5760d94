"""Restatements of enums, and the schemas that they leave unchanged."""

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
def test_enum_restatement_removes_duplicate_values(values: list[Any], once: list[Any]) -> None:
    assert enums({"enum": values}, DRAFT_7) == [{"enum": once}]


def test_enum_restatement_replaces_empty_enum_by_not() -> None:
    assert enums({"enum": [], "type": "null"}, DRAFT_2020_12) == [{"type": "null", "not": {}}]


def test_enum_restatement_skips_distinct_values() -> None:
    assert enums({"enum": [1, True, "1", [1]]}, DRAFT_7) == []


def test_enum_restatement_skips_duplicates_in_draft_4() -> None:
    assert enums({"enum": [1, 1]}, DRAFT_4) == []


@pytest.mark.parametrize("dialect", [DRAFT_4, DRAFT_7])
def test_enum_restatement_removes_values_equal_as_doubles(dialect: Dialect) -> None:
    assert enums({"enum": [2**53, 2**53 + 1]}, dialect) == [{"enum": [2**53]}]
