from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema_rs import Draft201909Validator, Draft202012Validator

from pytest_jsbench.adaptation.bounding import LONGEST_STRING, bound_schema, with_pointers
from pytest_jsbench.adaptation.engine_changes import changes_by_engine

CLOSED = {"additionalProperties": False}
TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 40}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "narrowed"),
    [
        (True, True),
        (False, False),
        (TEXT, SHORT),
        ({"type": ["string", "null"]}, {"type": ["string", "null"], "maxLength": 40}),
        ({"type": "string", "minLength": 90}, {"type": "string", "minLength": 90, "maxLength": 90}),
        ({"type": "string", "maxLength": 100}, {"type": "string", "maxLength": 40}),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri", "maxLength": 64}),
        ({"type": "array"}, {"type": "array", "maxItems": 2}),
        ({"type": "array", "maxItems": 9}, {"type": "array", "maxItems": 2}),
        ({"type": "array", "minItems": 5}, {"type": "array", "minItems": 5, "maxItems": 5}),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": SHORT, "maxItems": 2}),
        ({"items": TEXT}, {"items": SHORT, "maxItems": 2}),
        ({"type": "array", "prefixItems": [TEXT] * 3}, {"type": "array", "prefixItems": [SHORT] * 3, "maxItems": 3}),
        (
            {"type": "array", "prefixItems": [TEXT] * 2, "contains": True},
            {"type": "array", "prefixItems": [SHORT] * 2, "contains": True, "maxItems": 3},
        ),
        ({"type": "object"}, {"type": "object", **CLOSED}),
        (obj(a=TEXT), {**obj(a=SHORT), **CLOSED}),
        ({"properties": {"a": TEXT}}, {"properties": {"a": SHORT}, **CLOSED}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [SHORT, {"type": "null"}]}),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"oneOf": [SHORT, {"type": "null"}]}),
        ({"allOf": [obj(a=TEXT)]}, {"allOf": [{**obj(a=SHORT), **CLOSED}]}),
        ({"$defs": {"t": TEXT}, "$ref": "#/$defs/t"}, {"$defs": {"t": SHORT}, "$ref": "#/$defs/t"}),
        ({"additionalProperties": TEXT}, {"additionalProperties": SHORT}),
    ],
)  # fmt: skip
def test_missing_bounds_are_added(schema: Any, narrowed: Any) -> None:
    assert bound_schema(schema) == narrowed


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 3},
        {"type": "string", "pattern": "^a+$"},
        {"type": "string", "format": "date"},
        {"type": "string", "enum": ["x" * 50]},
        {"type": "array", "maxItems": 1},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
        {"type": "object", "required": ["not_named"]},
        {"type": "object", "minProperties": 1},
        {"type": "integer"},
        {"const": {"type": "string"}},
        {"enum": [{"type": "array"}]},
        {},
    ],
)
def test_bounds_of_the_schema_are_kept(schema: Any) -> None:
    assert bound_schema(schema) == schema


@pytest.mark.parametrize("keyword", ["default", "examples", "const", "enum", "x-made-up"])
def test_data_is_not_treated_as_schemas(keyword: str) -> None:
    data = [{"type": "string"}, {"type": "object", "properties": {}}]
    assert bound_schema({"type": "integer", keyword: data})[keyword] == data  # type: ignore[index]


def test_properties_may_be_named_like_keywords() -> None:
    names = ["not", "oneOf", "if", "items", "properties", "$ref", "type", "enum", "const", "default"]
    assert bound_schema(obj(**dict.fromkeys(names, TEXT))) == {**obj(**dict.fromkeys(names, SHORT)), **CLOSED}


def test_where_more_would_be_let_in_nothing_changes() -> None:
    open_branches = [obj(a=TEXT), obj(b=TEXT)]
    for schema in (
        {"not": obj(a=TEXT)},
        {"if": TEXT, "then": {"maxLength": 3}},
        {"oneOf": open_branches},
        {"contains": obj(a=TEXT), "maxContains": 1, "maxItems": 9},
        {"propertyNames": TEXT},
    ):
        assert bound_schema(schema) == schema


def test_targets_of_frozen_places_do_not_change() -> None:
    deep = {"$ref": "#/$defs/far"}
    schema = {
        "properties": {"free": {"$ref": "#/$defs/free"}, "a": {"not": {"$ref": "#/$defs/near"}}},
        "$defs": {"near": {"anyOf": [deep]}, "far": TEXT, "free": TEXT},
    }
    narrowed = bound_schema(schema)
    assert isinstance(narrowed, dict)
    assert narrowed["$defs"] == {"near": {"anyOf": [deep]}, "far": TEXT, "free": SHORT}


def test_where_such_a_reference_may_lead_anywhere_nothing_changes() -> None:
    for schema in (
        {**obj(a=TEXT), "not": {"$ref": "#anchor"}},
        {**obj(a=TEXT), "not": {"$ref": "#"}},
        {**obj(a=TEXT), "not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"$id": "http://x/", **TEXT}}},
    ):
        assert bound_schema(schema) == schema


def test_branches_with_distinct_tags_are_bounded() -> None:
    def branch(tag: str) -> dict[str, Any]:
        return {**obj(kind={"enum": [tag]}, text=TEXT), "required": ["kind"]}

    narrowed = bound_schema({"oneOf": [branch("a"), branch("b")]})
    assert isinstance(narrowed, dict)
    assert all(one["properties"]["text"] == SHORT for one in narrowed["oneOf"])
    assert all(one["additionalProperties"] is False for one in narrowed["oneOf"])


def test_places_that_share_an_instance_are_not_closed_against_each_other() -> None:
    schema = {"allOf": [obj(a=TEXT), {"$ref": "#/$defs/b"}], "$defs": {"b": obj(b=TEXT)}}
    narrowed = bound_schema(schema)
    assert narrowed == {"allOf": [obj(a=SHORT), {"$ref": "#/$defs/b"}], "$defs": {"b": obj(b=SHORT)}}
    assert Draft202012Validator(dict(narrowed)).is_valid({"a": "x", "b": "y"})


def test_boolean_subschemas_are_replaced_for_llama_cpp() -> None:
    schema = {"type": "array", "prefixItems": [True, {"type": "integer"}], "items": False}
    narrowed = {"type": "array", "prefixItems": [{}, {"type": "integer"}], "maxItems": 2}
    assert bound_schema(schema) == narrowed
    forbidden = {**obj(a=False, b={"type": "null"}), **CLOSED}
    assert bound_schema(forbidden) == {**obj(b={"type": "null"}), **CLOSED}


def test_boolean_subschemas_are_replaced_even_in_frozen_places() -> None:
    frozen = {"oneOf": [{"properties": {"a": False, "b": True}}, {"items": False, "prefixItems": [True]}]}
    words = {
        "oneOf": [
            {"properties": {"b": {}}, "propertyNames": {"not": {"enum": ["a"]}}},
            {"prefixItems": [{}], "maxItems": 1},
        ]
    }
    assert bound_schema(frozen) == words
    for instance in ({"a": 1}, {"b": 1}, {}, [1], [1, 2], "text"):
        assert Draft202012Validator(frozen).is_valid(instance) is Draft202012Validator(words).is_valid(instance)
    named = {"oneOf": [{"properties": {"a": False}, "propertyNames": {"maxLength": 1}}, {"type": "null"}]}
    assert bound_schema(named) == named


def test_in_an_older_dialect_fixed_items_are_no_keyword() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{}], "items": False, "maxItems": 1,
    }  # fmt: skip
    assert bound_schema(schema) == schema


def test_the_original_is_left_as_it_was() -> None:
    schema = {**obj(a={"type": "array", "items": TEXT}), "$defs": {"x": {"anyOf": [TEXT, {"not": TEXT}]}}}
    before = copy.deepcopy(schema)
    bound_schema(schema)
    assert schema == before


def test_recursion_comes_to_an_end() -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": obj(n={"$ref": "#/$defs/n"}, m={"not": {"$ref": "#"}})}}
    assert bound_schema(schema) == schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": "3"},
        {"type": "string", "minLength": float("inf")},
        {"type": "array", "minItems": None, "items": 3},
        {"type": "object", "properties": [], "required": "a"},
        {"type": 3, "allOf": {}, "anyOf": "x", "oneOf": [1], "$defs": [], "$ref": 4},
        {"type": "object", "required": [{}], "properties": {"a": 1}},
    ],
)
def test_values_that_are_not_schemas_raise_no_error(schema: Any) -> None:
    assert isinstance(bound_schema(schema), dict)


def test_changes_of_bounding_are_listed_by_keyword() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5000},
            "tags": {"type": "array", "items": {"enum": ["a"]}, "maxItems": 2},
            "any": True,
            "maxLength": {"type": "integer"},
        },
    }

    listed = changes_by_engine(schema, bound_schema(schema))

    assert [(change.kind, change.keyword, change.path) for change in listed] == [
        ("tightened", "additionalProperties", ""),
        ("tightened", "maxLength", "/properties/name"),
    ]
    assert listed[1].note == f"changed by the engine: {LONGEST_STRING}"
    assert changes_by_engine(schema, schema) == changes_by_engine(True, {}) == ()


@pytest.mark.parametrize(
    ("schema", "sent", "changes"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": 9}, [("tightened", "maxLength", "")]),
        ({"items": {"pattern": "a"}}, {"items": {}}, [("widened", "pattern", "/items")]),
        ({"items": False}, {"maxItems": 0}, [("rewritten", "items", ""), ("tightened", "maxItems", "")]),
        ({"properties": {"a": False}}, {"properties": {}}, [("rewritten", "properties", "")]),
        ({"$ref": "#a"}, {"$ref": "#/$defs/a"}, [("rewritten", "$ref", "")]),
        ({"anyOf": [{}, {"maxItems": 9}]}, {"anyOf": [{}, {"maxItems": 3}]}, [("tightened", "maxItems", "/anyOf/1")]),
        ({"maxItems": 3}, {"maxItems": 9}, [("widened", "maxItems", "")]),
        ({"minimum": 3}, {"minimum": 1}, [("widened", "minimum", "")]),
        ({"minimum": 1}, {"minimum": 3}, [("tightened", "minimum", "")]),
        ({"required": ["a", "b"]}, {"required": ["a"]}, [("widened", "required", "")]),
        ({"required": ["a", "b"]}, {"required": ["a", "c"]}, [("widened", "required", "")]),
        ({"required": ["a"]}, {"required": ["b", "a"]}, [("tightened", "required", "")]),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, [("rewritten", "enum", "")]),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, [("tightened", "enum", "")]),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, [("widened", "enum", "")]),
        ({"type": "string"}, {"type": ["string", "null"]}, [("widened", "type", "")]),
        ({"type": "number"}, {"type": "integer"}, [("tightened", "type", "")]),
        ({"type": "integer"}, {"type": "number"}, [("widened", "type", "")]),
        ({"additionalProperties": False}, {"additionalProperties": {}}, [("widened", "additionalProperties", "")]),
        (
            {"additionalProperties": False},
            {"additionalProperties": {"not": {}}},
            [("rewritten", "additionalProperties", "")],
        ),
        (
            {"allOf": [{"minimum": 1}, {"minimum": 3}]},
            {"minimum": 3},
            [("rewritten", "allOf", ""), ("tightened", "minimum", ""), ("tightened", "minimum", "/allOf/0")],
        ),
        (
            {"allOf": [{"minimum": 1}, {"pattern": "a"}]},
            {"minimum": 1},
            [("rewritten", "allOf", ""), ("tightened", "minimum", ""), ("widened", "pattern", "/allOf/1")],
        ),
    ],
)
def test_a_schema_that_an_engine_changed_is_described_by_its_changes(
    schema: Any, sent: Any, changes: list[tuple[str, str, str]]
) -> None:
    listed = changes_by_engine(schema, sent)

    assert [(change.kind, change.keyword, change.path) for change in listed] == changes


NODE: dict[str, Any] = {"type": "object", "properties": {"name": TEXT, "next": {"$ref": "#"}}, "required": ["name"]}
GOOD, BAD = {"name": "a", "next": {"name": "b"}}, {"name": "a", "next": {"name": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        NODE,
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$id": "https://example.com/node", **NODE},
        {
            **NODE,
            "properties": {"name": {"$ref": "#text"}, "next": {"$ref": "#"}},
            "$defs": {"t": {"$anchor": "text", **TEXT}},
        },
        {**NODE, "properties": {"name": {"$ref": "#/$defs/t"}, "next": {"$ref": "#"}}, "$defs": {"t": TEXT}},
        {
            "$ref": "#node",
            "$defs": {"n": {"$anchor": "node", **NODE, "properties": {"name": TEXT, "next": {"$ref": "#node"}}}},
        },
    ],
)
def test_every_reference_is_a_pointer_and_the_schema_means_the_same(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    written = with_pointers(schema)

    assert schema == before
    assert '"$ref": "#/' in repr(written).replace("'", '"')
    assert '"$ref": "#"' not in repr(written).replace("'", '"')
    kind: Any = Draft201909Validator if "2019-09" in str(schema.get("$schema")) else Draft202012Validator
    for answer in (GOOD, BAD, {}, 1):
        assert kind(written).is_valid(answer) is kind(schema).is_valid(answer)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"$ref": "#/$defs/t", "$defs": {"t": TEXT}},
        {"properties": {"a": {"$ref": "#nowhere"}}},
        {"properties": {"a": {"$ref": "https://example.com/other"}}},
        {"properties": {"a": {"$ref": "#t"}}, "$defs": {"a/b": {"$anchor": "t"}}},
        {"$schema": "https://example.com/unknown", "properties": {"a": {"$ref": "#"}}},
    ],
)
def test_pointers_and_unresolvable_references_stay_unchanged(schema: Any) -> None:
    assert with_pointers(schema) == schema


def test_pointer_below_an_identifier_is_rewritten_from_the_root() -> None:
    nested = {"$id": "https://example.com/a", "$ref": "#/$defs/t", "$defs": {"t": TEXT}}
    number = {"t": {"type": "integer"}}

    assert with_pointers({"properties": {"a": nested}, "$defs": number}) == {
        "properties": {"a": {"$ref": "#/properties/a/$defs/t", "$defs": {"t": TEXT}}},
        "$defs": number,
    }
    assert with_pointers({"$ref": "#/%24defs/t", "$defs": number}) == {"$ref": "#/$defs/t", "$defs": number}


def test_user_schema_below_defs_is_compared_unchanged() -> None:
    def schema(**bound: int) -> dict[str, Any]:
        return {"$ref": "#/$defs/root", "$defs": {"root": {"type": "array", **bound}}}

    (change,) = changes_by_engine(schema(), schema(maxItems=8))

    assert (change.kind, change.keyword, change.path) == ("tightened", "maxItems", "/$defs/root")


def test_schema_moved_below_defs_is_not_a_loss() -> None:
    schema = {"$id": "https://example.com/node", **NODE}

    changes = changes_by_engine(schema, with_pointers(schema))

    assert {change.kind for change in changes} == {"rewritten"}
    assert ("$ref", "") in {(change.keyword, change.path) for change in changes}


def test_an_object_with_names_of_any_string_is_closed_too() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "propertyNames": {"type": "string"}}
    assert bound_schema(schema) == {**schema, "additionalProperties": False}
    restricted = {**schema, "propertyNames": {"maxLength": 3}}
    assert bound_schema(restricted) == restricted


def test_array_ends_with_its_tuple_if_items_would_be_ignored() -> None:
    listed = [{"type": "null"}, {"type": "boolean"}]
    schema = {"type": "array", "prefixItems": listed, "items": {"type": "integer"}, "minItems": 2}
    expected = {"type": "array", "prefixItems": listed, "minItems": 2, "maxItems": 2}
    assert bound_schema(schema) == expected
    assert {change.kind for change in changes_by_engine(schema, expected)} == {"rewritten", "tightened"}
    longer = {**schema, "minItems": 3}
    assert bound_schema(longer) == {**longer, "maxItems": 3}


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"minimum": 1, "exclusiveMinimum": 1}, {"exclusiveMinimum": 1}),
        ({"minimum": 2, "exclusiveMinimum": 1}, {"minimum": 2}),
        ({"maximum": 7, "exclusiveMaximum": 7}, {"exclusiveMaximum": 7}),
        ({"maximum": 6, "exclusiveMaximum": 7}, {"maximum": 6}),
    ],
)
def test_of_two_bounds_the_stricter_is_sent(bounds: dict[str, int], kept: dict[str, int]) -> None:
    schema = {"type": "integer", **bounds}
    assert bound_schema(schema) == {"type": "integer", **kept}
    assert [change.kind for change in changes_by_engine(schema, bound_schema(schema))] == ["rewritten"]


def test_a_flag_of_draft_4_next_to_a_bound_is_kept() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert bound_schema(schema) == schema


def test_an_all_of_of_scalars_is_merged() -> None:
    branches = [{"type": "integer", "minimum": 1}, {"minimum": 3, "title": "t"}, {"maximum": 9}]
    schema = obj(a={"type": "integer", "allOf": branches})
    merged = {"type": "integer", "minimum": 3, "maximum": 9, "title": "t"}
    assert bound_schema(schema) == {**obj(a=merged), **CLOSED}
    assert "widened" not in {change.kind for change in changes_by_engine(schema, bound_schema(schema))}
    assert bound_schema({"allOf": [TEXT, {"minLength": 2}]}) == {**SHORT, "minLength": 2}


@pytest.mark.parametrize(
    "branches",
    [
        [{"pattern": "a"}, {"pattern": "b"}],
        [{"type": "string"}, {"type": ["string", "null"]}],
        [{"minimum": 1, "exclusiveMinimum": True}, {"minimum": 2}],
        [{"type": "object"}, {"required": ["a"]}],
        [{"const": 1}, {"const": True}],
        [{"const": True}, {"const": 1}],
        [{"enum": [True]}, {"enum": [1]}],
        [{"$ref": "#/$defs/x"}],
    ],
)
def test_all_of_that_is_not_one_scalar_is_kept(branches: list[Any]) -> None:
    narrowed = bound_schema({"allOf": branches})
    assert isinstance(narrowed, dict)
    assert narrowed["allOf"] == branches


def test_an_all_of_next_to_a_flag_of_draft_4_is_kept() -> None:
    schema = {"minimum": 1, "exclusiveMinimum": True, "allOf": [{"minimum": 2}]}
    assert bound_schema(schema) == schema


def test_all_of_with_a_reference_into_it_is_kept() -> None:
    schema = {"anyOf": [{"allOf": [{"type": "null"}]}, {"$ref": "#/anyOf/0/allOf/0"}]}
    assert bound_schema(schema) == schema
