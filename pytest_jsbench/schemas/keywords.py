"""The keywords of JSON Schema, by what they do, and those that a schema uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.walking import REFERENCES, children

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: the formats of draft 2020-12
FORMATS = (
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
    "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer",
    "relative-json-pointer", "regex",
)  # fmt: skip
#: keywords that no instance can break
ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly",
     "deprecated", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
     "contentEncoding", "contentMediaType", "contentSchema"}
)  # fmt: skip
#: what each type's keywords are; they say nothing about instances of another type
BY_KIND: dict[str, frozenset[str]] = {
    "object": frozenset(
        {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
         "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"}
    ),
    "array": frozenset(
        {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains",
         "maxContains", "unevaluatedItems"}
    ),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}  # fmt: skip
APPLICATORS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: the keywords that can make an instance invalid, in all dialects
KEYWORDS = frozenset({"type", "enum", "const"}).union(*BY_KIND.values(), APPLICATORS, REFERENCES)


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """The keywords in a schema or below it that can make an instance invalid."""
    found: set[str] = set()
    pending: list[Mapping[str, Any]] = [schema] if isinstance(schema, Mapping) else []
    while pending:
        subschema = pending.pop()
        found.update(KEYWORDS.intersection(subschema))
        pending += children(subschema)
    return frozenset(found)
