"""Comparers: how the values at one place are compared, as the keyword `x-jsbench-compare` or the user says."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, cast

from pytest_jsbench.core.cases import Expected, Schema
from pytest_jsbench.core.errors import MissingRequirement, RecordError
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.json_values import copy_of, json_type
from pytest_jsbench.core.text import described, kind_of, printable
from pytest_jsbench.schemas.keywords import located, rebuild
from pytest_jsbench.schemas.references import SchemaPlaces, pointer_of, tokens_of

#: the keyword of a schema that names a comparer; it is no part of what a model or the judge is shown
KEYWORD = "x-jsbench-compare"
_SWITCHES = ("casefold", "unordered", "date", "ignore", "sob")
_PERCENT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?) ?%")
#: 0.1 + 0.2 is a hair more than 0.3, and nobody means that hair
_HAIR = 1 + Fraction(1, 10**9)


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
    def of(cls, keyword: object) -> Comparer:
        """Read the keyword's value; ValueError says what was found and what was expected."""
        if not isinstance(keyword, Mapping):
            raise ValueError(f"a JSON {json_type(keyword)}; expected an object with tolerance, {', '.join(_SWITCHES)}")
        if "function" in keyword:
            raise ValueError("a function, which only --jsbench-comparer may name; a schema may come from a stranger")
        comparer = cls()
        for name, value in keyword.items():
            if name == "tolerance":
                comparer = _with_tolerance(comparer, value)
            elif name in _SWITCHES and isinstance(value, bool):
                comparer = replace(comparer, **cast("dict[str, Any]", {name: value}))
            else:
                shown = printable(f"{name}: {value!r}", 60)
                switches = f"{', '.join(_SWITCHES)} as a boolean"
                raise ValueError(f"{shown}; expected tolerance (a number, or such as '1%'), or {switches}")
        return comparer

    def require(self) -> None:
        """MissingRequirement, with the command that installs it, where what it compares with is not installed."""
        if self.unordered and importlib.util.find_spec("scipy") is None:
            raise MissingRequirement("lists in any order need the package scipy: pip install 'pytest-jsbench[values]'")

    def agrees(self, expected: object, actual: object) -> bool:
        """Ask the user's function; ComparerFailed where it raises."""
        assert self.function is not None
        try:
            return bool(self.function(copy_of(expected), copy_of(actual)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.skip and sys.exit too: the answer is paid for
            name = self.how.removeprefix("function:") or getattr(self.function, "__name__", "the function")
            raise ComparerFailed(f"the comparer {printable(name, 60)} raised {described(error)}") from error

    def equal(self, expected: object, actual: object) -> bool:
        """Tell whether a value that is no object and no list is right."""
        if isinstance(expected, bool) or isinstance(actual, bool) or type(expected) is type(None):
            return expected is actual
        if isinstance(expected, int | float) and isinstance(actual, int | float):
            if expected == actual or not self.tolerance:
                return expected == actual
            room = _written(self.tolerance) * (abs(_written(expected)) if self.relative else 1)
            return abs(_written(expected) - _written(actual)) <= room * _HAIR
        if isinstance(expected, str) and isinstance(actual, str):
            if expected == actual or (self.casefold and expected.casefold() == actual.casefold()):
                return True
            return self.date and (time := _time(expected)) is not None and time == _time(actual)
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
            tolerance: object = float(value)
        except ValueError:
            tolerance = value
        return replace(Comparer.of({"tolerance": tolerance}), how=how)
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
    comparers, missing = dict[str, Comparer](), dict[str, str]()
    for name, how in named.items():
        if name in given:
            continue
        if how.startswith("function:"):
            missing[name] = how
            comparers[name] = Comparer(function=_not_given, how=how)
        else:
            try:
                comparers[name] = comparer_of(how)
            except ValueError as error:
                message = f"the run's comparer of {printable(name, 60)}: {error}"
                raise RecordError(message, found=how, where="comparers") from None
    return {**comparers, **given}, missing


def _not_given(*_: object) -> bool:
    raise LookupError("it is not given: name it with --comparer")


def _function(reference: str) -> Callable[[Any, Any], object]:
    function = import_object(reference, purpose="--jsbench-comparer")
    if not callable(function):
        expected = "a function of the expected value and the answer's"
        raise ValueError(f"{reference} is {kind_of(function)}; expected {expected}")
    return function


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
    for pointer, keyword in comparers.items():
        try:
            Comparer.of(keyword).require()
        except ValueError as error:
            raise ValueError(f"{KEYWORD} at {pointer or '/'}: {error}") from None
    unknown = SchemaPlaces(schema).unknown(map(tokens_of, comparers)) if comparers else []
    if unknown:
        message = "nobody knows here of which values; say it by --jsbench-comparer FIELD=HOW"
        raise ValueError(f"{KEYWORD} at {pointer_of(unknown[0])}: {message}")
    return schema, Expected(value=value, comparers=comparers)


def may_name_comparers(text: str) -> bool:
    """Tell whether the keyword may stand in a schema's text, with escapes too; a walk through it takes far longer."""
    return KEYWORD in text or "\\u00" in text


def without_comparers(schema: Schema, comparers: dict[str, Any] | None = None) -> Schema:
    """The schema as a model and the judge see it; each comparer goes to `comparers` by the pointer of its schema."""
    named = {pointer_of(path): part[KEYWORD] for path, part in located(schema) if KEYWORD in part}
    if not named:
        return schema  # as few schemas have it, the others are not copied
    if comparers is not None:
        comparers.update(named)
    try:
        return cast("Schema", rebuild(schema, lambda part: {name: part[name] for name in part if name != KEYWORD}))
    except RecursionError:
        raise ValueError("in a schema that nests too deeply to be searched for it") from None
