"""Make values that some schema may accept and a similar one may reject, to compare what two schemas accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from pytest_jsbench.schemas.example_values import NoExample, make_example
from pytest_jsbench.schemas.pattern_texts import PatternNotSupported, text_matching
from pytest_jsbench.schemas.references import CertainReferences, follow

#: Maximum depth of the values, and maximum number of values for one subschema.
_DEEPEST = 6
_MOST_OF_PART = 24
#: Largest bound of a number from which values are made.
_LARGEST = 10**15
#: Maximum number of items for which an array with one item more is made.
_MOST_ITEMS = 100
#: Maximum length of a text that has exactly the length of a bound.
_LONGEST = 1_000
#: Maximum number of subschemas that are read for all values of a schema.
_MOST_PARTS = 5_000
#: One value of each JSON type, and values that keywords about one type often distinguish.
_PROBES: tuple[Any, ...] = ("", "example", 0, 1, -1, 1.5, True, None, {}, {"example": 0}, [], [0, 0], "x" * 40, 10**9)
#: Name of a property that no schema is expected to define.
_EXTRA = "additional property"


def sample_values(schema: object, *, most: int) -> Iterator[Any]:
    """
    Yield up to `most` values for a schema: some that should conform, and each with a part left out, added or replaced.

    No value is certain to conform. The values depend only on the schema, and the simplest come first.
    """
    return islice(_Sampler(schema).variations(), most)


class _Sampler:
    def __init__(self, root: object) -> None:
        self._root = root
        self._references = CertainReferences(root)
        self._left = _MOST_PARTS

    def variations(self) -> Iterator[Any]:
        """Yield the values for the root, and a value of each type."""
        for only_required in (True, False):
            with suppress(NoExample):
                yield make_example(self._root, only_required=only_required)
        if isinstance(self._root, Mapping):
            yield from self._typed_values(self._resolve(self._root), 0)
        yield from _PROBES

    def _values(self, schema: object, depth: int) -> list[Any]:
        """Return values for a subschema; the first should conform."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST or schema is False:
            return []
        if not isinstance(schema, Mapping):
            return [*_PROBES]
        return list(islice(self._typed_values(self._resolve(schema), depth), _MOST_OF_PART))

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema with its reference and its `allOf` merged, keyword by keyword."""
        merged: dict[str, Any] = dict(schema)
        for _ in range(_DEEPEST):
            parts = [part for part in merged.pop("allOf", []) if isinstance(part, Mapping)]
            if "$ref" in merged:
                path = self._references.find((), merged.pop("$ref"))
                target = None if path is None else follow(self._root, path)
                parts += [target] if isinstance(target, Mapping) else []
            if not parts:
                break
            for part in parts:
                properties = {**part.get("properties", {}), **merged.get("properties", {})}
                required = [*part.get("required", []), *merged.get("required", [])]
                merged = {**part, **merged}
                merged |= {"properties": properties} if properties else {}
                merged |= {"required": required} if required else {}
        return merged

    def _typed_values(self, schema: Mapping[str, Any], depth: int) -> Iterator[Any]:
        if "const" in schema:
            yield schema["const"]
        if isinstance(schema.get("enum"), list):
            yield from schema["enum"]
        rest = {name: value for name, value in schema.items() if name not in ("anyOf", "oneOf")}
        for union in ("anyOf", "oneOf"):
            branches = schema.get(union)
            listed = branches if isinstance(branches, list) else []
            # the first value of each branch comes before the second of any branch
            columns = [self._values({**rest, "allOf": [branch]}, depth + 1) for branch in listed]
            yield from _alternate(columns)
        kinds = schema.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            yield from self._of_kind(kind, schema, depth)
        if "properties" in schema and not kinds:
            yield from self._objects(schema, depth)
        yield from _PROBES

    def _of_kind(self, kind: object, schema: Mapping[str, Any], depth: int) -> Iterator[Any]:
        match kind:
            case "object":
                yield from self._objects(schema, depth)
            case "array":
                yield from self._arrays(schema, depth)
            case "string":
                yield from _texts(schema)
            case "integer" | "number":
                yield from _numbers(schema)
            case "boolean":
                yield from (True, False)
            case "null":
                yield None

    def _objects(self, schema: Mapping[str, Any], depth: int) -> Iterator[Any]:
        properties = schema.get("properties")
        named: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = [name for name in schema.get("required", []) if isinstance(name, str)]
        extra = schema.get("additionalProperties", True)
        names = dict.fromkeys((*named, *required))
        values = {name: self._values(named.get(name, extra), depth + 1) for name in names}
        values = {name: each for name, each in values.items() if each}
        whole = {name: each[0] for name, each in values.items()}
        least = {name: value for name, value in whole.items() if name in required}
        yield least
        yield whole
        yield {**whole, _EXTRA: "example"}
        yield {**least, _EXTRA: 1}
        for value in islice(self._values(extra, depth + 1), 4):
            yield {**whole, _EXTRA: value}
        for name in whole:
            yield {other: value for other, value in whole.items() if other != name}
        for name, each in _alternate([[(name, value) for value in each[1:]] for name, each in values.items()]):
            yield {**whole, name: each}

    def _arrays(self, schema: Mapping[str, Any], depth: int) -> Iterator[Any]:
        first = schema.get("prefixItems", [])
        items = schema.get("items", True)
        if isinstance(items, list):  # before draft 2020-12
            first, items = items, schema.get("additionalItems", True)
        columns = [self._values(each, depth + 1) for each in first if isinstance(first, list)]
        start = [column[0] for column in columns if column]
        more = self._values(items, depth + 1)
        wanted = _count(schema, "minItems", _MOST_OF_PART) or 0
        filled = [*start, *([more[0]] * max(0, wanted - len(start)) if more else [])]
        yield filled
        yield filled[:-1]
        if more:
            yield [*filled, more[0]]
            yield [*filled, more[0], more[0]]
            most = _count(schema, "maxItems", _MOST_ITEMS)
            if most is not None:
                yield [more[0]] * most
                yield [more[0]] * (most + 1)
            yield [*filled, *more]
            for value in more[1:]:
                yield [*filled, value]
        for position, column in enumerate(columns):
            for value in islice(column, 1, None):
                yield [*filled[:position], value, *filled[position + 1 :]]


def _alternate(columns: Iterable[list[Any]]) -> Iterator[Any]:
    """Yield the first member of each list, then the second of each, and so on."""
    listed = list(columns)
    for number in range(max(map(len, listed), default=0)):
        yield from (column[number] for column in listed if number < len(column))


def _count(schema: Mapping[str, Any], keyword: str, most: int) -> int | None:
    """Return the value of a keyword that counts, which may be written as 5.0; None if it is missing or too large."""
    value = schema.get(keyword)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        return None
    return int(value)


def _texts(schema: Mapping[str, Any]) -> Iterator[str]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        with suppress(PatternNotSupported):
            yield text_matching(pattern)
    with suppress(NoExample):
        yield make_example({name: value for name, value in schema.items() if name in ("format", "minLength", "type")})
    for keyword in ("minLength", "maxLength"):
        length = _count(schema, keyword, _LONGEST)
        if length is not None:
            yield from ("x" * each for each in (length, length - 1, length + 1) if each >= 0)
    yield from ("example", "", "x")


def _numbers(schema: Mapping[str, Any]) -> Iterator[float]:
    with suppress(NoExample):
        yield make_example(schema)
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"):
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and abs(bound) < _LARGEST:
            yield from (bound, bound - 1, bound + 1, 2 * bound, bound + 0.5)
    yield from (0, 1, -1, 1.5)
