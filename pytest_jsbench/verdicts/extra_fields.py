"""
Find fields of an instance that its schema does not name: at their place, or anywhere.

The names are found by a static walk. At each object, every subschema that can apply there is inspected, in any branch,
taken or not, for the keywords that its dialect has. In case of doubt an object is open: free-form objects, open
alternatives, references that lead out of the document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_jsbench.schemas.keywords import all_of
from pytest_jsbench.schemas.references import References, follow, json_path
from pytest_jsbench.verdicts.patterns import matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pytest_jsbench.schemas.dialects import Dialect
    from pytest_jsbench.schemas.references import Path

#: Maximum number of extra fields that a verdict lists.
_MOST_LISTED = 100
#: The schema's URI, which editors read at the root of any JSON file; it is not a field of the answer.
_POINTER_TO_SCHEMA = "$schema"
#: Maximum number of places that are cached; free-form names and deep recursion always make new ones.
_MOST_PLACES = 4096
_ALTERNATIVE = ("anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
#: Keywords that name fields.
_NAMING = frozenset({"properties", "required", "enum", "const", "propertyNames", *_DEPENDENT})
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
#: Keywords that apply another schema to the same value.
_APPLYING = frozenset({"$ref", "allOf", *_ALTERNATIVE, *_CONDITIONAL, "dependentSchemas", "dependencies", *_DYNAMIC})
_TYPES = {dict: "object", list: "array", str: "string"}


@dataclass(slots=True)
class ObjectFields:
    """The keys of an object that a schema allows or names."""

    #: Whether keys are defined in whichever branch is taken.
    shaped: bool = False
    #: Whether any other key is allowed somewhere.
    open: bool = False
    #: Minimum number of keys.
    least: float = 0
    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)

    def take(self, alternatives: Sequence[ObjectFields]) -> None:
        """Add the fields of alternatives; only one of them applies."""
        for other in alternatives:
            self.open = self.open or other.open
            self.names |= other.names
            self.patterns |= other.patterns
        self.shaped = self.shaped or (bool(alternatives) and all(other.shaped for other in alternatives))
        self.least = max(self.least, min((other.least for other in alternatives), default=0))

    def unnamed(self, instance: dict[str, Any]) -> set[str]:
        """Return the keys of an object that have no name here."""
        must_invent = self.least > len(self.names) and not self.patterns
        if self.open or not self.shaped or must_invent or self.names.issuperset(instance):
            return set()
        others = instance.keys() - self.names
        others.difference_update([key for key in others if any(matcher(pattern)(key) for pattern in self.patterns)])
        return others


def by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Names by their spelling."""
    return {spelling(name): name for name in sorted(names, reverse=True)}


def spelling(name: str) -> str:
    """Return the name in lower case and without white space."""
    return "".join(name.split()).casefold()


def all_names(schemas: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return all names that the schemas give to fields, including those that their dialect ignores."""
    names: set[str] = set()
    for schema in schemas:
        # most schemas of a large document name no fields
        if not _NAMING.isdisjoint(schema):
            names.update(_names(schema), _listed(_dict(schema.get("propertyNames")), str))
    return frozenset(names)


_T = TypeVar("_T")
#: Schemas by identity, each once, however many references lead to it.
_Parts = dict[int, object]


def _parts(*schemas: object) -> _Parts:
    return {id(schema): schema for schema in schemas}


def _names(keywords: dict[str, Any]) -> Iterator[str]:
    """Return the names that the schema's own keywords give to fields."""
    yield from _dict(keywords.get("properties"))
    yield from _strings(keywords.get("required"))
    for keyword in _DEPENDENT:
        if keyword in keywords:
            for name, needed in _dict(keywords[keyword]).items():
                yield name
                yield from _strings(needed)
    for value in _listed(keywords, dict):
        yield from value


def _listed(keywords: dict[str, Any], kind: type) -> list[Any]:
    """Return the values of this type that `enum` and `const` list."""
    if "enum" not in keywords and "const" not in keywords:
        return []
    return [value for value in (*_list(keywords.get("enum")), keywords.get("const")) if isinstance(value, kind)]


def _rest(keywords: dict[str, Any]) -> object:
    """Return the schema of keys that have no schema of their own; None if there is none."""
    return keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))


def _own_below(keywords: dict[str, Any], step: str | int) -> list[object]:
    """Return the schemas that the schema's own keywords apply at a key or an index."""
    if isinstance(step, int):
        return _own_items(keywords, step)
    properties = _dict(keywords.get("properties"))
    patterns = _dict(keywords.get("patternProperties"))
    schemas = [properties[step]] if step in properties else []
    schemas += [subschema for pattern, subschema in patterns.items() if matcher(pattern)(step)]
    rest = _rest(keywords)
    return schemas if schemas or rest is None else [rest]


def _own_items(keywords: dict[str, Any], index: int) -> list[object]:
    items = keywords.get("items")
    contains = keywords.get("contains")
    first = items if isinstance(items, list) else _list(keywords.get("prefixItems"))
    rest = keywords.get("additionalItems") if isinstance(items, list) else items
    schemas = [first[index]] if index < len(first) else [rest, keywords.get("unevaluatedItems")]
    if contains is not None:
        schemas.append({"anyOf": [contains, True]})
    return [each for each in schemas if each is not None]


def _sometimes(keywords: dict[str, Any]) -> Iterator[object]:
    """Return the subschemas that apply to the same value under a condition; `then` and `else` need an `if`."""
    for keyword in _CONDITIONAL if "if" in keywords else ():
        if keyword in keywords:
            yield keywords[keyword]
    for keyword in ("dependentSchemas", "dependencies"):
        for subschema in _dict(keywords.get(keyword)).values():
            if isinstance(subschema, dict):
                yield subschema


def _takes(keywords: dict[str, Any], kind: type) -> bool:
    """Return whether the schema's `type`, `enum` and `const` allow values of this type."""
    if "type" in keywords and kind in _TYPES and _TYPES[kind] not in (keywords["type"], *_list(keywords["type"])):
        return False
    if "enum" in keywords and not any(isinstance(value, kind) for value in _list(keywords["enum"])):
        return False
    return "const" not in keywords or isinstance(keywords["const"], kind)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]


class ExtraFieldReason(StrEnum):
    """Reasons why extra fields of an answer are not named."""

    #: Each is the name of a field elsewhere in the schema.
    MISPLACED = "misplaced"
    #: At least one is not named anywhere in the schema.
    UNNAMED = "unnamed"


class ExtraFields:
    """The extra fields of one instance, in its order; of nested ones only the outermost."""

    def __init__(self, instance: object) -> None:
        #: The instance without them; parts that contain none are shared.
        self.rest = instance
        #: Number of fields per reason.
        self.count: dict[ExtraFieldReason, int] = {}
        self._kept: list[tuple[Path, ExtraFieldReason]] = []

    def add(self, path: Path, reason: ExtraFieldReason) -> None:
        """Count one more, and keep the first ones of each reason."""
        self.count[reason] = self.count.get(reason, 0) + 1
        if self.count[reason] <= _MOST_LISTED:
            self._kept.append((path, reason))

    @property
    def reason(self) -> ExtraFieldReason | None:
        """Reason for all of them together; None if there are none."""
        if not self.count:
            return None
        return ExtraFieldReason.UNNAMED if ExtraFieldReason.UNNAMED in self.count else ExtraFieldReason.MISPLACED

    def first(self, reason: ExtraFieldReason) -> list[Path]:
        """Return the first ones with this reason."""
        return [path for path, own in self._kept if own is reason]

    def listed(self, reason: ExtraFieldReason | None = None) -> tuple[str, ...]:
        """Return the first ones as JSON paths, optionally only those with one reason."""
        return tuple(json_path(path) for path, own in self._kept[:_MOST_LISTED] if reason in {None, own})


class FieldNames:
    """
    The names that one schema gives to fields, with a cache of the schemas that can apply at each place.

    The cache uses identities; each schema is kept so that no other object can get its identity.
    """

    def __init__(self, schema: bool | dict[str, Any], dialect: Dialect) -> None:
        self._schema = schema
        self.references = References({} if isinstance(schema, bool) else schema, dialect)
        self._forget()

    @cached_property
    def _names(self) -> frozenset[str]:
        return all_names(self.references.schemas)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        return by_spelling(self._names)

    def extra_fields(self, instance: object, ignored: Collection[str] = ()) -> ExtraFields:
        """Return the fields of the instance that are not named at their place."""
        fields = ExtraFields(instance)
        if isinstance(instance, (dict, list)):
            try:
                fields.rest = self._search(self._schema, instance, (), fields, frozenset(ignored))
            except RecursionError:
                # a chain of references that is too long cannot be resolved, so nothing is flagged
                return ExtraFields(instance)
        return fields

    def _search(self, schema: object, value: Any, path: Path, fields: ExtraFields, ignored: frozenset[str]) -> Any:
        """Find the extra fields in an object or array, and return the rest of it."""
        extra: set[str] = set()
        steps: Iterable[tuple[str | int, object]]
        if isinstance(value, dict):
            if extra := self.fields(schema).unnamed(value):
                extra.difference_update(ignored, () if path else (_POINTER_TO_SCHEMA,))
            steps = value.items()
        else:
            steps = enumerate(value)
        changed: dict[str | int, object] = {}
        for step, child in steps:
            if step in extra:
                reason = ExtraFieldReason.MISPLACED if step in self._names else ExtraFieldReason.UNNAMED
                fields.add((*path, step), reason)
            elif child and isinstance(child, (dict, list)):
                below = self._below(schema, step)
                # where no schema applies, none names a field
                if isinstance(below, dict):
                    rest = self._search(below, child, (*path, step), fields, ignored)
                    if rest is not child:
                        changed[step] = rest
        if not (extra or changed):
            return value
        if isinstance(value, list):
            return [changed.get(index, child) for index, child in enumerate(value)]
        return {key: changed.get(key, child) for key, child in value.items() if key not in extra}

    def meant(self, path: Path) -> str | None:
        """
        Return the name, at that place or else anywhere, that differs from the extra field's only by white space or
        case.
        """
        schema: object = self._schema
        for step in path[:-1]:
            schema = self._below(schema, step)
        spelt = spelling(str(path[-1]))
        here = by_spelling(self.fields(schema).names).get(spelt)
        return here or (None if path[-1] in self._names else self._spellings.get(spelt))

    def at(self, path: Path) -> object:
        """Return the part of the schema at a validator's schema path, following references; None if there is none."""
        value: object = self._schema
        holder: dict[str, Any] = {}
        for step in path:
            if isinstance(value, dict):
                holder = value
            value = follow(value, (str(step),))
            if step == "$ref" and isinstance(value, str):
                value = self.references.resolve(holder, value)
        return value

    def _forget(self) -> None:
        self._places = 0
        self._read: dict[int, tuple[object, dict[str, Any]]] = {}
        self._memory: dict[tuple[object, ...], tuple[object, Any]] = {}

    def _once(self, schema: object, look: Callable[..., _T], *arguments: object) -> _T:
        """Return the result of a method for the schema, calling it once."""
        key = (look.__name__, id(schema), *arguments)
        entry = self._memory.get(key)
        if entry is None:
            entry = self._memory[key] = (schema, look(schema, *arguments))
        seen: _T = entry[1]
        return seen

    def keywords(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema as its dialect reads it; schemas made here are returned whole."""
        entry = self._read.get(id(schema))
        if entry is None:
            dialect = self.references.dialect(schema)
            entry = self._read[id(schema)] = (schema, dialect.read(schema) if dialect else schema)
        return entry[1]

    def fields(self, schema: object) -> ObjectFields:
        """Return the keys that the schema allows or names."""
        return self._once(schema, self._look, dict)

    def _look(self, schema: object, kind: type, seen: dict[int, ObjectFields] | None = None) -> ObjectFields:
        """Compute the keys that the schema of an object names, or those that the schema of a key (`str`) accepts."""
        seen = {} if seen is None else seen
        if not isinstance(schema, dict) or id(schema) in seen:
            return seen.get(id(schema), ObjectFields(shaped=kind is str and schema is False))
        fields = seen[id(schema)] = ObjectFields()
        keywords = self.keywords(schema)
        if kind is str:
            self._take_listed(fields, schema, keywords)
        elif _takes(keywords, dict):
            self._take_own(fields, keywords)
        else:
            return fields
        if _APPLYING.isdisjoint(keywords):
            return fields
        if any(keyword in keywords and not self.references.targets(schema, keyword) for keyword in _DYNAMIC):
            fields.open = True  # the target of the reference is unknown here
        if "$ref" in keywords and not isinstance(self.references.resolve(schema, keywords["$ref"]), (dict, bool)):
            fields.open = True
        for alternatives, certain in self._choices(schema, kind):
            branches = [self._look(alternative, kind, seen) for alternative in alternatives]
            fields.take(branches if certain else [*branches, ObjectFields()])
        return fields

    def _take_own(self, fields: ObjectFields, keywords: dict[str, Any]) -> None:
        """Add what the schema's own keywords define for an object's keys."""
        properties = _dict(keywords.get("properties"))
        patterns = _dict(keywords.get("patternProperties"))
        fields.names.update(_names(keywords))
        fields.patterns.update(patterns)
        # a keyword that only forbids some keys does not define the others
        fields.shaped = any(self._can_hold(each, object) for each in (*properties.values(), *patterns.values()))
        fields.shaped = fields.shaped or bool(_listed(keywords, dict))
        if (rest := _rest(keywords)) is not None:
            # a schema for the other keys defines them by their values
            fields.open = self._can_hold(rest, object)
            fields.shaped = fields.shaped or not fields.open
        if "propertyNames" in keywords:
            # a list of all possible keys, or patterns of some
            keys = self._look(keywords["propertyNames"], str)
            fields.names |= keys.names
            if keys.shaped:
                fields.shaped = True
                fields.open = False
            else:
                fields.patterns |= keys.patterns
            fields.open = fields.open or keys.open
        if isinstance(least := keywords.get("minProperties"), int | float):
            fields.least = least

    def _take_listed(self, fields: ObjectFields, schema: dict[str, Any], keywords: dict[str, Any]) -> None:
        """Add the keys that a schema of keys lists, or matches by a pattern; other limits on keys name none."""
        listed = _listed(keywords, str)
        fields.names.update(listed)
        fields.shaped = bool(listed) or not self._can_hold(schema, str)
        if isinstance(pattern := keywords.get("pattern"), str):
            fields.patterns.add(pattern)

    def _below(self, schema: object, step: str | int) -> object:
        """Return the schema of everything that this one defines for the value at that place; True if nothing."""
        if self._places >= _MOST_PLACES:
            self._forget()
        place = min(step, self.references.longest_tuple) if isinstance(step, int) else step
        return self._once(schema, self._all_below, place)

    def _all_below(self, schema: object, step: str | int) -> object:
        self._places += 1
        parts = self._parts_below(schema, step, {}).values()
        return all_of(parts) if parts else True

    def _parts_below(self, schema: object, step: str | int, seen: dict[int, _Parts]) -> _Parts:
        kind = list if isinstance(step, int) else dict
        if not isinstance(schema, dict):
            return {}
        keywords = self.keywords(schema)
        if not _takes(keywords, kind):
            return {}
        if id(schema) in seen:
            return seen[id(schema)]
        parts = seen[id(schema)] = _parts(*_own_below(keywords, step))
        if _APPLYING.isdisjoint(keywords):
            return parts
        for alternatives, certain in self._choices(schema, kind):
            branches = [branch for each in alternatives if (branch := self._parts_below(each, step, seen))]
            if certain and len(branches) == 1:
                # not wrapped, since it would grow with each level of the instance
                parts.update(branches[0])
            elif branches:
                every = [all_of(branch.values()) for branch in branches]
                parts.update(_parts({"anyOf": every if certain else [*every, True]}))
        return parts

    def _choices(self, schema: dict[str, Any], kind: type) -> Iterator[tuple[list[object], bool]]:
        """Yield lists of schemas: one of each list applies to the value, or possibly none if the flag is False."""
        keywords = self.keywords(schema)
        yield from (([part], True) for part in self.always(schema))
        if kind is not str:
            yield from (([part], False) for part in _sometimes(keywords))
        choices = [_list(keywords.get(keyword)) for keyword in _ALTERNATIVE]
        choices += [self.references.targets(schema, keyword) for keyword in _DYNAMIC if keyword in keywords]
        if "if" in keywords:
            choices.append(self._once(schema, self._conditional, kind))
        for choice in choices:
            yield [alternative for alternative in choice if self._can_hold(alternative, kind)], True

    def always(self, schema: dict[str, Any]) -> Iterator[object]:
        """Return the subschemas that apply to the same value whenever this one does."""
        keywords = self.keywords(schema)
        if "$ref" in keywords:
            yield self.references.resolve(schema, keywords["$ref"])
        yield from _list(keywords.get("allOf"))

    def _conditional(self, schema: dict[str, Any], kind: type) -> list[object]:
        """Return the two ways past an `if`, or one if all values of this type take it; cached, to keep its identity."""
        ways: list[object] = [{"allOf": [schema["if"], schema.get("then", True)]}]
        return ways if self._takes_all(schema["if"], kind) else [*ways, schema.get("else", True)]

    def _can_hold(self, schema: object, kind: type, hops: int = 8) -> bool:
        """Return whether the schema allows values of this type; `object` is any type."""
        # an unresolved reference can be anything
        return self._once(schema, self._leaves_room, kind, hops) if isinstance(schema, dict) else schema is not False

    def _leaves_room(self, schema: dict[str, Any], kind: type, hops: int) -> bool:
        keywords = self.keywords(schema)
        if not _takes(keywords, kind) or ("not" in keywords and self._takes_all(keywords["not"], kind)):
            return False
        if not hops:
            return True
        choices = [_list(keywords[keyword]) for keyword in _ALTERNATIVE if keyword in keywords]
        if not choices and "$ref" not in keywords and "allOf" not in keywords:
            return True
        return all(self._can_hold(part, kind, hops - 1) for part in self.always(schema)) and all(
            any(self._can_hold(each, kind, hops - 1) for each in choice) for choice in choices
        )

    def _takes_all(self, schema: object, kind: type) -> bool:
        """Return whether the schema requires only this type."""
        if not isinstance(schema, dict):
            return schema is True
        keywords = self.keywords(schema)
        return not keywords.keys() - ({"type"} if kind in _TYPES else set()) and _takes(keywords, kind)
