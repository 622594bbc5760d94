"""JSON Lines: a row in each line, of which only the place in the file is kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.datasets.base import Found
from pytest_jsbench.datasets.documents.json_text import broken
from pytest_jsbench.datasets.sources import rows

_BOM = b"\xef\xbb\xbf"


def find(reader: FileReader, path: Path, *, task: str) -> Iterator[Found]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    try:
        for line in reader.read_lines(path):
            if line.data is not None and not line.data.removeprefix(_BOM).strip():
                continue
            row = _peek(line.data)
            yield Found(
                task=rows.task_of(row) or task,
                name=rows.name_of(row) or f"line-{line.number}",
                read=partial(_read, reader, path, line.number, line.start, line.size),
            )
    except Unreadable as error:
        raise DatasetError(str(error)) from None


def _peek(line: bytes | None) -> object:
    """The row as far as its name and task go; whatever is wrong with it is said when it is read."""
    try:
        return None if line is None else parse_json(line)
    except Unreadable:
        return None


def _read(reader: FileReader, path: Path, number: int, start: int, size: int, key: CaseKey) -> Case | BrokenCase:
    where = f"{path} line {number}"
    try:
        row = parse_json(reader.read_part(path, start, size))
    except Unreadable as error:
        return broken(key, where, error)
    return rows.case_of(key, row, where=where)
