"""Classify the keywords of JSON Schema, and find the schemas inside a schema and the keywords that it uses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: Place of a schema: keywords, names and indexes from the root.
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
#: Keywords by the type to which they apply; they ignore instances of other types.
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
    Return every object directly below that may be a schema.

    Unknown keywords are included, since references lead into them (`#/components/schemas/…`).
    """
    below: list[dict[str, Any]] = []
    for keyword, value in schema.items():
        # most values are strings, and this runs for every value of a large schema
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
    """Yield every object of the document that may be a schema, level by level."""
    pending = children({"": schema})
    for subschema in pending:
        yield subschema
        pending += children(subschema)


def located(schema: Any) -> Iterator[tuple[Tokens, Mapping[str, Any]]]:
    """Yield everything that may be a schema, in document order, with the steps to it from the root."""
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
    """Return a schema that requires all of them; a single one is returned itself."""
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
    Return the keyword that failed, from a validator's path of keywords, names and indexes.

    A failing `anyOf`, `oneOf`, `not` or `propertyNames` is returned itself; for all others the inner keyword is. For a
    `false` schema, the keyword that contains it (`properties`, `items`, …) is returned.
    """
    keyword = "false"
    for keyword in keywords_on(path):
        if keyword == "propertyNames":
            break
    return keyword


def keywords_on(path: Iterable[str | int]) -> Iterator[str]:
    """Return the keywords on a path into a schema, without names of properties, indexes and references."""
    is_name = False
    for step in path:
        if not is_name and isinstance(step, str) and step not in REFERENCES and not step.isdecimal():
            yield step
        is_name = not is_name and step in NAMED


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """Return the keywords in a schema or below it that can make an instance invalid."""
    names: set[str] = set()
    for subschema in walk(dict(schema) if isinstance(schema, Mapping) else {}):
        names.update(subschema)
    return KEYWORDS & names


#: Keywords that contain schemas, or names of schemas.
_HOLDING = KEYWORDS.union(NAMED, ("contentSchema",)) - DATA - {"dependentRequired"}
#: Words that resemble a keyword but are used on purpose.
_OTHERS = frozenset({"example", "note", "devDependencies", "peerDependencies", "inclusiveMinimum", "inclusiveMaximum"})
#: Ratio of difflib from which two words are similar; 90 of 9,557 published schemas get a warning with it.
_NEAR = 0.86


_DEFINITIONS = frozenset({"$defs", "definitions"})
_WORDS = KEYWORDS | ANNOTATIONS
#: Numbers and booleans may also be strings, which is a separate fault.
_SCALAR = (int, float, str)
#: Types of a keyword's value: a word with another value was not meant as the keyword.
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
    """Return a message for each word that resembles a keyword in its place, or if a schema has no keyword at all."""
    return find_misspelled(schema, [subschema for _, subschema in schemas_in(schema)])


def find_misspelled(schema: Schema, subschemas: Iterable[dict[str, Any]]) -> list[str]:
    """Do the same for a schema whose objects in the place of a schema are known."""
    meanings: dict[str, str] = {}
    for subschema in subschemas:
        for name, value in subschema.items():
            meant = _meant(name)
            if meant and _fits(meant, value):
                meanings[name] = meant
    sentences = [f"unknown keyword '{name}': did you mean '{meant}'?" for name, meant in meanings.items()]
    if not sentences and isinstance(schema, dict) and schema and (KEYWORDS | ANNOTATIONS | _OTHERS).isdisjoint(schema):
        sentences.append("it has no keyword of JSON Schema, so that every answer is valid; is it a schema?")
    return sentences


def schemas_in(schema: object) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """
    Yield every object in the place of a schema with the steps to it, in document order.

    Below definitions there can also be containers of further definitions, which are not schemas.
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
            for keyword in [name for name in value if name in _HOLDING]:
                held = value[keyword]
                if keyword in NAMED and isinstance(held, dict):
                    defines = keyword in _DEFINITIONS
                    below += [((*path, keyword, name), part, defines) for name, part in held.items()]
                else:
                    below.append(((*path, keyword), held, False))
        pending += reversed(below)


def _is_container(value: dict[str, Any]) -> bool:
    """
    Return whether an object below definitions contains named schemas, or more such containers, and
    is not a schema.
    """
    if not value or any(_fits(word, value[word]) for word in _WORDS & value.keys()):
        return False
    return all(isinstance(part, dict) and (not part or _holds_schemas(part)) for part in value.values())


def _fits(word: str, value: object) -> bool:
    """Return whether a value has a type that the keyword allows."""
    if word in _VALUES:
        return isinstance(value, _VALUES[word])
    return word in DATA | _DEFINITIONS or not isinstance(value, dict)


def _holds_schemas(part: dict[str, Any], levels: int = 4) -> bool:
    if not _WORDS.isdisjoint(part):
        return True
    return levels > 0 and all(isinstance(each, dict) and _holds_schemas(each, levels - 1) for each in part.values())


#: A keyword after a vendor's prefix: tsRequired, ui:format, go.type.
_VENDORS = re.compile(
    rf"[a-z]{{1,4}}(?:{'|'.join(sorted(word[0].upper() + word[1:] for word in KEYWORDS if word.isalpha()))})"
    rf"|[A-Za-z]+[.:_-](?:{'|'.join(sorted(filter(str.isalpha, KEYWORDS)))})"
)


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
    joined = re.sub("[_-]", "", name.lower())
    if joined in lowered:
        return lowered[joined]
    if _VENDORS.fullmatch(name):
        return ""
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_NEAR)
    return lowered[close[0]] if close else ""
