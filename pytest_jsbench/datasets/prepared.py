"""
A selection written down once, by the process that made it, and read by the others.

`index.json` holds the keys in order; `rows` holds, where the dataset can give them, the rows' texts one after another,
so that no other process opens the source, imports what reads it, or holds more than the rows it needs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import CaseSource, Listing, read_case
from pytest_jsbench.datasets.row_file import RowFile, RowPlace
from pytest_jsbench.datasets.sources.rows import SCHEMA_NAMES, case_of

_INDEX = "index.json"
_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDataset:
    """A selection as another process has written it down."""

    #: by key, where its row is in `rows`; None for one that was not written down
    places: Mapping[CaseKey, RowPlace | None]
    rows: RowFile
    #: opens the source itself, for what was not written down
    reopen: Callable[[], CaseSource]

    @classmethod
    def open(cls, folder: Path, reopen: Callable[[], CaseSource]) -> PreparedDataset:
        """What `prepare` has written."""
        index = json.loads((folder / _INDEX).read_text("ascii"))
        places = {
            CaseKey(task=index["tasks"][task], id=case_id): None if begin is None else (begin, end)
            for task, case_id, begin, end in index["keys"]
        }
        if not all(places.values()):
            reopen()  # now, before a test goes to another folder
        return cls(places=places, rows=RowFile.open(folder / _ROWS), reopen=reopen)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.places)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them, parsed now."""
        place = self.places[key]
        if place is None:
            return self.reopen().case(key)
        row = self.rows.read(place)
        return read_case(key, row.where, lambda key: case_of(key, {SCHEMA_NAMES[0]: row.text}))


def prepare(dataset: CaseSource, folder: Path) -> None:
    """Write a selection down in a folder; of a dataset that gives no rows, only the keys."""
    keys = dataset.keys()
    tasks = {task: number for number, task in enumerate(dict.fromkeys(key.task for key in keys))}
    places: dict[CaseKey, RowPlace] = {}
    with contextlib.closing(RowFile.create(folder / _ROWS)) as file:
        if isinstance(dataset, Listing):
            places = {key: file.append(row) for key, row in dataset.rows()}
    index = {
        "tasks": list(tasks),
        "keys": [(tasks[key.task], key.id, *places.get(key, (None, None))) for key in keys],
    }
    private(folder / _INDEX).write_text(json.dumps(index), "ascii")
