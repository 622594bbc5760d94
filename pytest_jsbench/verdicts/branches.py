"""
Find the branch of a failed `anyOf` or `oneOf` that an answer was meant for, and what is wrong with the answer there.

It is the branch of the right type whose constants the answer has, which names most of its fields, and whose faults are
the deepest. Inner `anyOf` and `oneOf` are followed to the fault that no branch explains any further.
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

#: Maximum number of faults that are examined for one message; a union of unions can have very many.
_MOST_FAULTS = 3_000
_UNIONS = frozenset({"anyOf", "oneOf"})
#: Maximum length of the text about the union, in characters.
_LONGEST_OF_UNION = 100
#: Maximum length of the fault in its nearest branch, in characters.
_LONGEST_MESSAGE = 120
#: Maximum length of a branch's name, in characters.
_LONGEST_NAME = 40
#: Maximum number of inner branches that a message names.
_MOST_NAMED = 3
#: Maximum depth of a property whose constants distinguish branches.
_DEEPEST_CONSTANT = 2
#: Maximum number of values of such a property.
_MOST_CONSTANTS = 100
#: Maximum number of schemas of one branch that are read for constants.
_MOST_READ = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedError:
    """One error of a validator: a place where an instance violates a schema."""

    keyword: str
    #: Place of the wrong value, from the root of the instance.
    place: Path
    #: Place of the keyword, from the root of the schema; references are followed or are steps of it.
    schema_path: Path
    message: str
    #: Allowed values of `enum` or `const`; None for other keywords.
    allowed: Sequence[object] | None = None
    #: Whether a `false` schema allows no value there.
    forbidden: bool = False
    #: Schemas of the branches of a failed `anyOf` or `oneOf`; None to look them up by the path.
    schemas: Sequence[object] | None = None
    #: Reads the faults in each branch of a failed `anyOf` or `oneOf`.
    read_branches: Callable[[], Sequence[Sequence[ReportedError]]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A branch of a union, with its faults that have no branches themselves."""

    number: int
    schema: object
    #: Schema of the branch, and of the nearest branches inside it for the same value.
    schemas: tuple[object, ...]
    faults: Sequence[ReportedError]
    #: The nearest branches inside it, outermost first, of the first union.
    inner: tuple[_Branch, ...] = ()

    @property
    def name(self) -> str:
        """The branch's number, followed by the name of its referenced definition or its title."""
        schema = self.schema if isinstance(self.schema, Mapping) else {}
        reference = schema.get("$ref")
        title = schema.get("title")
        name = reference.rpartition("/")[2] if isinstance(reference, str) else title
        named = f" ({printable(name, _LONGEST_NAME)})" if isinstance(name, str) and name else ""
        return f"branch {self.number}{named}"


#: Possible values of a branch's properties, as JSON texts.
Constants = Mapping[Path, frozenset[str]]


class NearestBranches:
    """Finds the nearest branch of each union that one instance violates."""

    def __init__(self, instance: object, names: FieldNames) -> None:
        self._instance = instance
        self._names = names
        self._left = _MOST_FAULTS
        #: Constants by the identities of a branch's schemas, which the schema keeps in memory.
        self._known: dict[tuple[int, ...], Constants] = {}

    def violation(self, fault: ReportedError) -> Violation:
        """Describe a fault, with the nearest branch if it is of a union."""
        fault = self._placed(fault)
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
        """Name the nearest branch and what is wrong in it; empty if the union is too large to examine."""
        if self._left < 0:
            return ""
        fitting = [str(number) for number, faults in enumerate(union.read_branches()) if not faults]
        if len(fitting) > 1:
            return f"it is valid under the branches {', '.join(fitting[:_MOST_NAMED])}"
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

    def _placed(self, fault: ReportedError) -> ReportedError:
        """Write names that are digits as names; jsonschema-rs writes them as indexes."""
        if not any(isinstance(step, int) for step in fault.place):
            return fault
        value: Any = self._instance
        place: list[str | int] = []
        for step in fault.place:
            place.append(str(step) if isinstance(value, dict) else step)
            value = _at(value, place[-1:])
        return replace(fault, place=tuple(place))

    def _nearest(self, union: ReportedError) -> _Branch | None:
        """Return the nearest branch; None if the fault has no branches, or too many faults to examine."""
        if self._left < 0:
            return None
        faults = [[self._placed(fault) for fault in branch] for branch in union.read_branches()]
        self._left -= sum(map(len, faults))
        if not faults or self._left < 0:
            return None
        pairs = zip(self._schemas(union, len(faults)), faults, strict=True)
        branches = [self._followed(number, branch, union) for number, branch in enumerate(pairs)]
        constants = self._telling(branches)
        rating = _Rating(_at(self._instance, union.place), len(union.place), constants, self._names)
        return rating.with_constants_first(min(branches, key=rating.distance))

    def _schemas(self, union: ReportedError, number: int) -> list[object]:
        """Return the schema of each branch; None if it is not found."""
        listed = self._names.at(union.schema_path) if union.schemas is None else union.schemas
        return list(listed) if isinstance(listed, list) and len(listed) == number else [None] * number

    def _followed(self, number: int, branch: tuple[object, Sequence[ReportedError]], union: ReportedError) -> _Branch:
        """Replace each failed union inside a branch by the faults in its nearest branch."""
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

    def _telling(self, branches: Sequence[_Branch]) -> list[Constants]:
        """Return for each branch the constants of the properties by which branches differ."""
        constants = [self._constants(branch.schemas) for branch in branches]
        paths = {path for own in constants for path in own}
        differing = set[Path]()
        for path in paths:
            sets = [own[path] for own in constants if path in own]
            if len(sets) > 1 and len(set(sets)) > 1:
                differing.add(path)
        return [{path: values for path, values in own.items() if path in differing} for own in constants]

    def _constants(self, schemas: Sequence[object]) -> Constants:
        """Return the properties for which a branch lists all values, with the values; each branch is read once."""
        key = tuple(map(id, schemas))
        if key not in self._known:
            self._known[key] = self._read_constants(schemas)
        return self._known[key]

    def _read_constants(self, schemas: Sequence[object]) -> Constants:
        found: dict[Path, frozenset[str]] = {}
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
                found[path] = frozenset(map(_key, listed)) & found.get(path, frozenset(map(_key, listed)))
            pending += ((path, other) for other in self._names.always(part))
            properties = keywords.get("properties")
            if len(path) < _DEEPEST_CONSTANT and isinstance(properties, dict):
                pending += (((*path, name), inner) for name, inner in properties.items())
        return found


class _Rating:
    """Rates the distance of a union's branches from the value at its place."""

    def __init__(self, value: object, depth: int, constants: Sequence[Constants], names: FieldNames) -> None:
        self._value = value
        #: Depth of the union in the instance.
        self._depth = depth
        self._constants = constants
        self._telling = {path for own in constants for path in own}
        self._names = names

    def distance(self, branch: _Branch) -> tuple[int, ...]:
        """
        Rate a branch: by type, distinguishing constants, fields, missing fields, then by its faults
        from the deepest.
        """
        faults = branch.faults
        here = [fault for fault in faults if len(fault.place) == self._depth]
        return (
            any(map(self._is_of_type, here)),
            *self._constants_of(branch),
            self._unnamed(branch),
            sum(fault.keyword == "required" for fault in here),
            sum(fault.keyword == "const" for fault in faults),
            -min((len(fault.place) for fault in faults), default=self._depth),
            len(faults),
        )

    def with_constants_first(self, branch: _Branch) -> _Branch:
        """
        Put the faults of distinguishing constants first, with the values of all branches if none
        has that constant.
        """
        wrong = {path for path, is_right in self._compared(branch) if not is_right}
        telling = [fault for fault in branch.faults if self._path(fault) in wrong]
        if not telling:
            return branch
        others = [fault for fault in branch.faults if self._path(fault) not in wrong]
        first = replace(telling[0], message=self._message_of_all(telling[0]))
        inner = branch.inner if branch.faults[0] is telling[0] else ()
        return replace(branch, faults=[first, *telling[1:], *others], inner=inner)

    def _path(self, fault: ReportedError) -> Path:
        return fault.place[self._depth :]

    def _message_of_all(self, fault: ReportedError) -> str:
        """Return which values the branches list for a property, if all of them do."""
        path = self._path(fault)
        if not all(path in own for own in self._constants):
            return fault.message
        texts = dict.fromkeys(text for own in self._constants for text in sorted(own[path]))
        return enum_message(_at(self._value, path), [json.loads(text) for text in texts])

    def _is_of_type(self, fault: ReportedError) -> bool:
        """Return whether the type matches the value."""
        if fault.allowed is not None:
            return all(json_type(value) != json_type(self._value) for value in fault.allowed)
        return fault.forbidden or fault.keyword == "type"

    def _compared(self, branch: _Branch) -> Iterator[tuple[Path, bool]]:
        """Return each distinguishing property of the value, and whether its value is one of the branch's."""
        own = self._constants[branch.number]
        for path in self._telling:
            held = _at(self._value, path, default=_ABSENT)
            if path in own and held is not _ABSENT:
                yield path, _key(held) in own[path]
            elif any(self._path(fault) == path for fault in branch.faults):
                yield path, False

    def _constants_of(self, branch: _Branch) -> tuple[int, int]:
        compared = [is_right for _, is_right in self._compared(branch)]
        return compared.count(False), -compared.count(True)

    def _unnamed(self, branch: _Branch) -> int:
        """
        Count the fields of the value that the branch does not name, or names only by a pattern that
        they do not match.
        """
        if not isinstance(self._value, dict) or not isinstance(branch.schema, dict):
            return 0
        fields = self._names.fields(branch.schema)
        is_map = self._is_map(branch.schema)
        if not (fields.names or fields.patterns or fields.shaped or is_map):
            return 0  # it does not define names
        # a value that is wrong itself, and not further inside, is not meant by the pattern
        broken = {fault.place[self._depth] for fault in branch.faults if len(fault.place) == self._depth + 1}
        others = [name for name in self._value if name not in fields.names]
        return sum(name in broken or not (is_map or _fits(name, fields.patterns)) for name in others)

    def _is_map(self, schema: dict[str, Any]) -> bool:
        """Return whether it has a schema for fields of any name."""
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


def _fits(name: str, patterns: set[str]) -> bool:
    return any(matcher(pattern)(name) for pattern in patterns)


def _key(value: object) -> str:
    """Return a key that is equal for equal JSON values only."""
    return json.dumps(value, sort_keys=True, default=float)


def _at(value: Any, path: Sequence[str | int], default: object = None) -> Any:
    """Return the value at a place of an instance."""
    for step in path:
        is_member = isinstance(value, dict) and step in value
        is_item = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not (is_member or is_item):
            return default
        value = value[step]
    return value


#: Maximum length of a list of values, in characters.
_LONGEST_LIST = 200
#: Maximum length of one value, in characters.
_LONGEST_VALUE = 60
#: Maximum number of values to compare.
_MOST_COMPARED = 1_000


def enum_message(found: object, allowed: Sequence[object]) -> str:
    """List the allowed values: the nearest first, then the others in their order, as many as fit."""
    texts = [_shown(value) for value in _nearest_first(found, allowed)]
    fitting = [texts[0]] if texts else []
    length = sum(map(len, fitting))
    for text in texts[1:]:
        length += len(text) + 2
        if length > _LONGEST_LIST:
            break
        fitting.append(text)
    more = len(texts) - len(fitting)
    return f"{_shown(found)} is not one of {', '.join(fitting)}" + (f" and {more} more" if more else "")


def _shown(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=float), _LONGEST_VALUE, cut="middle")


def _nearest_first(found: object, allowed: Sequence[object]) -> list[object]:
    """Put the text first that differs least from the found one, if one is near."""
    if not isinstance(found, str):
        return list(allowed)
    lowered = {value.lower(): value for value in reversed(allowed[:_MOST_COMPARED]) if isinstance(value, str)}
    near = difflib.get_close_matches(found[:_LONGEST_VALUE].lower(), lowered, n=1)
    if not near:
        return list(allowed)
    first = lowered[near[0]]
    return [first, *(value for value in allowed if value is not first)]
