"""Define comparers for the values in an answer, as set by the keyword `x-jsbench-compare` or by an option."""

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
from pytest_jsbench.core.json_values import compact_text, copy_of, json_type
from pytest_jsbench.core.text import describe_error, kind_of, printable
from pytest_jsbench.schemas.keywords import find_schemas, rebuild
from pytest_jsbench.schemas.references import SchemaPlaces, pointer_of, tokens_of

#: Schema keyword that names a comparer; the model and the judge never see this keyword.
KEYWORD = "x-jsbench-compare"
_SWITCHES = ("casefold", "unordered", "date", "ignore", "sob")
_PERCENT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?) ?%")
#: Factor that widens a tolerance slightly, since a sum such as 0.1 + 0.2 is a little more than 0.3.
_HAIR = 1 + Fraction(1, 10**9)


class ComparerFailed(Exception):
    """The user's comparison function raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """A comparison for the values at one place; by default, two values are equal if they are equal as JSON."""

    #: Maximum difference between two numbers that are considered equal.
    tolerance: float | Fraction = 0
    #: Whether the tolerance is relative to the expected number.
    relative: bool = False
    #: Whether the case of letters in strings is ignored.
    casefold: bool = False
    #: Whether the order of a list's items is ignored.
    unordered: bool = False
    #: Whether strings are compared as ISO 8601 dates or times.
    date: bool = False
    #: Whether everything at this place is left out of the comparison.
    ignore: bool = False
    #: Whether everything at this place is scored as the Structured Output Benchmark scores strings.
    sob: bool = False
    #: Function that takes the expected and the actual value; an object or list then counts as one field.
    function: Callable[[Any, Any], object] | None = None
    #: The comparer as the user wrote it, such as `tolerance:0.01`; empty if the comparer comes from a schema.
    how: str = field(default="", compare=False)

    @classmethod
    def of(cls, keyword: object) -> Comparer:
        """Parse the value of the keyword `x-jsbench-compare`; raise ValueError if it is invalid."""
        if not isinstance(keyword, Mapping):
            raise ValueError(f"a JSON {json_type(keyword)}; expected an object with tolerance, {', '.join(_SWITCHES)}")
        if "function" in keyword:
            raise ValueError("a function, which is only allowed in --jsbench-comparer, as schemas are not trusted")
        comparer = cls()
        for name, value in keyword.items():
            if name == "tolerance":
                comparer = _with_tolerance(comparer, value)
            elif name in _SWITCHES and isinstance(value, bool):
                comparer = replace(comparer, **cast("dict[str, Any]", {name: value}))
            else:
                shown = printable(f"{name}: {value!r}", 60)
                switches = f"{', '.join(_SWITCHES)} as a boolean"
                raise ValueError(f"{shown}; expected tolerance (a number, or a percentage such as '1%'), or {switches}")
        return comparer

    def require(self) -> None:
        """Raise MissingRequirement, with the installation command, if this comparer's package is not installed."""
        if self.unordered and importlib.util.find_spec("scipy") is None:
            raise MissingRequirement(
                "comparing unordered lists needs the package scipy: pip install 'pytest-jsbench[values]'"
            )

    def agrees(self, expected: object, actual: object) -> bool:
        """Return the result of the user's function; raise ComparerFailed if the function raises an exception."""
        assert self.function is not None
        try:
            return bool(self.function(copy_of(expected), copy_of(actual)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # includes pytest.skip and sys.exit, since the answer is already paid for
            name = self.how.removeprefix("function:") or getattr(self.function, "__name__", "the function")
            raise ComparerFailed(f"the comparer {printable(name, 60)} raised {describe_error(error)}") from error

    def equal(self, expected: object, actual: object) -> bool:
        """Return whether the actual value equals the expected value; both are scalars."""
        if isinstance(expected, bool) or isinstance(actual, bool) or type(expected) is type(None):
            return expected is actual
        if isinstance(expected, int | float) and isinstance(actual, int | float):
            if expected == actual or not self.tolerance:
                return expected == actual
            room = _exact_number(self.tolerance) * (abs(_exact_number(expected)) if self.relative else 1)
            return abs(_exact_number(expected) - _exact_number(actual)) <= room * _HAIR
        if isinstance(expected, str) and isinstance(actual, str):
            if expected == actual or (self.casefold and expected.casefold() == actual.casefold()):
                return True
            return self.date and (time := _time(expected)) is not None and time == _time(actual)
        return False


def read_comparer(text: str) -> tuple[str, Comparer]:
    """Parse FIELD=HOW, the argument of `--jsbench-comparer`; raise ValueError if it is invalid."""
    field, separator, how = text.rpartition("=")
    if not (field and separator and how.partition(":")[0]):
        raise ValueError(f"expected FIELD=HOW, such as total=tolerance:0.01, found {text!r}")
    return field, comparer_of(how)


def comparer_of(how: str) -> Comparer:
    """Parse HOW, such as `tolerance:1%`; raise ValueError if it is invalid."""
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


def restore_comparers(
    named: Mapping[str, str], given: Mapping[str, Comparer]
) -> tuple[dict[str, Comparer], dict[str, str]]:
    """
    Return the comparers of a recorded run, and the comparison functions that the user has to pass again.

    The comparers in `given` take precedence. A run may be untrusted, so functions that the run names are not imported;
    values that need a missing function are not compared.
    """
    comparers = dict[str, Comparer]()
    missing = dict[str, str]()
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
                message = f"the run's comparer for {printable(name, 60)}: {error}"
                raise RecordError(message, found=how, where="comparers") from None
    return {**comparers, **given}, missing


def _not_given(*_: object) -> bool:
    raise LookupError("the function is not available: set it again with --comparer")


def _function(reference: str) -> Callable[[Any, Any], object]:
    function = import_object(reference, purpose="--jsbench-comparer")
    if not callable(function):
        expected = "a function that takes the expected and the actual value"
        raise ValueError(f"{reference} is {kind_of(function)}; expected {expected}")
    return function


def _with_tolerance(comparer: Comparer, value: object) -> Comparer:
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent:
        return replace(comparer, tolerance=Fraction(percent[1]) / 100, relative=True)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(
            f"tolerance: {printable(repr(value), 60)}; expected a number of at least 0, or a percentage such as '1%'"
        )
    return replace(comparer, tolerance=value, relative=False)


def _exact_number(number: float | Fraction) -> Fraction:
    """Return the number exactly as it is written, since the difference of two doubles would be rounded."""
    return Fraction(repr(number) if isinstance(number, float) else number)


def _time(text: str) -> datetime | None:
    """Parse a date or a time; a date without a time is midnight, and a time without a zone is in UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            time = datetime.combine(date.fromisoformat(text.strip()), datetime.min.time())
        except ValueError:
            return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def extract_comparers(schema: Schema, value: Any) -> tuple[Schema, Expected]:
    """
    Return the schema without its comparers, and the expected instance together with these comparers.

    Raise ValueError if a comparer is invalid.
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
        message = "it is unclear which values the comparer applies to; set it with --jsbench-comparer FIELD=HOW"
        raise ValueError(f"{KEYWORD} at {pointer_of(unknown[0])}: {message}")
    return schema, Expected(value=value, comparers=comparers)


def without_comparers(schema: Schema, comparers: dict[str, Any] | None = None) -> Schema:
    """
    Return the schema without its comparers, as the model and the judge see it.

    Each comparer is added to `comparers`, with the JSON pointer of its subschema as the key.
    """
    text = compact_text(schema)
    if text is not None and KEYWORD.encode() not in text:
        return schema
    named = {pointer_of(path): part[KEYWORD] for path, part in find_schemas(schema) if KEYWORD in part}
    if not named:
        return schema
    if comparers is not None:
        comparers.update(named)
    try:
        return cast("Schema", rebuild(schema, lambda part: {name: part[name] for name in part if name != KEYWORD}))
    except RecursionError:
        raise ValueError(f"{KEYWORD} cannot be removed, since the schema nests too deeply") from None
