"""Read the runs in a directory on demand, and cache them until their files change."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from pytest_jsbench.core.errors import JSBenchError, RecordError
from pytest_jsbench.core.files import FileReader, inside
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import Place
from pytest_jsbench.records.records import LONGEST_LINE, Attempt, Record
from pytest_jsbench.records.runs import Run, RunVerdict
from pytest_jsbench.reports import run_report
from pytest_jsbench.reports.blocks import Block
from pytest_jsbench.reports.html.canvas import Picture
from pytest_jsbench.reports.html.case_list import ending_of, rank
from pytest_jsbench.reports.html.pictures import pictures_of_run
from pytest_jsbench.reports.run_json import Evaluation, GateFigures, read, read_gates, read_run

T = TypeVar("T")

#: Maximum number of runs whose attempts are kept in memory.
_MOST_RUNS = 4
#: Maximum number of seconds that a page waits for a run to be read.
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A run in the list, with its figures, its progress or the problem that prevents reading."""

    name: str
    #: Figures of the run, without the outcomes of cases; None if the run has no figures yet.
    evaluation: Evaluation | None = None
    #: Number of records on disk, if the run has no figures yet.
    records: int = 0
    problem: str = ""
    #: Whether the run is still being read.
    pending: bool = False


class ListedAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """The parts of an attempt that lists and filters need; the record stays on disk."""

    #: Index among the run's attempts.
    number: int
    attempt: Attempt
    source: Place | Record
    #: Outcome of the attempt as a single word: `passed`, or the type of failure.
    ending: str
    passed: bool
    #: Keywords that the answer violated.
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelvedRun:
    """The parts of a run that its pages need: the report, and the attempts without their records."""

    heading: str
    verdict: RunVerdict | None
    planned: int
    #: Whether cases have several attempts.
    repeated: bool
    blocks: Sequence[Block]
    #: Results of the gates; empty if no gate was set.
    gates: Sequence[GateFigures]
    pictures: Sequence[Picture]
    #: Attempts; failed attempts come first.
    attempts: Sequence[ListedAttempt]
    #: Values to choose from in each filter of the list of attempts.
    choices: Mapping[str, Sequence[str]]


class _RunCache(Generic[T]):
    """
    A cache of the contents of runs; a run is read again when one of its files has changed.

    A shelf creates a cache for each kind of content; the threads that render pages use it. Runs are read in background
    threads. A caller that needs a run while it is being read waits for a limited time, and then gets the previous
    content or a TimeoutError.
    """

    def __init__(self, read: Callable[[Path], T], most: int | None = None) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        #: For each run, least recently used first: the state of its files, the future with the content of these files,
        #: and the previous future.
        self._readings: dict[Path, tuple[object, Future[T], Future[T] | None]] = {}

    def get(self, path: Path, patience: float | None) -> T:
        """
        Return the content of a run, or the previous content if reading takes longer than `patience` seconds. Raise
        TimeoutError if no previous content exists, or the error with which reading failed.
        """
        state = _state(path)
        with self._lock:
            before, reading, earlier = self._readings.pop(path, (None, None, None))
            if reading is None or (before != state and reading.done()):
                earlier = reading
                before = state
                reading = Future[T]()
                # a daemon thread, so that Ctrl-C does not wait for the end of reading
                threading.Thread(target=self._fill, args=(reading, path), daemon=True).start()
            # release the previous future when the new future is complete
            self._readings[path] = before, reading, None if reading.done() else earlier
            if self._most is not None:
                ended = [other for other, (_, each, _) in self._readings.items() if each.done()]
                for oldest in ended[: -self._most]:
                    del self._readings[oldest]
        wait([reading], timeout=patience)
        if not reading.done():
            if earlier is None or earlier.exception() is not None:
                raise TimeoutError
            return earlier.result()
        if reading.exception() is not None:  # the next request reads the run again
            with self._lock:
                self._readings.pop(path, None)
        return reading.result()

    def get_current(self, path: Path) -> T:
        """Return the content of the run's current files; raise TimeoutError if the files have not been read yet."""
        state = _state(path)
        with self._lock:
            before, reading, _ = self._readings.get(path, (None, None, None))
        if reading is None or before != state or not reading.done():
            raise TimeoutError
        return reading.result()

    def _fill(self, reading: Future[T], path: Path) -> None:
        try:
            reading.set_result(self._read(path))
        except BaseException as error:  # noqa: BLE001  raised for the caller
            reading.set_exception(error)


class Shelf:
    """
    The runs in a directory, by name.

    The site creates the shelf; the threads that render pages use it. A run in progress is read again whenever its files
    have changed. The attempts of the most recently viewed runs are kept in memory, without their records.
    """

    def __init__(self, folder: Path, *, patience: float = _PATIENCE, read: Callable[[Path], Run] = read_run) -> None:
        self._folder = folder.resolve()  # resolved, so that a run's directory that was given as `.` has a name
        #: Maximum number of seconds that a page waits for a run to be read.
        self.patience = patience
        self._runs = _RunCache(lambda path: _shelve_run(path, read(path)), most=_MOST_RUNS)
        self._listed = _RunCache(self.read_listed)
        self._filling = threading.Lock()

    def list_runs(self) -> Iterator[Listed]:
        """Yield the runs, newest first; runs that are not read within `patience` seconds are yielded as pending."""
        deadline = time.perf_counter() + self.patience
        pending = []
        for path in reversed(self._paths()):
            left = deadline - time.perf_counter()
            try:
                yield self._listed.get(path, patience=left) if left > 0 else self._listed.get_current(path)
            except TimeoutError:
                pending.append(path)
                yield Listed(name=escape_name(path), pending=True)
        if pending and self._filling.acquire(blocking=False):
            threading.Thread(target=self._fill, args=(pending,), daemon=True).start()

    def _fill(self, paths: Sequence[Path]) -> None:
        """Read the runs one after the other, so that the next list contains them."""
        try:
            for path in paths:
                with suppress(Exception):  # the error is raised again when the run is requested
                    self._listed.get(path, patience=None)
        finally:
            self._filling.release()

    def read_listed(self, path: Path) -> Listed:
        """Read a run for the list; a problem is part of the result."""
        try:
            _require_own_files(self._folder, path)
            if (path / "run.json").is_file():
                evaluation = read(path)
                variants = {name: replace(each, outcomes=None) for name, each in evaluation.variants.items()}
                listed = replace(evaluation, outcomes=None, variants=variants)
                return Listed(name=escape_name(path), evaluation=listed)
            files = journal.find_files(path)
            return Listed(name=escape_name(path), records=sum(map(self._count_records, files)))
        except (JSBenchError, OSError, ValueError, RecursionError) as error:
            problem = str(error) if isinstance(error, JSBenchError) else describe_error(error)
            return Listed(name=escape_name(path), problem=problem)

    def _count_records(self, file: Path) -> int:
        """Count the complete lines of a records file after its header."""
        lines = FileReader(root=self._folder, longest_line=LONGEST_LINE).read_lines(file)
        return sum(line.ended for line in lines) - 1

    def _paths(self) -> list[Path]:
        try:
            return journal.list_runs(self._folder)
        except OSError as error:
            message = f"{printable(str(self._folder))} cannot be read: {error.strerror or error}"
            raise RecordError(message, found=str(self._folder), expected="a directory of runs") from error

    def path(self, name: str) -> Path:
        """
        Return the directory of the run with this name; raise RecordError if the directory does not exist or contains
        links that lead out of the shelf's directory.
        """
        for path in self._paths():
            if escape_name(path) == name:
                _require_own_files(self._folder, path)
                return path
        raise RecordError(f"no run is named {printable(name)}", found=name)

    def run(self, name: str) -> ShelvedRun:
        """Return the run with this name; raise JSBenchError if reading fails, or TimeoutError if it takes too long."""
        return self._runs.get(self.path(name), patience=self.patience)


def _state(path: Path) -> object:
    """Return a value that changes whenever one of the run's files changes."""
    states = []
    with suppress(OSError):  # the run may be deleted in the meantime
        for file in sorted(path.iterdir()):
            if file.suffix in {".json", ".jsonl"}:
                with suppress(OSError):  # the files of worker processes are removed when a run ends
                    state = file.stat()
                    states.append((file.name, state.st_mtime_ns, state.st_size))
    return states


def escape_name(path: Path) -> str:
    """Return the name of a run's directory for pages and addresses; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def _require_own_files(folder: Path, path: Path) -> None:
    """Raise RecordError unless each file of the run is a regular file inside the directory."""
    if not inside(folder, path):
        raise RecordError(printable(f"{path} is not read: it is a symbolic link out of {folder}"), where=path)
    # if the run is deleted in the meantime, reading it raises an error
    for file in sorted(path.iterdir()) if path.is_dir() else ():
        if file.suffix not in {".json", ".jsonl"}:
            continue
        if not inside(folder, file):
            raise RecordError(printable(f"{file} is not read: it is a symbolic link out of {folder}"), where=file)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(file.stat().st_mode):
                raise RecordError(printable(f"{file} is not read: it is not a regular file"), where=file)


def _shelve_run(path: Path, run: Run) -> ShelvedRun:
    summary = summarize(run)
    attempts = [
        ListedAttempt(
            number=number,
            attempt=outcome.attempt,
            source=outcome.source,
            ending=ending_of(outcome),
            passed=outcome.passed,
            broken=outcome.broken,
        )
        for number, outcome in sorted(enumerate(run.outcomes), key=lambda pair: rank(pair[1]))
    ]
    return ShelvedRun(
        heading=run_report.heading(run.metadata),
        verdict=run.verdict,
        planned=len(run.planned),
        repeated=run.metadata.repeats > 1,
        blocks=tuple(run_report.report(run, summary)),
        gates=read_gates(path, run),
        pictures=pictures_of_run(run, summary),
        attempts=attempts,
        choices={
            "task": sorted({attempt.attempt.key.task for attempt in attempts}),
            "outcome": sorted({attempt.ending for attempt in attempts}),
            "keyword": sorted({keyword for attempt in attempts for keyword in attempt.broken}),
            "variant": list(run.variants),
        },
    )
