"""Make an example of a value that a schema describes, for answers without a model; the judge decides if it conforms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

#: Maximum depth of an example; deeper schemas refer to themselves.
_DEEPEST = 12
#: Depth from which optional properties are left out, so that schemas that refer to themselves end.
_ONLY_REQUIRED_FROM = 4
_TEXTS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "idn-email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/example",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/example",
    "regex": "a",
}
_WORD = "example"


class NoExample(ValueError):
    """Raised if no example can be made; the message states which keyword is not supported."""


def make_example(schema: object, *, only_required: bool = False) -> Any:
    """
    Return a value that should conform to the schema: its own examples and defaults, or a small value of each type.

    Raise NoExample for a schema without a value, and for patterns without an example. The value depends only on the
    schema; it has the optional properties of the outer objects unless `only_required` is set.
    """
    return _example(schema, schema, _ONLY_REQUIRED_FROM if only_required else 0)


def _example(schema: object, root: object, depth: int) -> Any:
    if depth > _DEEPEST:
        raise NoExample("the schema refers to itself without an end")
    if schema is False:
        raise NoExample("no value conforms to the schema `false`")
    if not isinstance(schema, Mapping):
        return {}
    schema = _merged(schema, root, depth)
    if "const" in schema:
        return schema["const"]
    for listed in ("enum", "examples"):
        values = schema.get(listed)
        if isinstance(values, list) and values:
            return values[0]
    if "default" in schema and schema["default"] is not None:
        return schema["default"]
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list):
            return _first_example(schema, union, root, depth)
    return _example_of_type(schema, root, depth)


def _merged(schema: Mapping[str, Any], root: object, depth: int) -> Mapping[str, Any]:
    """Return the schema with its reference and the schemas of its `allOf` merged into it."""
    merged: dict[str, Any] = dict(schema)
    parts = [*([_resolve(merged.pop("$ref"), root)] if "$ref" in merged else []), *merged.pop("allOf", [])]
    for part in parts:
        if depth > _DEEPEST:
            raise NoExample("the schema refers to itself without an end")
        if not isinstance(part, Mapping):
            continue
        inner = _merged(part, root, depth + 1)
        properties = {**inner.get("properties", {}), **merged.get("properties", {})}
        required = [*inner.get("required", []), *merged.get("required", [])]
        merged = {**inner, **merged}
        merged |= {"properties": properties} if properties else {}
        merged |= {"required": list(dict.fromkeys(required))} if required else {}
    return merged


def _resolve(reference: object, root: object) -> object:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise NoExample(f"the reference {reference!r:.80} leaves the schema")
    found = root
    for token in unquote(reference[1:]).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise NoExample(f"the reference {reference!r:.80} cannot be resolved")
    return found


def _first_example(schema: Mapping[str, Any], union: str, root: object, depth: int) -> Any:
    """Return an example of the first alternative that has one, preferably not null."""
    rest = {name: value for name, value in schema.items() if name != union}
    problem = NoExample(f"`{union}` is empty")
    has_null = False
    for alternative in schema[union]:
        try:
            value = _example({**rest, "allOf": [alternative]}, root, depth + 1)
        except NoExample as error:
            problem = error
            continue
        if value is not None:
            return value
        has_null = True
    if has_null:
        return None
    raise problem


def _example_of_type(schema: Mapping[str, Any], root: object, depth: int) -> Any:
    kinds = schema.get("type", _implied_type(schema))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kind = next((each for each in kinds if each != "null"), "null")
    match kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema, whole=kind == "integer")
        case "boolean":
            return True
        case _:
            return None


def _implied_type(schema: Mapping[str, Any]) -> str:
    """Return the type of values that the keywords are about; an object if they do not tell."""
    if {"items", "prefixItems", "minItems"} & schema.keys():
        return "array"
    if {"pattern", "minLength", "maxLength", "format"} & schema.keys():
        return "string"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys():
        return "number"
    return "object"


def _object(schema: Mapping[str, Any], root: object, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    names = required if depth >= _ONLY_REQUIRED_FROM else [*properties, *required]
    made = {}
    for name in dict.fromkeys(names):
        try:
            made[name] = _example(properties.get(name, schema.get("additionalProperties", True)), root, depth + 1)
        except NoExample:
            if name in required:
                raise
    return made


def _array(schema: Mapping[str, Any], root: object, depth: int) -> list[Any]:
    first = schema.get("prefixItems", [])
    items = schema.get("items", True)
    if isinstance(items, list):  # before draft 2020-12
        first, items = items, schema.get("additionalItems", True)
    made = [_example(each, root, depth + 1) for each in first]
    least = schema.get("minItems", 0)
    wanted = least if first or depth >= _ONLY_REQUIRED_FROM or schema.get("maxItems") == 0 else max(1, least)
    while len(made) < wanted:
        made.append(_example(items, root, depth + 1))
    return made


def _text(schema: Mapping[str, Any]) -> str:
    if "pattern" in schema:
        raise NoExample("`pattern` needs an example: add `examples` to the schema")
    text = _TEXTS.get(schema.get("format", ""), _WORD)
    least = schema.get("minLength", 0)
    longer = text if len(text) >= least else (text * (least // len(text) + 1))[:least]
    return longer[: schema.get("maxLength", len(longer))]


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    """Return the smallest multiple of the step that is at least the minimum, or 1, or the maximum if that is lower."""
    step = schema.get("multipleOf", 1 if whole else 0)
    value: float = 1
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if isinstance(high, int | float) and value >= high:
        value = high - (1 if "exclusiveMaximum" in schema else 0)
    if isinstance(low, int | float) and not isinstance(low, bool) and value <= low:
        value = low + (1 if "exclusiveMinimum" in schema else 0)
    if step:
        value = math.ceil(value / step) * step
    return int(value) if value == int(value) else value
