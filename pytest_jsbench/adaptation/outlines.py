"""Which instances a schema may admit at the most, to tell alternatives apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.document import Outline

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import SchemaDocument, SchemaPart

_DEEPEST = 8
KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")


def canonical(value: Any) -> str:
    """The same text for values that JSON Schema calls equal."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value


def kind_of(value: Any) -> str:
    """The type of a JSON value; whole numbers are integers."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def disjoint(one: Outline, other: Outline) -> bool:
    """Whether certainly no instance conforms to both."""
    if one.kinds is not None and other.kinds is not None and not one.kinds & other.kinds:
        return True
    if one.values is not None and other.values is not None and not one.values & other.values:
        return True
    if one.kinds != frozenset({"object"}) and other.kinds != frozenset({"object"}):
        return False
    both = one.required & other.required & one.tags.keys() & other.tags.keys()
    return any(not one.tags[name] & other.tags[name] for name in both)


def outline(document: SchemaDocument, part: SchemaPart, deepest: int = _DEEPEST) -> Outline:
    """What holds for every instance of that part, looked at once however many references lead to it."""
    key = (part.path, id(part.schema), deepest)
    known = document.outlines.get(key)
    if known is None:
        # the part is kept, so that no other schema can come to have its identity
        known = document.outlines[key] = (part, _outline(document, part, deepest))
    return known[1]


def _outline(document: SchemaDocument, part: SchemaPart, deepest: int) -> Outline:
    schema = part.schema
    if schema is False:
        return Outline(kinds=frozenset(), values=frozenset())
    if not isinstance(schema, Mapping) or not deepest:
        return Outline()
    if "$ref" in schema:
        target = document.resolve(part, schema["$ref"])
        referred = Outline() if target is None else outline(document, target, deepest - 1)
        if document.lone_references:
            return referred
    else:
        referred = Outline()
    found = _meet(referred, _own(document, part, deepest))
    branches = schema.get("allOf")
    for number in range(len(branches) if isinstance(branches, list) else 0):
        found = _meet(found, outline(document, part.below("allOf", str(number)), deepest - 1))
    return found


def _own(document: SchemaDocument, part: SchemaPart, deepest: int) -> Outline:
    schema = part.schema
    required, properties = schema.get("required"), schema.get("properties")
    values = schema.get("enum")
    # draft 4 does not know `const`
    if "const" in schema and document.draft >= 6:
        values = [schema["const"]]
    tags = {}
    if deepest > 1 and isinstance(properties, Mapping):
        for name in properties:
            tag = outline(document, part.below("properties", name), 2).values
            if tag is not None:
                tags[name] = tag
    known = frozenset(map(canonical, values)) if isinstance(values, list) else None
    kinds = _kinds(schema.get("type"))
    if isinstance(values, list):
        kinds = _both(kinds, frozenset(_numeric(kind_of(value)) for value in values))
    return Outline(
        kinds=kinds,
        values=known,
        required=frozenset(name for name in required if isinstance(name, str))
        if isinstance(required, list)
        else frozenset(),
        tags=tags,
    )


def _kinds(declared: Any) -> frozenset[str] | None:
    listed = [declared] if isinstance(declared, str) else declared
    if not isinstance(listed, list) or not all(kind in KINDS for kind in listed):
        return None
    return frozenset(map(_numeric, listed))


def _numeric(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _meet(one: Outline, other: Outline) -> Outline:
    tags = {**one.tags, **other.tags}
    for name in one.tags.keys() & other.tags.keys():
        tags[name] = one.tags[name] & other.tags[name]
    return Outline(
        kinds=_both(one.kinds, other.kinds),
        values=_both(one.values, other.values),
        required=one.required | other.required,
        tags=tags,
    )
