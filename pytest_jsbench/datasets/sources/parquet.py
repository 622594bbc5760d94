"""A Parquet file: a row of its table is a case, read by pyarrow in a child process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pytest_jsbench.core.errors import DatasetError, exhausted
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, ChildNotStarted, GuardedCalls
from pytest_jsbench.core.text import described
from pytest_jsbench.datasets.base import MOST_CASES, ListedCase
from pytest_jsbench.datasets.sources import rows

#: bytes of the rows that are unpacked together
LARGEST_GROUP = 400_000_000
#: bytes of address space for reading Parquet, of which its allocator takes a gigabyte in advance
MEMORY = 4 << 30
#: seconds to read one file
SECONDS = 300.0
#: rows that are named, and that are read, at once
_NAMED_AT_ONCE, _READ_AT_ONCE = 10_000, 16
#: blocks of rows that stay in memory: threads that begin together want rows of as many
_KEPT = 8
#: held by the thread that reads a block, for which the others wait that want a row of it
_READING = threading.Lock()


def find(reader: FileReader, path: Path, *, task: str) -> Iterator[ListedCase]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    if importlib.util.find_spec("pyarrow") is None:
        raise DatasetError(f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'")
    number = 0
    places = str(reader.root or path.parent), str(reader.start), str(path)
    groups, only_schemas = _ask("outline", *places)
    for group in range(groups):
        first = 0
        while named := _ask("named", *places, group, first):
            for index, row in enumerate(named, start=first):
                read, place = partial(_row, (*places, group), index), f"{path} row {number}"
                name = f"row-{number}"
                yield rows.listed(read, row, task=task, name=name, where=place, only_schema=only_schemas)
                number += 1
            first += len(named)


#: the folder of a file, where its name starts from, its name, and a row group of it
_Group = tuple[str, str, str, int]


def _row(group: _Group, index: int) -> dict[str, Any]:
    """Read a row of a group, with those beside it that are likely to be wanted next."""
    number, place = divmod(index, _READ_AT_ONCE)
    with _READING:
        block = _block(group, number)
    if block is not None:
        return block[place]
    try:
        row: dict[str, Any] = _ask("rows_of", *group, index, 1)[0]
    except DatasetError as error:
        if exhausted(error):
            raise
        raise Unreadable(str(error)) from None
    return row


@lru_cache(maxsize=_KEPT)
def _block(group: _Group, number: int) -> list[dict[str, Any]] | None:
    """Read rows that stand beside each other; None where one cannot be read, or all come to more than a row may."""
    try:
        block: list[dict[str, Any]] = _ask("rows_of", *group, number * _READ_AT_ONCE, _READ_AT_ONCE)
    except DatasetError as error:
        if exhausted(error):
            raise
        return None
    return block


@lru_cache(maxsize=1)
def _calls() -> GuardedCalls:
    """The child in which this process reads its tables: a few bytes of a file may come to more than any memory."""
    return GuardedCalls(memory=MEMORY)


def _ask(function: str, root: str, start: str, name: str, *arguments: object) -> Any:
    """Call one of this module's functions in the child; DatasetError in one line where it returns nothing."""
    cause: Exception
    try:
        return _calls().call(f"{__name__}:{function}", root, start, name, *arguments, seconds=SECONDS)
    except CallBroke as error:
        kind, _, problem = str(error).partition(": ")
        cause, message = error, problem if kind == DatasetError.__name__ else f"cannot read {name}: {error}"
    except (BoundExceeded, ChildNotStarted) as error:
        cause, message = error, f"cannot read {name}: {error}"
    raise DatasetError(message) from cause


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """DatasetError in one line for whatever a damaged Parquet file makes its library raise."""
    import pyarrow

    try:
        yield
    except MemoryError:  # the library's own is an ArrowException too
        raise MemoryError from None
    except Unreadable as error:
        raise DatasetError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DatasetError(f"cannot read {path}: {described(error, 200)}; expected a Parquet file") from error


@contextlib.contextmanager
def open_table(root: str, start: str, name: str) -> Iterator[Any]:
    """
    The table of a Parquet file; DatasetError where it holds more than memory is for.

    Its texts are read as references into their dictionary, so that one long text in every row is there once.
    """
    from pyarrow import parquet

    path = Path(name)
    with reading(path), FileReader(root=Path(root), start=Path(start)).open(path) as file:
        metadata = parquet.read_metadata(file)
        _check_size(path, metadata)
        columns = map(metadata.schema.column, range(metadata.num_columns))
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        yield parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts, pre_buffer=False)


def _check_size(path: Path, metadata: Any) -> None:
    if metadata.num_rows > MOST_CASES:
        message = f"holds {metadata.num_rows:,} rows; expected at most {MOST_CASES:,}"
        raise Unreadable(message, reason="too_large", path=path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        # a few bytes can stand for a billion equal values, of which each is a pointer
        values = sum(group.column(number).num_values for number in range(group.num_columns))
        size = max(group.total_byte_size, 8 * values)
        if not 0 <= size <= LARGEST_GROUP:
            message = f"holds a row group of {size:,} bytes, unpacked; expected at most {LARGEST_GROUP:,}"
            raise Unreadable(message, reason="too_large", path=path)


def outline(root: str, start: str, name: str) -> tuple[int, bool]:
    """Count the row groups of a file, and see that its rows can be cases, perhaps of nothing but a schema each."""
    # this and what follows is called in the child process
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        return int(file.num_row_groups), rows.are_schemas(columns)


def named(root: str, start: str, name: str, group: int, first: int) -> list[dict[str, Any]]:
    """A group's next rows as far as their names and tasks go; none at its end."""
    with reading(Path(name)):
        table = _group(root, start, name, group, names_only=True)
        numbers = range(first, min(first + _NAMED_AT_ONCE, table.num_rows))
        if not table.num_columns:
            return [{}] * len(numbers)
        return [table.slice(number, 1).to_pylist()[0] for number in numbers]


def rows_of(root: str, start: str, name: str, group: int, first: int, count: int) -> list[dict[str, Any]]:
    """Read rows of a group."""
    with reading(Path(name)):
        table = _group(root, start, name, group).slice(first, count)
        return [
            {field.name: _cell(row[field.name], field) for field in table.schema if field.name in row}
            for row in table.to_pylist()
        ]


#: columns that are text in a table: what they have is parsed when the case is read
_TEXTS = (*rows.SCHEMA_NAMES, "expected", "ground_truth")


def _cell(value: Any, field: Any) -> Any:
    """Return a cell as JSON can carry it to the other process, and as its column is read there."""
    if field.name in _TEXTS and isinstance(value, str):
        return value
    if field.name in rows.SCHEMA_NAMES or field.name in rows.ID_NAMES:
        return value
    plain = rows.as_json(_decoded(value, field.type), field.name)
    # a date or a time in a column of JSON text is the JSON text of a string
    return json.dumps(plain) if field.name in _TEXTS and isinstance(plain, str) else plain


def _decoded(value: Any, kind: Any) -> Any:
    """Return a cell with the JSON text in it parsed, where Arrow's type is JSON (`datasets.Json`)."""
    import pyarrow

    if value is None:
        return None
    if _is_json(kind):
        return parse_json(value)
    if pyarrow.types.is_struct(kind):
        return {part.name: _decoded(value[part.name], part.type) for part in kind}
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return [_decoded(part, kind.value_type) for part in value]
    return value


def _is_json(kind: Any) -> bool:
    """Tell whether an Arrow type is JSON text."""
    return getattr(kind, "extension_name", "") == "arrow.json"


@lru_cache(maxsize=2)
def _group(root: str, start: str, name: str, group: int, *, names_only: bool = False) -> Any:
    """The columns of a group that are read, or those alone that name its rows."""
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        wanted = [column for column in columns if column in (*rows.ID_NAMES, "task")] if names_only else columns
        return file.read_row_group(group, columns=wanted, use_threads=False)


def _columns(name: str, schema: Any) -> list[str]:
    import pyarrow

    held = rows.schema_column(schema.names, name)
    kind = schema.field(held).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (_is_json(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise DatasetError(f"{name}: column {held} is {str(kind)[:60]}; expected text, each a JSON Schema")
    return [column for column in schema.names if column in {held, *rows.ID_NAMES, *rows.OTHER_NAMES}]
