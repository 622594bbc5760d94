"""
Fields that a schema names nowhere, by a static walk.

At each object of an instance every subschema that can apply there is looked at, in any branch, taken or not.
A key is unnamed when those subschemas give the object a shape and none of them names the key. Where in doubt
nothing is flagged: free-form objects, open alternatives, references that lead out of the document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.references import References
from pytest_jsbench.schemas.walking import all_of
from pytest_jsbench.verdicts.patterns import matcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_jsbench.schemas.dialects import Dialect
    from pytest_jsbench.schemas.locations import Path

_ALTERNATIVE = ("anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
#: places remembered from one instance to the next; free-form names and deep recursion make ever new ones
_MOST_PLACES = 4096


@dataclass(slots=True)
class _Layer:
    """What a schema says of the keys of one object."""

    #: whichever branch is taken, it says which keys there are
    shaped: bool = False
    #: somewhere it says that any other key is welcome
    open: bool = False
    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)

    def take(self, other: _Layer) -> None:
        self.open = self.open or other.open
        self.names |= other.names
        self.patterns |= other.patterns

    def unnamed(self, instance: dict[str, Any]) -> list[str]:
        if self.open or not self.shaped:
            return []
        return [
            key
            for key in instance
            if key not in self.names and not any(matcher(pattern)(key) for pattern in self.patterns)
        ]


class FieldNames:
    """The names that one schema gives to fields."""

    def __init__(self, schema: bool | dict[str, Any], dialect: Dialect) -> None:
        self._schema = schema
        self._references = References({} if isinstance(schema, bool) else schema, dialect.id_keyword)
        self._survey = _Survey(self._references)

    def unnamed(self, instance: object, ignored: Collection[str] = ()) -> list[Path]:
        """The paths of the fields that the schema names nowhere: outermost only, in the instance's order."""
        if len(self._survey.places) > _MOST_PLACES:
            self._survey = _Survey(self._references)
        try:
            return list(self._walk(self._schema, instance, (), self._survey, ignored))
        except RecursionError:
            # a chain of references too long to follow is one that cannot be resolved: never flagged
            return []

    def _walk(
        self, schema: object, value: object, path: Path, survey: _Survey, ignored: Collection[str]
    ) -> Iterator[Path]:
        steps: Iterator[tuple[str | int, object]]
        unnamed: set[str] = set()
        if isinstance(value, dict):
            unnamed = set(survey.layer(schema).unnamed(value)) - set(ignored)
            steps = iter(value.items())
        elif isinstance(value, list):
            steps = iter(enumerate(value))
        else:
            return
        for step, child in steps:
            if step in unnamed:
                yield (*path, step)
            elif child and isinstance(child, (dict, list)):
                place = min(step, self._references.longest_tuple) if isinstance(step, int) else step
                yield from self._walk(survey.below(schema, place), child, (*path, step), survey, ignored)


#: schemas by identity, each once however many references lead to it
_Parts = dict[int, object]


def _parts(*schemas: object) -> _Parts:
    return {id(schema): schema for schema in schemas}


class _Survey:
    """Looks at the schemas that can apply to the values of instances, and remembers what it saw."""

    def __init__(self, references: References) -> None:
        self._references = references
        #: by identity; the schema is held so that no other object can take its place
        self._layers: dict[int, tuple[object, _Layer]] = {}
        self._conditionals: dict[tuple[int, type], tuple[object, list[object]]] = {}
        self.places: dict[tuple[int, str | int], tuple[object, object]] = {}

    def layer(self, schema: object) -> _Layer:
        """What the schema says of an object's keys."""
        known = self._layers.get(id(schema))
        if known is None:
            known = self._layers[id(schema)] = (schema, self._layer(schema, {}))
        return known[1]

    def _layer(self, schema: object, seen: dict[int, _Layer]) -> _Layer:
        if not isinstance(schema, dict) or id(schema) in seen:
            return seen.get(id(schema), _Layer())
        layer = seen[id(schema)] = _Layer()
        if not _takes(schema, dict):
            return layer
        _take_own(layer, schema)
        for part in self._always(schema):
            part_layer = self._layer(part, seen)
            layer.take(part_layer)
            layer.shaped = layer.shaped or part_layer.shaped
        layer.open = layer.open or self._leads_out(schema)
        for part in _sometimes(schema):
            layer.take(self._layer(part, seen))
        for alternatives in self._alternatives(schema, dict):
            layers = [self._layer(alternative, seen) for alternative in alternatives]
            for alternative_layer in layers:
                layer.take(alternative_layer)
            layer.shaped = layer.shaped or (bool(layers) and all(each.shaped for each in layers))
        return layer

    def below(self, schema: object, step: str | int) -> object:
        """One schema that says of the value at that key or index what this one says of it."""
        known = self.places.get((id(schema), step))
        if known is None:
            known = self.places[id(schema), step] = (schema, all_of(self._below(schema, step, {}).values()))
        return known[1]

    def _below(self, schema: object, step: str | int, seen: dict[int, _Parts]) -> _Parts:
        kind = list if isinstance(step, int) else dict
        if not isinstance(schema, dict) or not _takes(schema, kind):
            return {}
        if id(schema) in seen:
            return seen[id(schema)]
        parts = seen[id(schema)] = _parts(*_own_below(schema, step))
        for part in self._always(schema):
            parts.update(self._below(part, step, seen))
        for part in _sometimes(schema):
            if found := self._below(part, step, seen):
                parts.update(_parts({"anyOf": [all_of(found.values()), True]}))
        for alternatives in self._alternatives(schema, kind):
            branches = filter(None, (self._below(alternative, step, seen) for alternative in alternatives))
            if every := [all_of(branch.values()) for branch in branches]:
                # one alone is not wrapped, or it would grow with each level of the instance
                parts.update(_parts({"anyOf": every} if every[1:] else every[0]))
        return parts

    def _always(self, schema: dict[str, Any]) -> Iterator[object]:
        """The subschemas that hold for the same value whenever this one does."""
        if "$ref" in schema:
            yield self._references.resolve(schema, schema["$ref"])
        yield from _list(schema.get("allOf"))

    def _leads_out(self, schema: dict[str, Any]) -> bool:
        """Whether a reference says what cannot be known here."""
        if any(keyword in schema and not self._references.targets(schema, keyword) for keyword in _DYNAMIC):
            return True
        return "$ref" in schema and not isinstance(self._references.resolve(schema, schema["$ref"]), (dict, bool))

    def _alternatives(self, schema: dict[str, Any], kind: type) -> Iterator[list[object]]:
        """For each choice, the subschemas that can hold for such a value."""
        for keyword in _ALTERNATIVE:
            if keyword in schema:
                yield [each for each in _list(schema[keyword]) if self._can_hold(each, kind)]
        for keyword in _DYNAMIC:
            if keyword in schema and (targets := self._references.targets(schema, keyword)):
                yield [each for each in targets if self._can_hold(each, kind)]
        if "if" in schema:
            yield [each for each in self._conditional(schema, kind) if self._can_hold(each, kind)]

    def _conditional(self, schema: dict[str, Any], kind: type) -> list[object]:
        """The two ways past an `if`; one where every such value goes that way. Made once, to keep its identity."""
        known = self._conditionals.get((id(schema), kind))
        if known is None:
            ways: list[object] = [{"allOf": [schema["if"], schema.get("then", True)]}]
            if not _takes_all(schema["if"], kind):
                ways.append(schema.get("else", True))
            known = self._conditionals[id(schema), kind] = (schema, ways)
        return known[1]

    def _can_hold(self, schema: object, kind: type, hops: int = 8) -> bool:
        if not isinstance(schema, dict):
            # what a reference does not find may be anything
            return schema is not False
        if not _takes(schema, kind):
            return False
        return hops == 0 or all(self._can_hold(part, kind, hops - 1) for part in self._always(schema))


def _take_own(layer: _Layer, schema: dict[str, Any]) -> None:
    """Add what the schema's own keywords say of an object's keys."""
    properties, patterns = _dict(schema.get("properties")), _dict(schema.get("patternProperties"))
    layer.shaped = bool(properties or patterns)
    layer.names.update(properties, _strings(schema.get("required")))
    layer.patterns.update(patterns)
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        rest = schema.get(keyword)
        if rest is False:
            layer.shaped = True
        elif rest is not None:
            # as a schema it names every key by what its value must be
            layer.open = True
    if schema.get("propertyNames") and schema.get("additionalProperties") is not False:
        layer.open = True
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, needed in _dict(schema.get(keyword)).items():
            layer.names.update((name,), _strings(needed))
    for value in (*_list(schema.get("enum")), schema.get("const")):
        layer.names.update(_dict(value))


def _own_below(schema: dict[str, Any], step: str | int) -> list[object]:
    """The schemas that the schema's own keywords apply at a key or an index."""
    if isinstance(step, int):
        return _own_items(schema, step)
    found = [_dict(schema.get("properties")).get(step)]
    for pattern, subschema in _dict(schema.get("patternProperties")).items():
        if matcher(pattern)(step):
            found.append(subschema)
    found = [each for each in found if each is not None]
    return found or [schema[k] for k in ("additionalProperties", "unevaluatedProperties") if k in schema]


def _own_items(schema: dict[str, Any], index: int) -> list[object]:
    items, contains = schema.get("items"), schema.get("contains")
    first = items if isinstance(items, list) else _list(schema.get("prefixItems"))
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    found = [first[index]] if index < len(first) else [rest, schema.get("unevaluatedItems")]
    if contains is not None:
        found.append({"anyOf": [contains, True]})
    return [each for each in found if each is not None]


def _sometimes(schema: dict[str, Any]) -> Iterator[object]:
    """The subschemas that hold for the same value on some condition."""
    for keyword in _CONDITIONAL:
        if keyword in schema:
            yield schema[keyword]
    for keyword in ("dependentSchemas", "dependencies"):
        for subschema in _dict(schema.get(keyword)).values():
            if isinstance(subschema, dict):
                yield subschema


def _takes(schema: dict[str, Any], kind: type) -> bool:
    """Whether the schema's `type`, `enum` and `const` leave room for such a value."""
    name = "object" if kind is dict else "array"
    if "type" in schema and name not in (schema["type"], *_list(schema["type"])):
        return False
    if "enum" in schema and not any(isinstance(value, kind) for value in _list(schema["enum"])):
        return False
    return "const" not in schema or isinstance(schema["const"], kind)


def _takes_all(schema: object, kind: type) -> bool:
    """Whether the schema asks for nothing but that type."""
    return schema is True or (isinstance(schema, dict) and not schema.keys() - {"type"} and _takes(schema, kind))


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]


def without(instance: Any, paths: Collection[Path]) -> Any:
    """A copy of the instance without the fields at those paths; what is not on the way to one is shared."""
    here = {path[0] for path in paths if len(path) == 1}
    deeper: dict[str | int, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    if isinstance(instance, list):
        return [without(v, deeper[i]) if i in deeper else v for i, v in enumerate(instance)]
    return {
        key: without(value, deeper[key]) if key in deeper else value
        for key, value in instance.items()
        if key not in here
    }
