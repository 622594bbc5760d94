"""
A selection written down once, by the process that made it, and read by the others.

`index.json` holds the keys in order; `rows` holds, where the dataset can give them, the rows' texts, a line each, so
that no other process opens the source, imports what reads it, or holds more than the rows it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import CaseSource, ListedCase, Listing, read_case
from pytest_jsbench.datasets.sources.rows import SCHEMA_NAMES, case_of

_INDEX = "index.json"
_ROWS = "rows"


def open_prepared(folder: Path, reopen: Callable[[], CaseSource]) -> Listing:
    """Open what `prepare` has written; `reopen` opens the source itself, for what was not written down."""
    index = json.loads((folder / _INDEX).read_text("ascii"))
    entries: dict[CaseKey, ListedCase] = {}
    for task, name, place in index["keys"]:
        key = CaseKey(task=index["tasks"][task], id=name)
        read = partial(_reopened, reopen) if place is None else partial(_read, folder.resolve() / _ROWS, place)
        entries[key] = ListedCase(task=key.task, name=name, where=name, read=read)
    if any(place is None for _, _, place in index["keys"]):
        reopen()  # now, before a test goes to another folder
    return Listing(entries=entries)


def _reopened(reopen: Callable[[], CaseSource], key: CaseKey) -> Case | BrokenCase:
    return reopen().case(key)


def _read(rows: Path, place: int, key: CaseKey) -> Case | BrokenCase:
    with rows.open("rb") as file:
        file.seek(place)
        where, text = json.loads(file.readline())
    return read_case(key, where, lambda key: case_of(key, {SCHEMA_NAMES[0]: text}))


def prepare(dataset: CaseSource, folder: Path) -> None:
    """Write a selection down in a folder; of a dataset that gives no rows, only the keys."""
    keys = dataset.keys()
    tasks = {task: number for number, task in enumerate(dict.fromkeys(key.task for key in keys))}
    places: dict[CaseKey, int] = {}
    with private(folder / _ROWS).open("wb") as file:
        for key, row in dataset.rows() if isinstance(dataset, Listing) else ():
            places[key] = file.tell()
            file.write(json.dumps([row.where, row.text]).encode("ascii") + b"\n")
    index = {"tasks": list(tasks), "keys": [(tasks[key.task], key.id, places.get(key)) for key in keys]}
    private(folder / _INDEX).write_text(json.dumps(index), "ascii")
