"""Rows of a dataset as text in a file, of which a process holds the places alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import BinaryIO, Literal

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
    held or mapped. It is closed with the object, and a shared one is gone then.
    """

    def __init__(self, file: BinaryIO, path: Path, *, passing: bool = False) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.path = path
        resources = contextlib.ExitStack()
        if passing:
            resources.callback(path.unlink, missing_ok=True)
        resources.enter_context(file)
        self.close = weakref.finalize(self, resources.close)

    @classmethod
    def shared(cls) -> RowFile:
        """A new file that another process writes; it is gone when it is closed."""
        descriptor, name = tempfile.mkstemp(prefix="jsbench-")
        return cls(os.fdopen(descriptor, "rb"), Path(name), passing=True)

    def unname(self) -> None:
        """Let nobody find it any more; where an open file must have a name, it keeps that until it is closed."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    @classmethod
    def create(cls, path: Path) -> RowFile:
        """A new file for other processes of this user."""
        return cls(private(path).open("w+b"), path)

    @classmethod
    def open(cls, path: Path, mode: Literal["rb", "r+b"] = "rb") -> RowFile:
        """A file that another process has made."""
        return cls(path.open(mode), path)

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
