"""Write the records of attempts to files as soon as they exist, and read records files."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Literal, TypedDict

from msgspec import structs

from pytest_jsbench.core.errors import JournalError, JSBenchError, RecordError
from pytest_jsbench.core.files import (
    FileReader,
    Line,
    Unreadable,
    append_whole,
    check_size,
    inside,
    json_line,
    make_private_folder,
    parse_json,
    private,
    try_writing,
    write_atomically,
)
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.facts import AttemptFacts, Place, line_at, open_lines
from pytest_jsbench.records.metadata import RunMetadata, parse_line
from pytest_jsbench.records.records import LONGEST_LINE, RECORDS_VERSION, Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.serving import add_served

#: File in a run's directory with the records that were copied from an earlier run.
RESUMED = "records.resumed.jsonl"
#: File in a run's directory with answers to calls that were still in flight when the run ended.
LATE = "records.late.jsonl"
#: File in a run's directory that names the batches that the run submitted.
BATCHES = "batch.json"
#: Maximum size of a records file in bytes.
LARGEST = 4_000_000_000


#: Start of the name of a run's directory: the time when the run started.
_RUN_NAME = re.compile(r"\d{8}T\d{6}Z-")
#: File in a run's directory with the names of earlier runs, one per line, if the run's own name would sort before them.
_AFTER = "after.txt"
_LARGEST_AFTER = 100_000


def new_folder(parent: Path, name: str) -> Path:
    """Create a run's directory; append a number if the name is taken. Raise JournalError if this fails."""
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            make_private_folder(folder, exist_ok=False)
            try_writing(folder)
            private(folder / "records.jsonl")
            _keep_order(folder)
            return folder
        except OSError as error:
            exists = isinstance(error, FileExistsError)
            option = f"--jsbench-output={parent}"
            if not (exists and parent.is_dir() and number < 1000):
                problem = f"{option} is not a directory" if exists else f"cannot write to {option}: {error.strerror}"
                message = f"{problem}; choose a writable directory"
                raise JournalError(message, found=parent, option="output") from None
        number += 1


def _keep_order(folder: Path) -> None:
    """
    If the clock was set back and the new run's name would sort too early, write the names of
    earlier runs to a file.
    """
    others = [run for run in folder.parent.iterdir() if run != folder and _RUN_NAME.match(run.name) and _files(run)]
    newest = max(map(run_order, others), default=())
    own = (folder.name,)
    if newest <= own or not _RUN_NAME.match(folder.name):
        return
    before = next(newest[:count] for count in range(1, len(newest) + 1) if newest[:count] + own > newest)
    private(folder / _AFTER).write_text("".join(f"{name}\n" for name in before), encoding="utf-8")


def run_order(run: Path) -> tuple[str, ...]:
    """
    Return the sort key of a run's directory: the names of earlier runs in its `after.txt`, if any,
    then its own name.
    """
    before: tuple[str, ...] = ()
    with contextlib.suppress(JSBenchError):
        before = tuple(FileReader(root=run, largest=_LARGEST_AFTER).read_text(run / _AFTER).splitlines())
    return (*before, run.name)


class Journal:
    """
    A records file that several threads append to, one line per record, without buffering.

    Each worker creates a journal for its own file and opens the file before any call. The threads that make the
    attempts append each record as soon as it exists; the first call of `append` also writes the header line. At the end
    the worker redirects late records to another file (`continue_in`) and closes the journal. A record that is appended
    after `close` is still written, and the file is closed again.
    """

    def __init__(self, path: Path, metadata: RunMetadata) -> None:
        self.path = path
        self._metadata = metadata
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        self._closed = False

    def open(self) -> None:
        """Open the file before calls in flight use up all file descriptors; if this fails, `append` tries again."""
        with contextlib.suppress(OSError):
            self._file = private(self.path).open("ab", buffering=0)

    def append(self, record: Record) -> Place:
        """Append the record and return its place; if this fails, raise JournalError and leave no partial line."""
        try:
            line = record.to_line()
            with self._lock:
                if self._file is None:
                    self._file = private(self.path).open("ab", buffering=0)
                size = self._file.seek(0, os.SEEK_END)
                text = line if size else json_line(_header(self._metadata)) + line
                append_whole(self._file, text, size)
                if self._closed:
                    self._close()
                return Place(path=self.path, start=size + len(text) - len(line))
        except (OSError, ValueError, MemoryError) as error:
            problem = f"cannot write {self.path}: {str(error) or 'out of memory'}"
            message = f"{problem}; the record of {record.key} is not on disk"
            raise JournalError(message, found=problem, where=self.path) from error

    def continue_in(self, path: Path) -> None:
        """Write later records to another file, so that the current file can be rewritten."""
        with self._lock:
            self._close()
            self.path = path

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContent:
    """The content of one or more records files."""

    metadata: RunMetadata | None
    outcomes: tuple[AttemptFacts, ...]
    #: Warnings about lines that could not be read, one line each.
    warnings: tuple[str, ...]

    def run(self, path: Path, error: type[JSBenchError] = RecordError) -> Run:
        """Return the run with these records, without a verdict; raise `error` if there is no header."""
        if self.metadata is None:
            message = f"{path} has no header line; expected the records.jsonl of a run, or its directory"
            raise error(message, where=path)
        planned = self.metadata.planned()
        if planned is None:  # old versions wrote no plan; the recorded cases replace it
            planned = tuple(outcome.key for outcome in self.outcomes)
        metadata = add_served(self.metadata, self.outcomes)
        return Run(metadata=metadata, planned=planned, outcomes=self.outcomes, warnings=self.warnings)


def read(path: Path) -> JournalContent:
    """
    Read a records file; damaged lines, which are not JSON, are skipped and counted in one warning.

    The record of a project's own test is written again when the test has ended; only the later record counts.

    Raise RecordError if a line is JSON but does not conform to the published format, or if more lines are damaged than
    intact, because the file is then probably not a records file.
    """
    metadata: RunMetadata | None = None
    outcomes: dict[object, AttemptFacts] = {}
    damaged: list[RecordError] = []
    for line in _lines(path):
        if line.data is not None and not line.data.strip():
            continue
        try:
            content = _parse(line)
        except RecordError as error:
            placed = RecordError(f"{path}:{line.number}: {error}")
            if not isinstance(error.__cause__, Unreadable):
                raise (damaged or [placed])[0] from error
            damaged.append(placed)
            continue
        if isinstance(content, Record):
            outcome = AttemptFacts.of(content, Place(path=path, start=line.start))
            _keep(outcomes, line.start if outcome.asked_by is None else outcome.identity, outcome)
        else:
            metadata = content
    if len(damaged) > max(1, len(outcomes)):
        raise damaged[0]
    return JournalContent(metadata=metadata, outcomes=tuple(outcomes.values()), warnings=describe_damage(damaged))


def _keep(outcomes: dict[Any, AttemptFacts], name: object, outcome: AttemptFacts) -> None:
    """Keep the later of two records of an attempt, except if a failed call would replace an answer."""
    before = outcomes.get(name)
    if before is None or before.failed or not outcome.failed:
        outcomes[name] = outcome


def describe_damage(damaged: Sequence[RecordError]) -> tuple[str, ...]:
    """Return a warning that counts the damaged lines in a file; empty if there are none."""
    if not damaged:
        return ()
    if len(damaged) == 1:
        return (f"{damaged[0]}; the line is damaged and skipped",)
    return (f"{damaged[0]}; this is the first of {len(damaged):,} damaged lines, which are all skipped",)


def _lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; raise JournalError if the file is too large."""
    with contextlib.suppress(OSError):  # the reader reports this error
        if (size := path.stat().st_size) > LARGEST:
            message = f"{path}: cannot be read: {size:,} bytes; expected at most {LARGEST:,}"
            raise JournalError(message, found=size, expected=LARGEST, where=path)
    yield from FileReader(root=path.parent, longest_line=LONGEST_LINE, error=JournalError).read_lines(path)


def _parse(line: Line) -> Record | RunMetadata:
    """Parse a line; raise a RecordError that names the first invalid field."""
    try:
        if line.data is None:
            check_size(line.size, LONGEST_LINE)
        data = parse_json(line.data or b"", largest=LONGEST_LINE)
    except Unreadable as error:
        raise RecordError(error.problem) from error
    return parse_line(data)


def read_run(path: Path) -> JournalContent:
    """
    Read all records of a run. The path is a records file, the directory of a run, or a directory of runs; from a
    directory of runs, only the newest run is read.

    A run that was killed leaves one file per worker. If an attempt has two records, the later one counts, but a failed
    call never replaces an answer.
    """
    metadata: RunMetadata | None = None
    outcomes: dict[tuple[object, ...], AttemptFacts] = {}
    warnings: list[str] = []
    for file in find_files(path):
        content = read(file)
        metadata = content.metadata or metadata
        warnings += content.warnings
        for outcome in content.outcomes:
            _keep(outcomes, outcome.identity, outcome)
    return JournalContent(metadata=metadata, outcomes=tuple(outcomes.values()), warnings=tuple(warnings))


def find_files(path: Path) -> list[Path]:
    """
    Return the records files of a run; the file with records copied from an earlier run comes first.

    Raise JournalError if there are no records files.
    """
    if not path.exists():
        raise JournalError(f"no run at {path}: no such file or directory")
    if not path.is_dir():
        return [path]
    if not (runs := find_runs(path)):
        message = f"no run in {path}, which is {describe_content(path)}; expected records.jsonl, or run directories"
        raise JournalError(message, expected="records.jsonl, or run directories", where=path)
    return _files(runs[-1])


def find_runs(folder: Path) -> list[Path]:
    """
    Return the run directories in `folder`, newest last; if `folder` is itself a run directory, return only `folder`.

    Runs without any answer come first.
    """
    runs = list_runs(folder)
    if outside := next((run for run in runs if not inside(folder, run)), None):
        raise JournalError(printable(f"{outside}: leads out of {folder}"), found=outside, where=folder)
    return runs


def list_runs(folder: Path) -> list[Path]:
    """
    Return the run directories as `find_runs` does, but include links that lead out of `folder`,
    which must not be read.
    """
    if _files(folder):
        return [folder]
    runs = [run for run in folder.iterdir() if run.is_dir() and _files(run)]

    def rank(run: Path) -> tuple[bool, tuple[str, ...]]:
        has_any = (run / BATCHES).exists() or any(map(_size, _files(run)))
        return has_any, run_order(run)

    return sorted(runs, key=rank)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # the file was deleted meanwhile, or is a link to a file that does not exist
        return 0


def describe_content(folder: Path) -> str:
    """Describe what a directory contains, for a message to a user who expected something else."""
    runs = find_runs(folder)
    if runs == [folder]:
        return "the directory of a run"
    if runs:
        return f"a directory of {len(runs)} run{'' if len(runs) == 1 else 's'}, the newest {runs[-1]}"
    return "a directory without a run" if any(folder.iterdir()) else "an empty directory"


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("records*.jsonl"), key=lambda file: (file.name != RESUMED, file.name))


def read_header(path: Path) -> RunMetadata:
    """
    Return the metadata of a run from its newest records file; `path` may be a file or a directory,
    as for `read_run`.
    """
    files = find_files(path)
    file = next((file for file in reversed(files) if file.stat().st_size), files[-1])
    first = next(_lines(file), None)
    problem = "the file is empty" if first is None else "its first line is a record"
    try:
        if first is not None and isinstance(metadata := _parse(first), RunMetadata):
            return metadata
    except RecordError as error:
        problem = str(error)
    message = f"{file} has no header line: {problem}; expected the records.jsonl of a run"
    raise RecordError(message, found=problem, where=file)


def write(path: Path, metadata: RunMetadata, sources: Iterable[Place | Record]) -> Iterator[Place]:
    """
    Write a complete records file atomically, and return the place of each record in the new file.

    Records that are already on disk are copied line by line.
    """
    starts: list[int] = []
    write_atomically(path, _all_lines(json_line(_header(metadata)).decode("ascii"), sources, starts))
    return (Place(path=path, start=start) for start in starts)


def gather(path: Path, run: Run) -> Run:
    """
    Write the records of all processes to one file; return the run with the new place of each record.

    Raise JSBenchError if that fails.
    """
    places = write(path, run.metadata, (outcome.source for outcome in run.outcomes))
    moved = (structs.replace(outcome, source=place) for outcome, place in zip(run.outcomes, places, strict=True))
    return replace(run, outcomes=tuple(moved))


def _all_lines(header: str, sources: Iterable[Place | Record], starts: list[int]) -> Iterator[str]:
    yield header
    written = len(header)
    with open_lines() as lines:
        for source in sources:
            text = source.to_line().decode("ascii") if isinstance(source, Record) else line_at(source, lines)
            starts.append(written)
            written += len(text) if text.isascii() else len(text.encode())
            yield text


class Header(TypedDict):
    """The first line of a records file."""

    #: Type of the line.
    type: Literal["run"]
    #: Version of the lines in the file; increased when a field is added.
    records_version: str
    #: Settings that produced the run.
    run: dict[str, Any]


def _header(metadata: RunMetadata) -> Header:
    return {"type": "run", "records_version": RECORDS_VERSION, "run": metadata.to_dict()}
