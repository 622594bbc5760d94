"""
Follow references inside one document, without network access, and write paths as JSON paths and JSON pointers.

`SchemaPlaces` finds the subschemas that describe the value at a given place of an instance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from pytest_jsbench.core.text import printable, shorten
from pytest_jsbench.schemas.dialects import Dialect, find_dialect
from pytest_jsbench.schemas.keywords import KEYWORDS, NAMED, REFERENCES, Tokens, children, find_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Keywords that identify a schema, or change how it and the schemas inside it are read.
_INDEXED = frozenset({"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})

#: Keywords that always apply other schemas to the same value.
_SAME_VALUE = REFERENCES | {"allOf", "anyOf", "oneOf", "not", "if"}

#: Keywords whose subschemas apply to the same value as the schema itself.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas", "dependencies")
#: Keywords whose subschemas apply to members of an object (`_MEMBERS`) or to items of an array (`_ITEMS`).
_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems")
_PARTS = ("properties", "prefixItems", *_MEMBERS, *_ITEMS)
#: Keywords with subschemas that may apply to values in an instance, depending on patterns, items and conditions.
_READ = (*sorted(KEYWORDS - REFERENCES), "contentSchema")

#: Path of a value: keys and indexes from the root.
Path = tuple[str | int, ...]


class References:
    """Resolver for the references in a schema; references to other documents are not resolved."""

    def __init__(self, schema: bool | dict[str, Any], dialect: Dialect) -> None:
        #: The whole schema.
        self.root = schema
        #: Every object of the document that may be a schema, in document order.
        self.schemas: list[dict[str, Any]] = []
        #: Base URI and dialect of each schema, by its id().
        self._contexts: dict[int, tuple[str, Dialect]] = {}
        root = {} if isinstance(schema, bool) else schema
        self._resources: dict[str, dict[str, Any]] = {"": root}
        self._anchors: dict[tuple[str, str], dict[str, Any]] = {}
        self._dynamic: dict[str, list[dict[str, Any]]] = {}
        self._recursive: list[dict[str, Any]] = []
        #: Targets that were already looked up, by base URI and reference: many references lead to one definition.
        self._targets: dict[tuple[str, str], object] = {}
        pending = [(root, ("", dialect))]
        while pending:
            subschema, context = pending.pop()
            key = id(subschema)
            if key not in self._contexts:
                if not _INDEXED.isdisjoint(subschema):
                    context = self._index(subschema, *context)
                self._contexts[key] = context
                self.schemas.append(subschema)
                if below := children(subschema):
                    pending += [(child, context) for child in reversed(below)]

    def _index(self, schema: dict[str, Any], base: str, dialect: Dialect) -> tuple[str, Dialect]:
        """Index one schema, and return the base URI and the dialect inside it."""
        if "$schema" in schema and schema is not self.root:
            dialect = find_dialect(schema["$schema"]) or dialect
        is_ignored = dialect.lone_references and "$ref" in schema
        if isinstance(identifier := schema.get(dialect.id_keyword), str) and not is_ignored:
            uri, _, anchor = identifier.partition("#")
            if uri:
                base = join_uris(base, uri)
                self._resources.setdefault(base, schema)
            if anchor:
                self._anchors.setdefault((base, anchor), schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors.setdefault((base, name), schema)
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(name, []).append(schema)
        if schema.get("$recursiveAnchor") is True:
            self._recursive.append(schema)
        return base, dialect

    @cached_property
    def longest_tuple(self) -> int:
        """Length of the longest list of schemas for the first items of an array."""
        values = (schema.get(keyword) for schema in self.schemas for keyword in ("prefixItems", "items"))
        return max((len(value) for value in values if isinstance(value, list)), default=0)

    def dialect(self, schema: dict[str, Any]) -> Dialect | None:
        """
        Return the dialect that the schema or the nearest enclosing schema declares; None if the schema belongs to
        another document.
        """
        return self._contexts[id(schema)][1] if id(schema) in self._contexts else None

    def targets(self, schema: dict[str, Any], keyword: str) -> list[object]:
        """
        Return every schema of the document that a `$dynamicRef` or `$recursiveRef` in this schema may lead to.

        The actual target depends on the path of evaluation. The list is empty if the target may be outside the
        document.
        """
        first = self.resolve(schema, schema[keyword])
        if not isinstance(first, (dict, bool)):
            return []
        others: list[dict[str, Any]] = []
        if isinstance(first, dict) and keyword == "$dynamicRef" and isinstance(first.get("$dynamicAnchor"), str):
            others = self._dynamic[first["$dynamicAnchor"]]
        elif isinstance(first, dict) and keyword == "$recursiveRef" and first.get("$recursiveAnchor") is True:
            others = self._recursive
        return [first, *(other for other in others if other is not first)]

    def endless(self) -> dict[str, Any] | None:
        """Return the first schema of an endless cycle of references for one value; None if there is no such cycle."""
        referring = [schema for schema in self.schemas if not REFERENCES.isdisjoint(schema)]
        ids_in_cycle = self._find_reference_cycle(referring) or cycle(
            partial(self._same_value_schemas, _SAME_VALUE), self.schemas[:1]
        )
        return next((schema for schema in self.schemas if id(schema) in ids_in_cycle), None)

    def _find_reference_cycle(self, referring: list[dict[str, Any]]) -> list[int]:
        """Return the id() of each schema in the first cycle of references between these schemas."""
        below = partial(self._same_value_schemas, REFERENCES)
        ids = set(map(id, referring))
        # only a schema that refers to a schema with a reference can be in a cycle, and most schemas have none
        chained = [schema for schema in referring if any(id(target) in ids for target in below(schema))]
        return cycle(below, referring) if cycle(below, chained) else []

    def _same_value_schemas(self, keywords: frozenset[str], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the subschemas in the given keywords, and the targets of references, that apply to the same value."""
        dialect = self.dialect(schema)
        if dialect is None or keywords.isdisjoint(schema):  # most schemas have none of these keywords
            return
        for keyword in keywords.intersection(dialect.effective(schema)):
            value = self.resolve(schema, schema[keyword]) if keyword in REFERENCES else schema[keyword]
            yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict))

    def find_unresolved(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the references that lead out of the document, in document order, each with its schema."""
        for schema in self.schemas:
            reference = self._contexts[id(schema)][1].read(schema).get("$ref")
            if isinstance(reference, str) and self.resolve(schema, reference) is None:
                yield schema, reference

    @property
    def may_skip_resources(self) -> bool:
        """Whether a `$recursiveRef` may skip a resource without `$recursiveAnchor`, which validators handle wrongly."""
        marked = [schema.get("$recursiveAnchor") is True for schema in self._resources.values()]
        return sum(marked) > 1 and not all(marked)

    def resolve(self, schema: dict[str, Any], reference: object) -> object:
        """Return the target of a reference in this schema; None if it is not in the document."""
        if not isinstance(reference, str):
            return None
        base = self._contexts[id(schema)][0] if id(schema) in self._contexts else ""
        place = (base, reference)
        if place not in self._targets:
            self._targets[place] = self._resolve(*place)
        return self._targets[place]

    def _resolve(self, base: str, reference: str) -> object:
        uri, _, fragment = reference.partition("#")
        if uri:
            base = join_uris(base, uri)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((base, fragment))
        path = tokens_of(unquote(fragment))
        target = follow(self._resources.get(base), path)
        if target is None and not uri:
            # many schema generators write the place in the instance as `id`, which is not a base URI
            return follow(self._resources[""], path)
        return target


def cycle(
    below: Callable[[dict[str, Any]], Iterable[dict[str, Any]]], subschemas: Iterable[dict[str, Any]]
) -> list[int]:
    """Return the id() of each schema in the first cycle; `below` returns the next schemas. Empty if no cycle exists."""
    edges: dict[int, list[int]] = {}
    pending = list(subschemas)
    while pending:
        schema = pending.pop()
        if id(schema) not in edges:
            steps = list(below(schema))
            edges[id(schema)] = [id(step) for step in steps]
            pending += steps
    # a schema from which no other is reached cannot be in a cycle
    edges = {own: [step for step in steps if edges[step]] for own, steps in edges.items() if steps}
    if not any(edges.values()):
        return []
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        ids_in_cycle: list[int] = error.args[1]
        return ids_in_cycle
    return []


class CertainReferences:
    """Resolver for references whose target is the same in every implementation of JSON Schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._anchors: dict[str, list[Tokens]] | None = None

    def find(self, origin: Tokens, reference: object) -> Tokens | None:
        """Return the place that a reference at `origin` leads to; None if it is uncertain or outside the document."""
        if not isinstance(reference, str) or self._is_embedded(origin):
            return None
        uri, _, fragment = reference.partition("#")
        if uri and uri != str(self._root.get("$id", self._root.get("id", ""))).partition("#")[0]:
            return None
        fragment = unquote(fragment)
        places = [tokens_of(fragment)] if not fragment or fragment.startswith("/") else self._find_anchor(fragment)
        return places[0] if len(places) == 1 and not self._is_embedded(places[0]) else None

    def _is_embedded(self, path: Tokens) -> bool:
        """Return whether a schema on the path, except the root, has an identifier that changes the base URI."""
        value = self._root
        for token in path:
            value = follow(value, (token,))
            for keyword in ("$id", "id"):
                name = value.get(keyword) if isinstance(value, Mapping) else None
                if isinstance(name, str) and not name.startswith("#"):
                    return True
        return False

    def _find_anchor(self, name: str) -> list[Tokens]:
        if self._anchors is None:
            self._anchors = {}
            for path, schema in find_schemas(self._root):
                fragments = [schema.get("$anchor"), schema.get("$dynamicAnchor")]
                identifiers = (schema.get("$id"), schema.get("id"))
                fragments += [name[1:] for name in identifiers if isinstance(name, str) and name.startswith("#")]
                for fragment in fragments:
                    if isinstance(fragment, str):
                        self._anchors.setdefault(fragment, []).append(path)
        return self._anchors.get(name, [])


class SchemaPlaces:
    """Finder for subschemas that may apply to a value; with `certain`, only subschemas that always apply are found."""

    def __init__(self, schema: Any, *, certain: bool = False) -> None:
        self._schema = schema
        self._references = CertainReferences(schema)
        self._same_value = ("allOf",) if certain else _IN_PLACE
        self._members: tuple[str, ...] = () if certain else _MEMBERS
        self._items: tuple[str, ...] = ("items",) if certain else _ITEMS

    def find_applying(self, places: Iterable[Tokens]) -> list[Tokens]:
        """
        Return the given places, and the places of all schemas that apply to the same value through references or
        applicators.
        """
        return self._reach(places, self._of_same_value)

    def below(self, places: Iterable[Tokens], step: str | int) -> list[Tokens]:
        """Return the places of the schemas for a member or item, given the places of the schemas for its container."""
        below: list[Tokens] = []
        for place in places:
            schema = follow(self._schema, place)
            if isinstance(step, str):
                named = isinstance(properties := schema.get("properties"), Mapping) and step in properties
                below += [(*place, "properties", step)] if named else [(*place, keyword) for keyword in self._members]
                continue
            for keyword in ("prefixItems", "items"):
                first = schema.get(keyword)
                if isinstance(first, list) and step < len(first):
                    below.append((*place, keyword, str(step)))
                    break
            else:
                below += [(*place, keyword) for keyword in self._items]
        return below

    def unknown(self, places: Iterable[Tokens]) -> list[Tokens]:
        """Return the given places whose schemas may apply to a value, if it is unknown to which value."""
        certain = self._reach([()], lambda place: [*self._of_same_value(place), *self._places_in(place, _PARTS)])
        possible = self._reach([()], lambda place: [*self._find_targets(place), *self._places_in(place, _READ)])
        return [place for place in places if place in possible and place not in certain]

    def _reach(self, starts: Iterable[Tokens], steps: Callable[[Tokens], Iterable[Tokens]]) -> list[Tokens]:
        """
        Return all places that can be reached from `starts`, each once; `steps` returns the next
        places for a place.
        """
        pending = list(starts)
        seen = dict[Tokens, None]()
        while pending:
            place = pending.pop()
            if place not in seen and isinstance(follow(self._schema, place), Mapping):
                seen[place] = None
                pending += steps(place)
        return list(seen)

    def _of_same_value(self, place: Tokens) -> Iterator[Tokens]:
        for reference in self._references_at(place):
            if (target := self._references.find(place, reference)) is not None:
                yield target
        yield from self._places_in(place, self._same_value)

    def _find_targets(self, place: Tokens) -> Iterator[Tokens]:
        """Yield the targets of references, or every definition if a target is unknown."""
        for reference in self._references_at(place):
            target = self._references.find(place, reference)
            yield from self._places_in((), ("$defs", "definitions")) if target is None else (target,)

    def _references_at(self, place: Tokens) -> list[object]:
        schema = follow(self._schema, place)
        return [schema[keyword] for keyword in REFERENCES & schema.keys()]

    def _places_in(self, place: Tokens, keywords: Iterable[str]) -> Iterator[Tokens]:
        """Yield the places of all subschemas in the given keywords of the schema at `place`."""
        schema = follow(self._schema, place)
        for keyword in keywords:
            value = schema.get(keyword)
            if isinstance(value, list):
                yield from ((*place, keyword, str(number)) for number in range(len(value)))
            elif keyword in NAMED and isinstance(value, Mapping):
                yield from ((*place, keyword, name) for name in value)
            elif value is not None:
                yield (*place, keyword)


def join_uris(base: str, uri: str) -> str:
    """Return a reference resolved against a base URI; return it unchanged if it is not a URI."""
    try:
        return urljoin(base, uri)
    except ValueError:  # for example "Invalid IPv6 URL"
        return uri


def tokens_of(pointer: str) -> Tokens:
    """Return the steps of a JSON pointer, unescaped: `("a/b", "0")` for `/a~1b/0`."""
    tokens = pointer.split("/")[1:]
    return tuple(tokens if "~" not in pointer else [token.replace("~1", "/").replace("~0", "~") for token in tokens])


def pointer_of(path: Iterable[str]) -> str:
    """Return a JSON pointer; the inverse of `tokens_of`."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in path)


def follow(value: Any, path: Iterable[str], default: Any = None) -> Any:
    """Return the value at a path inside another value, or the default if the path does not exist."""
    for token in path:
        # a check for dict first, since it is five times as fast and nearly all values are dicts
        if isinstance(value, (dict, Mapping)) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return default
    return value


def place_of(root: Any, part: Mapping[str, Any]) -> str:
    """Return the JSON path of an object inside a schema; the object is found by identity."""
    value = root
    steps = list[str | int]()
    for token in next(path for path, schema in find_schemas(root) if schema is part):
        steps.append(int(token) if isinstance(value, list) else token)
        value = follow(value, (token,))
    return json_path(steps)


def json_path(parts: Sequence[str | int]) -> str:
    """Return a path of keys and indexes as a JSON path: `$.items[0]["x-y"]`."""
    return printable("$" + "".join(map(_step, parts)), cut="middle")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    part = shorten(part)
    return f".{part}" if part.isascii() and part.isidentifier() else f"[{json.dumps(part, ensure_ascii=False)}]"


def json_pointer(parts: Sequence[str | int]) -> str:
    """Return a path of keys and indexes as a JSON pointer of limited length: `/properties/a~1b/items/0`."""
    return printable(pointer_of(shorten(str(part)) for part in parts), cut="middle")
