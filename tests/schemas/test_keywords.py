from __future__ import annotations

from typing import Any

import jsonschema_specifications  # type: ignore[import-untyped]
import pytest

from pytest_jsbench.schemas.dialects import DIALECTS
from pytest_jsbench.schemas.keywords import (
    ANNOTATIONS,
    BY_KIND,
    KEYWORDS,
    last_keyword,
    misspelt,
    used_keywords,
)


def published() -> set[str]:
    """Return the keywords in the metaschemas and vocabularies of all dialects."""
    names: set[str] = set()
    for uri in jsonschema_specifications.REGISTRY:
        schema = jsonschema_specifications.REGISTRY.contents(uri)
        if uri in {dialect.uri.rstrip("#") for dialect in DIALECTS} | {dialect.uri for dialect in DIALECTS}:
            names |= schema["properties"].keys()
        elif "/meta/" in uri:
            names |= schema.get("properties", {}).keys()
    return names


def test_each_published_keyword_can_be_broken_or_cannot() -> None:
    assert published() == KEYWORDS | ANNOTATIONS
    assert not KEYWORDS & ANNOTATIONS


def test_a_keyword_speaks_of_one_type_of_instance() -> None:
    assert sum(map(len, BY_KIND.values())) == len(frozenset().union(*BY_KIND.values()))


@pytest.mark.parametrize(
    ("schema", "used"),
    [
        (None, set()),
        (True, set()),
        ({"title": "a", "type": "object"}, {"type"}),
        ({"properties": {"pattern": {"minLength": 1}}, "examples": [{"enum": [1]}]}, {"properties", "minLength"}),
        ({"$defs": {"a": {"anyOf": [{"const": 1}, {"not": True}]}}}, {"anyOf", "const", "not"}),
        ({"$defs": {"pattern": {"const": {"not": {}}}}, "$ref": "#/$defs/pattern"}, {"$ref", "const"}),
        ({"default": {"minimum": 3}, "enum": ["maximum"], "items": [{"format": "date"}]}, {"enum", "items", "format"}),
    ],
)
def test_the_keywords_of_a_schema_are_those_of_its_schemas(schema: object, used: set[str]) -> None:
    assert used_keywords(schema) == used  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "schema",
    [
        {"x-required": 1, "example": {}, "$commnt": "", "_format": "a", "note": "b", "nullable": True},
        {"enum": [{"requird": 1}], "const": {"requird": 1}, "default": {"requird": 1}, "examples": [{"requird": 1}]},
        {"properties": {"requird": {}}, "patternProperties": {"requird": {}}, "$defs": {"requird": {}}},
        {"dependentRequired": {"requird": ["a"]}, "required": ["requird"], "x-more": {"requird": 1}},
        {"type": "string", "tsType": "A", "tsRequired": True, "goMinimum": 1, "ui:format": "x", "go.required": []},
        {"definitions": {"enums": {"formats": {"type": "string"}, "types": {"enum": [1]}}}},
        {"$defs": {"a": {"b": {"item": {"type": "string"}, "pattern": {"type": "string"}}}}},
        {
            "enum": [],
            "types": {"a": {"type": "string"}},
            "formats": {"type": "string"},
            "patterns": ["a"],
            "propertie": 5,
        },
        True,
    ],
)
def test_only_words_in_place_of_keywords_count_as_misspelled(schema: Any) -> None:
    assert misspelt(schema) == []


def test_object_without_keywords_gets_a_question() -> None:
    (sentence,) = misspelt({"hello": 3, "name": "shop"})

    assert sentence == "the schema has no keyword of JSON Schema, so every answer is valid; is this a JSON Schema?"
    assert misspelt({}) == misspelt({"title": "anything"}) == misspelt(True) == []


def test_misspelled_keyword_is_found_in_any_subschema() -> None:
    schema = {"anyOf": [{"items": {"propertes": {}}}], "not": {"$defs": {"a": {"minlength": 1}}}, "Required": []}

    assert sorted(misspelt(schema)) == [
        "unknown keyword 'Required': did you mean 'required'?",
        "unknown keyword 'minlength': did you mean 'minLength'?",
        "unknown keyword 'propertes': did you mean 'properties'?",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"definitions": {"a": {"type": "array", "item": {"type": "string"}}}},
        {"$defs": {"a": {"propertes": {"b": {"type": "string"}}, "description": "x"}}},
        {"$defs": {"group": {"one": {"type": "string", "minlength": "1"}}}},
        {"additional_properties": False, "type": "object"},
        {"min-length": 3, "type": "string"},
    ],
)
def test_misspelt_keyword_is_found_in_definitions_and_between_separators(schema: Any) -> None:
    assert len(misspelt(schema)) == 1


@pytest.mark.parametrize(
    ("path", "keyword"),
    [
        (["type"], "type"),
        (["properties", "a", "$ref", "anyOf"], "anyOf"),
        (["properties", "type", "minLength"], "minLength"),
        (["properties", "properties", "properties", "required", "const"], "const"),
        (["allOf", 1, "$ref", "minProperties"], "minProperties"),
        (["dependencies", "a", "required"], "required"),
        (["dependencies"], "dependencies"),
        (["propertyNames", "maxLength"], "propertyNames"),
        (["properties", "items"], "properties"),
        (["additionalProperties", "$ref"], "additionalProperties"),
        (["patternProperties", "^a"], "patternProperties"),
        (["prefixItems", 0], "prefixItems"),
        ([], "false"),
    ],
)
def test_last_keyword_of_a_path_is_found(path: list[str | int], keyword: str) -> None:
    assert last_keyword(path) == keyword
