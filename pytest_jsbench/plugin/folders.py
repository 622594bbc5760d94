"""Where a run's files are, and the folder that its processes share while it lasts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from pytest_jsbench.journal import BATCHES

_CACHED_RUNS = 5


def run_folder(config: pytest.Config, output: Path | None, run_id: str) -> Path | None:
    """A new folder for the run's files: below --jsbench-output, or in pytest's cache, where the last few runs stay."""
    if output is not None:
        return _new_folder(output, run_id)
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    try:
        parent = cache.mkdir("jsbench")
        _prune(parent, keep=_CACHED_RUNS - 1)
        return _new_folder(parent, run_id)
    except (OSError, pytest.UsageError):  # a cache that cannot be written is pytest's to report
        return None


def _new_folder(parent: Path, name: str) -> Path:
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir(parents=True)
            (folder / "records.jsonl").touch()
        except FileExistsError:
            if parent.is_dir() and number < 1000:
                number += 1
                continue
            message = f"--jsbench-output={parent} is not a folder; name a folder that can be written"
            raise pytest.UsageError(message) from None
        except OSError as error:
            message = f"cannot write to --jsbench-output={parent}: {error.strerror}; name a folder that can be written"
            raise pytest.UsageError(message) from None
        else:
            return folder


def _prune(parent: Path, *, keep: int) -> None:
    runs = sorted(entry for entry in parent.iterdir() if entry.is_dir())
    for folder in runs[: max(0, len(runs) - keep)]:
        if (folder / BATCHES).exists() and _is_unfinished(folder):  # it is paid for
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _is_unfinished(folder: Path) -> bool:
    from pytest_jsbench.batching.file import is_unfinished

    return is_unfinished(folder)


def shared_folder(config: pytest.Config) -> Path:
    """A folder for what the processes of this run tell each other; it goes when the run ends."""
    folder = tempfile.mkdtemp(prefix="jsbench-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)
