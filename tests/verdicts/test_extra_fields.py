from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2020_12
from pytest_jsbench.schemas.locations import Path, json_path
from pytest_jsbench.verdicts.extra_fields import FieldNames, without

A: dict[str, Any] = {"properties": {"a": {}}}
B: dict[str, Any] = {"properties": {"b": {}}}


def unnamed(schema: Any, instance: object, *ignored: str) -> list[str]:
    return list(map(json_path, FieldNames(schema, DRAFT_2020_12).unnamed(instance, ignored)))


@pytest.mark.parametrize(
    "schema",
    [
        A,
        {"patternProperties": {"^a$": {}}},
        {**A, "additionalProperties": False},
        {**A, "unevaluatedProperties": False},
        {"additionalProperties": False, "required": ["a"]},
        {"$ref": "#/$defs/x", "$defs": {"x": A}},
        {"$ref": "#x", "$defs": {"x": {"$anchor": "x", **A}}},
        {"$id": "https://e.org/root", "$ref": "x", "$defs": {"x": {"$id": "x", **A}}},
        {"$ref": "#/components/schemas/x", "components": {"schemas": {"x": A}}},
        {"$ref": "#/$defs/x~1y%20z", "$defs": {"x/y z": A}},
        {"allOf": [A, {}]},
        {"anyOf": [A, B]},
        {"oneOf": [A, {"type": "null"}, {"type": ["string", "array"]}, {"enum": ["x"]}, {"const": 1}, False]},
        {"oneOf": [A, {"$ref": "#/$defs/s"}], "$defs": {"s": {"type": "string"}}},
        {**A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [A, {"anyOf": [{"required": ["a"]}, {"minProperties": 1}]}]},
        {**A, "not": {"required": ["z"]}},
        {"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, A]}}},
        {**A, "additionalProperties": False, "propertyNames": {"maxLength": 3}},
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", **A}}},
        {"if": {"type": "object"}, "then": A},
        {"if": {"required": ["a"]}, "then": A, "else": B},
        {"if": {"type": "string"}, "then": {}, "else": A},
    ],
)
def test_a_key_beside_the_shape_of_an_object_is_unnamed(schema: dict[str, Any]) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == ["$.z"]
    assert unnamed(schema, {"a": 1}) == []


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"properties": {}},
        {"required": ["a"]},
        {**A, "additionalProperties": True},
        {**A, "additionalProperties": {}},
        {**A, "additionalProperties": {"type": "integer"}},
        {**A, "unevaluatedProperties": True},
        {**A, "propertyNames": {"pattern": "^[a-z]$"}},
        {"anyOf": [A, {"type": "object"}]},
        {"anyOf": [A, {}]},
        {"anyOf": [A, True]},
        {"oneOf": [A, {**B, "additionalProperties": True}]},
        {**A, "$ref": "https://elsewhere.org/x"},
        {**A, "$ref": "#/$defs/none"},
        {**A, "$dynamicRef": "#x"},
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", **A}, "y": {"$id": "y", "$dynamicAnchor": "x"}}},
        {"if": A, "then": B},
        {"anyOf": [A, {"$ref": "#/$defs/o"}], "$defs": {"o": {"type": "object"}}},
    ],
)
def test_nothing_is_unnamed_in_a_free_form_object(schema: Any) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {**A, "patternProperties": {"^z": {}}},
        {**A, "required": ["z"]},
        {**A, "dependentRequired": {"z": ["a"]}},
        {**A, "dependentRequired": {"a": ["z"]}},
        {**A, "dependencies": {"a": ["z"]}},
        {**A, "dependentSchemas": {"z": {}}},
        {**A, "dependentSchemas": {"a": {"properties": {"z": {}}}}},
        {**A, "enum": [{"a": 1}, {"z": 1}]},
        {**A, "if": {"properties": {"z": {}}}},
        {**A, "then": {"required": ["z"]}},
        {**A, "else": {"properties": {"z": {}}}},
        {"anyOf": [A, {"properties": {"z": {}}}]},
        {"allOf": [A, {"properties": {"z": {}}}]},
    ],
)
def test_a_key_named_in_any_branch_is_named(schema: dict[str, Any]) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == []


@pytest.mark.parametrize(
    ("schema", "instance", "paths"),
    [
        ({"properties": {"p": A}}, {"p": {"z": 1}, "q": {"r": 1}}, ["$.p.z", "$.q"]),
        ({"items": A}, [{"a": 1}, {"z": 1}, {"y": 1}], ["$[1].z", "$[2].y"]),
        ({"prefixItems": [{}, A], "items": B}, [{"z": 1}, {"z": 1}, {"b": 1}, {"a": 1}], ["$[1].z", "$[3].a"]),
        ({"items": [A], "additionalItems": B}, [{"b": 1}, {"b": 1}, {"a": 1}], ["$[0].b", "$[2].a"]),
        ({"items": {"items": A}}, [[{"z": 1}]], ["$[0][0].z"]),
        ({"additionalProperties": A}, {"k": {"z": 1}}, ["$.k.z"]),
        ({"patternProperties": {"^k": A}}, {"k": {"z": 1}}, ["$.k.z"]),
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"p": {}}}]}, {"p": {"z": 1}}, []),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"q": {}}}]}, {"p": {"z": 1}}, ["$.p.z"]),
        ({"properties": {"p": {}}, "then": {"properties": {"p": A}}}, {"p": {"z": 1}}, []),
        ({"properties": {"p": A}, "then": {"properties": {"p": B}}}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"contains": A}, [{"z": 1}], []),
        ({"items": {"anyOf": [{"type": "array", "items": A}, {"type": "string"}]}}, ["x", [{"z": 1}]], ["$[1][0].z"]),
        ({"properties": {"p": {"$ref": "#"}}}, {"p": {"p": {"z": 1}}}, ["$.p.p.z"]),
        ({"properties": {"x-y": A}}, {"x-y": {"z z": 1}}, ['$["x-y"]["z z"]']),
    ],
)  # fmt: skip
def test_the_walk_goes_where_the_schema_goes(schema: Any, instance: object, paths: list[str]) -> None:
    assert unnamed(schema, instance) == paths


def test_ignored_names_are_never_unnamed() -> None:
    assert unnamed(A, {"$schema": "x", "z": 1}, "$schema") == ["$.z"]


def test_only_the_outermost_unnamed_field_is_reported() -> None:
    assert unnamed(A, {"z": {"y": {"x": 1}}}) == ["$.z"]


def test_siblings_of_a_reference_name_fields_in_old_drafts_too() -> None:
    schema = {"$ref": "#/definitions/x", "definitions": {"x": A}, **B}
    assert FieldNames(schema, DRAFT_4).unnamed({"a": 1, "b": 1, "z": 1}) == [("z",)]


def test_an_id_that_names_a_place_and_no_base_does_not_hide_references() -> None:
    schema = {"id": "/properties/p", "allOf": [{"id": "inner", "$ref": "#/definitions/x"}], "definitions": {"x": A}}
    assert FieldNames(schema, DRAFT_4).unnamed({"a": 1, "z": 1}) == [("z",)]


def test_a_chain_of_references_too_long_to_follow_flags_nothing() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
    assert unnamed({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": A}}, {"z": 1}) == []


def test_doubling_references_cost_no_doubling_time() -> None:
    doubling = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
    nested: dict[str, Any] = {"properties": {"p": {"properties": {"a": {}}}}}
    schema = {"$ref": "#/$defs/d0", "$defs": {**doubling, "d60": nested}}
    assert unnamed(schema, {"p": {"z": 1}, "y": 1}) == ["$.p.z", "$.y"]


@pytest.mark.parametrize(
    ("instance", "paths", "rest"),
    [
        ({"a": 1, "z": 2}, [("z",)], {"a": 1}),
        ({"a": [{"b": 1, "z": 2}, 3]}, [("a", 0, "z")], {"a": [{"b": 1}, 3]}),
        ({"a": {"z": 1, "y": 2}, "z": 1}, [("a", "z"), ("a", "y"), ("z",)], {"a": {}}),
    ],
)
def test_fields_are_taken_out_of_a_copy(instance: Any, paths: list[Path], rest: object) -> None:
    before = repr(instance)
    assert without(instance, paths) == rest
    assert repr(instance) == before
