"""Strings of each asserted format; three in four are mutated."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.differential.questions import SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.keywords import FORMATS
from tests.support.format_strings import Strings

#:  Number of strings in one question.
_QUESTION_SIZE = 200


def format_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """Yield questions with equally many strings of each format."""
    strings: dict[str, list[str]] = defaultdict(list)
    for name, text in Strings(seed).pairs(pairs // len(FORMATS)):
        strings[name].append(json.dumps(text))
    for name, texts in strings.items():
        for start in range(0, len(texts), _QUESTION_SIZE):
            together = tuple(texts[start : start + _QUESTION_SIZE])
            yield SchemaQuestion(name=f"format {name}", schema={"format": name}, dialect=DRAFT_2020_12, texts=together)
