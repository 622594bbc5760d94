"""Reduction of a disagreement to a minimal pair."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from benchmarks.differential.disagreements import Disagreement
from benchmarks.differential.opinions import Answered, Panel
from benchmarks.differential.questions import PatternQuestion, Question

#:  Maximum number of steps; each takes the first smaller pair that still shows the disagreement.
_MAX_STEPS = 60


def shrink(found: Disagreement, panel: Panel) -> Disagreement:
    """Return the disagreement for a pair that cannot be reduced any further."""
    question = found.question
    for _ in range(_MAX_STEPS):
        with contextlib.closing(panel.evaluate(_smaller_questions(question))) as answers:
            smaller = next((one for one in answers if _shows(one, found)), None)
        if smaller is None:
            break
        question = smaller.question
    return dataclasses.replace(found, question=question)


def _shows(answered: Answered, found: Disagreement) -> bool:
    theirs = answered.others.get(found.validator, answered.ours)
    same_reason = theirs.whys.get(0, "")[:20] == found.their_why[:20]
    return answered.ours.verdicts == found.ours and theirs.verdicts == found.theirs and same_reason


def _smaller_questions(question: Question) -> Iterator[Question]:
    """Yield each question with one piece left out, large pieces first."""
    if isinstance(question, PatternQuestion):
        for pattern in _shorter_texts(question.pattern):
            yield dataclasses.replace(question, pattern=pattern)
        for text in _shorter_texts(question.texts[0]):
            yield dataclasses.replace(question, texts=(text,))
        return
    for schema in _without_one(question.schema):
        yield dataclasses.replace(question, schema=schema, labels=None)
    for text in _smaller_texts(question.texts[0]):
        yield dataclasses.replace(question, texts=(text,), labels=None)


def _smaller_texts(text: str) -> Iterator[str]:
    try:
        instance = json.loads(text)
    except ValueError:
        #  text that is not JSON is reduced by characters
        return _shorter_texts(text)
    return map(json.dumps, _without_one(instance))


def _shorter_texts(text: str) -> Iterator[str]:
    for length in (max(1, len(text) // 2), max(1, len(text) // 4), 1):
        for start in range(0, len(text), length):
            yield text[:start] + text[start + length :]


def _without_one(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield {other: inner for other, inner in value.items() if other != name}
        for name, inner in value.items():
            yield from ({**value, name: smaller} for smaller in _without_one(inner))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield [*value[:number], *value[number + 1 :]]
        for number, inner in enumerate(value):
            yield from ([*value[:number], smaller, *value[number + 1 :]] for smaller in _without_one(inner))
