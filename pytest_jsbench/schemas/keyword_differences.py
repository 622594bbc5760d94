"""List the keywords that differ between a schema and what became of it on its way to a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pytest_jsbench.core.json_values import digest
from pytest_jsbench.schemas.keywords import NAMED, Tokens, last_keyword
from pytest_jsbench.schemas.references import CertainReferences, follow, pointer_of

#: Maximum number of differences that are listed for a schema.
MOST_DIFFERENCES = 100
#: Maximum number of pairs of subschemas that are compared.
_MOST_PAIRS = 10_000
#: Maximum number of references that lead to each other.
_LONGEST_CHAIN = 20
_MISSING = object()
#: Keywords that are not compared: names of schemas, and definitions, which are compared where they are referred to.
_LEFT_OUT = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions", "title", "$ref"}
)
#: Keywords whose lists have no order; a single type is a list of one.
_SETS = frozenset({"required", "enum", "type"})
#: Keywords with a schema, and keywords with a list of schemas.
_WITH_SCHEMA = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "additionalItems"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
_WITH_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})

DifferenceKind = Literal["lost", "added", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """A keyword that is in only one of two schemas, or that has different values in them."""

    #: Whether the keyword was lost or added, or its value was changed.
    kind: DifferenceKind
    #: Name of the keyword; `properties` for a property that was lost or added.
    keyword: str
    #: JSON pointer to the keyword or the property: in the schema that arrived if it was added, else in the declared
    #: schema; `/strict` for the value next to the schema.
    place: str


def find_differences(declared: object, arrived: object) -> Iterator[SchemaDifference]:
    """
    Yield the keywords that were lost, added or changed, at most `MOST_DIFFERENCES`.

    References are followed in both schemas, so that a schema inlined in place of a reference is no difference. Titles
    and the names of schemas and definitions are not compared.
    """
    found = islice(_Comparison(declared, arrived).differences(), MOST_DIFFERENCES)
    return iter(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema, and where it is written."""

    schema: object
    pointer: Tokens
    #: Resolved target if the schema has a reference and other keywords, and names of these keywords.
    target: _Place | None = None
    own: frozenset[str] = frozenset()

    def of(self, keyword: str) -> Tokens:
        """Return the place of a keyword, which may be written in the target of the reference."""
        if self.target is None or keyword in self.own:
            return (*self.pointer, keyword)
        return self.target.of(keyword)


#: A schema and what became of it.
_Pair = tuple[_Place, _Place]


class _Comparison:
    def __init__(self, declared: object, arrived: object) -> None:
        self._declared = _Side(declared)
        self._arrived = _Side(arrived)
        self._seen: set[tuple[int, int]] = set()
        self._pending: list[_Pair] = [(_Place(declared, ()), _Place(arrived, ()))]

    def differences(self) -> Iterator[SchemaDifference]:
        for declared, arrived in self._pending:  # the loop appends the subschemas to the list
            if len(self._seen) >= _MOST_PAIRS:
                return
            was = self._declared.resolve(declared)
            now = self._arrived.resolve(arrived)
            if not isinstance(was.schema, Mapping) or not isinstance(now.schema, Mapping):
                if _as_boolean(was.schema) != _as_boolean(now.schema):
                    yield _difference("changed", last_keyword(was.pointer) if was.pointer else "", was.pointer)
                continue
            pair = (id(was.schema), id(now.schema))
            if pair not in self._seen:
                self._seen.add(pair)
                yield from self._of_pair(was, was.schema, now, now.schema)

    def _of_pair(
        self, was: _Place, declared: Mapping[str, Any], now: _Place, arrived: Mapping[str, Any]
    ) -> Iterator[SchemaDifference]:
        for keyword in {**declared, **arrived}:
            if keyword in _LEFT_OUT:
                continue
            if keyword not in arrived:
                yield _difference("lost", keyword, was.of(keyword))
            elif keyword not in declared:
                yield _difference("added", keyword, now.of(keyword))
            else:
                pair = (_Place(declared[keyword], was.of(keyword)), _Place(arrived[keyword], now.of(keyword)))
                yield from self._of_keyword(keyword, *pair)
        if "oneOf" in declared and "anyOf" in arrived and "anyOf" not in declared:
            self._append_branches(_Place(declared["oneOf"], was.of("oneOf")), _Place(arrived["anyOf"], now.of("anyOf")))

    def _of_keyword(self, keyword: str, was: _Place, now: _Place) -> Iterator[SchemaDifference]:
        declared = was.schema
        arrived = now.schema
        if keyword in NAMED and isinstance(declared, Mapping) and isinstance(arrived, Mapping):
            for name in {**declared, **arrived}:
                if name not in arrived:
                    yield _difference("lost", keyword, (*was.pointer, name))
                elif name not in declared:
                    yield _difference("added", keyword, (*now.pointer, name))
                else:
                    part = _Place(declared[name], (*was.pointer, name))
                    self._pending.append((part, _Place(arrived[name], (*now.pointer, name))))
        elif keyword in _WITH_SCHEMA and not isinstance(declared, list) and not isinstance(arrived, list):
            self._pending.append((was, now))
        elif keyword in _WITH_SCHEMAS and self._append_branches(was, now):
            return
        elif _comparable(keyword, declared) != _comparable(keyword, arrived):
            yield _difference("changed", keyword, was.pointer)

    def _append_branches(self, was: _Place, now: _Place) -> bool:
        """Compare two lists of schemas later, one by one; return False if they cannot be compared so."""
        declared = was.schema
        arrived = now.schema
        if not isinstance(declared, list) or not isinstance(arrived, list) or len(declared) != len(arrived):
            return False
        for number, branches in enumerate(zip(declared, arrived, strict=True)):
            places = ((*was.pointer, str(number)), (*now.pointer, str(number)))
            self._pending.append((_Place(branches[0], places[0]), _Place(branches[1], places[1])))
        return True


class _Side:
    """One of the two schemas, in which references are followed."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._references = CertainReferences(root)
        #: Merged schemas, so that each has one identity.
        self._merged: dict[Tokens, _Place] = {}

    def resolve(self, place: _Place, chain: int = _LONGEST_CHAIN) -> _Place:
        """Return the last target of the reference in a schema, or the schema merged with this target."""
        for left in reversed(range(chain)):
            schema = place.schema
            if not isinstance(schema, Mapping):
                break
            whole = _only_part(schema)
            if whole is not None:
                place = _Place(whole, (*place.pointer, "allOf", "0"))
                continue
            target = self._references.find(place.pointer, schema["$ref"]) if "$ref" in schema else None
            found = _MISSING if target is None else follow(self._root, target, _MISSING)
            if target is None or found is _MISSING:
                break
            own = {name: value for name, value in schema.items() if name not in ("$ref", "title")}
            if not own:
                place = _Place(found, target)
                continue
            last = self.resolve(_Place(found, target), left)
            if last.schema is not True and not isinstance(last.schema, Mapping):
                return last
            of_target = last.schema if isinstance(last.schema, Mapping) else {}
            merged = _Place({**of_target, **own}, place.pointer, last, frozenset(own))
            return self._merged.setdefault(place.pointer, merged)
        return place


def _only_part(schema: Mapping[str, Any]) -> object:
    """Return the schema in an `allOf` that has no other and stands alone; None for any other schema."""
    parts = schema.get("allOf")
    return parts[0] if isinstance(parts, list) and len(parts) == 1 and not schema.keys() - {"allOf", "title"} else None


def _difference(kind: DifferenceKind, keyword: str, place: Tokens) -> SchemaDifference:
    return SchemaDifference(kind=kind, keyword=keyword, place=pointer_of(place))


def _as_boolean(schema: object) -> object:
    """Return True for a schema without a compared keyword, which accepts every value too, None for other objects."""
    if isinstance(schema, Mapping):
        return None if "$ref" in schema or schema.keys() - _LEFT_OUT else True
    return schema


def _comparable(keyword: str, value: Any) -> object:
    if keyword in _SETS:
        return frozenset(map(digest, value if isinstance(value, list) else [value]))
    return digest(value)
