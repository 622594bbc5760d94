"""A run's folder at its end: the records of all processes become one file, and what was made of them stands beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_jsbench import journal
from pytest_jsbench.errors import JournalError, JSBenchError
from pytest_jsbench.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.plugin.reported import Reported
    from pytest_jsbench.records import Record, Run, RunMetadata


class RunFolder:
    """The files of one run, written where reports land."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: writes what workers on other machines send, who cannot
        self._remote: Journal | None = None

    def append_remote(self, record: Record, metadata: RunMetadata) -> str:
        """Write down what another machine has sent; what went wrong, or nothing."""
        if self._remote is None:
            self._remote = Journal(self.path / "records.remote.jsonl", metadata)
        try:
            self._remote.append(record)
        except JournalError as error:
            return str(error)
        return ""

    def add_to(self, reported: Reported) -> Iterator[str]:
        """Add what is on disk and was not reported; one line for each thing that cannot be read, which is kept."""
        for path in sorted(self.path.glob("records*.jsonl")):
            if path.name == journal.RESUMED:  # not judged by this run where it was not reported
                continue
            try:
                content = journal.read(path)
            except JSBenchError as error:
                yield f"{error}; {_put_aside(path)}"
                continue
            yield from content.warnings
            reported.add(content.records)

    def write(self, run: Run, *, resumed_all: bool) -> str:
        """Write the records of all processes as one file; what went wrong, or nothing."""
        try:
            journal.write(self.path / "records.jsonl", run.metadata, run.records)
            for path in self.path.glob("records.*.jsonl"):
                if path.name != journal.LATE and (path.name != journal.RESUMED or resumed_all):
                    path.unlink()
        except (JSBenchError, OSError) as error:
            return str(error)
        return ""


def _put_aside(path: Path) -> str:
    """Out of the way of what is written in its place, and of whoever reads the folder."""
    try:
        aside = path.rename(path.with_name(f"{path.name}.unreadable"))
    except OSError as error:
        return f"it stays where it is: {error}"
    return f"it is kept as {aside.name}"
