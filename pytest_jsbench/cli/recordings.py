"""The command `jsbench recordings`: list or delete recorded answers that no test uses any more."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import format_count
from pytest_jsbench.engines.recorded import unused_files
from pytest_jsbench.records.journal import find_runs


def add_recordings(commands: Any) -> None:
    """Declare `jsbench recordings`."""
    parser = commands.add_parser(
        "recordings",
        help="list unused recordings",
        description="List the recorded answers (--jsbench-record) that no test of a complete run used. "
        "Nothing is deleted without --prune.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="directory of recordings, as written by --jsbench-record"
    )
    parser.add_argument(
        "--run",
        type=Path,
        required=True,
        action="append",
        metavar="RUN",
        help="a complete run that recorded or replayed answers in DIR, given as its directory or as a directory of "
        "runs (the newest); with several runs, only recordings that none of the runs used are listed",
    )
    parser.add_argument("--prune", action="store_true", help="delete the unused recordings")
    parser.set_defaults(command=_recordings)


def _recordings(options: argparse.Namespace, out: Output) -> bool:
    if not options.folder.is_dir():
        message = f"{options.folder} is not a directory; pass a directory written by --jsbench-record"
        raise RecordError(message, found=str(options.folder), expected="a directory")
    newest = [next(reversed(find_runs(run)), run) if run.is_dir() else run for run in options.run]
    paths = unused_files.read(options.folder, newest)
    for path in paths:
        try:
            if options.prune:
                path.unlink()
        except OSError as error:
            raise RecordError(f"cannot delete {path}: {error.strerror or error}", where=str(path)) from error
        out.write(f"{path}\n")
    ending = ""
    if paths:
        ending = ": deleted" if options.prune else ": --prune deletes them"
    out.write(f"{format_count(len(paths), 'recording')} not used by any test{ending}\n")
    return True
