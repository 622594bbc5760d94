"""Convert schemas in Gemini's notation, which has upper-case type names, to JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_jsbench.schemas.keywords import rebuild

#: Type names in Gemini's notation; a tuple, since the type of a schema can be a list, which a set cannot look up.
_TYPES = ("OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_SPELLING = {
    "any_of": "anyOf", "min_items": "minItems", "max_items": "maxItems", "min_length": "minLength",
    "max_length": "maxLength", "min_properties": "minProperties", "max_properties": "maxProperties",
    "additional_properties": "additionalProperties", "defs": "$defs", "ref": "$ref",
}  # fmt: skip
_ONLY_GEMINI = ("propertyOrdering", "property_ordering")


def to_json_schema(schema: object) -> object:
    """Convert a schema in Gemini's notation to JSON Schema; return other schemas unchanged."""
    if not isinstance(schema, Mapping) or schema.get("type") not in _TYPES:
        return schema
    return from_gemini(schema)


def from_gemini(schema: Mapping[str, Any]) -> Any:
    """Convert a schema that is known to be in Gemini's notation to JSON Schema."""
    from pytest_jsbench.datasets.sources.openapi import convert  # most definitions of tools need no conversion

    return convert(rebuild(schema, _convert_object), unused=None)


def _convert_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert one object of a schema in Gemini's notation; null fields are ignored."""
    members = {name: value for name, value in schema.items() if value is not None and name not in _ONLY_GEMINI}
    converted = {_SPELLING.get(name, name): value for name, value in members.items()}
    kind = converted.get("type")
    if kind in _TYPES:
        converted["type"] = str(kind).lower()
    elif kind == "TYPE_UNSPECIFIED":
        del converted["type"]
    if converted.pop("nullable", None) is True:
        _add_null(converted)
    for name in _COUNTS:
        count = converted.get(name)
        if isinstance(count, str) and count.isdecimal():
            converted[name] = int(count)
    return converted


def _add_null(schema: dict[str, Any]) -> None:
    """Let null conform to a schema; unlike in OpenAPI, it also conforms to an `enum` or `anyOf` without null."""
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
