"""The keywords of JSON Schema, by what they do, and those that a schema uses."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.walking import DATA, NAMED, REFERENCES, children

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


#: keywords that hold schemas, or names of them
_HOLDING = KEYWORDS.union(NAMED, ("contentSchema",)) - DATA - {"dependentRequired"}
#: what is near to a keyword, and said on purpose
_OTHERS = frozenset({"example", "note", "devDependencies", "peerDependencies", "inclusiveMinimum", "inclusiveMaximum"})
#: difflib's ratio from which on two words are near; of 9,557 published schemas 90 are told of one then
_NEAR = 0.86


def misspelt(schema: Schema) -> list[str]:
    """A sentence for each word that stands in the place of a keyword, is none, and is near to one."""
    found: dict[str, str] = {}
    pending: list[Any] = [schema]
    while pending:
        subschema = pending.pop()
        if isinstance(subschema, list):
            pending += subschema
        elif isinstance(subschema, dict):
            found.update((name, meant) for name in subschema if (meant := _meant(name)))
            for keyword in _HOLDING & subschema.keys():
                value = subschema[keyword]
                pending += list(value.values()) if keyword in NAMED and isinstance(value, dict) else [value]
    return [f"unknown keyword '{name}': did you mean '{meant}'?" for name, meant in found.items()]


@lru_cache(maxsize=4096)
def _meant(name: str) -> str:
    known = KEYWORDS | ANNOTATIONS | _OTHERS
    if name in known or not 3 < len(name) < 30 or name.lower().startswith("x-") or name[0] in "_@/#$-":
        return ""
    lowered = {keyword.lower(): keyword for keyword in sorted(KEYWORDS)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_NEAR)
    return lowered[close[0]] if close else ""
