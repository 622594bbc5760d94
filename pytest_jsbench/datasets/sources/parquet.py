"""A Parquet file: a row of its table is a case."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import DatasetError, exhausted
from pytest_jsbench.core.files import FileReader, Unreadable, check_size
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, GuardedCalls
from pytest_jsbench.core.text import described
from pytest_jsbench.datasets.base import MOST_CASES, ListedCase, Row
from pytest_jsbench.datasets.row_file import RowFile, RowPlace
from pytest_jsbench.datasets.sources import rows

#: where a row is in a file of rows; None for one that holds nothing, False for one that holds no text of UTF-8
Unpacked = RowPlace | Literal[False] | None
#: bytes of the rows that are unpacked together
LARGEST_GROUP = 400_000_000
#: bytes of all texts of a dataset, unpacked
LARGEST_UNPACKED = 4_000_000_000
#: bytes of address space for reading Parquet, of which its allocator takes a gigabyte in advance
MEMORY = 4 << 30
#: seconds to read one file
SECONDS = 300.0
_NAMED_AT_ONCE = 10_000


def find(reader: FileReader, path: Path, *, task: str) -> Iterator[ListedCase]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    if importlib.util.find_spec("pyarrow") is None:
        raise DatasetError(f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'")
    number = 0
    places = str(reader.root or path.parent), str(reader.start), str(path)
    for group in range(ask(_calls(), "groups_of", path, *places)):
        first = 0
        while named := ask(_calls(), "named", path, *places, group, first):
            for index, (name, own_task) in enumerate(named, start=first):
                where, read = f"{path} row {number}", partial(_read, path, (*places, group, index))
                yield ListedCase(task=own_task or task, name=name or f"row-{number}", where=where, read=read)
                number += 1
            first += len(named)


@lru_cache(maxsize=1)
def _calls() -> GuardedCalls:
    """The child in which this process reads its tables: a few bytes of a file may come to more than any memory."""
    return GuardedCalls(memory=MEMORY)


def ask(calls: GuardedCalls, function: str, about: Path, *arguments: object) -> Any:
    """Call one of this module's functions in the child; DatasetError in one line where it returns nothing."""
    cause: Exception
    try:
        return calls.call(f"{__name__}:{function}", *arguments, seconds=SECONDS)
    except CallBroke as error:
        kind, _, problem = str(error).partition(": ")
        cause, message = error, problem if kind == DatasetError.__name__ else f"cannot read {about}: {error}"
    except (BoundExceeded, ChildNotStarted) as error:
        cause, message = error, f"cannot read {about}: {error}"
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


def groups_of(root: str, start: str, name: str) -> int:
    """The row groups of a file whose rows can be cases; this and what follows is called in a child process."""
    with open_table(root, start, name) as file:
        _columns(name, file.metadata.schema.to_arrow_schema())
        return int(file.num_row_groups)


def named(root: str, start: str, name: str, group: int, first: int) -> list[tuple[str | None, str | None]]:
    """The names and tasks of a group's next rows; none at its end."""
    with reading(Path(name)):
        table = _group(root, start, name, group, names_only=True)
        numbers = range(first, min(first + _NAMED_AT_ONCE, table.num_rows))
        if not table.num_columns:
            return [(None, None)] * len(numbers)
        each = (table.slice(number, 1).to_pylist()[0] for number in numbers)
        return [(rows.name_of(row), rows.task_of(row)) for row in each]


def row_of(root: str, start: str, name: str, group: int, index: int) -> dict[str, Any]:
    """Read a row of a group."""
    with reading(Path(name)):
        row: dict[str, Any] = _group(root, start, name, group).slice(index, 1).to_pylist()[0]
        return row


@lru_cache(maxsize=2)
def _group(root: str, start: str, name: str, group: int, *, names_only: bool = False) -> Any:
    """The columns of a group that are read, or those alone that name its rows."""
    with open_table(root, start, name) as file:
        columns = _columns(name, file.metadata.schema.to_arrow_schema())
        wanted = [column for column in columns if column in (*rows.ID_NAMES, "task")] if names_only else columns
        return file.read_row_group(group, columns=wanted, use_threads=False)


def columns_of(root: str, start: str, names: Iterable[str]) -> list[list[str]]:
    """The names of each file's columns."""
    columns = []
    for name in names:
        with open_table(root, start, name) as file:
            columns.append(list(file.schema_arrow.names))
    return columns


def names_of(root: str, start: str, name: str, column: str) -> list[str]:
    """The values of a file's column that names its rows."""
    with open_table(root, start, name) as file:
        return [str(value.as_py()) for value in file.read(columns=[column], use_threads=False)[column]]


def unpack(root: str, start: str, name: str, column: str, into: str) -> list[Unpacked]:
    """Append the texts of a column to a file of rows, and say where each is."""
    places: list[Unpacked] = []
    with open_table(root, start, name) as file, contextlib.closing(RowFile.open(Path(into), "r+b")) as texts:
        for batch in file.iter_batches(batch_size=64, columns=[column], use_threads=False):
            for value in batch.column(0):
                places.append(place := _unpacked(value, texts))
                check_size(place[1] if place else 0, LARGEST_UNPACKED)
    return places


def _unpacked(value: Any, texts: RowFile) -> Unpacked:
    try:
        text = value.as_py()
    except UnicodeDecodeError:
        return False
    if text is None:
        return None
    return texts.append(Row(text=text, where="")) if isinstance(text, str) else False


def _columns(name: str, schema: Any) -> list[str]:
    import pyarrow

    held = next((column for column in rows.SCHEMA_NAMES if column in schema.names), None)
    if held is None:
        message = f"{name} has no column {' or '.join(rows.SCHEMA_NAMES)}; its columns are {', '.join(schema.names)}"
        raise DatasetError(message)
    kind = schema.field(held).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise DatasetError(f"{name}: column {held} is {str(kind)[:60]}; expected text, each a JSON Schema")
    return [column for column in schema.names if column in {held, *rows.ID_NAMES, *rows.OTHER_NAMES}]


def _read(path: Path, place: Sequence[object], key: CaseKey) -> Case:
    try:
        row = ask(_calls(), "row_of", path, *place)
    except DatasetError as error:
        if exhausted(error):
            raise
        raise Unreadable(str(error)) from None
    return rows.case_of(key, row)
