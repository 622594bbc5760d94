"""Rows of a dataset as text in a file, of which a process holds the places alone."""

from __future__ import annotations

import tempfile
import threading
import weakref
from pathlib import Path
from typing import BinaryIO

from pytest_jsbench.core.files import private
from pytest_jsbench.datasets.base import Row

#: where a row begins and ends
RowPlace = tuple[int, int]

#: between where a row stood and its text; the first is one line
_BREAK = b"\n"


class RowFile:
    """
    Rows that are written one after another, and read one at a time.

    A dataset makes one and keeps it as long as itself; its threads call `append` and `read`. Nothing of the file is
    held or mapped. It is closed with the object, and one without a name is gone then.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, file.close)

    @classmethod
    def unnamed(cls) -> RowFile:
        """A new file that nobody else can find."""
        return cls(tempfile.TemporaryFile(prefix="jsbench-"))

    @classmethod
    def create(cls, path: Path) -> RowFile:
        """A new file for other processes of this user."""
        return cls(private(path).open("w+b"))

    @classmethod
    def open(cls, path: Path) -> RowFile:
        """A file that another process has written."""
        return cls(path.open("rb"))

    def append(self, row: Row) -> RowPlace:
        """Write a row, and say where it is."""
        where = " ".join(row.where.splitlines())
        data = where.encode("utf-8", "surrogatepass") + _BREAK + row.text.encode("utf-8", "surrogatepass")
        with self._lock:
            begin = self._file.seek(0, 2)
            self._file.write(data)
        return begin, begin + len(data)

    def read(self, place: RowPlace) -> Row:
        """The row at a place."""
        begin, end = place
        with self._lock:
            self._file.seek(begin)
            data = self._file.read(end - begin)
        where, _, text = data.partition(_BREAK)
        return Row(text=text.decode("utf-8", "surrogatepass"), where=where.decode("utf-8", "surrogatepass"))
