"""The official JSON Schema test suite, required and optional tests, for each supported draft."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from benchmarks.differential.questions import SchemaQuestion
from pytest_jsbench.schemas.dialects import DIALECTS
from tests.support.bundles import bundle
from tests.support.public_data import suite

_FOLDERS = dict(zip(DIALECTS, ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"), strict=True))


def official_questions(seed: int, pairs: int) -> Iterator[SchemaQuestion]:
    """Yield its cases in a seeded order up to this many pairs; remote documents are bundled."""
    cases = [(dialect, folder, *one) for dialect, folder in _FOLDERS.items() for one in suite(folder)]
    random.Random(f"{seed} official").shuffle(cases)
    for dialect, folder, file, case in cases:
        if pairs <= 0:
            return
        pairs -= len(case["tests"])
        yield SchemaQuestion(
            name=f"{folder}/{file}: {case['description']}",
            schema=bundle(case["schema"], dialect),
            dialect=dialect,
            texts=tuple(json.dumps(test["data"]) for test in case["tests"]),
            labels=tuple(test["valid"] for test in case["tests"]),
            #  in all other files the suite expects formats and contents to be annotations only
            formats=file.startswith("optional/format/") or file == "optional/content.json",
        )
