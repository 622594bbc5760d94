"""
Read Parquet files in a child process; each row is a case.

The child calls the functions of `parquet_tables`, which is the only module that imports pyarrow.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.datasets.base import ListedCase
from pytest_jsbench.datasets.columns import are_schemas
from pytest_jsbench.datasets.sources import rows
from pytest_jsbench.datasets.sources.parquet_child import table_calls
from pytest_jsbench.datasets.sources.parquet_rows import RowGroup, RowReader, TableRow

#: Number of rows whose names are read at once.
_NAMES_AT_ONCE = 10_000


def find(
    reader: FileReader,
    path: Path,
    *,
    task: str,
    place: str | None = None,
    check: Callable[[Sequence[str]], None] = lambda _: None,
    calls: GuardedCalls | None = None,
) -> Iterator[ListedCase]:
    """
    Yield the rows of the file, read through `calls`; `task` is used for rows without a task.

    `place` is used in messages in place of the file's path. `check` may raise DatasetError for the file's columns.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise DatasetError(f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'")
    number = 0
    table = _reader() if calls is None else RowReader(calls)
    places = str(reader.root or path.parent), str(reader.start), str(path)
    sizes, columns = table.call("read_outline", places)
    check(columns)
    only_schemas = are_schemas(columns)
    for group, size in enumerate(sizes):
        row_group = RowGroup(places, group)
        table.add_group(row_group, size)
        for first in range(0, size, _NAMES_AT_ONCE):
            names = table.call("read_names", places, group, first, _NAMES_AT_ONCE)
            for index, row in enumerate(names, start=first):
                read = TableRow(table, row_group, index)
                where = f"{place or path} row {number}"
                name = f"row-{number}"
                yield rows.list_row(read, row, task=task, name=name, where=where, only_schema=only_schemas)
                number += 1


@lru_cache(maxsize=1)
def _reader() -> RowReader:
    """Return the reader of this process."""
    return RowReader(table_calls())
