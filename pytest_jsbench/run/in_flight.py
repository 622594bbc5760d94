"""Calls in flight: made by threads of their own, ahead of who needs their results."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from pytest_jsbench.core.errors import EngineError, exhausted

T = TypeVar("T")


class CallsInFlight(Generic[T]):
    """
    So many calls at once, each known by a key until its result is taken.

    Who runs the cases makes it, and calls its methods from one thread; the calls run in its own threads, as many as
    may be in flight. After `stop` no call begins. The threads do not keep the interpreter alive, so that after Ctrl-C
    nobody waits for the calls that are under way; each ends after `stop`, with its call.
    """

    def __init__(self, concurrency: int) -> None:
        #: None: the thread that takes it ends
        self._queue: queue.SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = queue.SimpleQueue()
        self._futures: dict[Hashable, Future[T]] = {}
        self.stopped = False
        self._threads = concurrency
        for number in range(concurrency):
            try:
                threading.Thread(target=self._work, name=f"jsbench-{number}", daemon=True).start()
            except RuntimeError as error:
                message = f"fewer than {concurrency} threads for calls in flight could be started: {exhausted(error)}"
                raise EngineError(message, found=number, expected=concurrency, option="concurrency") from error

    def __len__(self) -> int:
        """The number of calls that are queued, under way, or wait for their result to be taken."""
        return len(self._futures)

    def __contains__(self, key: Hashable) -> bool:
        """True for the key of a call."""
        return key in self._futures

    def add(self, key: Hashable, call: Callable[[], T]) -> None:
        """Make this call when a thread is free."""
        future = self._futures[key] = Future()
        self._queue.put((future, call))

    def take(self, key: Hashable) -> T:
        """Wait for the result of this key's call; what the call raised is raised here."""
        return self._futures.pop(key).result()

    def drop(self, key: Hashable) -> None:
        """Nobody will take the result of this key's call, if there is one."""
        self._futures.pop(key, None)

    def stop(self) -> None:
        """Begin no more calls; those under way are left to themselves."""
        self.stopped = True
        for _ in range(self._threads):
            self._queue.put(None)

    def _work(self) -> None:
        while self._make_next():
            pass

    def _make_next(self) -> bool:
        """Make a call if there is to be one; by itself, so that a thread that waits for the next holds no result."""
        if (taken := self._queue.get()) is None:
            return False
        future, call = taken
        if self.stopped or not future.set_running_or_notify_cancel():
            return True
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  belongs to whoever waits for the result
            future.set_exception(error)
        return True
