"""Analyze a schema before any call: dialect, size, depth, keywords and features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, NAMES, find_dialect
from pytest_jsbench.schemas.keywords import BY_KIND, REFERENCES, children, used_keywords
from pytest_jsbench.schemas.references import References, cycle

#: Keywords by feature; a schema with any of these keywords has the feature.
_BY_KEYWORD: Mapping[str, frozenset[str]] = {
    "ref": REFERENCES,
    "union": frozenset({"anyOf", "oneOf"}),
    "intersection": frozenset({"allOf"}),
    "negation": frozenset({"not"}),
    "conditional": frozenset({"if", "dependencies", "dependentRequired", "dependentSchemas"}),
    "choice": frozenset({"enum", "const"}),
    "pattern": frozenset({"pattern", "patternProperties"}),
    "format": frozenset({"format"}),
    "tuple": frozenset({"prefixItems", "additionalItems"}),
    "counted": frozenset(
        {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "uniqueItems"}
    ),
    "ranged": BY_KIND["number"],
}
#: Features of a schema, with their meaning.
FEATURES: Mapping[str, str] = {
    "recursive": "references that form a cycle",
    "remote": "a reference to another document",
    "closed": "an object that allows no additional properties",
    **{name: " or ".join(sorted(keywords)) for name, keywords in _BY_KEYWORD.items()},
}
#: Dialect name for a `$schema` that is not one of the published drafts.
UNKNOWN_DIALECT = "unknown"
DIALECTS = (*NAMES, UNKNOWN_DIALECT)

_NAME_OF = {uri: name for name, uri in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFeatures:
    """Dialect, size, depth, keywords and features of a schema; cases can be selected by these values."""

    #: Name of the dialect, `draft-04` to `2020-12`, or `unknown`.
    dialect: str
    #: Size of the schema in bytes, as UTF-8 JSON without white space.
    size: int
    #: Maximum nesting depth of schemas; a schema without subschemas has depth 1.
    depth: int
    keywords: frozenset[str]
    features: frozenset[str]

    @classmethod
    def from_schema(cls, schema: Schema, *, default_dialect: str) -> SchemaFeatures:
        """Analyze a schema; `default_dialect` is the dialect's URI for a schema without `$schema`."""
        keywords = used_keywords(schema)
        uri = schema.get("$schema", default_dialect) if isinstance(schema, Mapping) else default_dialect
        dialect = find_dialect(uri)
        features = {name for name, keyword in _BY_KEYWORD.items() if not keyword.isdisjoint(keywords)}
        levels = _levels(schema)
        subschemas = [subschema for level in levels for subschema in level]
        closing = ("additionalProperties", "unevaluatedProperties")
        if any(part.get(keyword) is False for part in subschemas for keyword in closing):
            features.add("closed")
        if any(isinstance(part.get("items"), list) for part in subschemas):
            features.add("tuple")
        if isinstance(schema, dict) and "ref" in features:
            features |= _reference_features(subschemas, References(schema, dialect or DRAFT_2020_12))
        return cls(
            dialect=_NAME_OF[dialect.uri] if dialect else UNKNOWN_DIALECT,
            size=len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")),
            depth=max(1, len(levels)),
            keywords=keywords,
            features=frozenset(features),
        )

    def __or__(self, other: SchemaFeatures) -> SchemaFeatures:
        """Return the features of two schemas of one case together, in the dialect of the first."""
        return SchemaFeatures(
            dialect=self.dialect,
            size=self.size + other.size,
            depth=max(self.depth, other.depth),
            keywords=self.keywords | other.keywords,
            features=self.features | other.features,
        )


def _levels(schema: Schema) -> list[list[dict[str, Any]]]:
    """Return the nested schemas by level, the outermost first."""
    levels: list[list[Any]] = [[schema]] if isinstance(schema, Mapping) else []
    while levels and (level := [child for subschema in levels[-1] for child in children(subschema)]):
        levels.append(level)
    return levels


def _reference_features(subschemas: list[dict[str, Any]], references: References) -> set[str]:
    """Return `remote` if a reference leads out of the document, and `recursive` if references form a cycle."""

    def resolve_all(part: dict[str, Any]) -> list[object]:
        values = [part[keyword] for keyword in REFERENCES & part.keys()]
        return [references.resolve(part, value) for value in values if isinstance(value, str)]

    def list_next(part: dict[str, Any]) -> list[dict[str, Any]]:
        return [*children(part), *(target for target in resolve_all(part) if isinstance(target, dict))]

    features: set[str] = set()
    if any(None in resolve_all(part) for part in subschemas):
        features.add("remote")
    if cycle(list_next, subschemas):
        features.add("recursive")
    return features
