"""Compare the values in an answer with the expected values, field by field."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final, assert_never

import msgspec

from pytest_jsbench.core.cases import Expected, Schema
from pytest_jsbench.core.files import MOST_VALUES
from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.core.text import json_text
from pytest_jsbench.schemas.keywords import Tokens
from pytest_jsbench.schemas.references import Path, SchemaPlaces, json_path, tokens_of
from pytest_jsbench.values.comparers import Comparer, ComparerFailed

#: Maximum number of differences that a record lists; the counts include all of them.
_MOST_NAMED = 50
#: Maximum length in characters of a value in a listed difference.
_LONGEST_VALUE = 200
#: Maximum length in characters of a field's name.
_LONGEST_NAME = 120
#: Number of hex digits in the digest of an expected value or of a truncated name.
_DIGITS = 12
#: Maximum number of values per answer that are compared in order to pair the items of unordered lists.
_MOST_TRIED = 40_000
#: Minimum F1 of an answer's paths; if F1 is lower, the Structured Output Benchmark counts every value as wrong.
_COVERED = 0.95
_ABSENT: Final = object()
_PLAIN = Comparer()


#: Number of fields in a match.
FieldCount = Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]


class Fault(StrEnum):
    """Ways in which a value in an answer can differ from the expected value."""

    WRONG = "wrong"
    MISSING = "missing"
    #: The answer has a value at a place for which no value is expected.
    INVENTED = "invented"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value in an answer that differs from the expected value."""

    #: JSON path of the value in the expected instance; for an unexpected value, its path in the answer.
    path: str
    #: How the value differs from the expected value.
    fault: Fault
    #: Expected value as JSON with long strings truncated; also None if no value is expected.
    expected: Any
    #: Value in the answer with long strings truncated; also None if the value is missing.
    found: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Counts of correct and wrong values in an answer. Each leaf of the expected instance is a field."""

    #: For each field, such as `items.*.amount`, the number of correct values and the number of expected values.
    fields: Mapping[str, tuple[FieldCount, FieldCount]]
    #: Number of unexpected values in the answer.
    invented: FieldCount
    #: Number of expected fields that the answer does not have.
    missing: FieldCount = 0
    #: Reason why the values could not be compared; empty if they were compared.
    problem: str = ""
    #: First digits of the digest of the expected value and its comparers; empty if the digest is unknown.
    compared_with: str = ""
    #: The first differences between the answer and the expected instance.
    differences: tuple[Difference, ...] = field(default=(), hash=False)
    #: For each field, the number of values in the answer minus the number of expected values; None if unknown.
    #: Fields without a difference, and unexpected fields after the first 50, are omitted.
    surplus: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if any(right > expected for right, expected in self.fields.values()):
            raise ValueError("more fields right than expected")
        object.__setattr__(self, "compared_with", sys.intern(self.compared_with))

    @property
    def right(self) -> int:
        """Number of correct fields."""
        return sum(right for right, _ in self.fields.values())

    @property
    def expected(self) -> int:
        """Number of expected fields."""
        return sum(expected for _, expected in self.fields.values())

    @property
    def given(self) -> int:
        """Number of fields in the answer."""
        return self.expected - self.missing + self.invented

    @property
    def exact(self) -> bool:
        """Whether all values are correct and none is unexpected."""
        return self.right == self.expected and not self.invented and not self.problem

    def counts(self) -> Match:
        """Return the match without its list of differences; equal field names share one string in memory."""
        fields = {sys.intern(name): counts for name, counts in self.fields.items()}
        surplus = self.surplus and {sys.intern(name): count for name, count in self.surplus.items()}
        return replace(self, fields=fields, surplus=surplus, differences=())


def match(
    expected: Expected,
    instance: object = _ABSENT,
    *,
    schema: Schema | None = None,
    comparers: Mapping[str, Comparer] | None = None,
    most_tried: int = _MOST_TRIED,
) -> Match:
    """
    Compare the instance in an answer with the expected instance.

    For an answer that does not conform, pass no instance: all expected values are missing. `comparers` maps fields to
    the user's comparers, which take precedence over the comparers in the schema.
    """
    walk = _Walk(expected, schema, comparers or {}, most_tried)
    try:
        leaves = list(walk.leaves(walk.root, expected.value, instance))
        compared_with = digest([to_json(expected), walk.named])
    except ComparerFailed as error:
        return Match(fields={}, invented=0, problem=str(error))
    except RecursionError:
        return Match(fields={}, invented=0, problem="the expected value nests too deeply")
    fields: dict[str, tuple[int, int]] = {}
    for leaf in leaves:
        if leaf.fault is not Fault.INVENTED:
            right, count = fields.get(leaf.name, (0, 0))
            fields[leaf.name] = (right + (leaf.fault is None), count + 1)
    wrong = [leaf for leaf in leaves if leaf.fault is not None]
    surplus = Counter(leaf.name for leaf in wrong if leaf.fault is Fault.INVENTED)
    others = [name for name in surplus if name not in fields][_MOST_NAMED:]
    surplus.subtract(leaf.name for leaf in wrong if leaf.fault is Fault.MISSING)
    return Match(
        fields=fields,
        invented=sum(leaf.fault is Fault.INVENTED for leaf in wrong),
        missing=sum(leaf.fault is Fault.MISSING for leaf in wrong),
        compared_with=compared_with.removeprefix("sha256:")[:_DIGITS],
        differences=() if instance is _ABSENT else tuple(leaf.difference for leaf in wrong[:_MOST_NAMED]),
        surplus={name: count for name, count in surplus.items() if count and name not in others},
    )


def describe_match(match: Match) -> list[str]:
    """Return the match as lines of text: one with the totals, and one for each difference."""
    if match.problem:
        return [f"not compared: {match.problem}"]
    more = f", and {match.invented} unexpected" if match.invented else ""
    lines = [f"{match.right} of {match.expected} values are right{more}"]
    lines += [f"{difference.path}: {_sentence(difference)}" for difference in match.differences]
    hidden = match.expected - match.right + match.invented - len(match.differences)
    return [*lines, f"… and {hidden} more"] if match.differences and hidden else lines


def _sentence(difference: Difference) -> str:
    expected = json_text(difference.expected)
    actual = json_text(difference.found)
    match difference.fault:
        case Fault.WRONG:
            return f"{actual}; expected {expected}"
        case Fault.MISSING:
            return f"missing; expected {expected}"
        case Fault.INVENTED:
            return f"{actual}; expected no value"
        case _:
            assert_never(difference.fault)


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: Path
    fault: Fault | None
    expected: object = None
    actual: object = None

    @classmethod
    def of(cls, path: Path, expected: object, actual: object, *, right: bool) -> _Leaf:
        """Return the leaf for an expected value; its fault is `missing` if the answer has no value there."""
        if actual is _ABSENT:
            return cls(path, Fault.MISSING, expected, actual)
        return cls(path, None if right else Fault.WRONG, expected, actual)

    @property
    def name(self) -> str:
        return field_name(self.path)

    @property
    def difference(self) -> Difference:
        assert self.fault is not None
        expected, actual = (_shorten_value(value) for value in (self.expected, self.actual))
        return Difference(path=json_path(self.path), fault=self.fault, expected=expected, found=actual)


def field_name(path: Path) -> str:
    """
    Return the name of the field at a path.

    The values in all items of a list belong to one field, such as `items.*.amount`; the name of the root is `$`. A
    property whose name would be ambiguous is quoted as in JSON: `items."a.b"`.
    """
    name = ".".join("*" if isinstance(step, int) else _quote_step(step) for step in path)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…{digest(name).removeprefix('sha256:')[:_DIGITS]}"
    return name or "$"


def _quote_step(step: str) -> str:
    plain = step.isprintable() and step not in ("", "*", "$") and not any(sign in step for sign in '."\\')
    return step if plain else json.dumps(step, ensure_ascii=not step.isprintable())


def _write_value(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _shorten_value(value: object) -> object:
    if value is _ABSENT:
        return None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
    return f"{len(value)} members" if isinstance(value, dict | list) and value else value


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place in the expected instance or in the answer, with the places of the subschemas that apply to it."""

    path: Path
    places: Sequence[Tokens]


class _Walk:
    """A single comparison of an answer with the expected instance, made by `match`."""

    def __init__(
        self, expected: Expected, schema: Schema | None, named: Mapping[str, Comparer], most_tried: int
    ) -> None:
        self._named = named
        self._of_schema = {tokens_of(pointer): Comparer.of(keyword) for pointer, keyword in expected.comparers.items()}
        self._places = SchemaPlaces(schema) if self._of_schema and schema is not None else None
        #: Spot of the whole instance.
        self.root = _Spot((), () if self._places is None else [()])
        #: Number of comparisons that are still allowed for pairing the items of lists.
        self._left = most_tried
        #: Comparers of the user that were used, by field.
        self.named: dict[str, str] = {}

    def leaves(self, spot: _Spot, expected: object, actual: object) -> Iterator[_Leaf]:
        """Yield a leaf for each field of the expected value, and for each unexpected value in the answer."""
        spot, comparer = self._find_comparer(spot)
        if comparer.how:
            self.named[field_name(spot.path)] = comparer.how
        if comparer.ignore:
            return
        if comparer.sob:
            yield from _as_sob(spot.path, expected, actual)
        elif comparer.function is not None:
            right = actual is not _ABSENT and comparer.agrees(expected, actual)
            yield _Leaf.of(spot.path, expected, actual, right=right)
        elif isinstance(expected, dict) and expected:
            yield from self._members(spot, expected, actual)
        elif isinstance(expected, list) and expected:
            yield from self._items(spot, expected, actual, ordered=not comparer.unordered)
        elif isinstance(expected, dict | list):
            # an expected empty list or object counts as a field, and any content of the actual one is unexpected
            right = type(actual) is type(expected)
            yield _Leaf.of(spot.path, expected, actual, right=right)
            if right:
                yield from self._unexpected_leaves(spot, actual)
        else:
            yield _Leaf.of(spot.path, expected, actual, right=comparer.equal(expected, actual))

    def _members(self, spot: _Spot, expected: dict[str, object], actual: object) -> Iterator[_Leaf]:
        members = actual if isinstance(actual, dict) else {}
        for name, value in expected.items():
            yield from self.leaves(self._below(spot, name), value, members.get(name, _ABSENT))
        if isinstance(actual, dict):
            yield from self._unexpected_leaves(
                spot, {name: value for name, value in actual.items() if name not in expected}
            )
        elif actual is not _ABSENT:
            yield _Leaf(spot.path, Fault.INVENTED, actual=actual)

    def _items(self, spot: _Spot, expected: list[object], actual: object, *, ordered: bool) -> Iterator[_Leaf]:
        items = actual if isinstance(actual, list) else []
        if not isinstance(actual, list) and actual is not _ABSENT:
            yield _Leaf(spot.path, Fault.INVENTED, actual=actual)
        pairs = dict(enumerate(range(min(len(expected), len(items)))))
        if not ordered:
            pairs = self._pair_items(spot, expected, items)
        for number, value in enumerate(expected):
            item = items[pairs[number]] if number in pairs else _ABSENT
            yield from self.leaves(self._below(spot, number), value, item)
        paired = set(pairs.values())
        yield from self._unexpected_leaves(
            spot, {number: value for number, value in enumerate(items) if number not in paired}
        )

    def _pair_items(self, spot: _Spot, expected: list[object], actual: list[object]) -> dict[int, int]:
        """
        Pair the expected items with items in the answer, so that most fields are correct.

        Return the index of the paired item in the answer by the index of the expected item.
        """
        same: dict[str, list[int]] = {}
        for at in reversed(range(len(actual))):
            same.setdefault(_write_value(actual[at]), []).append(at)
        pairs = {
            number: places.pop() for number, value in enumerate(expected) if (places := same.get(_write_value(value)))
        }
        open_ = {number: value for number, value in enumerate(expected) if number not in pairs}
        taken = set(pairs.values())
        remaining = {at: value for at, value in enumerate(actual) if at not in taken}
        return pairs | (self._best_pairs(spot, open_, remaining) or dict(zip(open_, remaining, strict=False)))

    def _best_pairs(self, spot: _Spot, expected: dict[int, object], actual: dict[int, object]) -> dict[int, int]:
        """
        Return the pairing with the most correct fields, and among equally good pairings, with the most correct items.

        The result is empty if only one pairing is possible, if no pairing has a correct field, or if there are too many
        values to compare.
        """
        if not 1 < len(expected) * len(actual) <= self._left:
            return {}
        scores: list[list[int]] = []
        for number, value in expected.items():
            below = self._below(spot, number)
            row = list[int]()
            for item in actual.values():
                right, whole = self._score(below, value, item)
                row.append(right * (len(expected) + 1) + whole)
                if self._left <= 0:
                    return {}
            scores.append(row)
        if not any(map(any, scores)):
            return {}
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(scores, maximize=True)
        numbers = list(expected)
        items = list(actual)
        return {numbers[row]: items[column] for row, column in zip(rows, columns, strict=True)}

    def _score(self, spot: _Spot, expected: object, actual: object) -> tuple[int, bool]:
        """Return the number of correct fields in a pair of items, and whether the items have no difference at all."""
        faults = Counter(leaf.fault for leaf in self.leaves(spot, expected, actual))
        self._left -= max(1, faults.total())
        return faults[None], set(faults) <= {None}

    def _unexpected_leaves(self, spot: _Spot, actual: object) -> Iterator[_Leaf]:
        """Yield a leaf for each unexpected value that is not ignored."""
        members: Iterable[tuple[str | int, object]] = ()
        if isinstance(actual, dict):
            members = actual.items()
        elif isinstance(actual, list):
            members = enumerate(actual)
        for step, value in members:
            below, comparer = self._find_comparer(self._below(spot, step))
            if comparer.ignore:
                continue
            if isinstance(value, dict | list) and value:
                yield from self._unexpected_leaves(below, value)
            else:
                yield _Leaf(below.path, Fault.INVENTED, actual=value)

    def _find_comparer(self, spot: _Spot) -> tuple[_Spot, Comparer]:
        """Return the spot with the subschemas that apply there, and the comparer for the spot."""
        if self._places is not None:
            spot = _Spot(spot.path, self._places.find_applying(spot.places))
        if self._named and (named := self._named.get(field_name(spot.path))) is not None:
            return spot, named
        comparers = dict.fromkeys(self._of_schema[place] for place in spot.places if place in self._of_schema)
        if len(comparers) > 1:
            name = field_name(spot.path)
            problem = f"the schema has {len(comparers)} different comparers for {name}"
            raise ComparerFailed(f"{problem}; remove all but one, or set one with --jsbench-comparer {name}=HOW")
        return spot, next(iter(comparers), _PLAIN)

    def _below(self, spot: _Spot, step: str | int) -> _Spot:
        return _Spot((*spot.path, step), () if self._places is None else self._places.below(spot.places, step))


def _as_sob(path: Path, expected: object, actual: object) -> Iterator[_Leaf]:
    """
    Yield the leaves as the Structured Output Benchmark counts them.

    Empty lists and objects have no leaves, values are equal if they are equal in Python, and no value is correct if too
    few paths in the answer match the expected paths.
    """
    expected_values = dict(_scalars(path, expected))
    present = dict(_scalars(path, actual))
    covered = 2 * len(expected_values.keys() & present.keys()) >= _COVERED * (len(expected_values) + len(present))
    for place, value in expected_values.items():
        item = present.get(place, _ABSENT)
        yield _Leaf.of(place, value, item, right=covered and value == item)
    for place, item in present.items():
        if place not in expected_values:
            yield _Leaf(place, Fault.INVENTED, actual=item)


def _scalars(path: Path, value: object) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict | list):
        for step, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _scalars((*path, step), member)
    elif value is not _ABSENT:
        yield path, value
