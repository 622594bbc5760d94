"""
Comparers: how the values at one place are compared, as the keyword `x-jsbench-compare` or the user says.

Which of a schema's subschemas describe the value at one place of an instance, `SchemaPlaces` finds.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, cast

from pytest_jsbench.core.cases import Expected, Schema
from pytest_jsbench.core.errors import MissingRequirement, RecordError
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.json_values import copy_of, json_type
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.schemas.keywords import DATA, NAMED
from pytest_jsbench.schemas.references import CertainReferences, follow, pointer_of, tokens_of

#: the keyword of a schema that names a comparer; it is no part of what a model or the judge is shown
KEYWORD = "x-jsbench-compare"
_SWITCHES = ("casefold", "unordered", "date", "ignore", "sob")
_PERCENT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?) ?%")
#: 0.1 + 0.2 is a hair more than 0.3, and nobody means that hair
_HAIR = 1 + Fraction(1, 10**9)

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


class ComparerFailed(Exception):
    """A function of the user's raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """A way to compare the values at one place; by itself it takes those for equal that are equal in JSON."""

    #: the greatest distance of two numbers that count as equal
    tolerance: float | Fraction = 0
    #: whether the tolerance is a part of the expected number
    relative: bool = False
    #: texts are compared without regard to capitals
    casefold: bool = False
    #: a list's items may come in any order
    unordered: bool = False
    #: texts are compared as the dates or times that they write in ISO 8601
    date: bool = False
    #: the place is no field
    ignore: bool = False
    #: all in the place is scored as the Structured Output Benchmark scores texts
    sob: bool = False
    #: of the expected value and the answer's; the place is one field then, whatever is in it
    function: Callable[[Any, Any], object] | None = None
    #: as the user said it, such as `tolerance:0.01`; empty where a schema did
    how: str = field(default="", compare=False)

    @classmethod
    def of(cls, said: object) -> Comparer:
        """Read the keyword's value; ValueError says what was found and what was expected."""
        if not isinstance(said, Mapping):
            raise ValueError(f"a JSON {json_type(said)}; expected an object with tolerance, {', '.join(_SWITCHES)}")
        if "function" in said:
            raise ValueError("a function, which only --jsbench-comparer may name; a schema may come from a stranger")
        found = cls()
        for name, value in said.items():
            if name == "tolerance":
                found = _with_tolerance(found, value)
            elif name in _SWITCHES and isinstance(value, bool):
                found = replace(found, **cast("dict[str, Any]", {name: value}))
            else:
                shown = printable(f"{name}: {value!r}", 60)
                raise ValueError(
                    f"{shown}; expected tolerance (a number, or such as '1%'), or {', '.join(_SWITCHES)} as a boolean"
                )
        return found

    def require(self) -> None:
        """MissingRequirement, with the command that installs it, where what it compares with is not installed."""
        if self.unordered and importlib.util.find_spec("scipy") is None:
            raise MissingRequirement("lists in any order need the package scipy: pip install 'pytest-jsbench[values]'")

    def agrees(self, expected: object, found: object) -> bool:
        """Ask the user's function; ComparerFailed where it raises."""
        assert self.function is not None
        try:
            return bool(self.function(copy_of(expected), copy_of(found)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.skip and sys.exit too: the answer is paid for
            name = self.how.removeprefix("function:") or getattr(self.function, "__name__", "the function")
            raise ComparerFailed(f"the comparer {printable(name, 60)} raised {described(error)}") from error

    def equal(self, expected: object, found: object) -> bool:
        """Tell whether a value that is no object and no list is right."""
        if isinstance(expected, bool) or isinstance(found, bool) or type(expected) is type(None):
            return expected is found
        if isinstance(expected, int | float) and isinstance(found, int | float):
            if expected == found or not self.tolerance:
                return expected == found
            room = _written(self.tolerance) * (abs(_written(expected)) if self.relative else 1)
            return abs(_written(expected) - _written(found)) <= room * _HAIR
        if isinstance(expected, str) and isinstance(found, str):
            if expected == found or (self.casefold and expected.casefold() == found.casefold()):
                return True
            return self.date and (time := _time(expected)) is not None and time == _time(found)
        return False


def read_comparer(text: str) -> tuple[str, Comparer]:
    """Read FIELD=HOW, as `--jsbench-comparer` takes it; ValueError says what was found and what was expected."""
    field, separator, how = text.rpartition("=")
    if not (field and separator and how.partition(":")[0]):
        raise ValueError(f"expected FIELD=HOW, such as total=tolerance:0.01, found {text!r}")
    return field, comparer_of(how)


def comparer_of(how: str) -> Comparer:
    """Read HOW by itself, such as `tolerance:1%`; ValueError says what was found and what was expected."""
    kind, colon, value = how.partition(":")
    if kind == "function" and colon:
        return Comparer(function=_function(value), how=how)
    if kind == "tolerance" and colon:
        try:
            said: object = float(value)
        except ValueError:
            said = value
        return replace(Comparer.of({"tolerance": said}), how=how)
    if kind in _SWITCHES and not colon:
        comparer = replace(Comparer.of({kind: True}), how=how)
        comparer.require()
        return comparer
    expected = f"expected tolerance:NUMBER, tolerance:1%, {', '.join(_SWITCHES)} or function:package.module:name"
    raise ValueError(f"{expected}, found {how!r}")


def comparers_again(
    named: Mapping[str, str], given: Mapping[str, Comparer]
) -> tuple[dict[str, Comparer], dict[str, str]]:
    """
    The comparers that a run named, and those that its user gives now; and the functions that are not given.

    A run's folder may come from a stranger: no code that it names is loaded, and what needs it is not compared.
    """
    found, missing = dict[str, Comparer](), dict[str, str]()
    for name, how in named.items():
        if name in given:
            continue
        if how.startswith("function:"):
            missing[name] = how
            found[name] = Comparer(function=_not_given, how=how)
        else:
            try:
                found[name] = comparer_of(how)
            except ValueError as error:
                message = f"the run's comparer of {printable(name, 60)}: {error}"
                raise RecordError(message, found=how, where="comparers") from None
    return {**found, **given}, missing


def _not_given(*_: object) -> bool:
    raise LookupError("it is not given: name it with --comparer")


def _function(reference: str) -> Callable[[Any, Any], object]:
    found = import_object(reference, purpose="--jsbench-comparer")
    if not callable(found):
        message = f"{reference} is a {type(found).__name__}; expected a function of the expected value and the answer's"
        raise ValueError(message)
    return found


def _with_tolerance(comparer: Comparer, value: object) -> Comparer:
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent:
        return replace(comparer, tolerance=Fraction(percent[1]) / 100, relative=True)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"tolerance: {printable(repr(value), 60)}; expected a number of at least 0, or such as '1%'")
    return replace(comparer, tolerance=value, relative=False)


def _written(number: float | Fraction) -> Fraction:
    """The number as its digits say, exactly: of doubles a difference is off, and one of 400 digits fits in none."""
    return Fraction(repr(number) if isinstance(number, float) else number)


def _time(text: str) -> datetime | None:
    """The time that the text writes; a date is its first moment, and a time without a zone is in UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            time = datetime.combine(date.fromisoformat(text.strip()), datetime.min.time())
        except ValueError:
            return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def expecting(schema: Schema, value: Any) -> tuple[Schema, Expected]:
    """
    The schema without the comparers that it names, and the instance that is expected with them.

    ValueError where one of them is none.
    """
    comparers: dict[str, Any] = {}
    schema = without_comparers(schema, comparers)
    for pointer, said in comparers.items():
        try:
            Comparer.of(said).require()
        except ValueError as error:
            raise ValueError(f"{KEYWORD} at {pointer or '/'}: {error}") from None
    unknown = SchemaPlaces(schema).unknown(map(tokens_of, comparers)) if comparers else []
    if unknown:
        pointer = next(one for one in comparers if tokens_of(one) == unknown[0])
        message = f"{KEYWORD} at {pointer}: nobody knows here of which values; say it by --jsbench-comparer FIELD=HOW"
        raise ValueError(message)
    return schema, Expected(value=value, comparers=comparers)


def may_name_comparers(text: str) -> bool:
    """Tell whether the keyword may stand in a schema's text, with escapes too; a walk through it takes far longer."""
    return KEYWORD in text or "\\u00" in text


def without_comparers(schema: Schema, found: dict[str, Any] | None = None) -> Schema:
    """The schema as a model and the judge see it; each comparer goes to `found` by the pointer of its schema."""
    if not _names_comparers(schema):
        return schema
    try:
        return cast("Schema", _without_comparers(schema, (), {} if found is None else found))
    except RecursionError:
        raise ValueError("in a schema that nests too deeply to be searched for it") from None


def _names_comparers(schema: Schema) -> bool:
    """Tell whether the keyword stands anywhere; few schemas have it, and the others are not copied."""
    pending: list[Any] = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, (dict, Mapping)):
            if KEYWORD in value:
                return True
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def _without_comparers(schema: Any, path: tuple[str, ...], found: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_without_comparers(item, (*path, str(number)), found) for number, item in enumerate(schema)]
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == KEYWORD:
            found[pointer_of(path)] = value
        elif keyword in DATA:
            kept[keyword] = value
        elif keyword in NAMED and isinstance(value, Mapping):
            inside = (*path, keyword)
            kept[keyword] = {name: _without_comparers(one, (*inside, name), found) for name, one in value.items()}
        else:
            kept[keyword] = _without_comparers(value, (*path, keyword), found)
    return kept


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
