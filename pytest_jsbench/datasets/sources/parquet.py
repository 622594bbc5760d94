"""
Read Parquet files in a child process; each row is a case.

The child calls the functions of `parquet_tables`, which is the only module that imports pyarrow.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_jsbench.core.errors import DatasetError, describe_exhaustion
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, ChildNotStarted, GuardedCalls
from pytest_jsbench.datasets.base import ListedCase
from pytest_jsbench.datasets.columns import are_schemas
from pytest_jsbench.datasets.sources import rows

#: Module whose functions the child calls.
_TABLES = "pytest_jsbench.datasets.sources.parquet_tables"
#: Maximum address space for reading Parquet, in bytes; pyarrow's allocator reserves a gigabyte at the start.
MEMORY = 4 << 30
#: Time limit for each call of the child process in seconds.
SECONDS = 300.0
#: Number of rows to read at once, first for their names only, then for all columns.
_NAMES_AT_ONCE = 10_000
_ROWS_AT_ONCE = 16
#: Number of blocks of rows to keep in memory, for threads that read different blocks at the same time.
_KEPT = 8
#: Lock for reading a block, so that threads which need the same block read it only once.
_READING = threading.Lock()


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
    calls = calls or _calls()
    places = str(reader.root or path.parent), str(reader.start), str(path)
    sizes, columns = _call_child(calls, "read_outline", *places)
    check(columns)
    only_schemas = are_schemas(columns)
    for group, size in enumerate(sizes):
        for first in range(0, size, _NAMES_AT_ONCE):
            names = _call_child(calls, "read_names", *places, group, first, _NAMES_AT_ONCE)
            for index, row in enumerate(names, start=first):
                read = partial(_read_row, _Group(calls, places, group), index)
                where = f"{place or path} row {number}"
                name = f"row-{number}"
                yield rows.list_row(read, row, task=task, name=name, where=where, only_schema=only_schemas)
                number += 1


class _Group(NamedTuple):
    """A row group of a file."""

    calls: GuardedCalls
    #: Root directory of the file, start directory for a relative name, and file name.
    places: tuple[str, str, str]
    number: int


def _read_row(group: _Group, index: int) -> dict[str, Any]:
    """Read a row of a group, together with adjacent rows, which are likely to be read next."""
    number, offset = divmod(index, _ROWS_AT_ONCE)
    with _READING:
        block = _read_block(group, number)
    if block is not None:
        return block[offset]
    try:
        row: dict[str, Any] = _call_child(group.calls, "read_rows", *group.places, group.number, index, 1)[0]
    except DatasetError as error:
        if describe_exhaustion(error):
            raise
        raise Unreadable(str(error)) from None
    return row


@lru_cache(maxsize=_KEPT)
def _read_block(group: _Group, number: int) -> list[dict[str, Any]] | None:
    """Read adjacent rows; return None if one of them is unreadable, or all of them exceed the size limit of a row."""
    try:
        block: list[dict[str, Any]] = _call_child(
            group.calls, "read_rows", *group.places, group.number, number * _ROWS_AT_ONCE, _ROWS_AT_ONCE
        )
    except DatasetError as error:
        if describe_exhaustion(error):
            raise
        return None
    return block


@lru_cache(maxsize=1)
def _calls() -> GuardedCalls:
    """
    Return the child process that reads tables. Its memory is limited, since a small file may
    decompress to any size.
    """
    return GuardedCalls(memory=MEMORY)


def _call_child(calls: GuardedCalls, function: str, root: str, start: str, name: str, *arguments: object) -> Any:
    """Call a function of `parquet_tables` in the child process; raise DatasetError with one line if that fails."""
    cause: Exception
    try:
        return calls.call(f"{_TABLES}:{function}", root, start, name, *arguments, seconds=SECONDS)
    except CallBroke as error:
        cause = error
        kind, _, problem = str(error).partition(": ")
        message = problem if kind == DatasetError.__name__ else f"cannot read {name}: {error}"
    except (BoundExceeded, ChildNotStarted) as error:
        cause = error
        message = f"cannot read {name}: {error}"
    raise DatasetError(message) from cause
