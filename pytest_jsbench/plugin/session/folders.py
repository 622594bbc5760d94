"""The folders of a run: where its files are kept, and where its processes meet."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.records.journal import BATCHES, new_folder

_CACHED_RUNS = 5
#: what the name of a run, and of its folder, begins with
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-.")
#: seconds after its last record in which a run that has not ended may still go on
_LONGEST_PAUSE = 24 * 60 * 60.0


def run_folder(config: pytest.Config, output: Path | None, run_id: str) -> Path | None:
    """A new folder for the run's files: below --jsbench-output, or in pytest's cache, where the last few runs stay."""
    if output is not None:
        return new_folder(output, run_id)
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    _refuse_links(config)
    try:
        parent = cache.mkdir("jsbench")
        if not any(parent.iterdir()):  # it is new, and ours
            parent.chmod(0o700)
        _prune(parent, keep=_CACHED_RUNS - 1)
        return new_folder(parent, run_id)
    except (OSError, JournalError):  # a cache that cannot be written is pytest's to report
        return None


def _refuse_links(config: pytest.Config) -> None:
    """Refuse a cache that a link leads elsewhere: a foreign repository may hold such a link."""
    root = config.rootpath
    given = Path(os.path.expandvars(config.getini("cache_dir"))).expanduser()
    cache = Path(os.path.abspath(root / given))  # noqa: PTH100  resolve() follows the links that are looked for
    kept = cache / "d" / "jsbench"
    named = root if cache.is_relative_to(root) else cache
    found = kept.resolve()
    if found != named.resolve() / kept.relative_to(named):
        message = f"{kept} leads to {found} by a link, through which no run is kept: remove it, or add --jsbench-output"
        raise pytest.UsageError(message)


def _prune(parent: Path, *, keep: int) -> None:
    """Remove the oldest runs; other folders stay, and so do runs that may be under way or have unfinished batches."""
    runs = sorted(entry for entry in parent.iterdir() if _is_run(entry))
    for folder in runs[: max(0, len(runs) - keep)]:
        if (folder / BATCHES).exists():
            from pytest_jsbench.run.batches import is_unfinished

            if is_unfinished(folder):
                continue
        newest = max(path.lstat().st_mtime for path in folder.glob("records*.jsonl"))
        if not (folder / "run.json").exists() and datetime.now(UTC).timestamp() - newest < _LONGEST_PAUSE:
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _is_run(entry: Path) -> bool:
    records = entry / "records.jsonl"
    if not _RUN_ID.match(entry.name) or entry.resolve() != entry.parent.resolve() / entry.name:
        return False
    return entry.is_dir() and records.is_file() and not records.is_symlink()


def shared_folder(config: pytest.Config) -> Path:
    """A folder for what the processes of this run tell each other; it goes when the run ends."""
    folder = tempfile.mkdtemp(prefix="jsbench-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)
