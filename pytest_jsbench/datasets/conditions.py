"""
Conditions on cases: `keywords:pattern and size<4096`.

    condition := all ("or" all)*
    all       := one ("and" one)*
    one       := "not" one | "(" condition ")" | test
    test      := "trivial"
               | ("task" | "id" | "tag" | "dialect" | "feature" | "keywords") ":" word
               | ("size" | "depth") comparison number

A word ends at white space or a parenthesis, or stands in quotes; `*`, `?` and `[…]` in a task, id
or tag match as in a shell.
"""

from __future__ import annotations

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
#: what a field of fixed words may be
_WORDS: Mapping[str, frozenset[str]] = {
    "dialect": frozenset(DIALECTS),
    "feature": frozenset(FEATURES),
    "keywords": KEYWORDS,
}
#: a field of a condition to the set of a schema's features that holds its words
_SETS = {"feature": "features", "keywords": "keywords"}
#: a test by itself
_TRIVIAL = "trivial"
FIELDS = (*_NAMES, "tag", *_WORDS, *_NUMBERS, _TRIVIAL)
#: what stands for the word of a field in a message
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
    """A case of a dataset that a condition is asked about; its schema is read only when a condition wants that."""

    def __init__(self, dataset: CaseSource, key: CaseKey, default_dialect: str, judge: Judge | None = None) -> None:
        self.key = key
        self._dataset = dataset
        self._default_dialect = default_dialect
        self._judge = judge

    @cached_property
    def trivial(self) -> bool | None:
        """True where a constant answer such as `{}` conforms; None where nothing can be judged."""
        if isinstance(self._case, BrokenCase) or self._judge is None:
            return None
        constants = self._judge.constants(self._case.schema)
        return None if constants is None else bool(constants)

    @cached_property
    def _case(self) -> Case | BrokenCase:
        return self._dataset.case(self.key)

    @property
    def tags(self) -> Sequence[str] | None:
        """The words that its dataset has for it; None where its row holds no schema."""
        return None if isinstance(self._case, BrokenCase) else self._case.tags

    @cached_property
    def facts(self) -> SchemaFeatures | None:
        """The facts of its schema; None where its row holds none."""
        if isinstance(self._case, BrokenCase):
            return None
        return SchemaFeatures.of(self._case.schema, default_dialect=self._default_dialect)


#: whether it holds of a case; None where that depends on a schema that the case does not have
Condition = Callable[[Subject], bool | None]


def parse(text: str) -> Condition:
    """The condition that the text says; ConditionError points at the place where it says none."""
    return _Reader(text).whole()


def all_of(conditions: Sequence[Condition]) -> Condition:
    """The condition that each of these holds."""
    return _joined(conditions, decisive=False)


def _joined(conditions: Sequence[Condition], *, decisive: bool) -> Condition:
    """A condition that has the decisive value if one of these has it, else the other if all are known to have that."""
    if len(conditions) == 1:
        return conditions[0]

    def holds(subject: Subject) -> bool | None:
        unknown = False
        for condition in conditions:
            held = condition(subject)
            if held is decisive:
                return decisive
            unknown |= held is None
        return None if unknown else not decisive

    return holds


def _comparison(field: str, comparison: str, number: int) -> Condition:
    compare = _COMPARISONS[comparison]
    return lambda subject: None if subject.facts is None else compare(getattr(subject.facts, field), number)


def _naming(field: str, word: str) -> Condition:
    """Task, id or a tag matches a pattern, or the schema has a dialect, feature or keyword."""

    def holds(subject: Subject) -> bool | None:
        if field in _NAMES:
            return fnmatchcase(getattr(subject.key, field), word)
        if field == "tag":
            tags = subject.tags
            return None if tags is None else any(fnmatchcase(tag, word) for tag in tags)
        facts = subject.facts
        if facts is None:
            return None
        return facts.dialect == word if field == "dialect" else word in getattr(facts, _SETS[field])

    return holds


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._take(_START)

    def whole(self) -> Condition:
        if len(self._text) > _LONGEST:
            message = f"a condition of {len(self._text):,} characters; expected at most {_LONGEST:,}"
            raise ConditionError(message, found=len(self._text), expected=_LONGEST)
        condition = self._any_of()
        if not self._at_end():
            raise self._error("expected 'and', 'or' or the end")
        return condition

    def _any_of(self) -> Condition:
        return self._separated("or", lambda: self._separated("and", self._term, decisive=False), decisive=True)

    def _separated(self, word: str, part: Callable[[], Condition], *, decisive: bool) -> Condition:
        conditions = [part()]
        while self._takes(word):
            conditions.append(part())
        return _joined(conditions, decisive=decisive)

    def _term(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"nested more than {_DEEPEST} deep")
        condition = self._nested() or self._test()
        self._depth -= 1
        return condition

    def _nested(self) -> Condition | None:
        if self._takes("not"):
            term = self._term()
            return lambda subject: None if (held := term(subject)) is None else not held
        opened = self._position
        if not self._takes("("):
            return None
        condition = self._any_of()
        if not self._takes(")"):
            if not self._at_end():
                raise self._error("expected 'and', 'or' or ')'")
            raise self._error("'(' is not closed", at=opened)
        return condition

    def _test(self) -> Condition:
        start = self._position
        name = self._take(_NAME)
        if name is None or name in {"and", "or"}:
            raise self._error(
                f"expected a test such as keywords:pattern or size<4096; fields are {', '.join(FIELDS)}", at=start
            )
        if name not in FIELDS:
            raise self._error(f"unknown field '{name}': {nearest(name, FIELDS)}", at=start, found=name, known=FIELDS)
        if name == _TRIVIAL:
            return lambda subject: subject.trivial
        return self._compared(name) if name in _NUMBERS else self._named(name)

    def _compared(self, field: str) -> Condition:
        comparison = self._take(_COMPARISON)
        if comparison is None:
            raise self._error(f"expected a comparison after '{field}', one of < <= > >= = !=")
        number = self._take(_NUMBER)
        if number is None:
            raise self._error("expected a whole number")
        return _comparison(field, comparison, int(number))

    def _named(self, field: str) -> Condition:
        if not self._takes(":"):
            raise self._error(f"expected ':' after '{field}', as in {field}:{_EXAMPLES.get(field, 'pattern')}")
        start = self._position
        word = self._take(_VALUE)
        if word is None:
            raise self._error(f"expected a word after '{field}:'")
        word = word[1:-1] if word[0] in "'\"" else word
        if field in _WORDS and word not in _WORDS[field]:
            words = _WORDS[field]
            raise self._error(f"unknown {field} '{word}': {nearest(word, words)}", at=start, found=word, known=words)
        return _naming(field, word)

    def _at_end(self) -> bool:
        return self._position == len(self._text)

    def _takes(self, word: str) -> bool:
        """Read that word, or mark, where it stands next; False where it does not."""
        return self._take(_MARKS[word]) is not None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        """Read what stands next, with the white space after it, where it is of the pattern; else None."""
        token = pattern.match(self._text, self._position)
        if token is None:
            return None
        self._position = token.end()
        return token[1]

    def _error(
        self, problem: str, *, at: int | None = None, found: str | None = None, known: Iterable[str] | None = None
    ) -> ConditionError:
        position = self._position if at is None else at
        shown = f"{self._text[:position]}>>>{self._text[position:]}"
        message = f"{problem}, at character {position + 1}: {shown}"
        return ConditionError(message, found=found, expected=None if known is None else sorted(known))
