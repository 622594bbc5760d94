"""Remove old runs from a cache of runs."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from pytest_jsbench.records.journal import BATCHES, run_order

#: Pattern for the beginning of a run id, which is also the name of the run's directory.
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-.")
#: Seconds since its last record after which an unfinished run is no longer assumed to be in progress.
_LONGEST_PAUSE = 24 * 60 * 60.0


def prune_runs(parent: Path, *, keep: int) -> None:
    """Remove all but the newest `keep` runs, except runs that may be in progress or have unfinished batches."""
    runs = [entry for entry in parent.iterdir() if _RUN_ID.match(entry.name) and _holds_records(entry)]
    runs.sort(key=run_order)
    for folder in runs[: max(0, len(runs) - keep)]:
        if (folder / BATCHES).exists():
            from pytest_jsbench.run.batch_file import is_unfinished  # imported late: few runs have batches

            if is_unfinished(folder):
                continue
        newest = max(path.lstat().st_mtime for path in folder.glob("records*.jsonl"))
        if not (folder / "run.json").exists() and datetime.now(UTC).timestamp() - newest < _LONGEST_PAUSE:
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _holds_records(entry: Path) -> bool:
    """Return whether the path is a directory with a records file, and neither of the two is a symbolic link."""
    records = entry / "records.jsonl"
    is_linked = entry.resolve() != entry.parent.resolve() / entry.name or records.is_symlink()
    return entry.is_dir() and records.is_file() and not is_linked
