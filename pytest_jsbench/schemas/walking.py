"""Where schemas stand inside a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: keywords that map names to schemas
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
#: keywords that hold data, even where it looks like a schema
DATA = frozenset({"enum", "const", "default", "examples", "example"})
#: keywords that only pass on what another schema says
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def children(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    Every object directly below that may be a schema.

    Unknown keywords are entered too: references point into them (`#/components/schemas/…`).
    """
    found: list[dict[str, Any]] = []
    for keyword, value in schema.items():
        # most values are texts, and this is asked of every one of a large schema
        if type(value) is str:
            continue
        if isinstance(value, dict):
            if keyword in NAMED:
                found += [each for each in value.values() if isinstance(each, dict)]
            elif keyword not in DATA:
                found.append(value)
        elif isinstance(value, list) and keyword not in DATA:
            found += [each for each in value if isinstance(each, dict)]
    return found


def all_of(schemas: Iterable[object]) -> object:
    """One schema that says what all of them say: itself where there is only one."""
    parts = list(schemas)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def rebuild(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy in which each object that may be a schema went through `change`, inner ones first."""
    if isinstance(schema, list):
        return [rebuild(element, change) for element in schema]
    if not isinstance(schema, dict):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in DATA:
            copy[keyword] = value
        elif keyword in NAMED and isinstance(value, dict):
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
    names = False
    for part in path:
        if names or isinstance(part, int):
            names = False
            continue
        names = part in NAMED
        if part not in REFERENCES:
            keyword = part
        if part == "propertyNames":
            break
    return keyword
