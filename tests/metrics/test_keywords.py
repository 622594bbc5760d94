from __future__ import annotations

import pytest

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.metrics.summary import by_keyword
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests import examples
from tests.examples import record


def broken(*keywords: str) -> Verdict:
    return Verdict(
        failure_type=FailureType.SCHEMA_VIOLATION,
        valid=False,
        violations=tuple(
            Violation(keyword=name, instance_path="$", schema_path=f"/{name}", message="no") for name in keywords
        ),
    )


@pytest.mark.parametrize(
    ("schema", "keywords"),
    [
        (True, set()),
        (None, set()),
        ({}, set()),
        ({"type": "string", "title": "A title", "default": {"minimum": 3}, "enum": ["maximum"]}, {"type", "enum"}),
        ({"properties": {"minimum": {"maximum": 3}}}, {"properties", "maximum"}),
        ({"$defs": {"pattern": {"const": {"not": {}}}}, "$ref": "#/$defs/pattern"}, {"$ref", "const"}),
        ({"items": [{"format": "date"}, {"anyOf": [{"minItems": 1}]}]}, {"items", "format", "anyOf", "minItems"}),
    ],
)
def test_a_schema_uses_what_can_make_an_instance_invalid(schema: Schema | None, keywords: set[str]) -> None:
    assert used_keywords(schema) == keywords


def test_an_answer_counts_once_for_each_keyword_that_it_breaks() -> None:
    found = by_keyword(
        [
            record("a", schema={"type": "object", "minProperties": 1}, verdict=broken("type", "type", "minProperties")),
            record("b", schema={"type": "string"}, verdict=broken("type")),
            record("c", schema={"type": "string"}),
        ]
    )

    assert [(name, one.failures, one.pass_rate.successes, one.pass_rate.n) for name, one in found.items()] == [
        ("type", 2, 1, 3),
        ("minProperties", 1, 0, 1),
    ]


def test_what_is_broken_and_not_used_has_no_pass_rate() -> None:
    figures = by_keyword([record(schema=False, verdict=broken("false"))])["false"].to_dict()

    assert (figures["failures"], figures["attempts"], figures["pass_rate"]) == (1, 0, None)


def test_a_broken_schema_is_in_no_row() -> None:
    assert by_keyword([record(schema={"type": "strin"}, verdict=examples.EXCLUDED)]) == {}
