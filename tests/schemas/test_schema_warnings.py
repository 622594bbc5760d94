from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_7, DRAFT_2020_12, Dialect
from pytest_jsbench.schemas.pattern_syntax import foreign_syntax
from pytest_jsbench.schemas.schema_warnings import schema_faults, schema_warnings

EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
DRAFT_4_URI = {"$schema": DRAFT_4.uri}


@pytest.mark.parametrize(
    ("schema", "place", "words"),
    [
        (
            {"properties": {"a": {"type": "string", "nullable": True}}},
            "$.properties.a",
            "`nullable` belongs to OpenAPI 3.0",
        ),
        ({"$defs": {"a": {"$ref": "#", "nullable": True}}}, '$["$defs"].a', "null is not allowed"),
        ({"properties": {"a": {"type": "string", "example": "x"}}}, "$.properties.a", "write examples"),
        ({"anyOf": [], "discriminator": {"propertyName": "kind"}}, "$", "`discriminator` belongs to OpenAPI 3.0"),
        ({"properties": {"a": EMPTY, "b": EMPTY}}, "$.properties.a and 1 more", "only {} conforms"),
        ({"items": {"type": "object", "unevaluatedProperties": False}}, "$.items", "only {} conforms"),
        ({"properties": {"a": {"exclusiveMinimum": True, "minimum": 1}}}, "$.properties.a", "belongs to draft 4"),
        ({"properties": {"a": {"required": True}}}, "$.properties.a", "`required` belongs to draft 3"),
        ({"type": ["any", "null"]}, "$", "type `any` belongs to draft 3"),
        ({"items": {"divisibleBy": 2}}, "$.items", "write `multipleOf`"),
        ({"extends": {"type": "object"}, "type": "object"}, "$", "write `allOf`"),
        ({"disallow": "string", "type": "object"}, "$", "write `not`"),
        (
            {**DRAFT_4_URI, "properties": {"a": {"const": 1}}},
            "$.properties.a",
            "draft-06 and is ignored in draft-04",
        ),
        ({"items": {"additionalItems": False}}, "$.items", "draft-04 and is ignored in 2020-12"),
        ({"items": {"pattern": r"\A[^\n]*\Z"}}, "$.items", r"has \A, which is not ECMA-262: write ^"),
        ({"patternProperties": {"(?P<a>b)": {}}}, "$", "write (?<name>…)"),
    ],
)
def test_schema_warnings_list_ineffective_keywords(schema: Any, place: str, words: str) -> None:
    ((warning, where),) = schema_warnings(schema, DRAFT_2020_12).items()
    assert (where, words in warning) == (place, True), warning


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (EMPTY, DRAFT_2020_12),
        (True, DRAFT_2020_12),
        ({"properties": {"a": {"type": ["string", "null"], "nullable": True}}}, DRAFT_2020_12),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "object"}], "nullable": True}}}, DRAFT_2020_12),
        ({"properties": {"nullable": {"const": True}, "example": {}, "extends": {}}}, DRAFT_2020_12),
        ({"properties": {"a": {"nullable": False, "type": "string"}}}, DRAFT_2020_12),
        ({"properties": {"a": {**EMPTY, "properties": {"b": {}}}}}, DRAFT_2020_12),
        ({"properties": {"a": {"additionalProperties": False, "type": "object", "$ref": "#"}}}, DRAFT_2020_12),
        ({**DRAFT_4_URI, "minimum": 1, "exclusiveMinimum": True}, DRAFT_2020_12),
        ({"minimum": 1, "exclusiveMinimum": True}, DRAFT_4),
        ({"items": {"additionalItems": False}}, DRAFT_7),
        ({"pattern": r"^[\d\w-]+\.\S*(?<=a)\p{L}\cA\x41(?<b>c)\k<b>\\A+?$"}, DRAFT_2020_12),
        ({"examples": [{"nullable": True}], "enum": [{"divisibleBy": 1}]}, DRAFT_2020_12),
    ],
)
def test_schema_without_doubts_has_no_warning(schema: Any, default: Dialect) -> None:
    assert schema_warnings(schema, default) == {}


def test_schema_faults_list_only_faults_of_invalid_schemas() -> None:
    schema = {"properties": {"a": {"required": True, "nullable": True, "type": "string"}}}
    (fault,) = schema_faults(schema, DRAFT_2020_12)
    assert fault.startswith("$.properties.a: a boolean `required`")


@pytest.mark.parametrize(
    ("pattern", "constructs"),
    [
        (r"\A\d+\Z", ["\\A", "\\Z"]),
        (r"a\z", ["\\z"]),
        (r"(?P<year>\d{4})-(?P=year)", ["(?P<", "(?P=year)"]),
        (r"(?i)yes|no", ["(?i)"]),
        (r"(?i:yes)", []),
        (r"a++b*+c?+d{2,3}+", ["++", "*+", "?+", "{2,3}+"]),
        (r"(?>a|b)", ["(?>"]),
        (r"^[[:alpha:]_]+$", ["[:alpha:]"]),
        (r"(?#note)a", ["(?#note)"]),
        (r"\h\Qa\E", ["\\h", "\\Q", "\\E"]),
        (r"[\A++]", []),
        (r"\\A\+\+", []),
        ("[" * 5000, []),
    ],
)
def test_foreign_syntax_finds_constructs_with_another_meaning(pattern: str, constructs: list[str]) -> None:
    assert list(foreign_syntax(pattern)) == constructs
