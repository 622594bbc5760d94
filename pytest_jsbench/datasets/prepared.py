"""
A selection written down once, by the process that made it, and read by the others.

`index.json` holds the keys in order; `rows` holds, where the dataset can give them, the schemas' texts, a line each, so
that no other process opens the source, imports what reads it, or holds more than the rows it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import CaseSource, ListedCase, Listing
from pytest_jsbench.datasets.sources.rows import SCHEMA_NAMES, case_of

_INDEX = "index.json"
_ROWS = "rows"


def open_prepared(folder: Path, reopen: Callable[[], Listing]) -> Listing:
    """Open what `prepare` has written; `reopen` opens the source itself, for what was not written down."""
    index, rows = json.loads((folder / _INDEX).read_text("ascii")), folder.resolve() / _ROWS
    entries: dict[CaseKey, ListedCase] = {}
    for task, name, where, place in index["keys"]:
        key = CaseKey(task=index["tasks"][task], id=name)
        read = (lambda key: reopen().case(key)) if place is None else partial(_read, rows, place)
        entries[key] = ListedCase(task=key.task, name=name, where=where, read=read)
    if any(place is None for *_, place in index["keys"]):
        reopen()  # now, before a test goes to another folder
    return Listing(entries=entries)


def _read(rows: Path, place: int, key: CaseKey) -> Case:
    with rows.open("rb") as file:
        file.seek(place)
        return case_of(key, {SCHEMA_NAMES[0]: json.loads(file.readline())})


def prepare(dataset: CaseSource, folder: Path) -> None:
    """Write a selection down in a folder; of a dataset that gives no texts, only the keys."""
    dataset = Listing.over(dataset)
    tasks = {task: number for number, task in enumerate(dict.fromkeys(key.task for key in dataset.keys()))}
    places: dict[CaseKey, int] = {}
    with private(folder / _ROWS).open("wb") as file:
        for key, text in dataset.texts():
            places[key] = file.tell()
            file.write(json.dumps(text).encode("ascii") + b"\n")
    keys = [(tasks[key.task], key.id, entry.where, places.get(key)) for key, entry in dataset.entries.items()]
    private(folder / _INDEX).write_text(json.dumps({"tasks": list(tasks), "keys": keys}), "ascii")
