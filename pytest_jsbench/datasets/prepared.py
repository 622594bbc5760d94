"""
A selection written down once, by the process that made it, and read by the others.

`index.json` holds the keys in order; `rows` holds, where the dataset can give them, the rows' texts one after another,
so that no other process opens the source, imports what reads it, or holds more than the rows it needs.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import Dataset, Row, RowDataset
from pytest_jsbench.datasets.selection import whole
from pytest_jsbench.datasets.sources.rows import SCHEMA_NAMES, case_of

_INDEX = "index.json"
_ROWS = "rows"
#: between a row's place and its text; a place is one line
_BREAK = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDataset:
    """A selection as another process has written it down."""

    #: by key, where its row begins and ends in `rows`; None for one that was not written down
    places: Mapping[CaseKey, tuple[int, int] | None]
    rows: mmap.mmap | None
    #: opens the source itself, for what was not written down
    reopen: Callable[[], Dataset]

    @classmethod
    def open(cls, folder: Path, reopen: Callable[[], Dataset]) -> PreparedDataset:
        """What `prepare` has written."""
        index = json.loads((folder / _INDEX).read_text("ascii"))
        places = {
            CaseKey(task=index["tasks"][task], id=case_id): None if begin is None else (begin, end)
            for task, case_id, begin, end in index["keys"]
        }
        path = folder / _ROWS
        rows = None
        if path.stat().st_size:
            with path.open("rb") as file:
                rows = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(places=places, rows=rows, reopen=reopen)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.places)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them, parsed now."""
        place = self.places[key]
        if place is None or self.rows is None:
            return self.reopen().case(key)
        where, _, text = self.rows[place[0] : place[1]].partition(_BREAK)
        row = {SCHEMA_NAMES[0]: text.decode("utf-8", "surrogatepass")}
        return case_of(key, row, where=where.decode("utf-8", "surrogatepass"))


def prepare(dataset: Dataset, folder: Path) -> None:
    """Write a selection down in a folder; of a dataset that gives no rows, only the keys."""
    keys = dataset.keys()
    source = whole(dataset)
    tasks = {task: number for number, task in enumerate(dict.fromkeys(key.task for key in keys))}
    places: dict[CaseKey, tuple[int, int]] = {}
    with private(folder / _ROWS).open("wb") as file:
        if isinstance(source, RowDataset):
            wanted = frozenset(keys)
            for key, row in source.all_rows():
                if key in wanted:
                    places[key] = _write(file, row)
    index = {
        "tasks": list(tasks),
        "keys": [(tasks[key.task], key.id, *places.get(key, (None, None))) for key in keys],
    }
    private(folder / _INDEX).write_text(json.dumps(index), "ascii")


def _write(file: BinaryIO, row: Row) -> tuple[int, int]:
    begin = file.tell()
    where = " ".join(row.where.splitlines())
    file.write(where.encode("utf-8", "surrogatepass") + _BREAK + row.text.encode("utf-8", "surrogatepass"))
    return begin, file.tell()
