"""JSON Lines: a row in each line, of which only the place in the file is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pytest_jsbench.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.datasets import rows
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA, Unreadable, broken, check_size, parse_json
from pytest_jsbench.datasets.listing import Found
from pytest_jsbench.errors import DatasetError

_BOM = b"\xef\xbb\xbf"
#: bytes that are passed over at a time where a line is too long to be read
_CHUNK = 1 << 20


def find(path: Path, *, task: str) -> Iterator[Found]:
    """The rows of the file; the task, where a row names none of its own, is the given one."""
    try:
        with path.open("rb") as file:
            for number, start, size, line in _lines(file):
                row = _peek(line)
                yield Found(
                    task=rows.task_of(row) or task,
                    name=rows.name_of(row) or f"line-{number}",
                    read=partial(_read, path, number, start, size),
                )
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise DatasetError(message) from None


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, int, bytes]]:
    """Number, offset, size and bytes of each line that is not blank; no bytes of one that is too long."""
    start = 0
    for number, line in enumerate(iter(partial(file.readline, LARGEST_SCHEMA + 2), b""), start=1):
        size, end = len(line), line
        while not end.endswith(b"\n") and (end := file.readline(_CHUNK)):
            size += len(end)
        if size > len(line):
            yield number, start, size, b""
        elif line.removeprefix(_BOM).strip():
            yield number, start, len(line.rstrip(b"\r\n")), line
        start += size


def _peek(line: bytes) -> object:
    """The row as far as its name and task go; whatever is wrong with it is said when it is read."""
    try:
        return json.loads(line.removeprefix(_BOM))
    except (ValueError, RecursionError):
        return None


def _read(path: Path, number: int, start: int, size: int, key: CaseKey) -> Case | BrokenCase:
    where = f"{path} line {number}"
    try:
        check_size(size, LARGEST_SCHEMA)
        with path.open("rb") as file:
            file.seek(start)
            row = parse_json(file.read(size))
    except OSError as error:
        return broken(key, where, Unreadable(f"cannot be read: {error.strerror}"))
    except Unreadable as error:
        return broken(key, where, error)
    return rows.case_of(key, row, where=where)
