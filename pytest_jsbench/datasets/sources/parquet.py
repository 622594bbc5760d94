"""Read Parquet files with pyarrow, in a child process; each row is a case."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_jsbench.core.errors import DatasetError, describe_exhaustion
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, ChildNotStarted, GuardedCalls
from pytest_jsbench.core.text import describe_error
from pytest_jsbench.datasets.base import MOST_CASES, ListedCase
from pytest_jsbench.datasets.sources import rows

#: Maximum size in bytes of a row group after decompression.
LARGEST_GROUP = 400_000_000
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


def find(reader: FileReader, path: Path, *, task: str, calls: GuardedCalls | None = None) -> Iterator[ListedCase]:
    """Yield the rows of the file, read through `calls`; `task` is used for rows without a task."""
    if importlib.util.find_spec("pyarrow") is None:
        raise DatasetError(f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'")
    number = 0
    calls = calls or _calls()
    places = str(reader.root or path.parent), str(reader.start), str(path)
    groups, only_schemas = _call_child(calls, "read_outline", *places)
    for group in range(groups):
        first = 0
        while names := _call_child(calls, "read_names", *places, group, first):
            for index, row in enumerate(names, start=first):
                read = partial(_read_row, _Group(calls, places, group), index)
                place = f"{path} row {number}"
                name = f"row-{number}"
                yield rows.list_row(read, row, task=task, name=name, where=place, only_schema=only_schemas)
                number += 1
            first += len(names)


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
    """Call a function of this module in the child process; raise DatasetError with one line if that fails."""
    cause: Exception
    try:
        return calls.call(f"{__name__}:{function}", root, start, name, *arguments, seconds=SECONDS)
    except CallBroke as error:
        cause = error
        kind, _, problem = str(error).partition(": ")
        message = problem if kind == DatasetError.__name__ else f"cannot read {name}: {error}"
    except (BoundExceeded, ChildNotStarted) as error:
        cause = error
        message = f"cannot read {name}: {error}"
    raise DatasetError(message) from cause


@contextlib.contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert the errors of pyarrow for damaged Parquet files to DatasetError with one line."""
    import pyarrow

    try:
        yield
    except MemoryError:  # pyarrow's MemoryError is an ArrowException, too
        raise MemoryError from None
    except Unreadable as error:
        raise DatasetError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DatasetError(f"cannot read {path}: {describe_error(error, 200)}; expected a Parquet file") from error


@contextlib.contextmanager
def open_table(root: str, start: str, name: str) -> Iterator[Any]:
    """
    Open the table of a Parquet file; raise DatasetError if it exceeds the limits.

    Text columns are read dictionary-encoded, so that a long text that every row repeats is stored only once.
    """
    from pyarrow import parquet

    path = Path(name)
    with _convert_errors(path), FileReader(root=Path(root), start=Path(start)).open(path) as file:
        metadata = parquet.read_metadata(file)
        _check_size(path, metadata)
        columns = map(metadata.schema.column, range(metadata.num_columns))
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        yield parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts, pre_buffer=False)


def _check_size(path: Path, metadata: Any) -> None:
    if metadata.num_rows > MOST_CASES:
        message = f"has {metadata.num_rows:,} rows; expected at most {MOST_CASES:,}"
        raise Unreadable(message, reason="too_large", path=path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        # a few bytes can represent a billion equal values, and each one becomes a pointer
        values = sum(group.column(number).num_values for number in range(group.num_columns))
        size = max(group.total_byte_size, 8 * values)
        if not 0 <= size <= LARGEST_GROUP:
            message = f"has a row group of {size:,} bytes after decompression; expected at most {LARGEST_GROUP:,}"
            raise Unreadable(message, reason="too_large", path=path)


def read_outline(root: str, start: str, name: str) -> tuple[int, bool]:
    """
    Check the columns of a file; return the number of its row groups, and whether its rows consist
    only of a schema.
    """
    # the functions from here on run in the child process
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        return int(file.num_row_groups), rows.are_schemas(columns)


def read_names(root: str, start: str, name: str, group: int, first: int) -> list[dict[str, Any]]:
    """Return the names and tasks of the group's rows from row `first`; empty after the last row."""
    with _convert_errors(Path(name)):
        table = _read_group(root, start, name, group, names_only=True)
        numbers = range(first, min(first + _NAMES_AT_ONCE, table.num_rows))
        if not table.num_columns:
            return [{}] * len(numbers)
        return [table.slice(number, 1).to_pylist()[0] for number in numbers]


def read_rows(root: str, start: str, name: str, group: int, first: int, count: int) -> list[dict[str, Any]]:
    """Return `count` rows of a group from row `first`."""
    with _convert_errors(Path(name)):
        table = _read_group(root, start, name, group).slice(first, count)
        return [
            {field.name: _to_json(row[field.name], field) for field in table.schema if field.name in row}
            for row in table.to_pylist()
        ]


#: Columns with JSON text, which is parsed when the case is read.
_TEXTS = (*rows.SCHEMA_NAMES, "expected", "ground_truth")


def _to_json(value: Any, field: Any) -> Any:
    """Return a cell as a value that can be sent to the other process as JSON."""
    if field.name in _TEXTS and isinstance(value, str):
        return value
    if field.name in rows.SCHEMA_NAMES or field.name in rows.ID_NAMES:
        return value
    plain = rows.as_json(_decode(value, field.type), field.name)
    # a date or a time in a column of JSON text becomes the JSON text of a string
    return json.dumps(plain) if field.name in _TEXTS and isinstance(plain, str) else plain


def _decode(value: Any, kind: Any) -> Any:
    """Return a cell, parsed if its Arrow type is JSON text (`datasets.Json`)."""
    import pyarrow

    if value is None:
        return None
    if _is_json(kind):
        return parse_json(value)
    if pyarrow.types.is_struct(kind):
        return {part.name: _decode(value[part.name], part.type) for part in kind}
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return [_decode(part, kind.value_type) for part in value]
    return value


def _is_json(kind: Any) -> bool:
    """Return whether an Arrow type is JSON text."""
    return getattr(kind, "extension_name", "") == "arrow.json"


@lru_cache(maxsize=2)
def _read_group(root: str, start: str, name: str, group: int, *, names_only: bool = False) -> Any:
    """Read the needed columns of a group, or only the columns with names and tasks."""
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        wanted = [column for column in columns if column in (*rows.ID_NAMES, "task")] if names_only else columns
        return file.read_row_group(group, columns=wanted, use_threads=False)


def _columns(name: str, schema: Any) -> list[str]:
    import pyarrow

    schema_column = rows.schema_column(schema.names, name)
    kind = schema.field(schema_column).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (_is_json(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise DatasetError(f"{name}: column {schema_column} is {str(kind)[:60]}; expected JSON Schemas as text")
    return [column for column in schema.names if column in {schema_column, *rows.ID_NAMES, *rows.OTHER_NAMES}]
