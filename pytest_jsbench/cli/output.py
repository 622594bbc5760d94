"""Print the output of a command, and create the directory to which a command writes a run."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import make_private_folder
from pytest_jsbench.core.text import format_count, json_text, printable
from pytest_jsbench.records.journal import find_runs, read_header
from pytest_jsbench.reports.terminal import report_lines, width_of

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.reports.blocks import Block
    from pytest_jsbench.reports.history import History
    from pytest_jsbench.reports.run_json import Evaluation

Read = TypeVar("Read", "Run", "Evaluation", "History")


class Output(io.TextIOBase):
    """A stream that escapes control characters, so that a quoted answer cannot control the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def width(self) -> int:
        """Width of reports in columns."""
        return width_of(is_terminal=self._stream.isatty())

    def write(self, text: str) -> int:
        """Write text that consists of whole lines, with control characters escaped."""
        return self._stream.write(printable(text, None, lines=True))

    def flush(self) -> None:
        """Flush the stream, so that a program that reads from a pipe gets the text now."""
        self._stream.flush()

    def close(self) -> None:
        """Leave the stream open: it belongs to the caller, who may have closed it when this object is finalized."""

    def lines(self, lines: Iterable[str]) -> None:
        """Write each text as a line, and flush the stream."""
        self.writelines(f"{line}\n" for line in lines)
        self._stream.flush()

    def json(self, data: object, indent: int | None = 2) -> None:
        """Write a JSON value."""
        self.write(json_text(data, indent=indent) + "\n")

    def report(self, blocks: Iterable[Block]) -> None:
        """Write the blocks of a report in the form for a terminal."""
        self.lines(report_lines(blocks, self.width))


def print_warnings(content: Read) -> Read:
    """Print to stderr the warnings that arose when a file was read, and return the file's content."""
    sys.stderr.writelines(f"jsbench: warning: {printable(warning, None)}\n" for warning in content.warnings)
    return content


def make_folder(folder: Path, parts: Sequence[RunMetadata], error: type[JSBenchError]) -> None:
    """
    Create the directory for a run that a command makes from the given runs (`parts`); raise `error` if this fails.

    If the directory contains an earlier result made from the same runs, or from runs that these resumed, it is
    replaced. Any other run in the directory is an error.
    """
    runs = find_runs(folder) if folder.is_dir() else []
    if runs and runs != [folder]:  # a run written here would hide the runs in the subdirectories
        message = f"{folder} contains {format_count(len(runs), 'run')}: choose a directory that does not exist yet"
        raise error(message, where=folder)
    has_records = bool(runs)
    kept = None
    with suppress(JSBenchError):  # a run that cannot be read is not replaced either
        kept = read_header(folder) if has_records else None
    names = {name for part in parts for name in (part.run_id, part.resumed_from)}
    made_of_these = kept is not None and kept.run_id in names and kept.uuid not in [part.uuid for part in parts]
    if not made_of_these and (has_records or (folder / "run.json").exists()):
        whose = "a run" if kept is None else f"the run {printable(kept.run_id)}"
        raise error(f"{folder} contains {whose}, which must not be replaced: choose another directory", where=folder)
    try:
        make_private_folder(folder)
    except OSError as problem:
        message = f"cannot write to {folder}: {problem.strerror or problem}; choose a writable directory"
        raise error(message, where=folder) from problem
