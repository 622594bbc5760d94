"""Real schemas with labelled answers from public data, and mutations of the answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from benchmarks.differential.questions import SchemaQuestion
from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, dialect_of
from pytest_jsbench.verdicts.answer_text import DEEPEST
from tests.support.mutations import mutated, text_of
from tests.support.public_data import labelled


def _by_schema() -> Iterator[tuple[str, object, list[tuple[str, bool]]]]:
    found: dict[str, tuple[str, object, list[tuple[str, bool]]]] = {}
    for name, schema, text, valid in labelled():
        found.setdefault(json.dumps(schema), (name, schema, []))[2].append((text, valid))
    yield from found.values()


def labelled_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """Yield the schemas in a seeded order, up to this many pairs."""
    groups = list(_by_schema())
    random.Random(f"{seed} labelled").shuffle(groups)
    for name, schema, answers in groups:
        dialect = isinstance(schema, bool | dict) and dialect_of(schema, DRAFT_2020_12)
        if not dialect or pairs <= 0:
            continue
        pairs -= len(answers)
        texts, labels = zip(*answers, strict=True)
        yield SchemaQuestion(name=name, schema=schema, dialect=dialect, texts=texts, labels=labels)


def mutated_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """Yield the same schemas with mutations of their answers; some are not JSON."""
    groups = list(_by_schema())
    chance = random.Random(f"{seed} mutated")
    chance.shuffle(groups)
    each = max(4, round(pairs / max(1, len(groups))))
    for name, schema, answers in groups:
        dialect = isinstance(schema, bool | dict) and dialect_of(schema, DRAFT_2020_12)
        if not dialect or pairs <= 0:
            continue
        made = (text_of(mutated(json.loads(chance.choice(answers)[0]), chance)) for _ in range(each))
        #  skip texts beyond the judge's limits
        texts = tuple(dict.fromkeys(text for text in made if len(text) < 20_000 and not too_deep(text, DEEPEST)))
        pairs -= len(texts)
        yield SchemaQuestion(name=f"{name} mutated", schema=schema, dialect=dialect, texts=texts)
