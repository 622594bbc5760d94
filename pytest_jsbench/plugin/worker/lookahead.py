"""Calls in flight ahead of the tests that will need them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import pytest

from pytest_jsbench.plugin.worker.items import JSBenchCase
from pytest_jsbench.runner.in_flight import CallsInFlight

T = TypeVar("T")


class LookAhead(Generic[T]):
    """
    Keeps attempts going for the items that pytest will run next, in its order.

    More attempts are queued than may be in flight, so that a slow one at the head does not idle the rest; under
    `--maxfail` none beyond those in flight, so that little is paid for tests that will not run.

    The worker makes it when the test loop begins, if there are cases to run. Its methods are called in the main thread:
    `advance` before each test, `result` from the test; the calls run in the threads of `CallsInFlight`. It ends with
    the session, when the worker calls `stop`.
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
        #: by the id of the item as an object, because it takes time to write a node id
        self._calls: CallsInFlight[T] = CallsInFlight(concurrency)
        self._position = {id(item): position for position, item in enumerate(session.items)}
        #: the item for which `advance` was last called
        self._latest: pytest.Item | None = None
        #: the first place in the session's order that `advance` has not looked at yet
        self._next = 0
        self._worker_queue = None if steals else _worker_queue(session.config)

    def advance(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts of `item` and of the tests after it, as far as there is room."""
        if self._latest is not None:  # its test may have been skipped, or broken, before it asked
            self._calls.drop(id(self._latest))
        self._latest = item
        room = self._depth - len(self._calls)
        if room <= 0:
            return
        for upcoming in self._upcoming(item, nextitem):
            if isinstance(upcoming, JSBenchCase) and not upcoming.has_run:
                room -= self._queue(upcoming)
            if room <= 0:
                break

    def result(self, item: JSBenchCase) -> T:
        """Wait for the item's result; its attempt is made now if it was not queued, such as for a rerun."""
        self._queue(item)
        return self._calls.take(id(item))

    def stop(self) -> None:
        """Begin no more attempts; those in flight are left to themselves."""
        self._calls.stop()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._calls.stopped

    def _queue(self, item: JSBenchCase) -> int:
        if id(item) in self._calls:
            return 0
        planned_at = time.perf_counter()
        self._calls.add(id(item), lambda: self._call(item, planned_at))
        return 1

    def _upcoming(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterable[pytest.Item]:
        if not hasattr(self._session.config, "workerinput"):
            position = self._position.get(id(item))
            return [item] if position is None else self._not_looked_at(position)
        known = [item] if nextitem is None else [item, nextitem]
        return itertools.chain(known, self._queued_by_xdist())

    def _not_looked_at(self, position: int) -> Iterator[pytest.Item]:
        """The session's items from a place on; each is given only once."""
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
