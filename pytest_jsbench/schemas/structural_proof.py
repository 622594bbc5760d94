"""
Prove keyword by keyword that one schema accepts every value that another accepts, also for schemas that refer to
themselves.

The proof never guesses: keywords that it does not know, or that stand in two schemas in different forms, prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pytest_jsbench.core.json_values import digest, json_type
from pytest_jsbench.schemas.keywords import ANNOTATIONS, KEYWORDS, REFERENCES
from pytest_jsbench.schemas.references import CertainReferences, follow

#: Maximum number of pairs of subschemas that a proof compares.
_MOST_PAIRS = 10_000
#: Maximum number of references and of `allOf` that lead to each other.
_LONGEST_CHAIN = 20
_MISSING = object()
#: Direction in which a bound accepts fewer values: 1 for larger bounds, -1 for smaller bounds.
_BOUNDS: Mapping[str, int] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), 1),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), -1),
}
#: Keywords that are compared with the same keyword of the other schema only: equal values accept the same.
_AS_A_WHOLE = frozenset({"pattern", "format", "multipleOf", "uniqueItems", "const"})
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_OF_ARRAYS = frozenset({"items", "prefixItems"})
#: Keywords whose meaning depends on others next to them, which another schema must not add.
_NEIGHBOURS: Mapping[str, frozenset[str]] = {
    "additionalProperties": frozenset({"properties", "patternProperties"}),
    "items": frozenset({"prefixItems"}),
    "contains": frozenset({"minContains"}),
    **dict.fromkeys(("minContains", "maxContains"), frozenset({"contains"})),
    **dict.fromkeys(("then", "else"), frozenset({"if"})),
}
#: Keywords whose meaning depends on all keywords next to them, also on those of references and of `allOf`.
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_UNIONS = ("anyOf", "oneOf")
_KNOWN = _AS_A_WHOLE | _OF_OBJECTS | _OF_ARRAYS | _BOUNDS.keys() | {"type", "enum", "anyOf"}


class NoProof(Exception):
    """Raised if the keywords of two schemas do not prove anything."""


class StructuralProof:
    """Comparison of the subschemas of two schemas of draft 2019-09 or later."""

    def __init__(self, outer: object, inner: object) -> None:
        self._outer = _Document(outer)
        self._inner = _Document(inner)
        #: Pairs that are assumed while their parts are compared, since the parts may refer back to the pair; each with
        #: the depth of the value for which it is assumed.
        self._assumed: dict[tuple[int, int], int] = {}
        self._left = _MOST_PAIRS

    def covers(self) -> bool:
        """Return whether it is proved that the outer schema accepts every value that the inner schema accepts."""
        try:
            return self._covers(self._outer.root, self._inner.root, 0)
        except RecursionError:
            return False

    def _covers(self, outer: object, inner: object, depth: int) -> bool:
        """
        Compare two subschemas that apply to a value at this depth of the whole value.

        An assumption about a value only proves something about its parts, so that each chain of assumptions ends.
        """
        self._left -= 1
        if self._left < 0:
            return False
        try:
            wanted = self._outer.resolve(outer)
            given = self._inner.resolve(inner)
            if wanted is True or wanted == {} or given is False:
                return True
            if not isinstance(wanted, Mapping):
                return False
            given = given if isinstance(given, Mapping) else {}
            pair = (id(wanted), id(given))
            if pair in self._assumed:
                return depth > self._assumed[pair]
            self._assumed[pair] = depth
            try:
                return self._holds(wanted, given, depth)
            finally:
                del self._assumed[pair]
        except NoProof:
            return False

    def _holds(self, outer: Mapping[str, Any], inner: Mapping[str, Any], depth: int) -> bool:
        if digest(outer) == digest(inner) and not _refers(outer):
            return True
        for union in _UNIONS:
            if isinstance(inner.get(union), list):
                rest = {name: value for name, value in inner.items() if name != union}
                branches = [self._inner.merge(rest, branch) for branch in inner[union]]
                if branches and all(self._covers(outer, branch, depth) for branch in branches):
                    return True
        if outer.keys() & KEYWORDS - _KNOWN:
            return False
        return all(self._enforces(inner, keyword, outer, depth) for keyword in outer.keys() & _KNOWN)

    def _enforces(self, inner: Mapping[str, Any], keyword: str, outer: Mapping[str, Any], depth: int) -> bool:
        """Return whether every value that the inner schema accepts satisfies a keyword of the outer schema."""
        wanted = outer[keyword]
        given = inner.get(keyword, _MISSING)
        match keyword:
            case "type" | "enum" | "const":
                return _narrows_values(keyword, wanted, inner)
            case "anyOf":
                return any(self._covers(branch, inner, depth) for branch in wanted)
            case "required":
                return isinstance(given, list) and set(wanted) <= set(given)
            case "properties":
                return all(self._covers_property(each, inner, name, depth + 1) for name, each in wanted.items())
            case "additionalProperties":
                return self._covers_additional(wanted, inner, set(outer.get("properties", {})), depth + 1)
            case "prefixItems":
                return all(self._covers_item(each, inner, at, depth + 1) for at, each in enumerate(wanted))
            case "items":
                return self._covers_items(wanted, inner, len(outer.get("prefixItems", [])), depth + 1)
            case _ if keyword in _BOUNDS:
                sign = _BOUNDS[keyword]
                return _is_number(given) and _is_number(wanted) and sign * given >= sign * wanted
            case _:
                return given is not _MISSING and digest(given) == digest(wanted)

    def _covers_property(self, wanted: object, inner: Mapping[str, Any], name: str, depth: int) -> bool:
        if "patternProperties" in inner:
            raise NoProof
        named = inner.get("properties", {})
        part = named[name] if name in named else inner.get("additionalProperties", True)
        return self._covers(wanted, part, depth)

    def _covers_additional(self, wanted: object, inner: Mapping[str, Any], named: set[str], depth: int) -> bool:
        if "patternProperties" in inner:
            raise NoProof
        others = [each for name, each in inner.get("properties", {}).items() if name not in named]
        parts = [*others, inner.get("additionalProperties", True)]
        return all(self._covers(wanted, part, depth) for part in parts)

    def _covers_item(self, wanted: object, inner: Mapping[str, Any], at: int, depth: int) -> bool:
        first = inner.get("prefixItems", [])
        part = first[at] if at < len(first) else inner.get("items", True)
        return self._covers(wanted, part, depth)

    def _covers_items(self, wanted: object, inner: Mapping[str, Any], start: int, depth: int) -> bool:
        parts = [*inner.get("prefixItems", [])[start:], inner.get("items", True)]
        return all(self._covers(wanted, part, depth) for part in parts)


class _Document:
    """A schema, whose references are resolved inside it."""

    def __init__(self, root: object) -> None:
        self.root = root
        self._references = CertainReferences(root)
        self._resolved: dict[int, object] = {}
        #: Merged schemas, so that each has one identity as long as the proof runs.
        self._merged: dict[str, Mapping[str, Any]] = {}

    def resolve(self, schema: object) -> object:
        """Return the schema without annotations, and with its reference and its `allOf` merged."""
        if not isinstance(schema, Mapping):
            return schema
        if id(schema) not in self._resolved:
            self._resolved[id(schema)] = self._keep(self._flatten(schema, _LONGEST_CHAIN))
        return self._resolved[id(schema)]

    def merge(self, rest: Mapping[str, Any], branch: object) -> object:
        """Return the schema that requires both; raise NoProof if both have the same keyword."""
        if isinstance(branch, bool):
            return rest if branch else False
        merged = _combine(rest, self._flatten(branch, _LONGEST_CHAIN))
        return merged if merged is False else self._keep(merged)

    def _keep(self, schema: object) -> object:
        if not isinstance(schema, Mapping):
            return schema
        return self._merged.setdefault(digest(schema), schema)

    def _flatten(self, schema: object, chain: int) -> Any:
        if chain == 0:
            raise NoProof
        if not isinstance(schema, Mapping):
            return schema
        if schema.keys() & {"$id", "id", "$dynamicRef", "$recursiveRef", "$anchor"} and schema is not self.root:
            raise NoProof
        merged: Any = {
            name: value
            for name, value in schema.items()
            if name in KEYWORDS - ANNOTATIONS and name not in ("$ref", "allOf")
        }
        if schema.get("additionalProperties") is True:
            del merged["additionalProperties"]
        parts = list(schema.get("allOf", []))
        if "$ref" in schema:
            path = self._references.find((), schema["$ref"])
            target = _MISSING if path is None else follow(self.root, path, _MISSING)
            if target is _MISSING:
                raise NoProof
            parts.append(target)
        flat = [self._flatten(part, chain - 1) for part in parts]
        is_alone = len(flat) == 1 and not merged
        if not is_alone and any(isinstance(part, Mapping) and _UNEVALUATED & part.keys() for part in flat):
            raise NoProof
        return reduce(_combine, flat, merged)


def _combine(first: Any, second: Any) -> Any:
    """Return a schema that requires both; raise NoProof if they have the same keyword with different values."""
    if first is False or second is False:
        return False
    if first is True or second is True:
        return second if first is True else first
    both = first.keys() & second.keys()
    if any(digest(first[name]) != digest(second[name]) for name in both):
        raise NoProof
    merged = {**first, **second}
    for side in (first, second):
        for keyword in side.keys() & _NEIGHBOURS.keys():
            if merged.keys() & _NEIGHBOURS[keyword] - side.keys():
                raise NoProof
    return merged


def _narrows_values(keyword: str, wanted: Any, inner: Mapping[str, Any]) -> bool:
    """Return whether the types or the listed values of the inner schema satisfy `type`, `enum` or `const`."""
    listed = [inner["const"]] if "const" in inner else inner.get("enum")
    if keyword == "type":
        kinds = set(wanted if isinstance(wanted, list) else [wanted])
        if isinstance(listed, list) and all(_has_type(value, kinds) for value in listed):
            return True
        given = inner.get("type", _MISSING)
        if given is _MISSING:
            return False
        return all(kind in kinds or (kind == "integer" and "number" in kinds) for kind in _as_list(given))
    allowed = {digest(value) for value in (wanted if keyword == "enum" else [wanted])}
    return isinstance(listed, list) and {digest(value) for value in listed} <= allowed


def _has_type(value: object, kinds: set[str]) -> bool:
    """Return whether the type of a value is one of these; 1.0 is an integer, too."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    name = json_type(value)
    return name in kinds or (name == "number" and is_whole and "integer" in kinds)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _refers(schema: object) -> bool:
    """Return whether a schema contains a reference, so that equal texts may mean different schemas."""
    if isinstance(schema, Mapping):
        return not REFERENCES.isdisjoint(schema) or any(map(_refers, schema.values()))
    return isinstance(schema, list) and any(map(_refers, schema))
