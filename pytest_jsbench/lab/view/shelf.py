"""The runs of a folder, read when somebody looks at them, and kept while their files stay as they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.library.run import EvaluatedRun, load_run
from pytest_jsbench.records import journal
from pytest_jsbench.reports.evaluations import Evaluation, read

#: runs that are held in memory
_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A run of the list: its figures, or how far it is while it goes, or why it cannot be read."""

    name: str
    evaluation: Evaluation | None = None
    #: records on disk, of a run that has no figures yet
    records: int = 0
    problem: str = ""


class Shelf:
    """
    Gives the runs of a folder by their names.

    The site makes one; the threads in which its pages are made call it. A run is read again when one of its files has
    changed, so that a run that goes on can be watched; the few that were looked at last are kept in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()  # a run's own folder, given as `.`, has a name
        self._lock = threading.Lock()
        self._runs: dict[Path, tuple[object, EvaluatedRun]] = {}
        self._listed: dict[Path, tuple[object, Listed]] = {}

    def listed(self) -> Iterator[Listed]:
        """List the runs, the newest first."""
        for path in reversed(journal.find_runs(self._folder)):
            stamp = _stamp(path)
            with self._lock:
                kept = self._listed.get(path)
            if kept is None or kept[0] != stamp:
                kept = stamp, _look(path)
                with self._lock:
                    self._listed[path] = kept
            yield kept[1]

    def path(self, name: str) -> Path:
        """The folder of the run of that name; KeyError where there is none."""
        return {path.name: path for path in journal.find_runs(self._folder)}[name]

    def run(self, name: str) -> EvaluatedRun:
        """Read the run of that name; KeyError where there is none, JSBenchError where it cannot be read."""
        path = self.path(name)
        stamp = _stamp(path)
        with self._lock:
            kept = self._runs.pop(path, None)
            if kept is None or kept[0] != stamp:
                kept = stamp, load_run(path)
            self._runs[path] = kept
            for oldest in [*self._runs][:-_KEPT]:
                del self._runs[oldest]
        return kept[1]


def _stamp(path: Path) -> object:
    """What changes when a file of the run does."""
    states = []
    for file in sorted(path.iterdir()):
        if file.suffix in {".json", ".jsonl"}:
            with suppress(FileNotFoundError):  # the files of single processes go when a run is summed up
                state = file.stat()
                states.append((file.name, state.st_mtime_ns, state.st_size))
    return states


def _look(path: Path) -> Listed:
    try:
        if (path / "run.json").is_file():
            return Listed(name=path.name, evaluation=read(path))
        files = journal.find_files(path)
        lines = sum(file.read_bytes().count(b"\n") for file in files)
        return Listed(name=path.name, records=lines - len(files))
    except (JSBenchError, OSError) as error:
        return Listed(name=path.name, problem=str(error))
