"""Keep texts of ended tests in a temporary file, since pytest keeps reports in memory for the whole session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import Any, overload

import pytest


class TextStorage:
    """
    Texts in a temporary file, which is removed at the end of the session.

    `Suite` and `JUnitStorage` create one each, and call it in the main thread.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed with pytest's configuration
        config.add_cleanup(self._file.close)
        self._end = 0

    def add(self, text: str) -> StoredText:
        """Store a text; raise OSError or ValueError if that is impossible."""
        data = text.encode()
        start = self._end
        written = self._file.write(data)
        self._end += written
        if written < len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")
        return StoredText(self, start, written)

    def read(self, start: int, size: int) -> bytes:
        """Return the bytes at this place."""
        self._file.seek(start)
        return self._file.read(size)


class StoredText:
    """The place of a text in a storage."""

    __slots__ = ("_size", "_start", "_storage")

    def __init__(self, storage: TextStorage, start: int, size: int) -> None:
        self._storage = storage
        self._start = start
        self._size = size

    def read(self) -> bytes:
        """Return the text in UTF-8."""
        return self._storage.read(self._start, self._size)


class StoredLines(Sequence[str]):
    """
    Lines of a stored text; copies are lists, also those that pytest makes to send or to store a report.

    With them, a failed attempt takes 1 kB less memory.
    """

    __slots__ = ("_text",)

    def __init__(self, text: StoredText) -> None:
        self._text = text

    def _lines(self) -> list[str]:
        return self._text.read().decode().split("\n")

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines())

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._lines())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._lines()[index]

    def __eq__(self, other: object) -> bool:
        return [*self] == [*other] if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._lines())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._lines(),)
