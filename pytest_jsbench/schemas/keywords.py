"""The keywords of JSON Schema, by what they do; the schemas inside a schema, and the keywords that it uses."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: where a schema stands: keywords, names and indexes from the root
Tokens = tuple[str, ...]
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
#: keywords that map names to schemas
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
#: keywords that hold data, even where it looks like a schema
DATA = frozenset({"enum", "const", "default", "examples", "example"})
#: keywords that only pass on what another schema says
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
APPLICATORS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: the keywords that can make an instance invalid, in all dialects
KEYWORDS = frozenset({"type", "enum", "const"}).union(*BY_KIND.values(), APPLICATORS, REFERENCES)


def children(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Every object directly below that may be a schema.

    Unknown keywords are entered too: references point into them (`#/components/schemas/…`).
    """
    below: list[dict[str, Any]] = []
    for keyword, value in schema.items():
        # most values are texts, and this is asked of every one of a large schema
        if type(value) is str:
            continue
        if isinstance(value, dict):
            if keyword in NAMED:
                below += [each for each in value.values() if isinstance(each, dict)]
            elif keyword not in DATA:
                below.append(value)
        elif isinstance(value, list) and keyword not in DATA:
            below += [each for each in value if isinstance(each, dict)]
    return below


def walk(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of the document that may be a schema, level by level."""
    pending = children({"": schema})
    for subschema in pending:
        yield subschema
        pending += children(subschema)


def located(schema: Any) -> Iterator[tuple[Tokens, Mapping[str, Any]]]:
    """Everything that may be a schema, in the order of the document, each with the steps to it from the root."""
    pending: list[tuple[Tokens, Any]] = [((), schema)]
    while pending:
        path, value = pending.pop()
        below: list[tuple[Tokens, Any]] = []
        if isinstance(value, list):
            below = [((*path, str(number)), member) for number, member in enumerate(value)]
        elif isinstance(value, Mapping):
            yield path, value
            for keyword, member in value.items():
                if keyword in NAMED and isinstance(member, Mapping):
                    below += [((*path, keyword, name), subschema) for name, subschema in member.items()]
                elif keyword not in DATA and isinstance(member, list | Mapping):
                    below.append(((*path, keyword), member))
        pending += reversed(below)


def all_of(schemas: Iterable[object]) -> object:
    """The schema that says what all of them say: itself where there is only one."""
    parts = list(schemas)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def rebuild(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy in which each object that may be a schema went through `change`, inner ones first."""
    if isinstance(schema, list):
        return [rebuild(element, change) for element in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in DATA:
            copy[keyword] = value
        elif keyword in NAMED and isinstance(value, Mapping):
            copy[keyword] = {name: rebuild(subschema, change) for name, subschema in value.items()}
        else:
            copy[keyword] = rebuild(value, change)
    return change(copy)


def last_keyword(path: Sequence[str | int]) -> str:
    """
    The keyword that failed, by the path of keywords, names and indexes that the validator took to it.

    A failing `anyOf`, `oneOf`, `not` or `propertyNames` is reported as such; through all others the inner keyword
    is. A `false` schema has none, and the keyword that holds it (`properties`, `items`, …)
    stands for it.
    """
    keyword = "false"
    for keyword in keywords_on(path):
        if keyword == "propertyNames":
            break
    return keyword


def keywords_on(path: Iterable[str | int]) -> Iterator[str]:
    """Give the keywords on a path into a schema, without the names of properties, the indexes and the references."""
    is_name = False
    for step in path:
        if not is_name and isinstance(step, str) and step not in REFERENCES and not step.isdecimal():
            yield step
        is_name = not is_name and step in NAMED


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """The keywords in a schema or below it that can make an instance invalid."""
    names: set[str] = set()
    for subschema in walk(dict(schema) if isinstance(schema, Mapping) else {}):
        names.update(subschema)
    return KEYWORDS & names


#: keywords that hold schemas, or names of them
_HOLDING = KEYWORDS.union(NAMED, ("contentSchema",)) - DATA - {"dependentRequired"}
#: what is near to a keyword, and said on purpose
_OTHERS = frozenset({"example", "note", "devDependencies", "peerDependencies", "inclusiveMinimum", "inclusiveMaximum"})
#: difflib's ratio from which on two words are near; of 9,557 published schemas 90 are told of one then
_NEAR = 0.86


def misspelt(schema: Schema) -> list[str]:
    """Say of each word in the place of a keyword that it is near to one; or that a schema has no keyword at all."""
    meanings: dict[str, str] = {}
    pending: list[Any] = [schema]
    while pending:
        subschema = pending.pop()
        if isinstance(subschema, list):
            pending += subschema
        elif isinstance(subschema, dict):
            meanings.update((name, meant) for name in subschema if (meant := _meant(name)))
            for keyword in _HOLDING & subschema.keys():
                value = subschema[keyword]
                pending += list(value.values()) if keyword in NAMED and isinstance(value, dict) else [value]
    sentences = [f"unknown keyword '{name}': did you mean '{meant}'?" for name, meant in meanings.items()]
    if not sentences and isinstance(schema, dict) and schema and (KEYWORDS | ANNOTATIONS | _OTHERS).isdisjoint(schema):
        sentences.append("no keyword of JSON Schema stands in it, so that every answer conforms: is it one?")
    return sentences


@lru_cache(maxsize=4096)
def _meant(name: str) -> str:
    if (
        name in KEYWORDS | ANNOTATIONS | _OTHERS
        or not 3 < len(name) < 30
        or name.lower().startswith("x-")
        or name[0] in "_@/#$-"
    ):
        return ""
    lowered = {keyword.lower(): keyword for keyword in sorted(KEYWORDS)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_NEAR)
    return lowered[close[0]] if close else ""
