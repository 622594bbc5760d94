"""Warn about probable mistakes in a schema: misspelled keywords, and keywords of other drafts and standards."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_4, NAMES, Dialect, dialect_of
from pytest_jsbench.schemas.keywords import KEYWORDS, find_misspelled, schemas_in
from pytest_jsbench.schemas.pattern_syntax import describe_foreign_syntax
from pytest_jsbench.schemas.references import Path, json_path

#: Keywords of draft 3, which all later drafts ignore, and their replacements.
_DRAFT_3 = {"divisibleBy": "multipleOf", "extends": "allOf", "disallow": "not"}
#: Keywords of OpenAPI 3.0 that JSON Schema ignores, with advice for replacing them.
_OPENAPI = {
    "discriminator": "give each branch a `const`",
    "example": "write examples: […]",
}
_REPLACED = _DRAFT_3.keys() | _OPENAPI.keys()
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_CLOSED = ("additionalProperties", "unevaluatedProperties")
_NAMING = ("properties", "patternProperties")
#: Name of each published draft by its URI.
_SHORT_NAMES = {uri: name for name, uri in NAMES.items()}


def schema_warnings(schema: Schema, default: Dialect) -> dict[str, str]:
    """
    Return warnings about keywords that probably do not validate as the schema's author expects, each
    with its place in the schema.
    """
    dialect = _dialect(schema, default)
    places: dict[str, list[Path]] = {}
    ignored = frozenset[str]() if dialect is None else _find_ignored_keywords(dialect)
    parts = list(schemas_in(schema))
    for path, part in parts:
        for warning in _find_faults(part, dialect):
            places.setdefault(warning, []).append(path)
        for warning in _find_ignored(part, dialect, ignored, is_root=not path):
            places.setdefault(warning, []).append(path)
    warnings = dict.fromkeys(find_misspelled(schema, [part for _, part in parts]), "")
    for warning, paths in places.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        warnings[warning] = f"{json_path(paths[0])}{more}"
    return warnings


def schema_faults(schema: Schema, default: Dialect) -> list[str]:
    """Describe the parts of a schema that are invalid because they are written for another draft or regex engine."""
    dialect = _dialect(schema, default)
    return [f"{json_path(path)}: {fault}" for path, part in schemas_in(schema) for fault in _find_faults(part, dialect)]


def _find_faults(part: dict[str, Any], dialect: Dialect | None) -> Iterator[str]:
    if isinstance(part.get("required"), bool):
        yield "a boolean `required` belongs to draft 3: list the property in `required` of its object"
    if "any" in _types(part):
        yield "type `any` belongs to draft 3: remove `type`"
    for keyword, bound in _BOUNDS.items():
        if isinstance(part.get(keyword), bool) and dialect != DRAFT_4:
            yield f"a boolean `{keyword}` belongs to draft 4: write the number as its value, and remove `{bound}`"
    for pattern in _patterns(part):
        if words := describe_foreign_syntax(pattern):
            yield f"the pattern {printable(pattern, 40)} has {words}"


def _find_ignored(
    part: dict[str, Any], dialect: Dialect | None, of_other_drafts: frozenset[str], *, is_root: bool
) -> Iterator[str]:
    """
    Yield warnings about valid keywords that have no effect, or forbid more than their author probably expects.

    `of_other_drafts` are the keywords that the dialect ignores.
    """
    if part.get("nullable") is True and not _allows_null(part):
        advice = "null is not allowed: add null to `type`, `enum` or `anyOf`"
        yield f"`nullable` belongs to OpenAPI 3.0 and is ignored, so {advice}"
    for keyword in [] if _REPLACED.isdisjoint(part) else sorted(_REPLACED & part.keys()):
        if keyword in _DRAFT_3:
            yield f"`{keyword}` belongs to draft 3 and is ignored: write `{_DRAFT_3[keyword]}`"
        else:
            yield f"`{keyword}` belongs to OpenAPI 3.0 and is ignored: {_OPENAPI[keyword]}"
    if not is_root and _accepts_only_empty_object(part):
        yield "the object has no properties and allows no additional ones, so only {} conforms"
    if dialect is not None and not of_other_drafts.isdisjoint(part):
        for keyword in sorted(of_other_drafts & part.keys()):
            others = [_SHORT_NAMES[each.uri] for each in DIALECTS if keyword in each.keywords]
            yield f"`{keyword}` belongs to {others[0]} and is ignored in {_SHORT_NAMES[dialect.uri]}"


def _dialect(schema: Schema, default: Dialect) -> Dialect | None:
    return dialect_of(schema, default) if isinstance(schema, dict | bool) else default


def _types(part: dict[str, Any]) -> list[object]:
    types = part.get("type")
    return types if isinstance(types, list) else [types]


def _patterns(part: dict[str, Any]) -> Iterator[str]:
    if isinstance(pattern := part.get("pattern"), str):
        yield pattern
    named = part.get("patternProperties")
    yield from named if isinstance(named, dict) else ()


def _allows_null(part: dict[str, Any]) -> bool:
    """Return whether the schema, or a branch of its `anyOf` or `oneOf`, lists null as a type or value."""
    branches = [*_list(part.get("anyOf")), *_list(part.get("oneOf"))]
    if "null" in _types(part) or None in _list(part.get("enum")):
        return True
    return any(isinstance(branch, dict) and _allows_null(branch) for branch in branches)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _accepts_only_empty_object(part: dict[str, Any]) -> bool:
    # the cheapest conditions come first, since every subschema of a run's schemas is checked
    return (
        part.get("type") == "object"
        and _OPENING.isdisjoint(part)
        and any(part.get(keyword) is False for keyword in _CLOSED)
        and not any(part.get(keyword) for keyword in _NAMING)
    )


#: Keywords that may allow or require properties of an object without the keyword `properties`.
_OPENING = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "enum", "const", "required", "dependentSchemas"})


@functools.cache
def _find_ignored_keywords(dialect: Dialect) -> frozenset[str]:
    """Return the keywords that only other drafts define; empty for custom dialects, which choose their keywords."""
    return KEYWORDS - dialect.keywords if dialect in DIALECTS else frozenset()
