"""Calls in flight ahead of the tests that will need them."""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import pytest

from pytest_jsbench.plugin.items import JSBenchCase
from pytest_jsbench.run.in_flight import CallsInFlight

T = TypeVar("T")


class LookAhead(Generic[T]):
    """
    Keeps attempts going for the items that pytest will run next, in its order, for each variant apart.

    More attempts are queued than may be in flight, so that a slow one at the head does not idle the rest; under
    `--maxfail` none beyond those in flight, so that little is paid for tests that will not run. A variant that is slow
    holds up no other until that one's queue is full of results.

    The worker makes it when the test loop begins, if there are cases to run. Its methods are called in the main thread:
    `advance` before each test, `result` from the test; the calls run in the threads of `CallsInFlight`. It ends with
    the session, when the worker calls `stop`.
    """

    def __init__(
        self,
        session: pytest.Session,
        call: Callable[[JSBenchCase, float], T],
        *,
        concurrency: Mapping[str, int],
        steals: bool = False,
    ) -> None:
        self._session = session
        self._call = call
        times = 1 if session.config.option.maxfail else 4
        self._lanes: dict[str, _Lane[T]] = {name: _Lane(calls, times * calls) for name, calls in concurrency.items()}
        self._position = {id(item): position for position, item in enumerate(session.items)}
        for position, item in enumerate(session.items):
            if isinstance(item, JSBenchCase):
                self._lanes[item.attempt.variant].places.append(position)
        #: the item for which `advance` was last called
        self._latest: pytest.Item | None = None
        self._worker_queue = None if steals else _worker_queue(session.config)

    def advance(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts of `item` and of the tests after it, as far as there is room."""
        if isinstance(self._latest, JSBenchCase):  # its test may have been skipped, or broken, before it asked
            self._lanes[self._latest.attempt.variant].calls.drop(id(self._latest))
        self._latest = item
        waiting = {name: lane for name, lane in self._lanes.items() if lane.room > 0}
        if hasattr(self._session.config, "workerinput"):
            known = [item] if nextitem is None else [item, nextitem]
            self._fill(waiting, itertools.chain(known, self._queued_by_xdist()) if waiting else ())
        elif (position := self._position.get(id(item))) is None:
            self._fill(waiting, [item])
        else:
            for name, lane in waiting.items():
                self._fill({name: lane}, lane.not_looked_at(self._session.items, position))

    def result(self, item: JSBenchCase) -> T:
        """Wait for the item's result; its attempt is made now if it was not queued, such as for a rerun."""
        lane = self._lanes[item.attempt.variant]
        self._queue(item, lane)
        return lane.calls.take(id(item))

    def stop(self) -> None:
        """Begin no more attempts; those in flight are left to themselves."""
        for lane in self._lanes.values():
            lane.calls.stop()

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return all(lane.calls.stopped for lane in self._lanes.values())

    def _fill(self, lanes: dict[str, _Lane[T]], upcoming: Iterable[pytest.Item]) -> None:
        """Queue the attempts of these items, in their order, until there is no room in any of the lanes."""
        for item in upcoming:
            if (
                isinstance(item, JSBenchCase)
                and not item.has_run
                and (lane := lanes.get(item.attempt.variant)) is not None
            ):
                self._queue(item, lane)
                if lane.room <= 0:
                    del lanes[item.attempt.variant]
            if not lanes:
                break

    def _queue(self, item: JSBenchCase, lane: _Lane[T]) -> None:
        if id(item) not in lane.calls:
            planned_at = time.perf_counter()
            lane.calls.add(id(item), lambda: self._call(item, planned_at))

    def _queued_by_xdist(self) -> list[pytest.Item]:
        """Read what xdist has sent this worker beyond `nextitem`: private, so anything unexpected means nothing."""
        if self._worker_queue is None:
            return []
        try:
            with self._worker_queue.lock() as indices:
                return [self._session.items[index] for index in indices if isinstance(index, int)]
        except Exception:  # noqa: BLE001  another xdist: look one test ahead, as its public hooks allow
            self._worker_queue = None
            return []


class _Lane(Generic[T]):
    """The calls of one variant, and how far its items have been looked at."""

    def __init__(self, concurrency: int, depth: int) -> None:
        self._depth = depth
        #: by the id of the item as an object, because it takes time to write a node id
        self.calls: CallsInFlight[T] = CallsInFlight(concurrency)
        #: where its items stand among the session's
        self.places: list[int] = []
        self._next = 0

    @property
    def room(self) -> int:
        """The number of attempts that may yet be queued."""
        return self._depth - len(self.calls)

    def not_looked_at(self, items: list[pytest.Item], position: int) -> Iterator[pytest.Item]:
        """Its items from a place of the session on; each is given only once."""
        if self._next < len(self.places) and self.places[self._next] < position:
            self._next = bisect_left(self.places, position, lo=self._next)
        while self._next < len(self.places):
            self._next += 1
            yield items[self.places[self._next - 1]]


def _worker_queue(config: pytest.Config) -> Any:
    """The queue of xdist's `WorkerInteractor`, known by its shape; None where there is none."""
    for plugin in config.pluginmanager.get_plugins():
        candidate = getattr(plugin, "torun", None)
        if hasattr(candidate, "lock"):
            return candidate
    return None
