"""Schemas generated from every keyword of each dialect, with instances, some of which conform."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.differential.numbers import NUMBERS, write
from benchmarks.differential.questions import SchemaQuestion
from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12, Dialect

#:  Names of fields; some are special in JavaScript or in JSON Pointers.
FIELDS = (
    *("a", "b", "c", "ab", "", "é", "e\u0301", "😀", "a/b", "a~b", "a%b", "length", "toString", "constructor"),
    *("$ref", "1"),
)
STRINGS = (*FIELDS, "aaaa", "2024-02-29", "::1", "x@example.org", "\u2028", "\x00", "1.0", "null", "ﬀ", "ß")
PATTERNS = ("^a", "b$", "^[a-c]+$", "^.$", r"^\d", r"\S", "é", "😀", "^(?!a)", "^.{2}$", r"\p{L}", "^$")
FORMATS = ("date", "ipv6", "email", "regex", "uri", "no-such-format")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
FACTORS = (1, 2, 3, 0.5, 0.1, 0.01, 1e-9, 1.5, 2**53 + 1, 1e308, 0.0001, 7, 10**20)
DEEPEST = 3
INSTANCES = 8

_ALL = frozenset(DIALECTS)
_OLD = frozenset({DRAFT_4, DRAFT_6, DRAFT_7})
_NEW = frozenset({DRAFT_2019_09, DRAFT_2020_12})
_FROM_6 = _ALL - {DRAFT_4}
_FROM_7 = _FROM_6 - {DRAFT_6}


class _Several(dict[str, Any]):
    """Keywords that have a meaning only in combination."""


class SchemaMaker:
    """Generator of one schema; references lead down the list of definitions, or anywhere from inside a value."""

    def __init__(self, dialect: Dialect, chance: random.Random) -> None:
        self._dialect = dialect
        self._chance = chance
        self._definitions = chance.choice((0, 1, 2, 3))
        #:  While a definition is generated: the first one that it may refer to without a cycle.
        self._next = 0
        self._holder = "definitions" if dialect in _OLD else "$defs"
        self._makers = [(name, make) for name, make, drafts in self._keywords() if dialect in drafts]

    def document(self) -> Any:
        """Return a schema with its definitions."""
        schema = self._schema(0, inside=False)
        if not isinstance(schema, dict):
            return schema
        definitions: dict[str, Any] = {}
        for number in range(self._definitions):
            self._next = number + 1
            definition = self._schema(1, inside=False)
            if isinstance(definition, dict) and self._dialect is DRAFT_2020_12 and self._chance.random() < 0.4:
                definition["$dynamicAnchor" if self._chance.random() < 0.7 else "$anchor"] = f"d{number}"
            definitions[f"d{number}"] = definition
        if definitions:
            schema[self._holder] = definitions
        if self._dialect is DRAFT_2019_09 and self._chance.random() < 0.3:
            schema["$recursiveAnchor"] = True
        return {"$schema": self._dialect.uri, **schema}

    def _schema(self, depth: int, *, inside: bool) -> Any:
        """Return a subschema; `inside` means that it applies to a part of its parent's instance."""
        chance = self._chance
        if self._dialect is not DRAFT_4 and chance.random() < 0.06:
            return chance.random() < 0.7
        if depth >= DEEPEST:
            return chance.choice(({}, {"type": chance.choice(TYPES)}, {"enum": [make_value(chance)]}))
        made: dict[str, Any] = {}
        for name, make in chance.choices(self._makers, k=chance.choice((1, 2, 2, 3, 4))):
            value = make(depth + 1, inside)
            if value is not None:
                made.update(value if isinstance(value, _Several) else {name: value})
        return made

    def _keywords(self) -> Iterator[tuple[str, Callable[[int, bool], Any], frozenset[Dialect]]]:
        """List each keyword with its weight, the function that generates its value, and its dialects."""
        for names, make, drafts in (
            ("type", self._types, _ALL),
            ("enum", self._draw_values, _ALL),
            ("const", lambda *_: make_value(self._chance), _FROM_6),
            ("properties properties", self._fields, _ALL),
            ("required", self._names, _ALL),
            ("patternProperties", self._by_pattern, _ALL),
            ("additionalProperties uniqueItems", self._flag, frozenset({DRAFT_4})),
            ("additionalProperties", self._within, _ALL),
            ("propertyNames contains", self._within, _FROM_6),
            ("minProperties maxProperties minItems maxItems minLength maxLength", self._count, _ALL),
            ("minContains maxContains", self._count, _NEW),
            ("minimum maximum exclusiveMinimum exclusiveMaximum", self._number, _FROM_6),
            ("minimum maximum", self._number, frozenset({DRAFT_4})),
            ("exclusiveMinimum", self._exclusive, frozenset({DRAFT_4})),
            ("multipleOf", lambda *_: self._chance.choice(FACTORS), _ALL),
            ("uniqueItems", self._flag, _ALL),
            ("pattern", lambda *_: self._chance.choice(PATTERNS), _ALL),
            ("format", lambda *_: self._chance.choice(FORMATS), _ALL),
            ("items", self._within, _ALL),
            ("items", self._tuple, _ALL - {DRAFT_2020_12}),
            ("additionalItems", self._within, _ALL - {DRAFT_2020_12}),
            ("prefixItems", self._tuple, frozenset({DRAFT_2020_12})),
            ("allOf anyOf oneOf", self._several, _ALL),
            ("not", lambda depth, inside: self._schema(depth, inside=inside), _ALL),
            ("if", self._condition, _FROM_7),
            ("dependencies", self._dependent, _OLD),
            ("dependencies", self._required_by, _OLD),
            ("dependentRequired", self._required_by, _NEW),
            ("dependentSchemas", self._dependent, _NEW),
            ("unevaluatedProperties unevaluatedItems unevaluatedProperties unevaluatedItems", self._within, _NEW),
            ("$ref $ref", self._reference, _ALL),
            ("$dynamicRef", self._definition, frozenset({DRAFT_2020_12})),
            ("$recursiveRef", lambda _, inside: "#" if inside else None, frozenset({DRAFT_2019_09})),
        ):
            for name in names.split():
                yield name, make, drafts

    #  values of keywords

    def _within(self, depth: int, _inside: bool) -> Any:
        return self._schema(depth, inside=True)

    def _several(self, depth: int, inside: bool) -> Any:
        return [self._schema(depth, inside=inside) for _ in range(self._chance.choice((1, 2, 2, 3)))]

    def _tuple(self, depth: int, _inside: bool) -> Any:
        return self._several(depth, inside=True)

    def _fields(self, depth: int, _inside: bool) -> Any:
        return {name: self._schema(depth, inside=True) for name in self._names()}

    def _by_pattern(self, depth: int, _inside: bool) -> Any:
        patterns = self._chance.sample(PATTERNS, self._chance.choice((1, 2)))
        return {pattern: self._schema(depth, inside=True) for pattern in patterns}

    def _dependent(self, depth: int, inside: bool) -> Any:
        return {name: self._schema(depth, inside=inside) for name in self._names()}

    def _required_by(self, _depth: int, _inside: bool) -> Any:
        return {name: self._names() for name in self._names()}

    def _names(self, _depth: int = 0, _inside: bool = False) -> list[str]:
        known = FIELDS[: self._chance.choice((4, len(FIELDS)))]
        return self._chance.sample(known, self._chance.choice((1, 1, 2, 3)))

    def _flag(self, _depth: int, _inside: bool) -> Any:
        return self._chance.random() < 0.7

    def _count(self, _depth: int, _inside: bool) -> Any:
        return self._chance.choice((0, 1, 1, 2, 2, 3, 4))

    def _number(self, _depth: int, _inside: bool) -> Any:
        return self._chance.choice(NUMBERS)

    def _types(self, _depth: int, _inside: bool) -> Any:
        return self._chance.choice(TYPES) if self._chance.random() < 0.7 else self._chance.sample(TYPES, 2)

    def _draw_values(self, _depth: int, _inside: bool) -> Any:
        found: list[Any] = []
        for _ in range(self._chance.choice((1, 2, 4))):
            one = make_value(self._chance)
            #  the metaschema may require distinct values
            if json.dumps(one) not in map(json.dumps, found) and one not in found:
                found.append(one)
        return found

    def _reference(self, depth: int, inside: bool) -> Any:
        return "#" if inside and self._chance.random() < 0.3 else self._definition(depth, inside)

    def _definition(self, _depth: int, inside: bool) -> Any:
        numbers = range(0 if inside else self._next, self._definitions)
        return f"#/{self._holder}/d{self._chance.choice(numbers)}" if numbers else None

    def _condition(self, depth: int, inside: bool) -> Any:
        made = _Several({"if": self._schema(depth, inside=inside)})
        for name in ("then", "else"):
            if self._chance.random() < 0.7:
                made[name] = self._schema(depth, inside=inside)
        return made

    def _exclusive(self, _depth: int, _inside: bool) -> Any:
        side = self._chance.choice(("minimum", "maximum"))
        return _Several({side: self._chance.choice(NUMBERS), f"exclusive{side.title()}": self._chance.random() < 0.7})


def make_value(chance: random.Random, depth: int = 0) -> Any:
    """Return a random JSON value."""
    kind = chance.random()
    if depth < 2 and kind < 0.2:
        return [make_value(chance, depth + 1) for _ in range(chance.choice((0, 1, 2, 3)))]
    if depth < 2 and kind < 0.45:
        return {name: make_value(chance, depth + 1) for name in chance.sample(FIELDS, chance.choice((0, 1, 2, 3)))}
    return chance.choice(chance.choice(((None, True, False), NUMBERS, STRINGS)))


#:  Keywords from which a type is inferred for a schema without `type`.
_SPEAKS_OF: Mapping[str, set[str]] = {
    "object": {
        *("properties", "required", "additionalProperties", "patternProperties", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "minProperties"),
    },
    "array": {"items", "prefixItems", "contains", "uniqueItems", "unevaluatedItems", "minItems", "maxItems"},
    "number": {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"},
    "string": {"pattern", "format", "minLength", "maxLength"},
}


class InstanceMaker:
    """Generator of instances that a schema may accept."""

    def __init__(self, document: Any, chance: random.Random) -> None:
        self._document = document
        self._chance = chance

    def make(self, schema: Any, depth: int = 0) -> Any:
        """Return an instance for that part of the document."""
        chance = self._chance
        if not isinstance(schema, dict) or depth > 6 or chance.random() < 0.08:
            return make_value(chance, min(depth, 2))
        schema = self._flat(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return chance.choice(schema["enum"])
        declared = schema.get("type")
        match chance.choice(declared) if isinstance(declared, list) else declared or _spoken_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return chance.choice(STRINGS)
            case "number" | "integer":
                return self._number(schema)
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case _:
                return make_value(chance, min(depth, 2))

    def _flat(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema merged with one branch of each choice and with the schemas that it references."""
        flat: dict[str, Any] = {}
        pending: list[Any] = [schema]
        for _ in range(12):
            if not pending:
                break
            one = pending.pop()
            if not isinstance(one, dict):
                continue
            pending += [self._target(one[name]) for name in ("$ref", "$dynamicRef") if isinstance(one.get(name), str)]
            pending += one.get("allOf", [])
            pending += [self._chance.choice(one[name]) for name in ("anyOf", "oneOf") if one.get(name)]
            pending += [one["then"]] if "then" in one else []
            properties = {**flat.get("properties", {}), **one.get("properties", {})}
            flat = {**flat, **one, **({"properties": properties} if properties else {})}
        return flat

    def _target(self, reference: str) -> Any:
        found = self._document
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found.get(step, {})
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        chance, properties = self._chance, schema.get("properties", {})
        named = [name for name in properties if chance.random() < 0.7]
        named += [name for name in schema.get("required", ()) if chance.random() < 0.9]
        named += chance.sample(FIELDS, chance.choice((0, 0, 1, 2)))
        rest = schema.get("additionalProperties", schema.get("unevaluatedProperties", {}))
        return {name: self.make(properties.get(name, rest), depth + 1) for name in named}

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        items = schema.get("items", {})
        heads = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", {}) if isinstance(items, list) else items
        made = [self.make(head, depth + 1) for head in heads if self._chance.random() < 0.9]
        made += [self.make(rest, depth + 1) for _ in range(self._chance.choice((0, 1, 2, 3)))]
        if "contains" in schema and self._chance.random() < 0.8:
            made.insert(self._chance.randrange(len(made) + 1), self.make(schema["contains"], depth + 1))
        return made

    def _number(self, schema: dict[str, Any]) -> Any:
        bounds = [schema[name] for name in ("minimum", "maximum", "multipleOf") if name in schema]
        if not bounds or self._chance.random() < 0.4:
            return self._chance.choice(NUMBERS)
        times = self._chance.choice((1, 1, 2, 3, 19.99))
        bound = self._chance.choice(bounds)
        return bound * times if abs(bound) < 1e300 else bound


def _spoken_of(schema: Mapping[str, Any]) -> str | None:
    return next((kind for kind, names in _SPEAKS_OF.items() if names & schema.keys()), None)


def generated_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """Yield about this many pairs, alternating between all dialects."""
    for number in range(pairs // INSTANCES):
        chance = random.Random(f"{seed} generated {number}")
        dialect = DIALECTS[number % len(DIALECTS)]
        document = SchemaMaker(dialect, chance).document()
        maker = InstanceMaker(document, chance)
        texts = tuple(dict.fromkeys(write(maker.make(document), chance) for _ in range(INSTANCES)))
        yield SchemaQuestion(name=f"generated {number}", schema=document, dialect=dialect, texts=texts)
