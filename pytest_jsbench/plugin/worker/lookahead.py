"""Calls in flight ahead of the tests that will need them."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import pytest

from pytest_jsbench.plugin.worker.items import JSBenchCase

T = TypeVar("T")

_Job = tuple["Future[T]", Callable[[], T]]


class DaemonPool(Generic[T]):
    """Threads that do not keep the interpreter alive: after Ctrl-C nobody waits for the calls in flight."""

    def __init__(self, threads: int) -> None:
        self._jobs: queue.SimpleQueue[_Job[T]] = queue.SimpleQueue()
        self.stopped = False
        for number in range(threads):
            threading.Thread(target=self._work, name=f"jsbench-{number}", daemon=True).start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run the job when a thread is free."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def stop(self) -> None:
        """Start no more jobs."""
        self.stopped = True

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            if self.stopped or not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001  belongs to whoever waits for the result
                future.set_exception(error)


class LookAhead(Generic[T]):
    """
    Keeps attempts going for the items that pytest will run next, in its order.

    More attempts are queued than may be in flight, so that a slow one at the head does not idle the rest; under
    `--maxfail` none beyond those in flight, so that little is paid for tests that will not run.
    """

    def __init__(
        self,
        session: pytest.Session,
        call: Callable[[JSBenchCase, float], T],
        *,
        concurrency: int,
        steals: bool = False,
    ) -> None:
        self._session = session
        self._call = call
        self._depth = concurrency if session.config.option.maxfail else 4 * concurrency
        self._pool: DaemonPool[T] = DaemonPool(concurrency)
        #: by the item's own id, for a node id takes its time to be written
        self._futures: dict[int, Future[T]] = {}
        self._position = {id(item): position for position, item in enumerate(session.items)}
        #: for which `advance` was last called
        self._latest: pytest.Item | None = None
        #: the first place in the session's order that was not looked at yet
        self._next = 0
        self._worker_queue = None if steals else _worker_queue(session.config)

    def advance(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue what will be needed from `item` on."""
        if self._latest is not None:  # where its test was skipped or broke before it asked, nobody will
            self._futures.pop(id(self._latest), None)
        self._latest = item
        room = self._depth - len(self._futures)
        if room <= 0:
            return
        for upcoming in self._upcoming(item, nextitem):
            if isinstance(upcoming, JSBenchCase) and not upcoming.has_run:
                room -= self._queue(upcoming)
            if room <= 0:
                break

    def result(self, item: JSBenchCase) -> T:
        """The item's result; asked for now if it was not queued (a rerun, say)."""
        self._queue(item)
        return self._futures.pop(id(item)).result()

    def stop(self) -> None:
        """Start no more attempts; those in flight are left to themselves."""
        self._pool.stop()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._pool.stopped

    def _queue(self, item: JSBenchCase) -> int:
        if id(item) in self._futures:
            return 0
        planned_at = time.perf_counter()
        self._futures[id(item)] = self._pool.submit(lambda: self._call(item, planned_at))
        return 1

    def _upcoming(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterable[pytest.Item]:
        if not hasattr(self._session.config, "workerinput"):
            position = self._position.get(id(item))
            return [item] if position is None else self._not_looked_at(position)
        known = [item] if nextitem is None else [item, nextitem]
        return itertools.chain(known, self._queued_by_xdist())

    def _not_looked_at(self, position: int) -> Iterator[pytest.Item]:
        """The session's items from a place on, each only once: the last one given was queued, or is none of ours."""
        items = self._session.items
        self._next = max(self._next, position)
        while self._next < len(items):
            self._next += 1
            yield items[self._next - 1]

    def _queued_by_xdist(self) -> list[pytest.Item]:
        """What xdist has sent this worker beyond `nextitem`: private, so anything unexpected means nothing."""
        if self._worker_queue is None:
            return []
        try:
            with self._worker_queue.lock() as indices:
                return [self._session.items[index] for index in indices if isinstance(index, int)]
        except Exception:  # noqa: BLE001  another xdist: look one test ahead, as its public hooks allow
            self._worker_queue = None
            return []


def _worker_queue(config: pytest.Config) -> Any:
    """The queue of xdist's `WorkerInteractor`, known by its shape; None where there is none."""
    for plugin in config.pluginmanager.get_plugins():
        candidate = getattr(plugin, "torun", None)
        if hasattr(candidate, "lock"):
            return candidate
    return None
