"""Make calls in threads, ahead of the tests that need their results."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from pytest_jsbench.core.errors import EngineError, describe_exhaustion

T = TypeVar("T")


class CallsInFlight(Generic[T]):
    """
    Makes several calls concurrently and keeps the result of each call, under a key, until the result is taken.

    All methods are called from the one thread that runs the cases; the calls run in threads of this object, whose
    number is `concurrency`. After `stop`, no call begins. The threads are daemons, so that the interpreter exits after
    Ctrl-C without waiting for calls in flight; after `stop`, each thread ends with its current call.
    """

    def __init__(self, concurrency: int) -> None:
        #: Calls to make; None ends the thread that reads it.
        self._queue: queue.SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = queue.SimpleQueue()
        self._futures: dict[Hashable, Future[T]] = {}
        self.stopped = False
        self._threads = concurrency
        for number in range(concurrency):
            try:
                threading.Thread(target=self._work, name=f"jsbench-{number}", daemon=True).start()
            except RuntimeError as error:
                message = (
                    f"only {number} of {concurrency} threads for calls in flight started: {describe_exhaustion(error)}"
                )
                raise EngineError(message, found=number, expected=concurrency, option="concurrency") from error

    def __len__(self) -> int:
        """Return the number of calls that are queued, in flight, or finished with a result not yet taken."""
        return len(self._futures)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether there is a call with this key."""
        return key in self._futures

    def add(self, key: Hashable, call: Callable[[], T]) -> None:
        """Queue this call under the key; it is made when a thread is free."""
        future = self._futures[key] = Future()
        self._queue.put((future, call))

    def take(self, key: Hashable) -> T:
        """Wait for the result of the call with this key; raise the exception of the call, if any."""
        return self._futures.pop(key).result()

    def drop(self, key: Hashable) -> None:
        """Discard the pending result of this key, if any."""
        self._futures.pop(key, None)

    def stop(self) -> None:
        """Begin no more calls; do not wait for calls in flight."""
        self.stopped = True
        for _ in range(self._threads):
            self._queue.put(None)

    def _work(self) -> None:
        while self._make_next():
            pass

    def _make_next(self) -> bool:
        """
        Make the next call, or return False if the thread is to end; this is a separate method so that a waiting thread
        does not keep a result alive.
        """
        if (taken := self._queue.get()) is None:
            return False
        future, call = taken
        if self.stopped or not future.set_running_or_notify_cancel():
            return True
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised again for the waiting thread
            future.set_exception(error)
        return True
