"""
Conditions on cases: `keywords:pattern and size<4096`.

    condition := all ("or" all)*
    all       := one ("and" one)*
    one       := "not" one | "(" condition ")" | test
    test      := ("task" | "id" | "tag" | "dialect" | "feature" | "keywords") ":" word
               | ("size" | "depth") comparison number

A word ends at white space or a parenthesis, or stands in quotes; `*`, `?` and `[…]` in a task, id
or tag match as in a shell.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol, assert_never

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ConditionError, nearest
from pytest_jsbench.schemas.features import DIALECTS, FEATURES, SchemaFeatures
from pytest_jsbench.schemas.keywords import KEYWORDS

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_NUMBERS = ("size", "depth")
_NAMES = ("task", "id")
#: what a field of fixed words may be
_WORDS: Mapping[str, frozenset[str]] = {
    "dialect": frozenset(DIALECTS),
    "feature": frozenset(FEATURES),
    "keywords": KEYWORDS,
}
FIELDS = (*_NAMES, "tag", *_WORDS, *_NUMBERS)
_DEEPEST = 100
_LONGEST = 50_000

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[^\W\d]\w*")
_VALUE = re.compile(r"""'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>[^\s()'"][^\s()]*)""")
_COMPARISON = re.compile("|".join(_COMPARISONS))
_NUMBER = re.compile(r"\d{1,18}(?![\w.])")


class Subject(Protocol):
    """A case that a condition is asked about; its facts are found out when a condition wants them."""

    @property
    def key(self) -> CaseKey:
        """Where it stands."""

    @property
    def tags(self) -> Sequence[str] | None:
        """What its dataset calls it; None where its row holds no schema."""

    @property
    def facts(self) -> SchemaFeatures | None:
        """What is known of its schema; None where it holds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Task, id or a tag matches a pattern, or the schema has a dialect, feature or keyword."""

    field: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Size or depth compares with a number."""

    field: str
    comparison: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The condition does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    """Each of them holds."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one of them holds."""

    conditions: tuple[Condition, ...]


Condition = Named | Compared | Not | All | AnyOf


def parse(text: str) -> Condition:
    """The condition that the text says; ConditionError points at the place where it says none."""
    return _Reader(text).whole()


def holds(condition: Condition, subject: Subject) -> bool | None:
    """Whether it holds of a case; None where that depends on a schema that the case does not have."""
    match condition:
        case Named():
            return _named(condition, subject)
        case Compared():
            facts = subject.facts
            compare = _COMPARISONS[condition.comparison]
            return None if facts is None else compare(getattr(facts, condition.field), condition.number)
        case Not():
            held = holds(condition.condition, subject)
            return None if held is None else not held
        case All():
            return _first(condition.conditions, subject, decisive=False)
        case AnyOf():
            return _first(condition.conditions, subject, decisive=True)
        case _:
            assert_never(condition)


def _named(condition: Named, subject: Subject) -> bool | None:
    if condition.field in _NAMES:
        return fnmatchcase(getattr(subject.key, condition.field), condition.word)
    if condition.field == "tag":
        tags = subject.tags
        return None if tags is None else any(fnmatchcase(tag, condition.word) for tag in tags)
    facts = subject.facts
    if facts is None:
        return None
    if condition.field == "dialect":
        return facts.dialect == condition.word
    return condition.word in (facts.features if condition.field == "feature" else facts.keywords)


def _first(conditions: tuple[Condition, ...], subject: Subject, *, decisive: bool) -> bool | None:
    """The decisive value if one of them has it, else whether all are known to have the other."""
    unknown = False
    for condition in conditions:
        held = holds(condition, subject)
        if held is decisive:
            return decisive
        unknown |= held is None
    return None if unknown else not decisive


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def whole(self) -> Condition:
        if len(self._text) > _LONGEST:
            message = f"a condition of {len(self._text):,} characters; expected at most {_LONGEST:,}"
            raise ConditionError(message)
        condition = self._any_of()
        if self._rest():
            raise self._error("expected 'and', 'or' or the end")
        return condition

    def _any_of(self) -> Condition:
        conditions = [self._all()]
        while self._word("or"):
            conditions.append(self._all())
        return conditions[0] if len(conditions) == 1 else AnyOf(conditions=tuple(conditions))

    def _all(self) -> Condition:
        conditions = [self._one()]
        while self._word("and"):
            conditions.append(self._one())
        return conditions[0] if len(conditions) == 1 else All(conditions=tuple(conditions))

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"nested more than {_DEEPEST} deep")
        condition = self._nested() or self._test()
        self._depth -= 1
        return condition

    def _nested(self) -> Condition | None:
        if self._word("not"):
            return Not(condition=self._one())
        if not self._rest().startswith("("):
            return None
        opened = self._position
        self._position += 1
        condition = self._any_of()
        if not self._rest().startswith(")"):
            if self._rest():
                raise self._error("expected 'and', 'or' or ')'")
            raise self._error("'(' is not closed", at=opened)
        self._position += 1
        return condition

    def _test(self) -> Condition:
        self._rest()
        start = self._position
        name = self._take(_NAME)
        if name is None or name.group() in {"and", "or"}:
            expected = f"expected a test such as keywords:pattern or size<4096; fields are {', '.join(FIELDS)}"
            raise self._error(expected, at=start)
        field = name.group()
        if field not in FIELDS:
            raise self._error(f"unknown field '{field}': {nearest(field, FIELDS)}", at=start)
        return self._compared(field) if field in _NUMBERS else self._named(field)

    def _compared(self, field: str) -> Condition:
        self._rest()
        comparison = self._take(_COMPARISON)
        if comparison is None:
            raise self._error(f"expected a comparison after '{field}', one of < <= > >= = !=")
        self._rest()
        number = self._take(_NUMBER)
        if number is None:
            raise self._error("expected a whole number")
        return Compared(field=field, comparison=comparison.group(), number=int(number.group()))

    def _named(self, field: str) -> Condition:
        if not self._rest().startswith(":"):
            raise self._error(f"expected ':' after '{field}', as in {field}:{_example(field)}")
        self._position += 1
        self._rest()
        start = self._position
        value = self._take(_VALUE)
        if value is None:
            raise self._error(f"expected a word after '{field}:'")
        word = next(group for group in value.groups() if group is not None)
        if field in _WORDS and word not in _WORDS[field]:
            raise self._error(f"unknown {field} '{word}': {nearest(word, _WORDS[field])}", at=start)
        return Named(field=field, word=word)

    def _rest(self) -> str:
        """What is still to be read, from its first character that is no white space."""
        self._take(_SPACE)
        return self._text[self._position :]

    def _word(self, word: str) -> bool:
        self._rest()
        name = _NAME.match(self._text, self._position)
        if name is None or name.group() != word:
            return False
        self._position = name.end()
        return True

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
        return found

    def _error(self, problem: str, *, at: int | None = None) -> ConditionError:
        position = self._position if at is None else at
        shown = f"{self._text[:position]}>>>{self._text[position:]}"
        return ConditionError(f"{problem}, at character {position + 1}: {shown}")


def _example(field: str) -> str:
    return {"task": "Github_*", "id": "o1*", "tag": "billing", "dialect": "draft-07", "feature": "recursive"}.get(
        field, "pattern"
    )
