"""Places: which of a schema's subschemas describe the value at one place of an instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_jsbench.schemas.references import CertainReferences, follow

#: the steps from the root of a schema to one inside of it
Place = tuple[str, ...]

#: keywords whose schemas describe the same value: a list of them, one by itself, and by the name of a property
_LISTS = ("allOf", "anyOf", "oneOf")
_ALONE = ("then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
#: keywords whose schemas describe members and items
_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems")
#: keywords that lead to places of which nobody knows here which values they describe: a pattern would have to be
#: matched, an item tried, a condition evaluated
_UNKNOWN = ("patternProperties", "contains", "propertyNames", "if", "not", "contentSchema")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaPlaces:
    """Follows one schema; without one there is no place."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._references = CertainReferences(schema)

    def applying(self, places: Iterable[Place]) -> list[Place]:
        """These places, and those of the schemas that they refer to or are made of."""
        pending, seen = list(reversed(list(places))), dict[Place, None]()
        while pending:
            place = pending.pop()
            schema = follow(self._schema, place)
            if place in seen or not isinstance(schema, Mapping):
                continue
            seen[place] = None
            pending += reversed(list(self._of_same_value(place, schema)))
        return list(seen)

    def below(self, places: Iterable[Place], step: str | int) -> list[Place]:
        """The places that describe a member of the value that these describe, or an item."""
        found: list[Place] = []
        for place in places:
            schema = follow(self._schema, place)
            if isinstance(step, str):
                properties = schema.get("properties")
                known = isinstance(properties, Mapping) and step in properties
                found += [(*place, "properties", step)] if known else [(*place, keyword) for keyword in _MEMBERS]
                continue
            for keyword in ("prefixItems", "items"):
                first = schema.get(keyword)
                if isinstance(first, list) and step < len(first):
                    found.append((*place, keyword, str(step)))
                    break
            else:
                found += [(*place, keyword) for keyword in _ITEMS]
        return found

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        """Those of the places that may describe a value of which nobody knows here where it is."""
        certain, beyond = self._reached([()])
        while (more := self._reached(beyond))[1] - beyond:
            beyond |= more[1]
        return [place for place in places if place in more[0] and place not in certain]

    def _reached(self, starts: Iterable[Place]) -> tuple[set[Place], set[Place]]:
        """The places that are followed from these on, and those next to them where it is not known how to go on."""
        pending, seen, beyond = list(starts), set[Place](), set[Place]()
        while pending:
            place = pending.pop()
            schema = follow(self._schema, place)
            if place in seen or not isinstance(schema, Mapping):
                continue
            seen.add(place)
            pending += [*self._of_same_value(place, schema), *self._of_parts(place, schema)]
            beyond.update(self._of_nobody_knows(place, schema))
        return seen, beyond

    def _of_same_value(self, place: Place, schema: Mapping[str, Any]) -> Iterator[Place]:
        for keyword in _REFERENCES:
            if (target := self._references.find(place, schema.get(keyword))) is not None:
                yield target
        for keyword in _LISTS:
            if isinstance(parts := schema.get(keyword), list):
                yield from ((*place, keyword, str(number)) for number in range(len(parts)))
        yield from ((*place, keyword) for keyword in _ALONE if keyword in schema)
        for keyword in _BY_NAME:
            if isinstance(parts := schema.get(keyword), Mapping):
                yield from ((*place, keyword, name) for name in parts)

    def _of_parts(self, place: Place, schema: Mapping[str, Any]) -> Iterator[Place]:
        """All places of members and items."""
        if isinstance(properties := schema.get("properties"), Mapping):
            yield from ((*place, "properties", name) for name in properties)
        for keyword in ("prefixItems", "items"):
            if isinstance(first := schema.get(keyword), list):
                yield from ((*place, keyword, str(number)) for number in range(len(first)))
        yield from ((*place, keyword) for keyword in (*_MEMBERS, *_ITEMS) if keyword in schema)

    def _of_nobody_knows(self, place: Place, schema: Mapping[str, Any]) -> Iterator[Place]:
        for keyword in _UNKNOWN:
            parts = schema.get(keyword)
            if keyword == "patternProperties" and isinstance(parts, Mapping):
                yield from ((*place, keyword, name) for name in parts)
            elif isinstance(parts, Mapping):
                yield (*place, keyword)
        for keyword in _REFERENCES:
            if keyword in schema and self._references.find(place, schema[keyword]) is None:
                yield from self._definitions()

    def _definitions(self) -> Iterator[Place]:
        """The places that a reference may lead to which is not followed here."""
        for keyword in ("$defs", "definitions"):
            if isinstance(parts := follow(self._schema, (keyword,)), Mapping):
                yield from ((keyword, name) for name in parts)
