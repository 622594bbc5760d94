"""
Keeps the journals of workers on another machine, on that machine.

execnet sends this text there and runs it in a process of its own, or in a worker's before xdist is there; so it imports
the standard library only, and `channel` is execnet's. A run has a private folder there, named after it, with a file for
each of its workers, which holds a lock on it until its process has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: seconds after which a folder that no controller has collected is removed
_KEPT = 30 * 24 * 60 * 60.0
#: seconds that the workers of a controller that was killed have to end; execnet ends them within 15
_PATIENCE = 30.0
_CHUNK = 1_000_000


def runs_folder() -> Path:
    """Where the journals of all runs are kept on this machine."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "pytest-jsbench"


def keep(run: str, worker: str) -> Path:
    """Make a run's folder ready for a worker, in the worker's own process; its journal."""
    runs = runs_folder()
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_old(runs)
    folder = runs / Path(run).name
    folder.mkdir(mode=0o700, exist_ok=True)
    journal = folder / f"records.{worker}.jsonl"
    _lock(os.open(journal, os.O_RDWR | os.O_CREAT, 0o600))  # it is never closed: the lock ends with the process
    return journal


def find(runs: list[str]) -> Iterator[Path]:
    """The journals of the workers of these runs, once these have ended; TimeoutError where they do not."""
    if not (parent := runs_folder()).is_dir():
        return
    for folder in sorted(entry for entry in parent.iterdir() if entry.name.rpartition(".")[0] in runs):
        for path in sorted(folder.glob("records.*.jsonl")):
            _wait_for_end(path)
            if path.stat().st_size:
                yield path


def remove(journals: list[tuple[str, str]]) -> None:
    """Remove journals, each named by its folder and its own name, and folders that are empty then."""
    for folder, name in journals:
        path = runs_folder() / Path(folder).name / Path(name).name
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _remove_old(runs: Path) -> None:
    for folder in runs.iterdir():
        with contextlib.suppress(OSError):
            if (
                max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
                < datetime.now(UTC).timestamp() - _KEPT
            ):
                shutil.rmtree(folder)


def _wait_for_end(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                message = f"a worker still writes {path}: wait for the end of its run, or end it"
                raise TimeoutError(message)
            time.sleep(0.2)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file; whether it is ours now. Where there are no locks, it is."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has none
        return True
    return True


def _named(path: Path) -> tuple[str, str]:
    return str(path.parent), path.name


def _send(runs: list[str], send: Callable[[tuple[str, object]], None]) -> None:
    for path in find(runs):
        send(("path", _named(path)))
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                send(("part", chunk))


def _serve(channel: Any) -> None:
    """Do what is asked over the channel; what went wrong is sent back in words."""
    do, *values = channel.receive()
    try:
        if do == "keep":
            channel.send(("path", _named(keep(*values))))
        elif do == "collect":
            _send(values[0], channel.send)
        elif do == "remove":
            remove(*values)
    except (OSError, RuntimeError) as error:
        channel.send(("problem", f"{type(error).__name__}: {error}"))


if __name__ == "__channelexec__":
    _serve(globals()["channel"])
