"""
Find the parts of a schema that can be removed, and remove or replace parts.

A part is given by its path: keywords, names and indexes from the root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum, auto
from typing import Any

from pytest_jsbench.schemas.keywords import ANNOTATIONS, DATA, NAMED

#: Keywords and names from the root, and indexes in lists.
Path = tuple[str | int, ...]
#: Keywords that name a schema or define others, although no instance can violate them.
_STRUCTURE = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs", "definitions"}
)
#: Annotations that can be removed without an effect on validity or references.
PLAIN_ANNOTATIONS = ANNOTATIONS - _STRUCTURE
#: Definitions, which a schema keeps when one of its subschemas takes its place.
DEFINITIONS = ("$defs", "definitions")


class PartKind(Enum):
    """What a JSON value in a schema is."""

    SCHEMA = auto()
    #: Mapping of names to schemas.
    NAMES = auto()
    #: List of schemas or of texts.
    LIST = auto()
    #: A value as in `enum`, with no schema inside.
    DATA = auto()
    #: A text, a number or a boolean.
    SCALAR = auto()


def walk_parts(value: Any, kind: PartKind = PartKind.SCHEMA) -> Iterator[tuple[Path, PartKind, Any]]:
    """Yield each value inside a schema, or inside data, with its path and what it is; outer values come first."""
    pending: list[tuple[Path, PartKind, Any]] = [((), kind, value)]
    for path, own_kind, part in pending:
        yield path, own_kind, part
        if isinstance(part, Mapping):
            pending += [((*path, name), _kind_below(own_kind, name, member), member) for name, member in part.items()]
        elif isinstance(part, list):
            below = PartKind.DATA if own_kind is PartKind.DATA else None
            pending += [((*path, at), below or _kind_of(member), member) for at, member in enumerate(part)]


def _kind_below(kind: PartKind, name: str, member: Any) -> PartKind:
    if kind is PartKind.DATA or (kind is PartKind.SCHEMA and name in DATA):
        return PartKind.DATA
    if kind is PartKind.SCHEMA and name in NAMED and isinstance(member, Mapping):
        return PartKind.NAMES
    return _kind_of(member)


def _kind_of(member: Any) -> PartKind:
    if isinstance(member, Mapping):
        return PartKind.SCHEMA
    return PartKind.LIST if isinstance(member, list) else PartKind.SCALAR


def removable_paths(value: Any, kind: PartKind = PartKind.SCHEMA) -> list[Path]:
    """Return the path of each keyword, name and element that can be removed; the dialect of the schema stays."""
    return [path for path, _, _ in walk_parts(value, kind) if path and path != ("$schema",)]


def annotation_paths(schema: Any) -> list[Path]:
    """Return the paths of the annotations, such as descriptions and examples."""
    schemas = [(path, part) for path, kind, part in walk_parts(schema) if kind is PartKind.SCHEMA]
    return [
        (*path, keyword)
        for path, part in schemas
        if isinstance(part, Mapping)
        for keyword in PLAIN_ANNOTATIONS & part.keys()
    ]


def remove_paths(value: Any, removed: Collection[Path], path: Path = ()) -> Any:
    """
    Return the value without these parts.

    A property that is removed is no longer required. A list that becomes empty is removed too, since most keywords
    need an element.
    """
    if isinstance(value, list):
        kept = [(at, part) for at, part in enumerate(value) if (*path, at) not in removed]
        return [remove_paths(part, removed, (*path, at)) for at, part in kept]
    if not isinstance(value, Mapping):
        return value
    copy: dict[str, Any] = {}
    for name, part in value.items():
        if (*path, name) in removed:
            continue
        changed = remove_paths(part, removed, (*path, name))
        if changed != [] or part == []:
            copy[name] = changed
    properties, required = value.get("properties"), copy.get("required")
    if isinstance(properties, Mapping) and isinstance(required, list):
        gone = [name for name in properties if (*path, "properties", name) in removed]
        still_required = [name for name in required if name not in gone]
        copy["required"] = still_required
        if not still_required and required:
            del copy["required"]
    return copy


def replace_part(value: Any, path: Path, part: Any) -> Any:
    """Return the value with another part at this path."""
    if not path:
        return part
    first, *rest = path
    if isinstance(value, list):
        return [replace_part(each, tuple(rest), part) if at == first else each for at, each in enumerate(value)]
    return {name: replace_part(each, tuple(rest), part) if name == first else each for name, each in value.items()}


def part_at(value: Any, path: Path) -> Any:
    """Return the part at this path."""
    for step in path:
        value = value[step]
    return value
