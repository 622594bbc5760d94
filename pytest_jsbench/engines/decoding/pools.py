"""What is lent to one call at a time."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

#: seconds between two looks for a slot that another process holds
_PAUSE = 0.02


class Pool(Generic[T]):
    """Things made when they are first needed, so many at the most, and lent again."""

    def __init__(self, make: Callable[[], T], *, most: int) -> None:
        self._make = make
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._free: list[T] = []
        self._all: list[T] = []

    @contextmanager
    def lent(self) -> Iterator[T]:
        """One of them, for the length of the block; waits for one."""
        with self._room:
            thing = self._take()
            try:
                yield thing
            finally:
                with self._lock:
                    self._free.append(thing)

    def _take(self) -> T:
        with self._lock:
            if self._free:
                return self._free.pop()
            thing = self._make()
            self._all.append(thing)
            return thing

    def all(self) -> list[T]:
        """All that were made."""
        with self._lock:
            return list(self._all)


class Slots:
    """
    The server's slots, each lent to one call of one process at a time.

    What a slot has computed for a call is used by the next request of that call: another call in between would take
    it away, and what is computed again comes out a little differently.
    """

    def __init__(self, count: int, *, key: str) -> None:
        self._count = count
        # a folder that all processes of the run know, and nobody else
        self._folder = slots_folder(key)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def lent(self) -> Iterator[int]:
        """The number of a free slot, for the length of the block; waits for one."""
        from filelock import FileLock, Timeout

        locks = [FileLock(self._folder / f"{slot}.lock", thread_local=False) for slot in range(self._count)]
        while True:
            for slot, lock in enumerate(locks):
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    continue
                try:
                    yield slot
                finally:
                    lock.release()
                return
            time.sleep(_PAUSE)


def slots_folder(key: str) -> Path:
    """Where the locks of the slots are, for the server of that key."""
    name = hashlib.sha256(f"slots of {key}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"
