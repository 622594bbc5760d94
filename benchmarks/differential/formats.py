"""Strings of each format that is asserted, three in four changed at a few places."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.differential.questions import SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.keywords import FORMATS
from tests.verdicts.format_strings import Strings

#: strings of one question
_TOGETHER = 200


def format_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """As many strings of each format."""
    strings: dict[str, list[str]] = defaultdict(list)
    for name, text in Strings(seed).pairs(pairs // len(FORMATS)):
        strings[name].append(json.dumps(text))
    for name, texts in strings.items():
        for start in range(0, len(texts), _TOGETHER):
            together = tuple(texts[start : start + _TOGETHER])
            yield SchemaQuestion(name=f"format {name}", schema={"format": name}, dialect=DRAFT_2020_12, texts=together)
