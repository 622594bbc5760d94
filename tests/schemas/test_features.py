from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.features import FEATURES, SchemaFeatures


def facts(schema: Schema, dialect: str = "2020-12") -> SchemaFeatures:
    return SchemaFeatures.from_schema(schema, default_dialect=NAMES[dialect])


@pytest.mark.parametrize(
    ("schema", "feature"),
    [
        ({"properties": {"next": {"$ref": "#"}}}, "recursive"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
            "recursive",
        ),
        ({"$defs": {"tree": {"$anchor": "tree", "items": {"$ref": "#tree"}}}}, "recursive"),
        ({"$ref": "#/$defs/a", "$defs": {"a": True}}, "ref"),
        ({"items": {"$ref": "https://example.com/a.json"}}, "remote"),
        ({"properties": {"a": {"additionalProperties": False}}}, "closed"),
        ({"unevaluatedProperties": False}, "closed"),
        ({"properties": {"a": {"oneOf": [{}]}}}, "union"),
        ({"allOf": [{}]}, "intersection"),
        ({"not": {}}, "negation"),
        ({"if": {}, "then": {}}, "conditional"),
        ({"items": {"const": 1}}, "choice"),
        ({"patternProperties": {"^a": True}}, "pattern"),
        ({"format": "date"}, "format"),
        ({"items": [{}, {}]}, "tuple"),
        ({"prefixItems": [{}]}, "tuple"),
        ({"minLength": 1}, "counted"),
        ({"multipleOf": 2}, "ranged"),
    ],
)
def test_feature_is_found_at_any_depth(schema: dict[str, Any], feature: str) -> None:
    assert feature in facts(schema).features
    assert feature in facts({"properties": {"deeper": schema}}).features | ({"recursive"} & {feature})


def test_each_feature_is_found_in_no_schema_that_lacks_it() -> None:
    assert facts({"type": "object", "properties": {"a": {"type": "string"}}}).features == frozenset()
    assert facts(True).features == frozenset()


def test_lookalike_of_a_feature_is_not_counted() -> None:
    schema = {
        "properties": {"pattern": {"type": "string"}, "$ref": {}},
        "default": {"format": "date", "oneOf": []},
        "enum": [{"additionalProperties": False}],
    }

    assert facts(schema).features == {"choice"}
    assert facts(schema).keywords == {"properties", "type", "enum"}


def test_two_references_to_one_place_are_no_recursion() -> None:
    shared = {"$ref": "#/$defs/shared"}
    schema = {"properties": {"a": shared, "b": shared}, "$defs": {"shared": {"items": {"type": "string"}}}}

    assert facts(schema).features == {"ref"}


@pytest.mark.parametrize(
    ("schema", "default", "expected"),
    [
        ({}, "2020-12", "2020-12"),
        ({}, "draft-07", "draft-07"),
        (True, "draft-04", "draft-04"),
        ({"$schema": "http://json-schema.org/draft-04/schema"}, "2020-12", "draft-04"),
        ({"$schema": "http://example.com/mine"}, "2020-12", "unknown"),
        ({"$schema": 7}, "2020-12", "unknown"),
    ],
)
def test_the_dialect_is_the_declared_one_or_the_default(schema: Schema, default: str, expected: str) -> None:
    assert facts(schema, default).dialect == expected


def test_size_is_bytes_without_white_space() -> None:
    assert facts({"title": "naïve"}).size == len('{"title":"naïve"}'.encode())
    assert facts(True).size == 4
    assert facts({"title": "\ud800"}).size == 15


def test_depth_counts_schemas_only() -> None:
    assert facts(True).depth == facts({"type": "string"}).depth == 1
    assert facts({"properties": {"a": {"items": {"type": "string"}}}}).depth == 3


def test_a_schema_nested_as_deeply_as_json_allows_is_seen_through() -> None:
    text = '{"items":' * 900 + "{}" + "}" * 900

    assert facts(json.loads(text)).depth == 901


def test_every_feature_has_a_description() -> None:
    assert all(FEATURES.values())
