"""A Parquet file: a row of its table is a case."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pytest_jsbench.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.datasets import rows
from pytest_jsbench.datasets.documents import Unreadable, broken
from pytest_jsbench.datasets.listing import Found
from pytest_jsbench.errors import DatasetError


def find(path: Path, *, task: str) -> Iterator[Found]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    if importlib.util.find_spec("pyarrow") is None:
        message = f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'"
        raise DatasetError(message)
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        table = _Table(file, _columns(path, file.schema_arrow))
        number = 0
        for group in range(file.num_row_groups):
            for index, row in enumerate(table.names(group)):
                yield Found(
                    task=rows.task_of(row) or task,
                    name=rows.name_of(row) or f"row-{number}",
                    read=partial(_read, path, table, group, index, number),
                )
                number += 1
    except (OSError, pyarrow.ArrowException) as error:
        message = f"cannot read {path}: {' '.join(str(error).split())[:200]}; expected a Parquet file"
        raise DatasetError(message) from None


class _Table:
    """The table on disk, of which the row groups read last stay in memory."""

    def __init__(self, file: Any, columns: list[str]) -> None:
        self._file = file
        self._columns = columns
        self._group = lru_cache(maxsize=2)(self._load)
        self._one_at_a_time = threading.Lock()

    def names(self, group: int) -> list[dict[str, Any]]:
        """What the rows of a group are called, and their tasks."""
        wanted = [name for name in (*rows.ID_NAMES, "task") if name in self._columns]
        if not wanted:
            return [{}] * int(self._file.metadata.row_group(group).num_rows)
        named: list[dict[str, Any]] = self._file.read_row_group(group, columns=wanted).to_pylist()
        return named

    def row(self, group: int, index: int) -> dict[str, Any]:
        """One row."""
        with self._one_at_a_time:
            (row,) = self._group(group).slice(index, 1).to_pylist()
        found: dict[str, Any] = row
        return found

    def _load(self, group: int) -> Any:
        return self._file.read_row_group(group, columns=self._columns)


def _columns(path: Path, schema: Any) -> list[str]:
    import pyarrow

    held = next((name for name in rows.SCHEMA_NAMES if name in schema.names), None)
    if held is None:
        message = f"{path} has no column {' or '.join(rows.SCHEMA_NAMES)}; its columns are {', '.join(schema.names)}"
        raise DatasetError(message)
    kind = schema.field(held).type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        message = f"{path}: column {held} is {str(kind)[:60]}; expected text, each a JSON Schema"
        raise DatasetError(message)
    return [name for name in schema.names if name in {held, *rows.ID_NAMES, *rows.OTHER_NAMES}]


def _read(path: Path, table: _Table, group: int, index: int, number: int, key: CaseKey) -> Case | BrokenCase:
    where = f"{path} row {number}"
    try:
        row = table.row(group, index)
    except OSError as error:  # Arrow's own among them
        return broken(key, where, Unreadable(f"cannot be read: {error}"))
    return rows.case_of(key, row, where=where)
