"""
Find fields of an instance that its schema does not name at their place.

For each object, all subschemas that can apply are inspected, in every branch of the schema, even if the instance does
not conform to this branch. An object counts as open, and none of its fields is reported, if its keys are free-form, if
a branch is open, or if a reference leads out of the document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_jsbench.schemas.keywords import all_of
from pytest_jsbench.schemas.references import follow, json_path
from pytest_jsbench.verdicts.patterns import matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pytest_jsbench.schemas.references import Path, References

#: Maximum number of extra fields that a verdict lists.
_MOST_LISTED = 100
#: Property with the URI of a schema, which editors accept at the root of any JSON file; never an extra field.
_POINTER_TO_SCHEMA = "$schema"
#: Maximum number of places in the cache, since free-form names and deep recursion always create new places.
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
    """Keys of an object that a schema allows or names."""

    #: Whether every branch defines which keys the object has.
    shaped: bool = False
    #: Whether some branch allows keys with any name.
    open: bool = False
    #: Minimum number of keys that the schema requires.
    least: float = 0
    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)

    def add_alternatives(self, alternatives: Sequence[ObjectFields]) -> None:
        """Add the fields of several alternative branches."""
        for other in alternatives:
            self.open = self.open or other.open
            self.names |= other.names
            self.patterns |= other.patterns
        self.shaped = self.shaped or (bool(alternatives) and all(other.shaped for other in alternatives))
        self.least = max(self.least, min((other.least for other in alternatives), default=0))

    def find_unnamed_keys(self, instance: dict[str, Any]) -> set[str]:
        """Return the keys of an object that the schema should name but does not."""
        must_invent = self.least > len(self.names) and not self.patterns
        if self.open or not self.shaped or must_invent or self.names.issuperset(instance):
            return set()
        others = instance.keys() - self.names
        others.difference_update([key for key in others if any(matcher(pattern)(key) for pattern in self.patterns)])
        return others


def index_by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Return a mapping from each name in lower case and without white space to the name itself."""
    return {normalize_spelling(name): name for name in sorted(names, reverse=True)}


def normalize_spelling(name: str) -> str:
    """Return the name in lower case without white space."""
    return "".join(name.split()).casefold()


def all_names(schemas: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return all names that the schemas give to fields, including names in keywords that the dialect ignores."""
    names: set[str] = set()
    for schema in schemas:
        # checked first, since most subschemas of a large document name no fields
        if not _NAMING.isdisjoint(schema):
            names.update(_named_keys(schema), _find_listed_values(_dict(schema.get("propertyNames")), str))
    return frozenset(names)


_T = TypeVar("_T")
#: Subschemas by identity, so that a subschema is included once even if several references lead to it.
_Parts = dict[int, object]


def _parts(*schemas: object) -> _Parts:
    return {id(schema): schema for schema in schemas}


def _named_keys(keywords: dict[str, Any]) -> Iterator[str]:
    """Yield the names that the schema's keywords give to fields, without the keywords of its subschemas."""
    yield from _dict(keywords.get("properties"))
    yield from _strings(keywords.get("required"))
    for keyword in _DEPENDENT:
        if keyword in keywords:
            for name, needed in _dict(keywords[keyword]).items():
                yield name
                yield from _strings(needed)
    for value in _find_listed_values(keywords, dict):
        yield from value


def _find_listed_values(keywords: dict[str, Any], kind: type) -> list[Any]:
    """Return the values of this type in `enum` and `const`."""
    if "enum" not in keywords and "const" not in keywords:
        return []
    return [value for value in (*_list(keywords.get("enum")), keywords.get("const")) if isinstance(value, kind)]


def _schema_of_other_keys(keywords: dict[str, Any]) -> object:
    """Return the schema for properties that no other keyword describes; None if there is no such schema."""
    return keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))


def _own_subschemas_at(keywords: dict[str, Any], step: str | int) -> list[object]:
    """Return the subschemas in this schema's keywords that apply to the value at a key or an index."""
    if isinstance(step, int):
        return _own_item_subschemas(keywords, step)
    properties = _dict(keywords.get("properties"))
    patterns = _dict(keywords.get("patternProperties"))
    schemas = [properties[step]] if step in properties else []
    schemas += [subschema for pattern, subschema in patterns.items() if matcher(pattern)(step)]
    rest = _schema_of_other_keys(keywords)
    return schemas if schemas or rest is None else [rest]


def _own_item_subschemas(keywords: dict[str, Any], index: int) -> list[object]:
    items = keywords.get("items")
    contains = keywords.get("contains")
    first = items if isinstance(items, list) else _list(keywords.get("prefixItems"))
    rest = keywords.get("additionalItems") if isinstance(items, list) else items
    schemas = [first[index]] if index < len(first) else [rest, keywords.get("unevaluatedItems")]
    if contains is not None:
        schemas.append({"anyOf": [contains, True]})
    return [each for each in schemas if each is not None]


def _conditional_subschemas(keywords: dict[str, Any]) -> Iterator[object]:
    """
    Yield the subschemas that apply to the same value under a condition; `then` and `else` only if
    there is an `if`.
    """
    for keyword in _CONDITIONAL if "if" in keywords else ():
        if keyword in keywords:
            yield keywords[keyword]
    for keyword in ("dependentSchemas", "dependencies"):
        for subschema in _dict(keywords.get(keyword)).values():
            if isinstance(subschema, dict):
                yield subschema


def _allows_type(keywords: dict[str, Any], kind: type) -> bool:
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
    """Kinds of extra fields in an answer."""

    #: The schema uses the name of each extra field elsewhere.
    MISPLACED = "misplaced"
    #: The schema does not use the name of at least one extra field anywhere.
    UNNAMED = "unnamed"


class ExtraFields:
    """Extra fields of one instance, in the order of the instance; fields inside an extra field are not included."""

    def __init__(self, instance: object) -> None:
        #: The instance without its extra fields; parts without extra fields are not copied.
        self.rest = instance
        #: Number of extra fields for each reason.
        self.count: dict[ExtraFieldReason, int] = {}
        self._stored: list[tuple[Path, ExtraFieldReason]] = []

    def add(self, path: Path, reason: ExtraFieldReason) -> None:
        """Count an extra field; its path is stored unless `_MOST_LISTED` paths with this reason are already stored."""
        self.count[reason] = self.count.get(reason, 0) + 1
        if self.count[reason] <= _MOST_LISTED:
            self._stored.append((path, reason))

    @property
    def reason(self) -> ExtraFieldReason | None:
        """`unnamed` if any extra field is unnamed, and else `misplaced`; None if there are no extra fields."""
        if not self.count:
            return None
        return ExtraFieldReason.UNNAMED if ExtraFieldReason.UNNAMED in self.count else ExtraFieldReason.MISPLACED

    def first(self, reason: ExtraFieldReason) -> list[Path]:
        """Return the stored paths with this reason."""
        return [path for path, own in self._stored if own is reason]

    def list_paths(self, reason: ExtraFieldReason | None = None) -> tuple[str, ...]:
        """Return the stored fields as JSON paths; if a reason is given, only the fields with this reason."""
        return tuple(json_path(path) for path, own in self._stored[:_MOST_LISTED] if reason in {None, own})


class FieldNames:
    """
    Names of fields in one schema, with a cache of the subschemas that can apply at each place.

    The cache is keyed by object identity, so it also keeps the objects alive.
    """

    def __init__(self, references: References) -> None:
        self._schema = references.root
        self.references = references
        self._clear_cache()

    @cached_property
    def _all_names(self) -> frozenset[str]:
        return all_names(self.references.schemas)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        return index_by_spelling(self._all_names)

    def extra_fields(self, instance: object, ignored: Collection[str] = ()) -> ExtraFields:
        """Return the fields of the instance that the schema does not name at their place."""
        fields = ExtraFields(instance)
        if isinstance(instance, (dict, list)):
            try:
                fields.rest = self._remove_extra_fields(self._schema, instance, (), fields, frozenset(ignored))
            except RecursionError:
                # if a chain of references is too deep to be resolved, no field is reported
                return ExtraFields(instance)
        return fields

    def _remove_extra_fields(
        self, schema: object, value: Any, path: Path, fields: ExtraFields, ignored: frozenset[str]
    ) -> Any:
        """Add the extra fields of an object or array to `fields`, and return the value without them."""
        extra: set[str] = set()
        steps: Iterable[tuple[str | int, object]]
        if isinstance(value, dict):
            if extra := self.fields(schema).find_unnamed_keys(value):
                extra.difference_update(ignored, () if path else (_POINTER_TO_SCHEMA,))
            steps = value.items()
        else:
            steps = enumerate(value)
        changed: dict[str | int, object] = {}
        for step, child in steps:
            if step in extra:
                reason = ExtraFieldReason.MISPLACED if step in self._all_names else ExtraFieldReason.UNNAMED
                fields.add((*path, step), reason)
            elif child and isinstance(child, (dict, list)):
                below = self._subschema_at(schema, step)
                # if no schema applies to a value, its fields are not extra
                if isinstance(below, dict):
                    rest = self._remove_extra_fields(below, child, (*path, step), fields, ignored)
                    if rest is not child:
                        changed[step] = rest
        if not (extra or changed):
            return value
        if isinstance(value, list):
            return [changed.get(index, child) for index, child in enumerate(value)]
        return {key: changed.get(key, child) for key, child in value.items() if key not in extra}

    def find_similar_name(self, path: Path) -> str | None:
        """
        Return a name in the schema that differs from an extra field only in white space or case, preferably a name of
        the same object; None if there is no such name.
        """
        schema: object = self._schema
        for step in path[:-1]:
            schema = self._subschema_at(schema, step)
        same_spelling = normalize_spelling(str(path[-1]))
        here = index_by_spelling(self.fields(schema).names).get(same_spelling)
        return here or (None if path[-1] in self._all_names else self._spellings.get(same_spelling))

    def find_subschema(self, path: Path) -> object:
        """Return the part of the schema at a validator's path, following references; None if there is no such part."""
        value: object = self._schema
        holder: dict[str, Any] = {}
        for step in path:
            if isinstance(value, dict):
                holder = value
            value = follow(value, (str(step),))
            if step == "$ref" and isinstance(value, str):
                value = self.references.resolve(holder, value)
        return value

    def _clear_cache(self) -> None:
        self._places = 0
        self._read: dict[int, tuple[object, dict[str, Any]]] = {}
        self._results: dict[tuple[object, ...], tuple[object, Any]] = {}

    def _call_cached(self, schema: object, method: Callable[..., _T], *arguments: object) -> _T:
        """Return the cached result of a method for the schema, calling the method on first use."""
        key = (method.__name__, id(schema), *arguments)
        entry = self._results.get(key)
        if entry is None:
            entry = self._results[key] = (schema, method(schema, *arguments))
        seen: _T = entry[1]
        return seen

    def keywords(self, schema: dict[str, Any]) -> dict[str, Any]:
        """
        Return the keywords of the schema that its dialect defines; of a schema that this class has combined from
        subschemas, return all keywords.
        """
        entry = self._read.get(id(schema))
        if entry is None:
            dialect = self.references.dialect(schema)
            entry = self._read[id(schema)] = (schema, dialect.read(schema) if dialect else schema)
        return entry[1]

    def fields(self, schema: object) -> ObjectFields:
        """Return the keys that the schema allows or names in an object."""
        return self._call_cached(schema, self._collect_fields, dict)

    def _collect_fields(
        self, schema: object, kind: type, visited: dict[int, ObjectFields] | None = None
    ) -> ObjectFields:
        """
        Compute the keys of objects that a schema names. With `dict` as the kind, the schema applies to the objects;
        with `str`, the schema applies to their keys (`propertyNames`).
        """
        visited = {} if visited is None else visited
        if not isinstance(schema, dict) or id(schema) in visited:
            return visited.get(id(schema), ObjectFields(shaped=kind is str and schema is False))
        fields = visited[id(schema)] = ObjectFields()
        keywords = self.keywords(schema)
        if kind is str:
            self._add_listed_keys(fields, schema, keywords)
        elif _allows_type(keywords, dict):
            self._add_own_fields(fields, keywords)
        else:
            return fields
        if _APPLYING.isdisjoint(keywords):
            return fields
        if any(keyword in keywords and not self.references.targets(schema, keyword) for keyword in _DYNAMIC):
            fields.open = True  # the target of the reference is unknown here
        if "$ref" in keywords and not isinstance(self.references.resolve(schema, keywords["$ref"]), (dict, bool)):
            fields.open = True
        for alternatives, certain in self._choices(schema, kind):
            branches = [self._collect_fields(alternative, kind, visited) for alternative in alternatives]
            fields.add_alternatives(branches if certain else [*branches, ObjectFields()])
        return fields

    def _add_own_fields(self, fields: ObjectFields, keywords: dict[str, Any]) -> None:
        """Add the keys that the schema's keywords name or allow in an object, without the keywords of subschemas."""
        properties = _dict(keywords.get("properties"))
        patterns = _dict(keywords.get("patternProperties"))
        fields.names.update(_named_keys(keywords))
        fields.patterns.update(patterns)
        # a keyword that only forbids some keys does not define the other keys
        fields.shaped = any(self._may_allow_type(each, object) for each in (*properties.values(), *patterns.values()))
        fields.shaped = fields.shaped or bool(_find_listed_values(keywords, dict))
        if (rest := _schema_of_other_keys(keywords)) is not None:
            # a schema for all other keys either forbids them or allows any of them
            fields.open = self._may_allow_type(rest, object)
            fields.shaped = fields.shaped or not fields.open
        if "propertyNames" in keywords:
            # `propertyNames` may list all possible keys, or match some keys by a pattern
            keys = self._collect_fields(keywords["propertyNames"], str)
            fields.names |= keys.names
            if keys.shaped:
                fields.shaped = True
                fields.open = False
            else:
                fields.patterns |= keys.patterns
            fields.open = fields.open or keys.open
        if isinstance(least := keywords.get("minProperties"), int | float):
            fields.least = least

    def _add_listed_keys(self, fields: ObjectFields, schema: dict[str, Any], keywords: dict[str, Any]) -> None:
        """Add the keys that a schema in `propertyNames` lists or matches; other constraints on keys name no keys."""
        listed = _find_listed_values(keywords, str)
        fields.names.update(listed)
        fields.shaped = bool(listed) or not self._may_allow_type(schema, str)
        if isinstance(pattern := keywords.get("pattern"), str):
            fields.patterns.add(pattern)

    def _subschema_at(self, schema: object, step: str | int) -> object:
        """
        Return the combined schema for the value at a key or an index; True if the schema does not
        describe this value.
        """
        if self._places >= _MOST_PLACES:
            self._clear_cache()
        place = min(step, self.references.longest_tuple) if isinstance(step, int) else step
        return self._call_cached(schema, self._combine_subschemas_at, place)

    def _combine_subschemas_at(self, schema: object, step: str | int) -> object:
        self._places += 1
        parts = self._collect_subschemas_at(schema, step, {}).values()
        return all_of(parts) if parts else True

    def _collect_subschemas_at(self, schema: object, step: str | int, seen: dict[int, _Parts]) -> _Parts:
        kind = list if isinstance(step, int) else dict
        if not isinstance(schema, dict):
            return {}
        keywords = self.keywords(schema)
        if not _allows_type(keywords, kind):
            return {}
        if id(schema) in seen:
            return seen[id(schema)]
        parts = seen[id(schema)] = _parts(*_own_subschemas_at(keywords, step))
        if _APPLYING.isdisjoint(keywords):
            return parts
        for alternatives, certain in self._choices(schema, kind):
            branches = [branch for each in alternatives if (branch := self._collect_subschemas_at(each, step, seen))]
            if certain and len(branches) == 1:
                # a single branch is not wrapped in `anyOf`, since wrappers would accumulate with each level
                parts.update(branches[0])
            elif branches:
                combined = [all_of(branch.values()) for branch in branches]
                parts.update(_parts({"anyOf": combined if certain else [*combined, True]}))
        return parts

    def _choices(self, schema: dict[str, Any], kind: type) -> Iterator[tuple[list[object], bool]]:
        """
        Yield lists of alternative subschemas, each with a flag: whether at least one subschema in the
        list always applies.
        """
        keywords = self.keywords(schema)
        yield from (([part], True) for part in self.always(schema))
        if kind is not str:
            yield from (([part], False) for part in _conditional_subschemas(keywords))
        choices = [_list(keywords.get(keyword)) for keyword in _ALTERNATIVE]
        choices += [self.references.targets(schema, keyword) for keyword in _DYNAMIC if keyword in keywords]
        if "if" in keywords:
            choices.append(self._call_cached(schema, self._conditional, kind))
        for choice in choices:
            yield [alternative for alternative in choice if self._may_allow_type(alternative, kind)], True

    def always(self, schema: dict[str, Any]) -> Iterator[object]:
        """Yield the subschemas that always apply to the same value as this schema."""
        keywords = self.keywords(schema)
        if "$ref" in keywords:
            yield self.references.resolve(schema, keywords["$ref"])
        yield from _list(keywords.get("allOf"))

    def _conditional(self, schema: dict[str, Any], kind: type) -> list[object]:
        """
        Return one schema for `if` with `then` and one for `else`, or only the first if all values of this type satisfy
        `if`.

        The result must be cached, since other caches use the id() of these schemas as keys.
        """
        branches: list[object] = [{"allOf": [schema["if"], schema.get("then", True)]}]
        return branches if self._allows_all_of_type(schema["if"], kind) else [*branches, schema.get("else", True)]

    def _may_allow_type(self, schema: object, kind: type, hops: int = 8) -> bool:
        """Return whether the schema allows values of this type; `object` stands for any type."""
        # a reference that cannot be resolved may allow any value
        return (
            self._call_cached(schema, self._check_allows_type, kind, hops)
            if isinstance(schema, dict)
            else schema is not False
        )

    def _check_allows_type(self, schema: dict[str, Any], kind: type, hops: int) -> bool:
        keywords = self.keywords(schema)
        if not _allows_type(keywords, kind) or ("not" in keywords and self._allows_all_of_type(keywords["not"], kind)):
            return False
        if not hops:
            return True
        choices = [_list(keywords[keyword]) for keyword in _ALTERNATIVE if keyword in keywords]
        if not choices and "$ref" not in keywords and "allOf" not in keywords:
            return True
        return all(self._may_allow_type(part, kind, hops - 1) for part in self.always(schema)) and all(
            any(self._may_allow_type(each, kind, hops - 1) for each in choice) for choice in choices
        )

    def _allows_all_of_type(self, schema: object, kind: type) -> bool:
        """Return whether the schema allows every value of this type."""
        if not isinstance(schema, dict):
            return schema is True
        keywords = self.keywords(schema)
        return not keywords.keys() - ({"type"} if kind in _TYPES else set()) and _allows_type(keywords, kind)
