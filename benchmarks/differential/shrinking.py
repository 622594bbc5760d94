"""The smallest pair that shows the same disagreement."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from benchmarks.differential.disagreements import Disagreement
from benchmarks.differential.opinions import Answered, Panel
from benchmarks.differential.questions import PatternQuestion, Question

#: steps of one shrinking; each takes the first smaller pair that still shows it
_MOST_STEPS = 60


def shrunk(found: Disagreement, panel: Panel) -> Disagreement:
    """The disagreement, of a pair from which nothing can be left out."""
    question = found.question
    for _ in range(_MOST_STEPS):
        with contextlib.closing(panel.ask(_smaller(question))) as answers:
            smaller = next((one for one in answers if _shows(one, found)), None)
        if smaller is None:
            break
        question = smaller.question
    return dataclasses.replace(found, question=question)


def _shows(answered: Answered, found: Disagreement) -> bool:
    theirs = answered.others.get(found.validator, answered.ours)
    same_reason = theirs.whys.get(0, "")[:20] == found.their_why[:20]
    return answered.ours.verdicts == found.ours and theirs.verdicts == found.theirs and same_reason


def _smaller(question: Question) -> Iterator[Question]:
    """Everything that the question becomes when one piece is left out, large pieces first."""
    if isinstance(question, PatternQuestion):
        for pattern in _shorter(question.pattern):
            yield dataclasses.replace(question, pattern=pattern)
        for text in _shorter(question.texts[0]):
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
        # what is no JSON has no parts, only characters
        return _shorter(text)
    return map(json.dumps, _without_one(instance))


def _shorter(text: str) -> Iterator[str]:
    for length in (max(1, len(text) // 2), max(1, len(text) // 4), 1):
        for start in range(0, len(text), length):
            yield text[:start] + text[start + length :]


def _without_one(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield {other: held for other, held in value.items() if other != name}
        for name, held in value.items():
            yield from ({**value, name: smaller} for smaller in _without_one(held))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield [*value[:number], *value[number + 1 :]]
        for number, held in enumerate(value):
            yield from ([*value[:number], smaller, *value[number + 1 :]] for smaller in _without_one(held))
