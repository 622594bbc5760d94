"""Merge keywords that llama.cpp does not support in the same node, such as bounds next to an `allOf`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_jsbench.adaptation.document import canonical
from pytest_jsbench.schemas.keywords import ANNOTATIONS, BY_KIND, KEYWORDS, REFERENCES, find_schemas

_OF_SCALARS = frozenset({"type", "enum", "const"}) | BY_KIND["string"] | BY_KIND["number"]
_DESCRIBING = frozenset({"title", "description", "$comment"})
#: Function that returns the stricter of two values of a bound.
_STRICTER: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength"), min),
}

#: Keywords of objects that can be moved into each branch of an `anyOf` or `oneOf` in the same node.
_OF_OBJECTS = (BY_KIND["object"] - {"unevaluatedProperties"}) | {"type"}
#: Keywords of nodes in which a property can be forbidden by removing it from `properties` and closing the object.
_SIMPLE = frozenset({"type", "properties", "required", "additionalProperties"})
#: References to the root or to a definition, which are never moved.
_UNMOVED = re.compile(r"#(?:/(?:\$defs|definitions)/[^/]+)?")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
#: Keywords that may make a schema accept more when a subschema accepts less, or whose subschemas apply to the same
#: instance as others.
_NOT_MONOTONE = frozenset(
    {"not", "if", "propertyNames", "maxContains", "allOf", "dependentSchemas", "dependencies", "unevaluatedItems",
     "unevaluatedProperties", "$dynamicRef", "$recursiveRef"}
)  # fmt: skip
#: Maximum number of branches into which keywords are moved.
_MOST_BRANCHES = 16
#: Maximum length of the moved keywords as JSON, in characters, in all branches together.
_MOST_WRITTEN = 20_000


def merge_scalars(node: dict[str, Any]) -> dict[str, Any]:
    """Merge an `allOf` of schemas for scalars into one schema, since llama.cpp ignores bounds in an `allOf`."""
    branches = node.get("allOf")
    if not isinstance(branches, list) or not branches or not (node.keys() - {"allOf"}) & KEYWORDS <= _OF_SCALARS:
        return node
    merged = {keyword: value for keyword, value in node.items() if keyword != "allOf"}
    if _has_flag(node):
        return node
    for branch in branches:
        if not isinstance(branch, Mapping) or not branch.keys() <= _OF_SCALARS | _DESCRIBING or _has_flag(branch):
            return node
        for keyword, value in branch.items():
            given = merged.get(keyword, value)
            if keyword in _STRICTER and is_number(given) and is_number(value):
                merged[keyword] = _STRICTER[keyword](given, value)
            elif keyword in _DESCRIBING or canonical(given) == canonical(value):
                merged[keyword] = given
            else:
                return node
    return merged


def _has_flag(node: Mapping[str, Any]) -> bool:
    """Return whether an exclusive bound is a boolean, as in draft 4."""
    return any(isinstance(node.get(keyword), bool) for keyword in ("exclusiveMinimum", "exclusiveMaximum"))


def is_number(value: object) -> bool:
    """Return whether a value is a number in JSON, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def can_move_properties(schema: Mapping[str, Any]) -> bool:
    """Return whether the schemas of properties can be moved without breaking a reference."""
    for path, part in find_schemas(schema):
        if path and any(isinstance(part.get(name), str | bool) for name in _NAMES):
            return False
        references = (part.get(keyword) for keyword in REFERENCES)
        if any(isinstance(target, str) and not _UNMOVED.fullmatch(target) for target in references):
            return False
    return True


def may_exclude_alternatives(schema: Mapping[str, Any]) -> bool:
    """Return whether the branches of each `oneOf` can be narrowed without making the whole schema accept more."""
    for _, part in find_schemas(schema):
        branches = part.get("oneOf", [])
        if not part.keys().isdisjoint(_NOT_MONOTONE) or not isinstance(branches, list):
            return False
        # `oneOf` counts matching branches, so a subschema that accepts less may make it accept more
        if not all(isinstance(branch, Mapping) and branch.keys() <= {"required"} | _DESCRIBING for branch in branches):
            return False
    return True


def spread_alternatives(node: dict[str, Any], *, exclusive: bool) -> dict[str, Any]:
    """
    Move the keywords next to `anyOf` or `oneOf` into each branch, since llama.cpp ignores them otherwise.

    The result is equivalent, with one exception: if `exclusive` is true and the branches of a `oneOf` only list
    required properties, each branch forbids a property that another branch requires, so that no object conforms to two
    branches.
    """
    keyword = "anyOf" if "anyOf" in node else "oneOf"
    branches = node.get(keyword)
    outside = {name: value for name, value in node.items() if name in ANNOTATIONS or name not in KEYWORDS}
    shared = {name: value for name, value in node.items() if name != keyword and name not in outside}
    if not isinstance(branches, list) or not 0 < len(branches) <= _MOST_BRANCHES or not shared:
        return node
    if not shared.keys() <= _OF_OBJECTS or len(branches) * len(json.dumps(shared)) > _MOST_WRITTEN:
        return node
    merged = [_merge_branch(shared, branch) for branch in branches]
    whole = [branch for branch in merged if branch is not None]
    if len(whole) < len(branches):
        return node
    if exclusive and keyword == "oneOf":
        narrower = _exclude_each_other(shared, branches, whole)
        if narrower:
            return {**outside, "anyOf": narrower}
    return {**outside, keyword: whole}


def _merge_branch(shared: Mapping[str, Any], branch: Any) -> dict[str, Any] | None:
    """Merge the keywords of an object with a branch of its `anyOf` or `oneOf`; None if they cannot be merged."""
    if not isinstance(branch, Mapping) or not branch.keys() <= {"type", "properties", "required"} | _DESCRIBING:
        return None
    if not _well_formed(shared) or not _well_formed(branch):
        return None
    merged = {**branch, **shared}
    if branch.get("type", merged.get("type")) != merged.get("type"):
        return None
    required = [*shared.get("required", []), *branch.get("required", [])]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    properties = dict(shared.get("properties", {}))
    # the keywords for unnamed properties would no longer apply to a property that only the branch names
    closed = not shared.keys().isdisjoint({"additionalProperties", "patternProperties"})
    for name, schema in branch.get("properties", {}).items():
        if name not in properties and closed:
            return None
        both = _merge_schemas(properties.get(name, True), schema)
        if both is None:
            return None
        properties[name] = both
    if properties:
        merged["properties"] = properties
    return merged


def _merge_schemas(first: Any, second: Any) -> Any:
    """Merge two schemas for the same instance; None if they cannot be merged."""
    if first is True or canonical(first) == canonical(second):
        return second
    if second is True:
        return first
    merged = merge_scalars({"allOf": [first, second]})
    return None if "allOf" in merged else merged


def _exclude_each_other(
    shared: Mapping[str, Any], branches: Sequence[Any], merged: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Forbid in each branch a property that each other branch requires; return an empty list if that is impossible."""
    properties = shared.get("properties", {})
    if not shared.keys() <= _SIMPLE or shared.get("additionalProperties", False) is not False:
        return []
    if shared.get("type") != "object" or any("properties" in branch for branch in branches):
        return []
    forbidden: list[set[str]] = [set() for _ in branches]
    for number, other in itertools.permutations(range(len(branches)), 2):
        own = merged[number].get("required", [])
        wanted = [name for name in branches[other].get("required", []) if name not in own]
        if not wanted:
            return []
        forbidden[number].add(wanted[0])
    exclusive = []
    for branch, names in zip(merged, forbidden, strict=True):
        left = {name: schema for name, schema in properties.items() if name not in names}
        if not left.keys() >= set(branch.get("required", [])):
            return []
        exclusive.append({**branch, "properties": left, "additionalProperties": False})
    return exclusive


def are_exclusive(branches: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the branches exclude each other in the same way as in the result of `spread_alternatives`."""
    pairs = itertools.combinations(branches, 2)
    return all(_forbids_required(first, second) or _forbids_required(second, first) for first, second in pairs)


def _forbids_required(branch: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a branch closes its objects and thereby forbids a property that the other branch requires."""
    if not (_well_formed(branch) and _well_formed(other) and branch.get("type") == other.get("type") == "object"):
        return False
    is_closed = branch.get("additionalProperties") is False and not branch.get("patternProperties")
    return is_closed and not set(other.get("required", [])) <= branch.get("properties", {}).keys()


def _well_formed(node: Mapping[str, Any]) -> bool:
    required = node.get("required", [])
    named = isinstance(required, list) and all(isinstance(name, str) for name in required)
    return named and isinstance(node.get("properties", {}), Mapping)
