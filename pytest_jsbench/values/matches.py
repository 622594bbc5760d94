"""An answer's values beside the expected ones, field by field."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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

#: differences that a record names; all are counted
_MOST_NAMED = 50
#: characters of a value that a difference shows
_LONGEST_VALUE = 200
#: characters of a field's name
_LONGEST_NAME = 120
#: hex digits of the digest of what is expected, or of a name that is cut
_DIGITS = 12
#: values of one answer that are compared in order to pair the items of lists without order
_MOST_TRIED = 40_000
#: F1 of an answer's places and the expected ones, below which the Structured Output Benchmark takes nothing for right
_COVERED = 0.95
_ABSENT: Final = object()
_PLAIN = Comparer()


#: a number of fields
FieldCount = Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]


class Fault(StrEnum):
    """A fault of a value in an answer."""

    WRONG = "wrong"
    MISSING = "missing"
    #: the answer has it, and nothing like it is expected there
    INVENTED = "invented"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value that is not as expected."""

    #: JSON path in the expected instance; of an invented value in the answer
    path: str
    #: what is wrong with it
    fault: Fault
    #: both as JSON values, and long texts cut; None also where there is none
    expected: Any
    #: the answer's value, a long text cut; None also where there is none
    found: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The number of right values in an answer. A field is a leaf of the expected instance, and so is each list item."""

    #: by the field's name (`items.*.amount`), how many are right and how many are expected
    fields: Mapping[str, tuple[FieldCount, FieldCount]]
    #: values of the answer that nobody expects
    invented: FieldCount
    #: expected fields in whose place the answer has nothing
    missing: FieldCount = 0
    #: why nothing could be compared; empty otherwise
    problem: str = ""
    #: the first digits of the digest of what is expected, and of how it is compared; empty where that is not known
    compared_with: str = ""
    #: the first of them
    differences: tuple[Difference, ...] = field(default=(), hash=False)
    #: by the field's name, how many values more than are expected the answer has, or how many fewer; also of the first
    #: 50 names that nobody expects in it. None where that is not known
    surplus: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if any(right > expected for right, expected in self.fields.values()):
            raise ValueError("more fields right than expected")
        object.__setattr__(self, "compared_with", sys.intern(self.compared_with))

    @property
    def right(self) -> int:
        """Fields with the expected value."""
        return sum(right for right, _ in self.fields.values())

    @property
    def expected(self) -> int:
        """Fields that are expected."""
        return sum(expected for _, expected in self.fields.values())

    @property
    def given(self) -> int:
        """Fields that the answer has."""
        return self.expected - self.missing + self.invented

    @property
    def exact(self) -> bool:
        """True where every value is right, and none is invented."""
        return self.right == self.expected and not self.invented and not self.problem

    def counts(self) -> Match:
        """The match without its differences, and each name of a field held once."""
        fields = {sys.intern(name): counts for name, counts in self.fields.items()}
        surplus = self.surplus and {sys.intern(name): count for name, count in self.surplus.items()}
        return replace(self, fields=fields, surplus=surplus, differences=())


def match(
    expected: Expected,
    instance: object = _ABSENT,
    *,
    schema: Schema | None = None,
    comparers: Mapping[str, Comparer] | None = None,
) -> Match:
    """
    The match of an answer's instance; of an answer that does not conform, and has no instance here, nothing is right.

    `comparers` are the user's, by the name of the field, and go before those that the schema named.
    """
    walk = _Walk(expected, schema, comparers or {})
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


def described(match: Match) -> list[str]:
    """The match for people: a line on all, and one on each value that is named as not right."""
    if match.problem:
        return [f"not compared: {match.problem}"]
    more = f", and {match.invented} that nobody expects" if match.invented else ""
    lines = [f"{match.right} of {match.expected} values are right{more}"]
    lines += [f"{difference.path}: {_sentence(difference)}" for difference in match.differences]
    hidden = match.expected - match.right + match.invented - len(match.differences)
    return [*lines, f"… and {hidden} more"] if match.differences and hidden else lines


def _sentence(difference: Difference) -> str:
    expected, actual = json_text(difference.expected), json_text(difference.found)
    match difference.fault:
        case Fault.WRONG:
            return f"{actual}; expected {expected}"
        case Fault.MISSING:
            return f"missing; expected {expected}"
        case Fault.INVENTED:
            return f"{actual}, which nobody expects"
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
        """The leaf of an expected value; right only where the answer has one."""
        if actual is _ABSENT:
            return cls(path, Fault.MISSING, expected, actual)
        return cls(path, None if right else Fault.WRONG, expected, actual)

    @property
    def name(self) -> str:
        return field_name(self.path)

    @property
    def difference(self) -> Difference:
        assert self.fault is not None
        expected, actual = (_shown(value) for value in (self.expected, self.actual))
        return Difference(path=json_path(self.path), fault=self.fault, expected=expected, found=actual)


def field_name(path: Path) -> str:
    """
    The name under which the values of all items of a list are one field: `items.*.amount`; the root is `$`.

    A property of whose name this could be read otherwise stands in quotes, as in JSON: `items."a.b"`.
    """
    name = ".".join("*" if isinstance(step, int) else _quoted(step) for step in path)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…{digest(name).removeprefix('sha256:')[:_DIGITS]}"
    return name or "$"


def _quoted(step: str) -> str:
    plain = step.isprintable() and step not in ("", "*", "$") and not any(sign in step for sign in '."\\')
    return step if plain else json.dumps(step, ensure_ascii=not step.isprintable())


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _shown(value: object) -> object:
    if value is _ABSENT:
        return None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
    return f"{len(value)} members" if isinstance(value, dict | list) and value else value


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place of the expected value, or of the answer, and those of the schemas that describe it."""

    path: Path
    places: Sequence[Tokens]


class _Walk:
    """A comparison of an answer with what is expected; `match` makes it and lets it go."""

    def __init__(self, expected: Expected, schema: Schema | None, named: Mapping[str, Comparer]) -> None:
        self._named = named
        self._of_schema = {tokens_of(pointer): Comparer.of(keyword) for pointer, keyword in expected.comparers.items()}
        self._places = SchemaPlaces(schema) if self._of_schema and schema is not None else None
        #: the whole value
        self.root = _Spot((), () if self._places is None else [()])
        #: values that may still be compared in order to pair items
        self._left = _MOST_TRIED
        #: what the user said of expected values, by the name of the field
        self.named: dict[str, str] = {}

    def leaves(self, spot: _Spot, expected: object, actual: object) -> Iterator[_Leaf]:
        """The fields of the expected value, and what the answer has beside them."""
        spot, comparer = self._compared(spot)
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
            # an empty one is a field, and whatever else is in the answer's is invented
            right = type(actual) is type(expected)
            yield _Leaf.of(spot.path, expected, actual, right=right)
            if right:
                yield from self._invented(spot, actual)
        else:
            yield _Leaf.of(spot.path, expected, actual, right=comparer.equal(expected, actual))

    def _members(self, spot: _Spot, expected: dict[str, object], actual: object) -> Iterator[_Leaf]:
        held = actual if isinstance(actual, dict) else {}
        for name, value in expected.items():
            yield from self.leaves(self._below(spot, name), value, held.get(name, _ABSENT))
        if isinstance(actual, dict):
            yield from self._invented(spot, {name: value for name, value in actual.items() if name not in expected})
        elif actual is not _ABSENT:
            yield _Leaf(spot.path, Fault.INVENTED, actual=actual)

    def _items(self, spot: _Spot, expected: list[object], actual: object, *, ordered: bool) -> Iterator[_Leaf]:
        items = actual if isinstance(actual, list) else []
        if not isinstance(actual, list) and actual is not _ABSENT:
            yield _Leaf(spot.path, Fault.INVENTED, actual=actual)
        pairs = dict(enumerate(range(min(len(expected), len(items)))))
        if not ordered:
            pairs = self._assigned(spot, expected, items)
        for number, value in enumerate(expected):
            item = items[pairs[number]] if number in pairs else _ABSENT
            yield from self.leaves(self._below(spot, number), value, item)
        taken = set(pairs.values())
        yield from self._invented(spot, {number: value for number, value in enumerate(items) if number not in taken})

    def _assigned(self, spot: _Spot, expected: list[object], actual: list[object]) -> dict[int, int]:
        """The found item for each expected one, so that as many fields as can be are right."""
        same: dict[str, list[int]] = {}
        for at in reversed(range(len(actual))):
            same.setdefault(_written(actual[at]), []).append(at)
        pairs = {number: places.pop() for number, value in enumerate(expected) if (places := same.get(_written(value)))}
        open_ = {number: value for number, value in enumerate(expected) if number not in pairs}
        taken = set(pairs.values())
        left = {at: value for at, value in enumerate(actual) if at not in taken}
        return pairs | (self._best(spot, open_, left) or dict(zip(open_, left, strict=False)))

    def _best(self, spot: _Spot, expected: dict[int, object], actual: dict[int, object]) -> dict[int, int]:
        """The pairs of which most fields are right, and of these most items; empty where no pair is better."""
        if not 1 < len(expected) * len(actual) <= self._left:
            return {}
        scores: list[list[int]] = []
        for number, value in expected.items():
            below, row = self._below(spot, number), list[int]()
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
        numbers, items = list(expected), list(actual)
        return {numbers[row]: items[column] for row, column in zip(rows, columns, strict=True)}

    def _score(self, spot: _Spot, expected: object, actual: object) -> tuple[int, bool]:
        """Count the right fields of a pair, and tell whether all are right and nothing is invented."""
        faults = Counter(leaf.fault for leaf in self.leaves(spot, expected, actual))
        self._left -= max(1, faults.total())
        return faults[None], set(faults) <= {None}

    def _invented(self, spot: _Spot, actual: object) -> Iterator[_Leaf]:
        """A leaf for each value that nobody expects, those apart that are to be ignored."""
        members = actual.items() if isinstance(actual, dict) else enumerate(actual) if isinstance(actual, list) else ()
        for step, value in members:
            below, comparer = self._compared(self._below(spot, step))
            if comparer.ignore:
                continue
            if isinstance(value, dict | list) and value:
                yield from self._invented(below, value)
            else:
                yield _Leaf(below.path, Fault.INVENTED, actual=value)

    def _compared(self, spot: _Spot) -> tuple[_Spot, Comparer]:
        """The spot with all schemas that apply there, and how its value is compared."""
        if self._places is not None:
            spot = _Spot(spot.path, self._places.applying(spot.places))
        if self._named and (named := self._named.get(field_name(spot.path))) is not None:
            return spot, named
        comparers = dict.fromkeys(self._of_schema[place] for place in spot.places if place in self._of_schema)
        if len(comparers) > 1:
            name = field_name(spot.path)
            ways = f"the schema says in {len(comparers)} ways how {name} is compared"
            raise ComparerFailed(f"{ways}; take one out, or say it by --jsbench-comparer {name}=HOW")
        return spot, next(iter(comparers), _PLAIN)

    def _below(self, spot: _Spot, step: str | int) -> _Spot:
        return _Spot((*spot.path, step), () if self._places is None else self._places.below(spot.places, step))


def _as_sob(path: Path, expected: object, actual: object) -> Iterator[_Leaf]:
    """
    The fields as the Structured Output Benchmark has them in texts, which is not how they are counted elsewhere.

    An empty list or object has none, values are equal as in Python, and of an answer whose places coincide too little
    with the expected ones nothing is right.
    """
    wanted, present = dict(_scalars(path, expected)), dict(_scalars(path, actual))
    covered = 2 * len(wanted.keys() & present.keys()) >= _COVERED * (len(wanted) + len(present))
    for place, value in wanted.items():
        item = present.get(place, _ABSENT)
        yield _Leaf.of(place, value, item, right=covered and value == item)
    for place, item in present.items():
        if place not in wanted:
            yield _Leaf(place, Fault.INVENTED, actual=item)


def _scalars(path: Path, value: object) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict | list):
        for step, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _scalars((*path, step), member)
    elif value is not _ABSENT:
        yield path, value
