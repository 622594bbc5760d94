"""A Parquet file: a row of its table is a case."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import DatasetError, exhausted
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.core.text import described
from pytest_jsbench.datasets.base import MOST_CASES, Found, Row
from pytest_jsbench.datasets.documents.json_text import broken
from pytest_jsbench.datasets.row_file import RowFile, RowPlace
from pytest_jsbench.datasets.sources import rows

#: where a row is in a file of rows; None for one that holds nothing, False for one that holds no text of UTF-8
Unpacked = RowPlace | Literal[False] | None
#: bytes of the rows that are unpacked together
LARGEST_GROUP = 400_000_000


def find(reader: FileReader, path: Path, *, task: str) -> Iterator[Found]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    if importlib.util.find_spec("pyarrow") is None:
        message = f"dataset '{path}' needs the package pyarrow: pip install 'pytest-jsbench[datasets]'"
        raise DatasetError(message)
    with reading(path):
        with open_table(reader, path) as file:
            table = _Table(reader, path, _columns(path, file.metadata.schema.to_arrow_schema()))
            groups = file.num_row_groups
        number = 0
        for group in range(groups):
            for index, row in enumerate(table.names(group)):
                yield Found(
                    task=rows.task_of(row) or task,
                    name=rows.name_of(row) or f"row-{number}",
                    read=partial(_read, path, table, group, index, number),
                )
                number += 1


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """DatasetError in one line for whatever a damaged Parquet file makes its library raise."""
    import pyarrow

    try:
        yield
    except Unreadable as error:
        raise DatasetError(str(error)) from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        message = f"cannot read {path}: {described(error, 200)}; expected a Parquet file"
        raise DatasetError(message) from error


@contextlib.contextmanager
def open_table(reader: FileReader, path: Path) -> Iterator[Any]:
    """
    The table of a Parquet file; Unreadable where it holds more than memory is for.

    Its texts are read as references into their dictionary, so that one long text in every row is there once.
    """
    from pyarrow import parquet

    with reader.open(path) as file:
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
        size = group.total_byte_size
        if not 0 <= size <= LARGEST_GROUP:
            message = f"holds a row group of {size:,} bytes, unpacked; expected at most {LARGEST_GROUP:,}"
            raise Unreadable(message, reason="too_large", path=path)


def columns_of(root: str, start: str, paths: Iterable[str]) -> list[list[str]]:
    """What the columns of each file are called; this and what follows is called in a child process."""
    found = []
    for path in map(Path, paths):
        with reading(path), open_table(FileReader(root=Path(root), start=Path(start)), path) as file:
            found.append(list(file.schema_arrow.names))
    return found


def names_of(root: str, start: str, name: str, column: str) -> list[str]:
    """The values of a file's column that names its rows."""
    path = Path(name)
    with reading(path), open_table(FileReader(root=Path(root), start=Path(start)), path) as file:
        return [str(value.as_py()) for value in file.read(columns=[column], use_threads=False)[column]]


def unpack(root: str, start: str, name: str, column: str, into: str) -> list[Unpacked]:
    """Append the texts of a column to a file of rows, and say where each is."""
    path = Path(name)
    with (
        reading(path),
        contextlib.closing(RowFile.open(Path(into), "r+b")) as texts,
        open_table(FileReader(root=Path(root), start=Path(start)), path) as file,
    ):
        batches = file.iter_batches(batch_size=64, columns=[column], use_threads=False)
        return [_unpacked(value, texts) for batch in batches for value in batch.column(0)]


def _unpacked(value: Any, texts: RowFile) -> Unpacked:
    try:
        text = value.as_py()
    except UnicodeDecodeError:
        return False
    if text is None:
        return None
    return texts.append(Row(text=text, where="")) if isinstance(text, str) else False


class _Table:
    """The table on disk, of which the row groups read last stay in memory."""

    def __init__(self, reader: FileReader, path: Path, columns: list[str]) -> None:
        self._reader = reader
        self._path = path
        self._columns = columns
        self._group = lru_cache(maxsize=2)(self._load)
        self._one_at_a_time = threading.Lock()

    def names(self, group: int) -> Iterable[dict[str, Any]]:
        """What the rows of a group are called, and their tasks."""
        wanted = [name for name in (*rows.ID_NAMES, "task") if name in self._columns]
        if not wanted:
            with open_table(self._reader, self._path) as file:
                return [{}] * int(file.metadata.row_group(group).num_rows)
        named = self._read(group, wanted)
        return (named.slice(index, 1).to_pylist()[0] for index in range(named.num_rows))

    def row(self, group: int, index: int) -> dict[str, Any]:
        """One row."""
        with self._one_at_a_time:
            (row,) = self._group(group).slice(index, 1).to_pylist()
        found: dict[str, Any] = row
        return found

    def _load(self, group: int) -> Any:
        return self._read(group, self._columns)

    def _read(self, group: int, columns: list[str]) -> Any:
        with open_table(self._reader, self._path) as file:
            return file.read_row_group(group, columns=columns)


def _columns(path: Path, schema: Any) -> list[str]:
    import pyarrow

    held = next((name for name in rows.SCHEMA_NAMES if name in schema.names), None)
    if held is None:
        message = f"{path} has no column {' or '.join(rows.SCHEMA_NAMES)}; its columns are {', '.join(schema.names)}"
        raise DatasetError(message)
    kind = schema.field(held).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        message = f"{path}: column {held} is {str(kind)[:60]}; expected text, each a JSON Schema"
        raise DatasetError(message)
    return [name for name in schema.names if name in {held, *rows.ID_NAMES, *rows.OTHER_NAMES}]


def _read(path: Path, table: _Table, group: int, index: int, number: int, key: CaseKey) -> Case | BrokenCase:
    where = f"{path} row {number}"
    try:
        with reading(path):
            row = table.row(group, index)
    except DatasetError as error:
        if exhausted(error):
            raise
        return broken(key, where, Unreadable(str(error)))
    return rows.case_of(key, row, where=where)
