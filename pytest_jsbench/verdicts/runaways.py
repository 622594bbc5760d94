"""
Find runaways: a long run of white space, or a text that is repeated over and over, in an answer.

A model that a grammar constrains can write white space, or repeat itself, until the token limit. The answer may still
conform to its schema, so a runaway is a note and not part of the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.verdicts.verdicts import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Minimum length of a runaway in characters.
_LEAST_LENGTH = 100
#: Minimum length of a runaway as a share of the answer. Indentation is never a runaway: a document that is nested d
#: levels deep, with k spaces per level, has more than k·d² characters, so that no line has 1/d of them as indentation.
_LEAST_SHARE = 0.1
#: Minimum number of times that a text is repeated without a break.
_LEAST_REPEATS = 6
#: Length in characters of the samples whose next occurrences are searched.
_SAMPLE = 16
#: Maximum number of occurrences of a sample that are examined, since each can take time proportional to the text.
_MOST_OCCURRENCES = 8
#: Number of characters that are compared at once.
_BLOCK = 4096
#: Characters of arrays of numbers, true, false and null.
_OF_SCALARS = frozenset("[], \t\r\n0123456789+-.eE" + "truefalsn")


@dataclass(frozen=True, slots=True)
class Runaway:
    """A part of an answer that the model filled with white space or with repetitions."""

    note: Note
    #: Length of the part, as a share of the answer's characters.
    share: float


def find_runaways(text: str, *, is_document: bool) -> tuple[Runaway, ...]:
    """
    Return the longest run of white space and the longest repetition in an answer, if they are long enough.

    If the answer is a JSON document, equal numbers in an array are not a repetition, since they may be correct. The
    time is proportional to the length of the text, whatever its content.
    """
    length = len(text)
    if length < _LEAST_LENGTH:
        return ()
    least = max(_LEAST_LENGTH, int(length * _LEAST_SHARE))
    found = {
        Note.WHITESPACE: max(_white_space(text, least), default=0),
        Note.REPEATING: max(_repetitions(text, least, is_document=is_document), default=0),
    }
    return tuple(Runaway(note, round(size / length, 3)) for note, size in found.items() if size >= least)


def _white_space(text: str, least: int) -> Iterator[int]:
    """Yield the length of each run of white space with at least `least` characters, and of some shorter runs."""
    for place in range(least - 1, len(text), least):
        if text[place].isspace():
            before = text[:place]
            after = text[place:]
            yield len(before) - len(before.rstrip()) + len(after) - len(after.lstrip())


def _repetitions(text: str, least: int, *, is_document: bool) -> Iterator[int]:
    """Yield the length of each repetition with at least `least` characters."""
    # the unit is at most a sixth of a repetition, so that two samples in it have another occurrence in it
    step = least // 3
    longest_unit = len(text) // _LEAST_REPEATS
    done = 0
    for start in range(0, len(text) - _SAMPLE, step):
        sample = text[start : start + _SAMPLE]
        end = start + longest_unit + _SAMPLE
        place = text.find(sample, start + 1, end)
        if place < 0 or start < done or sample.isspace():
            continue
        for _ in range(_MOST_OCCURRENCES):
            period = place - start
            first, last = _extend(text, start, period)
            if last - first >= max(least, period * _LEAST_REPEATS):
                done = last
                if not (is_document and _is_of_scalars(text[first : first + period])):
                    yield last - first
                break
            place = text.find(sample, place + 1, end)
            if place < 0:
                break


def _extend(text: str, start: int, period: int) -> tuple[int, int]:
    """Return the first and last place of the text around `start` in which each character recurs after the period."""
    last = start + period
    while size := _count_equal(text, last, last + min(_BLOCK, len(text) - last), period):
        last += size
    first = start
    while size := _count_equal_before(text, first, max(0, first - _BLOCK), period):
        first -= size
    return first, last


def _count_equal(text: str, first: int, last: int, period: int) -> int:
    """Return a number of characters from `first` on that equal the characters a period before; 0 if there are none."""
    while first < last and text[first:last] != text[first - period : last - period]:
        last = (first + last) // 2
    return last - first


def _count_equal_before(text: str, last: int, first: int, period: int) -> int:
    """Return a number of characters before `last` that equal the characters a period after; 0 if there are none."""
    while first < last and text[first:last] != text[first + period : last + period]:
        first = (first + last + 1) // 2
    return last - first


def _is_of_scalars(unit: str) -> bool:
    """Return whether the unit is one or more items of an array of numbers, true, false or null."""
    return "," in unit and _OF_SCALARS.issuperset(unit)
