"""
Parse conditions on cases, such as `keywords:pattern and size<4096`.

    condition := all ("or" all)*
    all       := term ("and" term)*
    term      := "not" term | "(" condition ")" | test
    test      := "trivial"
               | ("task" | "id" | "tag" | "dialect" | "feature" | "keywords") ":" word
               | ("size" | "depth") comparison number

A word ends at white space or a parenthesis, or is quoted. In a task, id or tag, `*`, `?` and `[…]` are wildcards.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import ConditionError, nearest
from pytest_jsbench.datasets.base import CaseSource
from pytest_jsbench.schemas.features import DIALECTS, FEATURES, SchemaFeatures
from pytest_jsbench.schemas.keywords import KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.verdicts import Judge

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
#: Valid words for each field with a fixed vocabulary.
_WORDS: Mapping[str, frozenset[str]] = {
    "dialect": frozenset(DIALECTS),
    "feature": frozenset(FEATURES),
    "keywords": KEYWORDS,
}
#: Fields that test for a word, with the attribute of `SchemaFeatures` in which the word is looked up.
_SETS = {"feature": "features", "keywords": "keywords"}
#: Field that has no value.
_TRIVIAL = "trivial"
FIELDS = (*_NAMES, "tag", *_WORDS, *_NUMBERS, _TRIVIAL)
#: Example words for messages.
_EXAMPLES = {"task": "Github_*", "id": "o1*", "tag": "billing", "dialect": "draft-07", "feature": "recursive"}
_DEEPEST = 100
_LONGEST = 50_000


def _token(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"({pattern})\s*")


_START = _token("")
_NAME = _token(r"[^\W\d]\w*")
_VALUE = _token(r"""'[^']*'|"[^"]*"|[^\s()'"][^\s()]*""")
_COMPARISON = _token("|".join(_COMPARISONS))
_NUMBER = _token(r"\d{1,18}(?![\w.])")
_MARKS = {word: _token(rf"{word}(?!\w)") for word in ("and", "or", "not")} | {
    mark: _token(re.escape(mark)) for mark in "():"
}


class Subject:
    """A case that conditions are evaluated on; its schema is read only if a condition needs it."""

    def __init__(self, dataset: CaseSource, key: CaseKey, default_dialect: str, judge: Judge | None = None) -> None:
        self.key = key
        self._dataset = dataset
        self._default_dialect = default_dialect
        self._judge = judge

    @cached_property
    def trivial(self) -> bool | None:
        """True if a constant answer such as `{}` is valid; None if this cannot be judged, as for a case with tools."""
        if isinstance(self._case, BrokenCase) or self._case.offer is not None or self._judge is None:
            return None
        constants = self._judge.constants(self._case.schema)
        return None if constants is None else bool(constants)

    @cached_property
    def _case(self) -> Case | BrokenCase:
        return self._dataset.case(self.key)

    @property
    def tags(self) -> Sequence[str] | None:
        """Tags of the case in its dataset; None if the case has no schema."""
        return None if isinstance(self._case, BrokenCase) else self._case.tags

    @cached_property
    def facts(self) -> SchemaFeatures | None:
        """Features of the schema, or of the schemas of all offered tools; None if the case has no schema."""
        if isinstance(self._case, BrokenCase):
            return None
        found = (
            SchemaFeatures.from_schema(schema, default_dialect=self._default_dialect)
            for schema in self._case.judging_schemas
        )
        return functools.reduce(operator.or_, found)


#: Function that evaluates a condition on a case; it returns None if the case has no schema.
Condition = Callable[[Subject], bool | None]


def parse(text: str) -> Condition:
    """Parse a condition; raise ConditionError with the position if it is invalid."""
    return _Parser(text).parse()


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Return a condition that is met if all of the given conditions are met."""
    return _combine(conditions, decisive=False)


def _combine(conditions: Sequence[Condition], *, decisive: bool) -> Condition:
    """Combine conditions: with `or` if `decisive` is True, with `and` if False; unknown results (None) are kept."""
    if len(conditions) == 1:
        return conditions[0]

    def is_met(subject: Subject) -> bool | None:
        unknown = False
        for condition in conditions:
            result = condition(subject)
            if result is decisive:
                return decisive
            unknown |= result is None
        return None if unknown else not decisive

    return is_met


def _negate(condition: Condition) -> Condition:
    def is_met(subject: Subject) -> bool | None:
        result = condition(subject)
        return None if result is None else not result

    return is_met


def _number_condition(field: str, comparison: str, number: int) -> Condition:
    compare = _COMPARISONS[comparison]
    return lambda subject: None if subject.facts is None else compare(getattr(subject.facts, field), number)


def _word_condition(field: str, word: str) -> Condition:
    """Return a condition on the task, id, tag, dialect, feature or keyword of a case."""

    def is_met(subject: Subject) -> bool | None:
        if field in _NAMES:
            return fnmatchcase(getattr(subject.key, field), word)
        if field == "tag":
            tags = subject.tags
            return None if tags is None else any(fnmatchcase(tag, word) for tag in tags)
        facts = subject.facts
        if facts is None:
            return None
        if field == "dialect":
            return facts.dialect == word
        return word in getattr(facts, _SETS[field])

    return is_met


class _Parser:
    """A recursive descent parser of one condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._take(_START)

    def parse(self) -> Condition:
        if len(self._text) > _LONGEST:
            message = f"the condition has {len(self._text):,} characters; expected at most {_LONGEST:,}"
            raise ConditionError(message, found=len(self._text), expected=_LONGEST)
        condition = self._parse_any_of()
        if not self._is_at_end():
            raise self._error("expected 'and', 'or' or the end of the condition")
        return condition

    def _parse_any_of(self) -> Condition:
        return self._parse_separated(
            "or", lambda: self._parse_separated("and", self._parse_term, decisive=False), decisive=True
        )

    def _parse_separated(self, word: str, part: Callable[[], Condition], *, decisive: bool) -> Condition:
        conditions = [part()]
        while self._skip(word):
            conditions.append(part())
        return _combine(conditions, decisive=decisive)

    def _parse_term(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"nested more than {_DEEPEST} levels deep")
        condition = self._parse_nested() or self._parse_test()
        self._depth -= 1
        return condition

    def _parse_nested(self) -> Condition | None:
        if self._skip("not"):
            term = self._parse_term()
            return _negate(term)
        opened = self._position
        if not self._skip("("):
            return None
        condition = self._parse_any_of()
        if not self._skip(")"):
            if not self._is_at_end():
                raise self._error("expected 'and', 'or' or ')'")
            raise self._error("'(' is not closed", at=opened)
        return condition

    def _parse_test(self) -> Condition:
        start = self._position
        name = self._take(_NAME)
        if name is None or name in {"and", "or"}:
            raise self._error(
                f"expected a condition such as keywords:pattern or size<4096; the fields are {', '.join(FIELDS)}",
                at=start,
            )
        if name not in FIELDS:
            raise self._error(f"unknown field '{name}': {nearest(name, FIELDS)}", at=start, found=name, expected=FIELDS)
        if name == _TRIVIAL:
            return lambda subject: subject.trivial
        return self._parse_comparison(name) if name in _NUMBERS else self._parse_named(name)

    def _parse_comparison(self, field: str) -> Condition:
        comparison = self._take(_COMPARISON)
        if comparison is None:
            raise self._error(f"expected a comparison after '{field}', one of < <= > >= = !=")
        number = self._take(_NUMBER)
        if number is None:
            raise self._error("expected a whole number")
        return _number_condition(field, comparison, int(number))

    def _parse_named(self, field: str) -> Condition:
        if not self._skip(":"):
            raise self._error(f"expected ':' after '{field}', as in {field}:{_EXAMPLES.get(field, 'pattern')}")
        start = self._position
        word = self._take(_VALUE)
        if word is None:
            raise self._error(f"expected a word after '{field}:'")
        word = word[1:-1] if word[0] in "'\"" else word
        if field in _WORDS and word not in _WORDS[field]:
            words = _WORDS[field]
            raise self._error(f"unknown {field} '{word}': {nearest(word, words)}", at=start, found=word, expected=words)
        return _word_condition(field, word)

    def _is_at_end(self) -> bool:
        return self._position == len(self._text)

    def _skip(self, word: str) -> bool:
        """Skip this word or symbol if it comes next; return whether it was skipped."""
        return self._take(_MARKS[word]) is not None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        """Read the text that matches the pattern, with the white space after it; return None if it does not match."""
        token = pattern.match(self._text, self._position)
        if token is None:
            return None
        self._position = token.end()
        return token[1]

    def _error(
        self, problem: str, *, at: int | None = None, found: str | None = None, expected: Iterable[str] | None = None
    ) -> ConditionError:
        position = self._position if at is None else at
        shown = f"{self._text[:position]}>>>{self._text[position:]}"
        message = f"{problem}, at character {position + 1}: {shown}"
        return ConditionError(message, found=found, expected=None if expected is None else sorted(expected))
