"""Read public data that is next to the repository during development, and not part of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
#: Evaluation files written by another tool.
OPENADAPT_EVALS = DATA / "openadapt_evals"

needs_labels = pytest.mark.skipif(
    not (DATA / "labelled").is_dir(), reason=f"the labelled answers are not at {DATA / 'labelled'}"
)
needs_suite = pytest.mark.skipif(
    not (DATA / "JSON-Schema-Test-Suite").is_dir(), reason=f"the official test suite is not at {DATA}"
)


def labelled(every: int = 1) -> Iterator[tuple[str, Any, str, bool]]:
    """Yield name, schema, answer text and label of every n-th labelled answer."""
    schemas = {}
    for row in _rows("schemas"):
        schemas.update(dict.fromkeys((row["schema_id"], *row["aliases"]), row["schema"]))
    for row in list(_rows("instances"))[::every]:
        # the schemas of a few answers are not published here
        if row["schema_id"] in schemas:
            yield row["id"], schemas[row["schema_id"]], json.dumps(row["data"]), row["valid"]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / "labelled" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def suite(draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cases of the official suite for that draft, each with its file."""
    folder = DATA / "JSON-Schema-Test-Suite" / "tests" / draft
    for path in sorted(folder.rglob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            yield path.relative_to(folder).as_posix(), case
