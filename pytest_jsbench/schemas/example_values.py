"""Make an example of a value that a schema describes, for answers without a model; the judge decides if it conforms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_jsbench.schemas.references import CertainReferences, follow

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
#: Maximum number of schemas that are read for an example, and maximum length of a text in it.
_MOST_PARTS = 10_000
_MISSING = object()


class NoExample(ValueError):
    """Raised if no example can be made; the message states which keyword is not supported."""


def make_example(schema: object, *, only_required: bool = False, use_defaults: bool = False) -> Any:
    """
    Return a value that should conform to the schema: its own examples, or a small value of each type.

    Unless `use_defaults` is set, a default is used only if nothing else can be made, so that an application that
    ignores the value and takes its default is not mistaken for one that reads it. The value depends only on the
    schema; it has the optional properties of the outer objects unless `only_required` is set.

    Raise NoExample for a schema without a value, and for patterns without an example.
    """
    return _ExampleMaker(schema, use_defaults=use_defaults).make(_ONLY_REQUIRED_FROM if only_required else 0)


class _ExampleMaker:
    """Maker of one example; it ends with NoExample if the example becomes too large."""

    def __init__(self, root: object, *, use_defaults: bool) -> None:
        self._root = root
        self._use_defaults = use_defaults
        self._references = CertainReferences(root)
        self._left = _MOST_PARTS

    def make(self, depth: int) -> Any:
        """Return an example of the whole schema; optional properties are left out from a depth of 4."""
        return self._example(self._root, depth)

    def _example(self, schema: object, depth: int) -> Any:
        self._count_part(depth)
        if schema is False:
            raise NoExample("no value conforms to the schema `false`")
        if not isinstance(schema, Mapping):
            return {}
        schema = self._merged(schema, depth)
        if "const" in schema:
            return schema["const"]
        default = schema.get("default")
        for listed in ("enum", "examples"):
            values = schema.get(listed)
            if isinstance(values, list) and values:
                return next((value for value in values if value not in (default, None)), values[0])
        if self._use_defaults and default is not None:
            return default
        try:
            return self._made_example(schema, depth)
        except NoExample:
            if default is None:
                raise
            return default

    def _made_example(self, schema: Mapping[str, Any], depth: int) -> Any:
        for union in ("anyOf", "oneOf"):
            if isinstance(schema.get(union), list):
                return self._first_example(schema, union, depth)
        return self._example_of_type(schema, depth)

    def _count_part(self, depth: int) -> None:
        """Raise NoExample if the example is too large or too deep, so that no schema takes endless time."""
        self._left -= 1
        if self._left < 0:
            raise NoExample(f"an example would need more than {_MOST_PARTS:,} schemas")
        if depth > _DEEPEST:
            raise NoExample("the schema refers to itself without an end")

    def _merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Return the schema with its reference and the schemas of its `allOf` merged into it."""
        merged: dict[str, Any] = dict(schema)
        parts = [*([self._resolve(merged.pop("$ref"))] if "$ref" in merged else []), *merged.pop("allOf", [])]
        for part in parts:
            self._count_part(depth)
            if not isinstance(part, Mapping):
                continue
            inner = self._merged(part, depth + 1)
            properties = {**inner.get("properties", {}), **merged.get("properties", {})}
            required = [*inner.get("required", []), *merged.get("required", [])]
            merged = {**inner, **merged}
            merged |= {"properties": properties} if properties else {}
            merged |= {"required": list(dict.fromkeys(required))} if required else {}
        return merged

    def _resolve(self, reference: object) -> object:
        path = self._references.find((), reference)
        if path is None:
            raise NoExample(f"the reference {reference!r:.80} leaves the schema")
        found = follow(self._root, path, _MISSING)
        if found is _MISSING:
            raise NoExample(f"the reference {reference!r:.80} cannot be resolved")
        return found

    def _first_example(self, schema: Mapping[str, Any], union: str, depth: int) -> Any:
        """Return an example of the first alternative that has one, preferably not null."""
        rest = {name: value for name, value in schema.items() if name != union}
        problem = NoExample(f"`{union}` is empty")
        has_null = False
        for alternative in schema[union]:
            try:
                value = self._example({**rest, "allOf": [alternative]}, depth + 1)
            except NoExample as error:
                problem = error
                continue
            if value is not None:
                return value
            has_null = True
        if has_null:
            return None
        raise problem

    def _example_of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type", _implied_type(schema))
        kinds = kinds if isinstance(kinds, list) else [kinds]
        kind = next((each for each in kinds if each != "null"), "null")
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return _text(schema)
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case _:
                return None

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        names = required if depth >= _ONLY_REQUIRED_FROM else [*properties, *required]
        made = {}
        for name in dict.fromkeys(names):
            try:
                made[name] = self._example(properties.get(name, schema.get("additionalProperties", True)), depth + 1)
            except NoExample:
                if name in required:
                    raise
        return made

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first = schema.get("prefixItems", [])
        items = schema.get("items", True)
        if isinstance(items, list):  # before draft 2020-12
            first, items = items, schema.get("additionalItems", True)
        made = [self._example(each, depth + 1) for each in first]
        least = schema.get("minItems", 0)
        wanted = least if first or depth >= _ONLY_REQUIRED_FROM or schema.get("maxItems") == 0 else max(1, least)
        while len(made) < wanted:
            made.append(self._example(items, depth + 1))
        return made


def _implied_type(schema: Mapping[str, Any]) -> str:
    """Return the type of values that the keywords are about; an object if they do not tell."""
    if {"items", "prefixItems", "minItems"} & schema.keys():
        return "array"
    if {"pattern", "minLength", "maxLength", "format"} & schema.keys():
        return "string"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys():
        return "number"
    return "object"


def _text(schema: Mapping[str, Any]) -> str:
    if "pattern" in schema:
        raise NoExample("`pattern` needs an example: add `examples` to the schema")
    text = _TEXTS.get(schema.get("format", ""), _WORD)
    least = schema.get("minLength", 0)
    if least > _MOST_PARTS:
        raise NoExample(f"`minLength` asks for more than {_MOST_PARTS:,} characters")
    # a count may be written as 5.0
    least = int(least)
    longer = text if len(text) >= least else (text * (least // len(text) + 1))[:least]
    return longer[: int(min(schema.get("maxLength", len(longer)), len(longer)))]


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    """Return the smallest number, as `_least_number` finds it; raise NoExample if the bounds are too large for it."""
    try:
        return _least_number(schema, whole=whole)
    except (OverflowError, ValueError):  # ValueError: a quotient of two infinite numbers
        raise NoExample("the bounds are too large for an example") from None


def _least_number(schema: Mapping[str, Any], *, whole: bool) -> float:
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
