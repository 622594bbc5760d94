from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.run.reduction.candidate import Candidate, LabelledAnswer
from pytest_jsbench.run.reduction.edits import forms_at, simpler_forms
from pytest_jsbench.run.reduction.reducer import reduce_candidate
from pytest_jsbench.run.reduction.schema_parts import removable_paths, remove_paths
from pytest_jsbench.schemas.keywords import walk
from pytest_jsbench.verdicts import Judge
from tests.support import random_schemas

DIALECT = "http://json-schema.org/draft-07/schema#"


class Finder:
    """A search with a rule on candidates, which counts what it was given."""

    def __init__(self, fails: Callable[[Candidate], bool]) -> None:
        self.fails = fails
        self.seen: list[Candidate] = []

    def __call__(self, candidates: Iterable[Candidate]) -> Candidate | None:
        for candidate in candidates:
            self.seen.append(candidate)
            if self.fails(candidate):
                return candidate
        return None


def reduced(schema: Any, fails: Callable[[Any], bool]) -> Any:
    return reduce_candidate(Candidate(schema=schema), Finder(lambda candidate: fails(candidate.schema))).schema


def has_keyword(schema: Any, keyword: str) -> bool:
    return isinstance(schema, dict) and any(keyword in part for part in walk(schema))


ORDER: dict[str, Any] = {
    "$schema": DIALECT,
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid", "description": "The order's id"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}, "minItems": 17},
        "state": {"enum": ["open", "paid", "sent"]},
    },
    "required": ["id", "lines", "state"],
    "additionalProperties": False,
    "definitions": {
        "line": {
            "type": "object",
            "properties": {"sku": {"type": "string", "pattern": "^ACME-[0-9]{4}$"}, "count": {"type": "integer"}},
            "required": ["sku"],
        },
        "unused": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("fails", "smallest"),
    [
        (lambda schema: has_keyword(schema, "format"), {"format": "uuid"}),
        (lambda schema: has_keyword(schema, "minItems"), {"minItems": 0}),
        (lambda schema: has_keyword(schema, "pattern"), {"pattern": ""}),
        (lambda schema: "sent" in str(schema), {"enum": ["sent"]}),
        (lambda schema: has_keyword(schema, "$ref"), {"$ref": "#/definitions/line"}),
        (lambda schema: "sku" in str(schema), {"required": ["sku"]}),
        (lambda schema: "count" in str(schema), {"properties": {"count": {}}}),
    ],
)
def test_reducer_keeps_only_what_the_failure_needs(fails: Callable[[Any], bool], smallest: Any) -> None:
    assert reduced(ORDER, fails) == {"$schema": DIALECT, **smallest}


def test_removed_property_is_no_longer_required() -> None:
    assert remove_paths(ORDER, [("properties", "id")])["required"] == ["lines", "state"]


def test_emptied_list_is_removed() -> None:
    assert remove_paths({"enum": [1], "type": "integer"}, [("enum", 0)]) == {"type": "integer"}


def test_answer_is_reduced_together_with_the_schema() -> None:
    schema = {"properties": {"a": {"properties": {"b": {"type": "integer"}, "c": {}}}, "d": {}}}
    candidate = Candidate(schema=schema, answer=LabelledAnswer(value={"a": {"b": 12, "c": "text"}, "d": [1]}))

    def fails(each: Candidate) -> bool:
        return each.answer is not None and "12" in str(each.answer.value) and has_keyword(each.schema, "type")

    smallest = reduce_candidate(candidate, Finder(fails))

    assert smallest == Candidate(schema={"type": "integer"}, answer=LabelledAnswer(value=12))


SCHEMAS = random_schemas.schemas([{}, {"enum": ["x", 3]}, {"minimum": 30}, {"pattern": "^ab$"}, {"description": "d"}])


@given(SCHEMAS, st.data())
def test_result_fails_and_nothing_smaller_does(schema: Any, data: st.DataObject) -> None:
    schema = {"$schema": DIALECT, "description": "d", **schema}
    keywords = ["enum", "minimum", "pattern", "items", "required", "anyOf", "description"]
    keyword = data.draw(st.sampled_from([each for each in keywords if has_keyword(schema, each)]))
    finder = Finder(lambda candidate: has_keyword(candidate.schema, keyword))

    smallest = reduce_candidate(Candidate(schema=schema), finder)

    assert has_keyword(smallest.schema, keyword)
    assert smallest.size <= Candidate(schema=schema).size
    assert all(
        candidate.schema["$schema"] == DIALECT for candidate in finder.seen if isinstance(candidate.schema, dict)
    )
    without_one = [remove_paths(smallest.schema, [path]) for path in removable_paths(smallest.schema)]
    assert not any(has_keyword(each, keyword) for each in without_one)
    assert not any(has_keyword(form.schema, keyword) for form in simpler_forms(smallest))


@given(SCHEMAS)
def test_each_edit_is_smaller_and_leaves_the_original_alone(schema: Any) -> None:
    before = str(schema)
    candidate = Candidate(schema=schema)

    assert all(form.size < candidate.size for form in simpler_forms(candidate))
    assert str(schema) == before


def test_reducer_meets_only_valid_schemas_if_the_rule_demands_it() -> None:
    with Judge() as judge:
        smallest = reduced(ORDER, lambda schema: judge.inspect(schema) is None and has_keyword(schema, "$ref"))

        assert judge.inspect(smallest) is None
    assert smallest == {"$schema": DIALECT, "$ref": "#/definitions/line", "definitions": {"line": {}}}


def test_place_of_a_violation_is_tried_alone_and_without_its_siblings() -> None:
    alone, with_definitions, without_siblings = (
        form.schema for form in forms_at(Candidate(schema=ORDER), "/definitions/line/properties/sku/pattern")
    )

    sku = ORDER["definitions"]["line"]["properties"]["sku"]
    assert alone == {"$schema": DIALECT, **sku}
    assert with_definitions == {"$schema": DIALECT, "definitions": ORDER["definitions"], **sku}
    assert isinstance(without_siblings, dict)
    assert without_siblings["definitions"] == {
        "line": {"type": "object", "properties": {"sku": sku}, "required": ["sku"]}
    }


@pytest.mark.parametrize("pointer", ["", "/minimum", "/properties/other/type", "/properties/lines/$ref/x/type"])
def test_unknown_place_of_a_violation_gives_no_form(pointer: str) -> None:
    assert list(forms_at(Candidate(schema=ORDER), pointer)) == []
