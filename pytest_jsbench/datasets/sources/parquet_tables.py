"""
Read tables of Parquet files with pyarrow, in the child process of `parquet`.

This module imports little, since the child imports it at the start of a run.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import sys
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.heaps import limit_heaps
from pytest_jsbench.core.text import describe_error
from pytest_jsbench.datasets.columns import (
    ID_NAMES,
    MOST_CASES,
    OTHER_NAMES,
    SCHEMA_NAMES,
    as_json,
    schema_column,
)

#: Maximum size in bytes of a row group after decompression.
LARGEST_GROUP = 400_000_000
#: Level of zlib for packed rows: on real schemas, level 6 takes twice the time for a sixth less.
_COMPRESSION = 3


def _import_parquet() -> Any:
    """
    Import `pyarrow.parquet` without NumPy, which nothing here needs, and which would take most of the time.

    NumPy can be imported later, for pandas, which pyarrow uses for times in nanoseconds.
    """
    modules: dict[str, Any] = sys.modules
    if "pyarrow" in modules or "numpy" in modules:
        return importlib.import_module("pyarrow.parquet")
    modules["numpy"] = None
    try:
        return importlib.import_module("pyarrow.parquet")
    finally:
        del modules["numpy"]


def prepare() -> None:
    """Import what reading a table needs."""
    _import_parquet()


@cache
def _limit_memory() -> None:
    """
    Let pyarrow use the C library's heaps, and keep large blocks out of them.

    The C library extends a large block in place, while pyarrow's own allocator copies the block and keeps both: 31 of
    167 MB for the tables of JSONSchemaBench.
    """
    import pyarrow

    limit_heaps()
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())


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
    parquet = _import_parquet()
    _limit_memory()
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


def read_outline(root: str, start: str, name: str) -> tuple[list[int], list[str]]:
    """Check the columns of a file; return the number of rows of each row group, and the columns that are read."""
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        groups = map(file.metadata.row_group, range(file.num_row_groups))
        return [group.num_rows for group in groups], columns


def read_names(root: str, start: str, name: str, group: int, first: int, count: int) -> list[dict[str, Any]]:
    """Return the names and tasks of `count` rows of a group from row `first`; fewer at the end of the group."""
    with _convert_errors(Path(name)):
        table = _read_group(root, start, name, group, names_only=True)
        if not table.num_columns:
            return [{}] * min(count, table.num_rows - first)
        rows: list[dict[str, Any]] = table.slice(first, count).to_pylist()
        return rows


def read_rows(root: str, start: str, name: str, group: int, first: int, count: int) -> list[dict[str, Any]]:
    """Return `count` rows of a group from row `first`."""
    with _convert_errors(Path(name)):
        table = _read_group(root, start, name, group).slice(first, count)
        return [
            {field.name: _to_json(row[field.name], field) for field in table.schema if field.name in row}
            for row in table.to_pylist()
        ]


def pack_rows(root: str, start: str, name: str, group: int, first: int, size: int, most: int) -> list[str]:
    """
    Return rows of a group from row `first` in blocks of `size` rows, each as compressed JSON in base64.

    The last block is the one at the end of the group, or with which the JSON has more than `most` bytes.
    """
    blocks: list[str] = []
    length = 0
    while length <= most and (rows := read_rows(root, start, name, group, first, size)):
        block = json.dumps(rows).encode("ascii")
        blocks.append(base64.b64encode(zlib.compress(block, level=_COMPRESSION)).decode("ascii"))
        length += len(block)
        first += size
    return blocks


#: Columns with JSON text, which is parsed when the case is read.
_TEXTS = (*SCHEMA_NAMES, "expected", "ground_truth")


def _to_json(value: Any, field: Any) -> Any:
    """Return a cell as a value that can be sent to the other process as JSON."""
    if field.name in _TEXTS and isinstance(value, str):
        return value
    if field.name in SCHEMA_NAMES or field.name in ID_NAMES:
        return value
    plain = as_json(_decode(value, field.type), field.name)
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
    import pyarrow

    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        wanted = [column for column in columns if column in (*ID_NAMES, "task")] if names_only else columns
        table = file.read_row_group(group, columns=wanted, use_threads=False)
    pyarrow.default_memory_pool().release_unused()  # reading takes several times the memory of the table
    return table


def _columns(name: str, schema: Any) -> list[str]:
    import pyarrow

    schemas = schema_column(schema.names, name)
    kind = schema.field(schemas).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (_is_json(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise DatasetError(f"{name}: column {schemas} is {str(kind)[:60]}; expected JSON Schemas as text")
    return [column for column in schema.names if column in {schemas, *ID_NAMES, *OTHER_NAMES}]
