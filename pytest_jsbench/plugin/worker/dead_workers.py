"""What workers had paid for when they died: their tests are run by others, which need not pay again."""

from __future__ import annotations

import threading
from pathlib import Path

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import private
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.records import Attempt, Record

#: in the folder that all processes share, the names of the workers that have died, a line each
_DEAD = "dead"


def note_death(shared: Path, worker: str) -> None:
    """Say that a worker has died, before its tests are given to others."""
    with private(shared / _DEAD).open("a", encoding="utf-8") as file:
        file.write(f"{worker}\n")


class LeftBehind:
    """The records of dead workers, read when one has died; usable from any thread."""

    def __init__(self, shared: Path, folder: Path | None) -> None:
        self._dead = shared / _DEAD
        self._folder = folder
        self._lock = threading.Lock()
        self._read: set[str] = set()
        self._records: dict[Attempt, Record] = {}

    def record(self, attempt: Attempt) -> Record | None:
        """What a worker that died has written of the attempt; None where it has not, or none has died."""
        if self._folder is None or not self._dead.exists():
            return None
        with self._lock:
            for worker in self._dead.read_text(encoding="utf-8").split():
                if worker not in self._read:
                    self._read.add(worker)
                    self._take_in(self._folder / f"records.{worker}.jsonl")
            return self._records.get(attempt)

    def _take_in(self, path: Path) -> None:
        try:
            content = journal.read(path)
        except JSBenchError:  # it has written nothing, or nothing that can be read: the controller says so in the end
            return
        self._records.update((record.attempt, record) for record in content.records)
