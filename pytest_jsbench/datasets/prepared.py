"""
Write a selection to disk in one process, for the other processes to read.

`index.json` contains the keys in order. `rows` contains the schemas' texts, one per line, if the dataset has them, so
that no other process opens the source, imports its reader, or loads more rows than it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import CaseSource, ListedCase, Listing
from pytest_jsbench.datasets.columns import SCHEMA_NAMES
from pytest_jsbench.datasets.sources.rows import case_of

_INDEX = "index.json"
_ROWS = "rows"


def open_prepared(folder: Path, reopen: Callable[[], Listing]) -> Listing:
    """Open a selection that `prepare` has written; `reopen` opens the source for cases without a written text."""
    index = json.loads((folder / _INDEX).read_text("ascii"))
    rows = folder.resolve() / _ROWS

    def read_source(key: CaseKey) -> Case | BrokenCase:
        return reopen().case(key)

    entries: dict[CaseKey, ListedCase] = {}
    for task, name, where, place in index["keys"]:
        key = CaseKey(task=index["tasks"][task], id=name)
        read = read_source if place is None else partial(_read, rows, place)
        entries[key] = ListedCase(task=key.task, name=name, where=where, read=read)
    if any(place is None for *_, place in index["keys"]):
        reopen()  # open the source now, before a test changes the working directory
    return Listing(entries=entries)


def _read(rows: Path, place: int, key: CaseKey) -> Case:
    with rows.open("rb") as file:
        file.seek(place)
        return case_of(key, {SCHEMA_NAMES[0]: json.loads(file.readline())})


def prepare(dataset: CaseSource, folder: Path) -> None:
    """Write a selection to a directory: its keys, and the schemas' texts if the dataset has them."""
    dataset = Listing.from_source(dataset)
    tasks = {task: number for number, task in enumerate(dict.fromkeys(key.task for key in dataset.keys()))}
    places: dict[CaseKey, int] = {}
    with private(folder / _ROWS).open("wb") as file:
        for key, text in dataset.texts():
            places[key] = file.tell()
            file.write(json.dumps(text).encode("ascii") + b"\n")
    keys = [(tasks[key.task], key.id, entry.where, places.get(key)) for key, entry in dataset.entries.items()]
    private(folder / _INDEX).write_text(json.dumps({"tasks": list(tasks), "keys": keys}), "ascii")
