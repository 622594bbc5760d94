"""
Find the branch of a failed `anyOf` or `oneOf` that an answer was meant for, and the errors of the answer in this
branch.

The nearest branch allows the type of the value, matches its constants, names most of its fields, and fails deepest
inside the value. If a branch contains another failed `anyOf` or `oneOf`, its nearest branch is found too.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.references import Path, json_path, json_pointer
from pytest_jsbench.verdicts.extra_fields import FieldNames
from pytest_jsbench.verdicts.patterns import matcher
from pytest_jsbench.verdicts.verdicts import Violation

#: Maximum number of errors that are examined for one message, since nested unions can have very many.
_MOST_FAULTS = 3_000
_UNIONS = frozenset({"anyOf", "oneOf"})
#: Maximum length in characters of the message about the union itself.
_LONGEST_OF_UNION = 100
#: Maximum length in characters of the message about the error in the nearest branch.
_LONGEST_MESSAGE = 120
#: Maximum length of a branch's name, in characters.
_LONGEST_NAME = 40
#: Maximum number of inner branches that a message names.
_MOST_NAMED = 3
#: Maximum depth of a property whose constants are used to tell branches apart.
_DEEPEST_CONSTANT = 2
#: Maximum number of constants per property; a property with more constants is ignored.
_MOST_CONSTANTS = 100
#: Maximum number of subschemas that are searched for the constants of one branch.
_MOST_READ = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedError:
    """An error that a validator reports: a place where an instance violates a schema."""

    keyword: str
    #: Path of the wrong value, from the root of the instance.
    place: Path
    #: Path of the keyword, from the root of the schema; depending on the validator, it may contain `$ref` as a step.
    schema_path: Path
    message: str
    #: Allowed values of `enum` or `const`; None for other keywords.
    allowed: Sequence[object] | None = None
    #: Whether the error is that a `false` schema allows no value.
    forbidden: bool = False
    #: Schemas of the branches of a failed `anyOf` or `oneOf`; None if they have to be looked up by `schema_path`.
    schemas: Sequence[object] | None = None
    #: Function that returns the errors in each branch of a failed `anyOf` or `oneOf`.
    read_branches: Callable[[], Sequence[Sequence[ReportedError]]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A branch of a union (`anyOf` or `oneOf`), with the errors of the value in this branch."""

    number: int
    schema: object
    #: Schema of the branch, followed by the schemas of the nearest inner branches that apply to the same value.
    schemas: tuple[object, ...]
    faults: Sequence[ReportedError]
    #: Nearest branch of the first failed union inside this branch, then the nearest branches of nested unions.
    inner: tuple[_Branch, ...] = ()

    @property
    def name(self) -> str:
        """Number of the branch, followed by the name of its definition or its title."""
        schema = self.schema if isinstance(self.schema, Mapping) else {}
        reference = schema.get("$ref")
        title = schema.get("title")
        name = reference.rpartition("/")[2] if isinstance(reference, str) else title
        suffix = f" ({printable(name, _LONGEST_NAME)})" if isinstance(name, str) and name else ""
        return f"branch {self.number}{suffix}"


#: Allowed values of a branch's properties as JSON texts, by the path of the property.
Constants = Mapping[Path, frozenset[str]]


class NearestBranches:
    """Search for the nearest branch of each `anyOf` or `oneOf` that one instance violates."""

    def __init__(self, instance: object, names: FieldNames) -> None:
        self._instance = instance
        self._names = names
        self._remaining_faults = _MOST_FAULTS
        #: Cache of constants by the id() of each schema of a branch; the whole schema keeps these objects alive.
        self._cache: dict[tuple[int, ...], Constants] = {}

    def violation(self, fault: ReportedError) -> Violation:
        """Return the violation for an error; if a union failed, the message names the nearest branch."""
        fault = self._with_property_names(fault)
        message = fault.message
        if fault.keyword in _UNIONS and (nearest := self.describe(fault)):
            message = f"{printable(message, _LONGEST_OF_UNION, cut='middle')}; {nearest}"
        return Violation(
            keyword=fault.keyword,
            instance_path=json_path(fault.place),
            schema_path=json_pointer(fault.schema_path),
            message=printable(message, cut="middle"),
        )

    def describe(self, union: ReportedError) -> str:
        """Describe the nearest branch and its first error; empty if the union is too large to examine."""
        if self._remaining_faults < 0:
            return ""
        fitting = [str(number) for number, faults in enumerate(union.read_branches()) if not faults]
        if len(fitting) > 1:
            return f"the value is valid under the branches {', '.join(fitting[:_MOST_NAMED])}"
        nearest = self._nearest(union)
        if nearest is None:
            return ""
        chain = ", ".join(branch.name for branch in (nearest, *nearest.inner)[:_MOST_NAMED])
        if not nearest.faults:
            return f"nearest is {chain}"
        first = nearest.faults[0]
        more = len(nearest.faults) - 1
        message = printable(first.message, _LONGEST_MESSAGE, cut="middle")
        return f"nearest is {chain}: {json_path(first.place)}: {message}" + (f" (and {more} more)" if more else "")

    def _with_property_names(self, fault: ReportedError) -> ReportedError:
        """
        Return the error with numeric property names in its path as strings, since jsonschema-rs reports them as
        indexes.
        """
        if not any(isinstance(step, int) for step in fault.place):
            return fault
        value: Any = self._instance
        place: list[str | int] = []
        for step in fault.place:
            place.append(str(step) if isinstance(value, dict) else step)
            value = _value_at(value, place[-1:])
        return replace(fault, place=tuple(place))

    def _nearest(self, union: ReportedError) -> _Branch | None:
        """Return the nearest branch; None if the error has no branches, or too many errors to examine."""
        if self._remaining_faults < 0:
            return None
        faults = [[self._with_property_names(fault) for fault in branch] for branch in union.read_branches()]
        self._remaining_faults -= sum(map(len, faults))
        if not faults or self._remaining_faults < 0:
            return None
        pairs = zip(self._branch_schemas(union, len(faults)), faults, strict=True)
        branches = [self._replace_inner_unions(number, branch, union) for number, branch in enumerate(pairs)]
        constants = self._find_distinguishing_constants(branches)
        rating = _Rating(_value_at(self._instance, union.place), len(union.place), constants, self._names)
        return rating.with_constants_first(min(branches, key=rating.distance))

    def _branch_schemas(self, union: ReportedError, number: int) -> list[object]:
        """Return the schema of each branch, or a list of None if the schemas are unknown."""
        listed = self._names.find_subschema(union.schema_path) if union.schemas is None else union.schemas
        return list(listed) if isinstance(listed, list) and len(listed) == number else [None] * number

    def _replace_inner_unions(
        self, number: int, branch: tuple[object, Sequence[ReportedError]], union: ReportedError
    ) -> _Branch:
        """Return a branch in which each failed inner union is replaced by the errors in its nearest branch."""
        schema, faults = branch
        leaves: list[ReportedError] = []
        schemas = [schema]
        inner: tuple[_Branch, ...] = ()
        for fault in faults:
            nearest = self._nearest(fault)
            if nearest is None:
                leaves.append(fault)
                continue
            if not leaves:
                inner = (nearest, *nearest.inner)
            if fault.place == union.place:
                schemas += nearest.schemas
            leaves += nearest.faults
        return _Branch(number=number, schema=schema, schemas=tuple(schemas), faults=leaves, inner=inner)

    def _find_distinguishing_constants(self, branches: Sequence[_Branch]) -> list[Constants]:
        """Return, for each branch, the constants of the properties for which the branches allow different values."""
        constants = [self._constants(branch.schemas) for branch in branches]
        paths = {path for own in constants for path in own}
        differing = set[Path]()
        for path in paths:
            sets = [own[path] for own in constants if path in own]
            if len(sets) > 1 and len(set(sets)) > 1:
                differing.add(path)
        return [{path: values for path, values in own.items() if path in differing} for own in constants]

    def _constants(self, schemas: Sequence[object]) -> Constants:
        """Return the allowed values of each property that the branch limits by `const` or `enum`; cached per branch."""
        key = tuple(map(id, schemas))
        if key not in self._cache:
            self._cache[key] = self._read_constants(schemas)
        return self._cache[key]

    def _read_constants(self, schemas: Sequence[object]) -> Constants:
        constants: dict[Path, frozenset[str]] = {}
        pending: list[tuple[Path, object]] = [((), schema) for schema in schemas]
        seen: set[tuple[Path, int]] = set()
        while pending and len(seen) < _MOST_READ:
            path, part = pending.pop()
            if not isinstance(part, dict) or (path, id(part)) in seen:
                continue
            seen.add((path, id(part)))
            keywords = self._names.keywords(part)
            listed = [keywords["const"]] if "const" in keywords else keywords.get("enum")
            if path and isinstance(listed, list) and len(listed) <= _MOST_CONSTANTS:
                constants[path] = frozenset(map(_json_key, listed)) & constants.get(
                    path, frozenset(map(_json_key, listed))
                )
            pending += ((path, other) for other in self._names.always(part))
            properties = keywords.get("properties")
            if len(path) < _DEEPEST_CONSTANT and isinstance(properties, dict):
                pending += (((*path, name), inner) for name, inner in properties.items())
        return constants


class _Rating:
    """Ranking of a union's branches by their distance from the value that violates the union."""

    def __init__(self, value: object, depth: int, constants: Sequence[Constants], names: FieldNames) -> None:
        self._value = value
        #: Number of path steps from the root of the instance to the value.
        self._depth = depth
        self._constants = constants
        self._distinguishing_paths = {path for own in constants for path in own}
        self._names = names

    def distance(self, branch: _Branch) -> tuple[int, ...]:
        """
        Return a sort key for a branch: type, distinguishing constants, unnamed fields, missing fields, then other
        errors.
        """
        faults = branch.faults
        at_value = [fault for fault in faults if len(fault.place) == self._depth]
        return (
            any(map(self._is_type_error, at_value)),
            *self._count_constants(branch),
            self._count_unnamed(branch),
            sum(fault.keyword == "required" for fault in at_value),
            sum(fault.keyword == "const" for fault in faults),
            -min((len(fault.place) for fault in faults), default=self._depth),
            len(faults),
        )

    def with_constants_first(self, branch: _Branch) -> _Branch:
        """
        Return the branch with the errors about distinguishing constants first.

        If every branch lists values for the property of the first error, its message contains the values of all
        branches.
        """
        wrong = {path for path, is_right in self._compare_constants(branch) if not is_right}
        distinguishing = [fault for fault in branch.faults if self._path(fault) in wrong]
        if not distinguishing:
            return branch
        others = [fault for fault in branch.faults if self._path(fault) not in wrong]
        first = replace(distinguishing[0], message=self._message_with_all_values(distinguishing[0]))
        inner = branch.inner if branch.faults[0] is distinguishing[0] else ()
        return replace(branch, faults=[first, *distinguishing[1:], *others], inner=inner)

    def _path(self, fault: ReportedError) -> Path:
        return fault.place[self._depth :]

    def _message_with_all_values(self, fault: ReportedError) -> str:
        """
        Return the message of an error; if all branches list values for its property, the message contains all these
        values.
        """
        path = self._path(fault)
        if not all(path in own for own in self._constants):
            return fault.message
        texts = dict.fromkeys(text for own in self._constants for text in sorted(own[path]))
        return enum_message(_value_at(self._value, path), [json.loads(text) for text in texts])

    def _is_type_error(self, fault: ReportedError) -> bool:
        """Return whether the error means that the branch does not allow values of this type."""
        if fault.allowed is not None:
            return all(json_type(value) != json_type(self._value) for value in fault.allowed)
        return fault.forbidden or fault.keyword == "type"

    def _compare_constants(self, branch: _Branch) -> Iterator[tuple[Path, bool]]:
        """Yield each distinguishing property that is present or in an error, and whether its value is allowed."""
        own = self._constants[branch.number]
        for path in self._distinguishing_paths:
            value = _value_at(self._value, path, default=_ABSENT)
            if path in own and value is not _ABSENT:
                yield path, _json_key(value) in own[path]
            elif any(self._path(fault) == path for fault in branch.faults):
                yield path, False

    def _count_constants(self, branch: _Branch) -> tuple[int, int]:
        compared = [is_right for _, is_right in self._compare_constants(branch)]
        return compared.count(False), -compared.count(True)

    def _count_unnamed(self, branch: _Branch) -> int:
        """
        Count the fields of the value that the branch neither names nor allows by a pattern or by a
        schema for any name.
        """
        if not isinstance(self._value, dict) or not isinstance(branch.schema, dict):
            return 0
        fields = self._names.fields(branch.schema)
        is_map = self._is_map(branch.schema)
        if not (fields.names or fields.patterns or fields.shaped or is_map):
            return 0  # the branch does not define which fields exist
        # if a field's whole value is wrong, the field's name probably matches a pattern only by chance
        broken = {fault.place[self._depth] for fault in branch.faults if len(fault.place) == self._depth + 1}
        others = [name for name in self._value if name not in fields.names]
        return sum(name in broken or not (is_map or _matches_any(name, fields.patterns)) for name in others)

    def _is_map(self, schema: dict[str, Any]) -> bool:
        """Return whether the schema allows fields with any name, and has a schema for their values."""
        pending: list[object] = [schema]
        seen: set[int] = set()
        while pending:
            part = pending.pop()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            rest = self._names.keywords(part).get("additionalProperties")
            if isinstance(rest, dict) and rest:
                return True
            pending += self._names.always(part)
        return False


_ABSENT = object()


def _matches_any(name: str, patterns: set[str]) -> bool:
    return any(matcher(pattern)(name) for pattern in patterns)


def _json_key(value: object) -> str:
    """Return a text that is equal for equal JSON values only."""
    return json.dumps(value, sort_keys=True, default=float)


def _value_at(value: Any, path: Sequence[str | int], default: object = None) -> Any:
    """Return the value at a path in an instance; `default` if there is no such place."""
    for step in path:
        is_member = isinstance(value, dict) and step in value
        is_item = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not (is_member or is_item):
            return default
        value = value[step]
    return value


#: Maximum length in characters of the list of allowed values in a message.
_LONGEST_LIST = 200
#: Maximum length in characters of one value in a message.
_LONGEST_VALUE = 60
#: Maximum number of allowed values that are searched for the most similar one.
_MOST_COMPARED = 1_000


def enum_message(wrong_value: object, allowed: Sequence[object]) -> str:
    """Return a message with the wrong value and as many allowed values as fit, the most similar first."""
    texts = [_as_json(value) for value in _nearest_first(wrong_value, allowed)]
    fitting = [texts[0]] if texts else []
    length = sum(map(len, fitting))
    for text in texts[1:]:
        length += len(text) + 2
        if length > _LONGEST_LIST:
            break
        fitting.append(text)
    more = len(texts) - len(fitting)
    return f"{_as_json(wrong_value)} is not one of {', '.join(fitting)}" + (f" and {more} more" if more else "")


def _as_json(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=float), _LONGEST_VALUE, cut="middle")


def _nearest_first(wrong_value: object, allowed: Sequence[object]) -> list[object]:
    """Move the allowed string that is most similar to the wrong one to the front, if any string is similar."""
    if not isinstance(wrong_value, str):
        return list(allowed)
    lowered = {value.lower(): value for value in reversed(allowed[:_MOST_COMPARED]) if isinstance(value, str)}
    near = difflib.get_close_matches(wrong_value[:_LONGEST_VALUE].lower(), lowered, n=1)
    if not near:
        return list(allowed)
    first = lowered[near[0]]
    return [first, *(value for value in allowed if value is not first)]
