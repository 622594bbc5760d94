"""Find subschemas and the targets of references in the original schema, and outline the instances of a subschema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.schemas import keywords
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, dialect_of
from pytest_jsbench.schemas.keywords import KEYWORDS
from pytest_jsbench.schemas.references import CertainReferences, follow

Path = tuple[str, ...]

#: Formats that published schemas use; other names have no effect on validity.
FORMATS = frozenset({*keywords.FORMATS, "color", "host-name", "ip-address"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPart:
    """Subschema with its path in the original schema."""

    schema: Any
    path: Path

    def below(self, *tokens: str) -> SchemaPart:
        """Return the subschema at a path that is relative to this subschema."""
        value = self.schema
        for token in tokens:
            value = value[int(token)] if isinstance(value, list) else value[token]
        return SchemaPart(schema=value, path=self.path + tokens)


class SchemaDocument:
    """The whole original schema, with a resolver for its references."""

    def __init__(self, root: Any) -> None:
        self.root = root
        #: Dialect of the schema; draft 2020-12 if the schema declares no known dialect.
        self.dialect = (isinstance(root, dict) and dialect_of(root, DRAFT_2020_12)) or DRAFT_2020_12
        self._references = CertainReferences(root)
        #: Cached outlines; the key consists of the subschema's place, its id() and the analyzed depth.
        self.outlines: dict[tuple[Path, int, int], tuple[SchemaPart, Outline]] = {}

    def is_only_a_reference(self, schema: Any) -> bool:
        """Return whether `$ref` is the schema's only keyword that affects validity."""
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return False
        return self.dialect.lone_references or not (schema.keys() - {"$ref"}) & KEYWORDS

    def resolve(self, part: SchemaPart, reference: object) -> SchemaPart | None:
        """Return the target of a reference in the part; None if the target is uncertain or outside of the document."""
        path = self._references.find(part.path, reference)
        schema = None if path is None else follow(self.root, path)
        return SchemaPart(schema=schema, path=path) if path is not None and isinstance(schema, Mapping | bool) else None


def names_in(value: Any) -> list[str]:
    """Return the strings in a list; an empty list for other values."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Facts about all valid instances of a schema, to recognize schemas that have no instance in common."""

    #: Types of the instances; None for any type. Integers have the type `number` here.
    kinds: frozenset[str] | None = None
    #: All possible values as canonical JSON; None if the schema does not list its values.
    values: frozenset[str] | None = None
    #: Required properties of an object.
    required: frozenset[str] = frozenset()
    #: Possible values of each property with an `enum` or `const`.
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)


_DEEPEST = 8
KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")


def canonical(value: Any) -> str:
    """Return the value as canonical JSON; values that are equal in JSON Schema have the same text."""
    return json.dumps(_normalize_numbers(value), sort_keys=True)


def _normalize_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _normalize_numbers(member) for name, member in value.items()}
    return [_normalize_numbers(member) for member in value] if isinstance(value, list) else value


def kind_of(value: Any) -> str:
    """Return the type of a JSON value; whole numbers are integers."""
    kind = json_type(value)
    whole = kind == "number" and (isinstance(value, int) or value.is_integer())
    return "integer" if whole else kind


def disjoint(first: Outline, second: Outline) -> bool:
    """Return whether no instance can be valid for both schemas; False if uncertain."""
    if first.kinds is not None and second.kinds is not None and not first.kinds & second.kinds:
        return True
    if first.values is not None and second.values is not None and not first.values & second.values:
        return True
    if first.kinds != frozenset({"object"}) and second.kinds != frozenset({"object"}):
        return False
    both = first.required & second.required & first.tags.keys() & second.tags.keys()
    return any(not first.tags[name] & second.tags[name] for name in both)


def outline(document: SchemaDocument, part: SchemaPart, deepest: int = _DEEPEST) -> Outline:
    """Return the outline of the part, from the cache if possible."""
    key = (part.path, id(part.schema), deepest)
    entry = document.outlines.get(key)
    if entry is None:
        # keep the part, so that its id() stays unique
        entry = (part, _outline(document, part, deepest))
        document.outlines[key] = entry
    return entry[1]


def _outline(document: SchemaDocument, part: SchemaPart, deepest: int) -> Outline:
    schema = part.schema
    if schema is False:
        return Outline(kinds=frozenset(), values=frozenset())
    if not isinstance(schema, Mapping) or not deepest:
        return Outline()
    if "$ref" in schema:
        target = document.resolve(part, schema["$ref"])
        referred = Outline() if target is None else outline(document, target, deepest - 1)
        if document.dialect.lone_references:
            return referred
    else:
        referred = Outline()
    facts = _combine(referred, _own_outline(document, part, deepest))
    branches = schema.get("allOf")
    for number in range(len(branches) if isinstance(branches, list) else 0):
        facts = _combine(facts, outline(document, part.below("allOf", str(number)), deepest - 1))
    return facts


def _own_outline(document: SchemaDocument, part: SchemaPart, deepest: int) -> Outline:
    schema = part.schema
    properties = schema.get("properties")
    values = schema.get("enum")
    if "const" in schema and "const" in document.dialect.keywords:
        values = [schema["const"]]
    tags = {}
    if deepest > 1 and isinstance(properties, Mapping):
        for name in properties:
            tag = outline(document, part.below("properties", name), 2).values
            if tag is not None:
                tags[name] = tag
    listed = frozenset(map(canonical, values)) if isinstance(values, list) else None
    kinds = _kinds(schema.get("type"))
    if isinstance(values, list):
        kinds = _intersect(kinds, frozenset(_numeric(kind_of(value)) for value in values))
    return Outline(
        kinds=kinds,
        values=listed,
        required=frozenset(names_in(schema.get("required"))),
        tags=tags,
    )


def _kinds(declared: Any) -> frozenset[str] | None:
    listed = [declared] if isinstance(declared, str) else declared
    if not isinstance(listed, list) or not all(kind in KINDS for kind in listed):
        return None
    return frozenset(map(_numeric, listed))


def _numeric(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _intersect(kinds: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    if kinds is None or others is None:
        return others if kinds is None else kinds
    return kinds & others


def _combine(first: Outline, second: Outline) -> Outline:
    tags = {**first.tags, **second.tags}
    for name in first.tags.keys() & second.tags.keys():
        tags[name] = first.tags[name] & second.tags[name]
    return Outline(
        kinds=_intersect(first.kinds, second.kinds),
        values=_intersect(first.values, second.values),
        required=first.required | second.required,
        tags=tags,
    )
