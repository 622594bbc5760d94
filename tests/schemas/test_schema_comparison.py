from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas import containment
from pytest_jsbench.schemas.keyword_differences import MOST_DIFFERENCES, find_differences
from pytest_jsbench.schemas.schema_comparison import Relation, compare_schemas
from tests.support.random_schemas import chain

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
CODE = {"type": "string", "pattern": "^[A-Z]{2}$", "description": "The code."}
ITEM = {"type": "object", "properties": {"code": CODE, "n": {"type": "integer"}}, "required": ["code"]}
CLOSED = {**ITEM, "required": ["code", "n"], "additionalProperties": False}
PETS = [
    {"type": "object", "properties": {"kind": {"const": kind}, "age": {"type": "integer"}}, "required": ["kind"]}
    for kind in ("cat", "dog")
]
TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
}


def nested(levels: int, **more: Any) -> Any:
    """Return objects in objects, each with ten required properties, and more required properties of the outer one."""
    below = nested(levels - 1) if levels > 1 else {"type": "integer"}
    properties = {**{f"p{number}": below for number in range(10)}, **more}
    return {"type": "object", "properties": properties, "required": list(properties)}


def without_pattern(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], "code": {"type": "string"}}}


@pytest.mark.parametrize(
    ("declared", "arrived", "relation"),
    [
        (ITEM, {**ITEM, "title": "Item"}, "equal"),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "null"}, {"type": "string"}]}, "equal"),
        ({"oneOf": PETS}, {"anyOf": PETS}, "equal"),
        (ITEM, CLOSED, "narrower"),
        ({**ITEM, "$schema": DRAFT_7}, CLOSED, "narrower"),
        (
            {"oneOf": PETS},
            {"$schema": DRAFT_7, "anyOf": [{**pet, "additionalProperties": False} for pet in PETS]},
            "narrower",
        ),
        ({"$schema": DRAFT_7, "prefixItems": [CODE]}, {"prefixItems": [CODE]}, "unknown"),
        ({"$schema": DRAFT_7, "$ref": "#/definitions/a", "minLength": 9, "definitions": {"a": CODE}}, CODE, "unknown"),
        (TREE, {**TREE, "required": ["v", "below"], "additionalProperties": False}, "narrower"),
        (
            {"type": "array", "prefixItems": [CODE], "items": False},
            {"$schema": DRAFT_7, "type": "array", "items": [CODE], "additionalItems": False, "minItems": 1},
            "narrower",
        ),
        (ITEM, without_pattern(ITEM), "wider"),
        ({"type": "string", "format": "date"}, {"type": "string"}, "wider"),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, "wider"),
        ({"type": "integer"}, {"type": "number"}, "wider"),
        (TREE, {"type": "object"}, "wider"),
        ({"type": "array", "items": CODE, "maxItems": 3}, {"type": "array", "items": CODE}, "wider"),
        (nested(3, n={"type": "integer", "minimum": 1}), nested(3, n={"type": "integer"}), "wider"),
        ({"type": "number", "minimum": 1e200, "multipleOf": 1e-200}, {"type": "number"}, "wider"),
        (ITEM, without_pattern(CLOSED), "different"),
        ({"oneOf": PETS}, {"type": "string"}, "different"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "array"}, "different"),
    ],
)
def test_relation_of_two_schemas(declared: Any, arrived: Any, relation: str) -> None:
    assert containment.relation_to_json(declared, arrived)["relation"] == relation


@pytest.mark.parametrize(
    ("declared", "arrived", "reason"),
    [
        ({"type": "strin"}, {}, "the declared schema cannot be used: "),
        ({}, {"$ref": "https://example.com/other"}, "the schema that arrived cannot be used: "),
        ({"$schema": "https://example.com/mine"}, {}, "the declared schema has an unknown dialect"),
    ],
)
def test_schema_that_cannot_be_used_is_unknown(declared: Any, arrived: Any, reason: str) -> None:
    found = compare_schemas(declared, arrived)

    assert found.relation is Relation.UNKNOWN
    assert found.reason.startswith(reason)


def test_examples_show_what_only_one_schema_accepts() -> None:
    found = containment.relation_to_json(ITEM, without_pattern(CLOSED))

    assert found["accepted"] == '{"code": "example", "n": 1}'
    assert found["rejected"] == '{"code": "AA"}'


@pytest.mark.parametrize("declared", [chain(40), {"$defs": {"x": {}}, **chain(12, alike=False)}])
def test_comparison_ends_within_its_time(declared: Any) -> None:
    found = compare_schemas(declared, {"type": "object"}, seconds=2)

    assert found.relation in {Relation.WIDER, Relation.UNKNOWN, Relation.EQUAL, Relation.DIFFERENT}


def test_exceeded_limit_is_unknown_with_the_reason() -> None:
    found = compare_schemas(ITEM, CLOSED, seconds=0.000_1)

    assert found.relation is Relation.UNKNOWN
    assert found.reason == "the schemas cannot be compared within 0.0001 s"


def test_comparison_in_the_child_has_differences() -> None:
    found = compare_schemas(ITEM, without_pattern(ITEM))

    assert found.relation is Relation.WIDER
    assert [(each.kind, each.keyword, each.place) for each in found.differences] == [
        ("lost", "pattern", "/properties/code/pattern"),
        ("lost", "description", "/properties/code/description"),
    ]


def shown(declared: Any, arrived: Any) -> list[str]:
    return [f"{each.kind} {each.place}" for each in find_differences(declared, arrived)]


@pytest.mark.parametrize(
    ("declared", "arrived", "differences"),
    [
        ({"title": "a", "$schema": DRAFT_7}, {"title": "b"}, []),
        ({"type": "string"}, {"type": ["string"]}, []),
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}, []),
        ({"required": ["a"]}, {"required": ["a", "b"]}, ["changed /required"]),
        (
            {"properties": {"a/b": {}, "c": {}}},
            {"properties": {"c": {}, "d": {}}},
            ["lost /properties/a~1b", "added /properties/d"],
        ),
        ({"default": 1}, {"description": "d"}, ["lost /default", "added /description"]),
        ({"items": {"minimum": 1}}, {"items": {"minimum": 2}}, ["changed /items/minimum"]),
        ({"items": {"minimum": 1}}, {"items": False}, ["changed /items"]),
        ({"items": True}, {"items": {}}, []),
        ({"properties": {"a": {"title": "A", "$comment": "c"}}}, {"properties": {"a": True}}, []),
        ({"items": True}, {"items": {"$ref": "https://example.com/other"}}, ["changed /items"]),
        (
            {"oneOf": [CODE]},
            {"anyOf": [{"type": "string"}]},
            ["lost /oneOf", "added /anyOf", "lost /oneOf/0/pattern", "lost /oneOf/0/description"],
        ),
        ({"anyOf": [CODE, ITEM]}, {"anyOf": [CODE]}, ["changed /anyOf"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": CODE}}, CODE, []),
        (
            {"$ref": "#/$defs/a", "type": "string", "$defs": {"a": True}},
            {"$ref": "#/$defs/a", "$defs": {"a": True}},
            ["lost /type"],
        ),
        ({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": False}}, False, []),
        ({"allOf": [CODE]}, CODE, []),
        (
            {"properties": {"a": {"$ref": "#/$defs/a", "default": 1}}, "$defs": {"a": CODE}},
            {"properties": {"a": {"type": "string"}}},
            ["lost /$defs/a/pattern", "lost /$defs/a/description", "lost /properties/a/default"],
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/a", "default": 1}},
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c", "minLength": 1}, "c": CODE},
            },
            {"properties": {"a": {"type": "string"}}},
            [
                "lost /$defs/c/pattern",
                "lost /$defs/c/description",
                "lost /$defs/b/minLength",
                "lost /properties/a/default",
            ],
        ),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": CODE}, "items": {"$ref": "#/$defs/a", "default": 1}},
            {"items": {**CODE, "default": 1}},
            [],
        ),
        (TREE, {**TREE, "required": []}, ["changed /required"]),
        (CODE, True, ["changed "]),
    ],
)
def test_differences_have_their_places(declared: Any, arrived: Any, differences: list[str]) -> None:
    assert shown(declared, arrived) == differences


@pytest.mark.parametrize("declared", [{"properties": {"a/b": CODE}}, {"patternProperties": {"^a": CODE}}])
def test_changed_property_has_the_keyword_that_contains_it(declared: Any) -> None:
    (keyword,) = declared
    (name,) = declared[keyword]

    assert [each.keyword for each in find_differences(declared, {keyword: {name: False}})] == [keyword]


def test_differences_are_limited() -> None:
    many: Any = {"properties": {f"p{number}": {} for number in range(2 * MOST_DIFFERENCES)}}

    assert len(shown(many, {"properties": {}})) == MOST_DIFFERENCES


@pytest.mark.parametrize(
    "schema",
    [
        *({"properties": 1}, {"anyOf": {}}, {"$ref": 1}, {"allOf": [1]}, [], "x", None, {"$ref": "#"}),
        {"$ref": "#", "minimum": 1},
        {"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {"$ref": "#", "maximum": 1}}},
    ],
)
def test_malformed_schemas_are_compared_too(schema: Any) -> None:
    assert all(each.kind for each in find_differences(schema, {"properties": {"a": {}}}))
    assert all(each.kind for each in find_differences(ITEM, schema))
