"""Classify the keywords of JSON Schema, and find the schemas inside a schema and the keywords that it uses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: Path of a schema: keywords, names and indexes from the root.
Tokens = tuple[str, ...]
#: Formats of draft 2020-12.
FORMATS = (
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6",
    "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer",
    "relative-json-pointer", "regex",
)  # fmt: skip
#: Keywords that no instance can violate.
ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly",
     "deprecated", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
     "contentEncoding", "contentMediaType", "contentSchema"}
)  # fmt: skip
#: Keywords by the type to which they apply; instances of other types always satisfy these keywords.
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
#: Keywords that map names to schemas.
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
#: Keywords that contain data, even if it looks like a schema.
DATA = frozenset({"enum", "const", "default", "examples", "example"})
#: Keywords that refer to another schema.
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
APPLICATORS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: Keywords that can make an instance invalid, in all dialects.
KEYWORDS = frozenset({"type", "enum", "const"}).union(*BY_KIND.values(), APPLICATORS, REFERENCES)


def children(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Return every object directly below this schema that may also be a schema.

    Objects in unknown keywords are included, since references can point to them (`#/components/schemas/…`).
    """
    below: list[dict[str, Any]] = []
    for keyword, value in schema.items():
        # for speed: most values of a large schema are texts and booleans
        if type(value) is str or type(value) is bool:
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
    """Yield every object of the document that may be a schema, level by level."""
    pending = children({"": schema})
    for subschema in pending:
        yield subschema
        pending += children(subschema)


def find_schemas(schema: Any) -> Iterator[tuple[Tokens, Mapping[str, Any]]]:
    """Yield every object that may be a schema, with its path from the root, in document order."""
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
    """Return a schema that requires all of the given schemas; return a single schema unchanged."""
    parts = list(schemas)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def rebuild(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy in which `change` is applied to each object that may be a schema, inner ones first."""
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
    Return the failed keyword in a validator's path of keywords, names and indexes.

    This is the last keyword on the path, but `propertyNames` is returned for every failure below it. For a `false`
    schema, the keyword that contains the schema (`properties`, `items`, …) is returned.
    """
    keyword = "false"
    for keyword in keywords_on(path):
        if keyword == "propertyNames":
            break
    return keyword


def keywords_on(path: Iterable[str | int]) -> Iterator[str]:
    """Yield the keywords on a path into a schema, without property names, indexes and references."""
    is_name = False
    for step in path:
        if not is_name and isinstance(step, str) and step not in REFERENCES and not step.isdecimal():
            yield step
        is_name = not is_name and step in NAMED


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """Return the keywords in a schema, at any depth, that can make an instance invalid."""
    names: set[str] = set()
    for subschema in walk(dict(schema) if isinstance(schema, Mapping) else {}):
        names.update(subschema)
    return KEYWORDS & names


#: Keywords whose values may contain schemas.
_WITH_SCHEMAS = KEYWORDS.union(NAMED, ("contentSchema",)) - DATA - {"dependentRequired"}
#: Names that resemble a keyword but are not misspelled.
_OTHERS = frozenset({"example", "note", "devDependencies", "peerDependencies", "inclusiveMinimum", "inclusiveMaximum"})
#: Minimum difflib ratio of similar words; with this value, 90 of 9,557 published schemas get a warning.
_NEAR = 0.86


_DEFINITIONS = frozenset({"$defs", "definitions"})
_WORDS = KEYWORDS | ANNOTATIONS
#: Accepted types for a number or boolean. A string is accepted too: a number in quotes is a separate mistake.
_SCALAR = (int, float, str)
#: Types of each keyword's value. A similar name with a value of another type is not a misspelling of the keyword.
_VALUES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"), dict),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "enum", "prefixItems"), list),
    **dict.fromkeys(("format", "pattern", "$ref", "$dynamicRef", "$recursiveRef"), str),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _SCALAR),
    **dict.fromkeys(("minProperties", "maxProperties", "minimum", "maximum", "multipleOf"), _SCALAR),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum", "uniqueItems"), _SCALAR),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems"), (dict, list, *_SCALAR)),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "propertyNames", "contains"), (dict, *_SCALAR)),
    **dict.fromkeys(("not", "if", "then", "else"), (dict, bool)),
    "required": (list, bool),
    "type": (str, list),
}


def misspelt(schema: Schema) -> list[str]:
    """Return a message for each probably misspelled keyword, or one message if the schema has no keyword at all."""
    return find_misspelled(schema, [subschema for _, subschema in schemas_in(schema)])


def find_misspelled(schema: Schema, subschemas: Iterable[dict[str, Any]]) -> list[str]:
    """Return the same messages as `misspelt`, for a schema whose subschemas are already collected."""
    meanings: dict[str, str] = {}
    for subschema in subschemas:
        for name, value in subschema.items():
            keyword = _guess_keyword(name)
            if keyword and _fits(keyword, value):
                meanings[name] = keyword
    sentences = [f"unknown keyword '{name}': did you mean '{keyword}'?" for name, keyword in meanings.items()]
    if not sentences and isinstance(schema, dict) and schema and (KEYWORDS | ANNOTATIONS | _OTHERS).isdisjoint(schema):
        sentences.append("the schema has no keyword of JSON Schema, so every answer is valid; is this a JSON Schema?")
    return sentences


def schemas_in(schema: object) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """
    Yield every object at a place where a schema is expected, with its path, in document order.

    Definitions may be grouped in containers; a container is not a schema, and is not yielded.
    """
    pending: list[tuple[tuple[str | int, ...], object, bool]] = [((), schema, False)]
    while pending:
        path, value, is_definition = pending.pop()
        below: list[tuple[tuple[str | int, ...], object, bool]] = []
        if isinstance(value, list):
            below = [((*path, number), part, False) for number, part in enumerate(value)]
        elif isinstance(value, dict) and is_definition and _is_container(value):
            below = [((*path, name), part, True) for name, part in value.items()]
        elif isinstance(value, dict):
            yield path, value
            for keyword in [name for name in value if name in _WITH_SCHEMAS]:
                member = value[keyword]
                if keyword in NAMED and isinstance(member, dict):
                    defines = keyword in _DEFINITIONS
                    below += [((*path, keyword, name), part, defines) for name, part in member.items()]
                else:
                    below.append(((*path, keyword), member, False))
        pending += reversed(below)


def _is_container(value: dict[str, Any]) -> bool:
    """Return whether an object below definitions is a container of definitions and not a schema."""
    if not value or any(_fits(word, value[word]) for word in _WORDS & value.keys()):
        return False
    return all(isinstance(part, dict) and (not part or _contains_schemas(part)) for part in value.values())


def _fits(word: str, value: object) -> bool:
    """Return whether the type of a value is allowed for a keyword."""
    if word in _VALUES:
        return isinstance(value, _VALUES[word])
    return word in DATA | _DEFINITIONS or not isinstance(value, dict)


def _contains_schemas(part: dict[str, Any], levels: int = 4) -> bool:
    if not _WORDS.isdisjoint(part):
        return True
    return levels > 0 and all(isinstance(each, dict) and _contains_schemas(each, levels - 1) for each in part.values())


#: Keyword after a vendor's prefix, as in tsRequired, ui:format and go.type.
_VENDORS = re.compile(
    rf"[a-z]{{1,4}}(?:{'|'.join(sorted(word[0].upper() + word[1:] for word in KEYWORDS if word.isalpha()))})"
    rf"|[A-Za-z]+[.:_-](?:{'|'.join(sorted(filter(str.isalpha, KEYWORDS)))})"
)


@lru_cache(maxsize=4096)
def _guess_keyword(name: str) -> str:
    """Return the keyword that a name probably misspells; empty if there is none."""
    if (
        name in KEYWORDS | ANNOTATIONS | _OTHERS
        or not 3 < len(name) < 30
        or name.lower().startswith("x-")
        or name[0] in "_@/#$-"
    ):
        return ""
    lowered = {keyword.lower(): keyword for keyword in sorted(KEYWORDS)}
    joined = re.sub("[_-]", "", name.lower())
    if joined in lowered:
        return lowered[joined]
    if _VENDORS.fullmatch(name):
        return ""
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_NEAR)
    return lowered[close[0]] if close else ""
