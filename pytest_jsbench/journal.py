"""The journal: records on disk the moment they exist, and read back."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench.errors import JournalError, RecordError
from pytest_jsbench.records import RECORDS_VERSION, Record, RunMetadata


class Journal:
    """Appends records to one file, one line each, flushed; safe to call from several threads."""

    def __init__(self, path: Path, metadata: RunMetadata) -> None:
        self.path = path
        self._metadata = metadata
        self._lock = threading.Lock()
        self._file: TextIO | None = None

    def append(self, record: Record) -> None:
        """Write the record; JournalError when the disk will not take it."""
        line = _line(record.to_dict())
        try:
            with self._lock:
                if self._file is None:
                    self._file = self.path.open("a", encoding="ascii")
                    self._file.write(_line(_header(self._metadata)))
                self._file.write(line)
                self._file.flush()
        except (OSError, ValueError) as error:
            message = f"cannot write {self.path}: {error}; the record of {record.key} is not on disk"
            raise JournalError(message) from error

    def close(self) -> None:
        """Close the file; what cannot be flushed any more has been reported by `append`."""
        with self._lock:
            if self._file is not None:
                with contextlib.suppress(OSError):  # the disk is full: append has said so
                    self._file.close()
                self._file = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContent:
    """What a records file holds."""

    metadata: RunMetadata | None
    records: tuple[Record, ...]
    #: one line for each line that could not be read
    warnings: tuple[str, ...]


def read(path: Path) -> JournalContent:
    """Read a records file; a torn last line is skipped with a warning, any other broken line is a RecordError."""
    metadata: RunMetadata | None = None
    records: list[Record] = []
    warnings: list[str] = []
    for number, line, last in _lines(path):
        try:
            data = json.loads(line)
            if not isinstance(data, dict):
                raise RecordError("not an object")
            if data.get("type") == "run":
                metadata = RunMetadata.from_dict(data["run"])
            else:
                records.append(Record.from_dict(data))
        except (ValueError, KeyError, RecordError) as error:
            message = f"{path}:{number}: {error}"
            if not last:
                raise RecordError(message) from error
            warnings.append(f"{message}; the line was torn and is skipped")
    return JournalContent(metadata=metadata, records=tuple(records), warnings=tuple(warnings))


def read_metadata(path: Path) -> RunMetadata:
    """The header line of a records file, without the records."""
    try:
        with path.open(encoding="utf-8") as lines:
            data = json.loads(lines.readline() or "null")
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise JournalError(message) from error
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("type") != "run" or not isinstance(data.get("run"), dict):
        message = f"{path} has no header line; expected the records.jsonl of a run"
        raise RecordError(message)
    return RunMetadata.from_dict(data["run"])


def write(path: Path, metadata: RunMetadata, records: Iterable[Record]) -> None:
    """Write a whole records file at once: the old one stands until the new one is complete."""
    lines = [_line(_header(metadata)), *(_line(record.to_dict()) for record in records)]
    write_atomically(path, "".join(lines))


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step; JournalError when the disk will not take it."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        message = f"cannot write {path}: {error}"
        raise JournalError(message) from error


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        message = f"cannot read {path}: {error}"
        raise JournalError(message) from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line, number == len(lines)


def _header(metadata: RunMetadata) -> dict[str, Any]:
    return {"type": "run", "records_version": RECORDS_VERSION, "run": metadata.to_dict()}


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False) + "\n"
