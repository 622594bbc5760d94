"""
Record the batches of a run in `batch.json` in the run's directory.

The requests of a batch are recorded before the batch is submitted, and the batch's id is added afterwards, so that no
request is paid for twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from pytest_jsbench.core.errors import RecordError, ResumeError
from pytest_jsbench.core.files import FileReader, write_atomically
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.journal import BATCHES
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import difference

#: Version of the format of batch.json.
BATCHES_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPart:
    """A batch of requests that was or will be submitted to a provider."""

    #: Id assigned by the provider; None from just before the submission until the provider has confirmed the batch.
    id: str | None
    #: Time of the submission, ISO 8601 in UTC.
    handed_in_at: str
    #: Names of the batch's requests.
    requests: tuple[str, ...]
    #: True once the results have been read; requests that failed may then be submitted again.
    ended: bool = False


class _Ledger(Struct, frozen=True, kw_only=True):
    batches_version: int = BATCHES_VERSION
    run: dict[str, Any]
    batches: tuple[BatchPart, ...]


class BatchFile:
    """
    A run's `batch.json`, written before and after each step that costs money.

    The process that starts the run creates the file; if the run resumes an earlier run, the file starts with the
    batches of the earlier run. `Submission` updates the file from one thread. The file remains in the run's directory.
    """

    def __init__(self, path: Path, metadata: RunMetadata, parts: Sequence[BatchPart] = ()) -> None:
        self.path = path
        self._metadata = metadata
        self._parts = list(parts)
        if parts:
            self._write()

    def __iter__(self) -> Iterator[BatchPart]:
        return iter(tuple(self._parts))

    def begin(self, part: BatchPart) -> None:
        """Add a batch that is about to be submitted."""
        self._parts.append(part)
        self._write()

    def change(self, part: BatchPart, *, batch: str | None = None, ended: bool | None = None) -> BatchPart:
        """Record the id of a batch, or that its results have been read; return the changed entry."""
        changed = replace(part, id=batch or part.id, ended=part.ended if ended is None else ended)
        self._parts[self._parts.index(part)] = changed
        self._write()
        return changed

    def drop(self, part: BatchPart) -> None:
        """Remove a batch that the provider did not accept."""
        self._parts.remove(part)
        self._write()

    def _write(self) -> None:
        ledger = _Ledger(run=self._metadata.to_dict(), batches=tuple(self._parts))
        write_atomically(self.path, json.dumps(to_json(ledger), indent=1) + "\n")


def read_parts(folder: Path, metadata: RunMetadata) -> tuple[BatchPart, ...]:
    """
    Return the batches of an earlier run; empty if the run had no batches.

    Raise ResumeError if the engine, model or parameters of the batches differ from `metadata`, or if the id of a batch
    is unknown.
    """
    path = folder / BATCHES
    if not path.exists():
        return ()
    theirs, parts = _read(path)
    if other := difference(theirs, metadata):
        message = f"{path}: the results of its batches cannot be used, since the earlier run used {other}"
        raise ResumeError(message, found=other, where=path)
    if unknown := next((part for part in parts if part.id is None), None):
        raise ResumeError(doubt(path, unknown), where=path)
    return parts


def take_over(source: Path, metadata: RunMetadata, *, batch: bool) -> tuple[BatchPart, ...]:
    """
    Return the batches of the earlier run if this run uses batches too (`batch`); otherwise an empty tuple.

    Raise ResumeError if this run makes single calls and would repeat the requests of a batch whose results have not
    been read.
    """
    parts = read_parts(source, metadata)
    if batch:
        return parts
    if unread := next((part for part in parts if not part.ended), None):
        message = (
            f"{source / BATCHES}: the results of batch {unread.id} (requests: {len(unread.requests):,}) have not been "
            "read; add --jsbench-batch to read them, or remove the file to send the requests again at full cost"
        )
        raise ResumeError(message, found=unread.id, where=source / BATCHES)
    return ()


def doubt(path: Path, part: BatchPart) -> str:
    """Return a message with the next step for a batch that may exist at the provider but whose id is unknown."""
    return (
        f"{path}: the run ended while it submitted a batch (requests: {len(part.requests):,}, time: "
        f"{part.handed_in_at}); if the provider lists this batch, write the batch's id into the file; otherwise "
        "remove the batch from the file"
    )


def is_unfinished(folder: Path) -> bool:
    """Return whether a run's directory lists a batch with results that have not been read."""
    path = folder / BATCHES
    if not path.exists():
        return False
    try:
        _, parts = _read(path)
    except RecordError:  # an unreadable file counts as unfinished, so that the run's directory is not deleted
        return True
    return not all(part.ended for part in parts)


def _read(path: Path) -> tuple[RunMetadata, tuple[BatchPart, ...]]:
    data = FileReader(root=path.parent, error=RecordError).read_json(path)
    try:
        written = from_json(_Ledger, data)
        for part in written.batches:
            # these fields are printed in messages
            for name, value in (("id", part.id or ""), ("handed_in_at", part.handed_in_at)):
                if printable(value) != value:
                    raise ValueError(f"{name} is '{printable(value, 60)}', which is not safe to print")
        return RunMetadata.from_dict(written.run), written.batches
    except (ValueError, RecordError) as error:
        message = f"{path} cannot be read: {error}; expected a file written by --jsbench-batch"
        raise RecordError(message, where=path) from error
