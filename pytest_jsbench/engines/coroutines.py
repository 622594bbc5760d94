"""An engine whose methods are coroutines, called like any other: one event loop, in one thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import Deadline

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Completion, Declined, EngineInfo, Request

#: seconds that a coroutine gets to end after it was cancelled
_PATIENCE = 2.0


class CoroutineEngine(Protocol):
    """An engine as its author wrote it, with a coroutine function for `generate`; `close` may be one too."""

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""

    async def generate(self, request: Request) -> Completion | Declined:
        """Make one call, without retries."""

    def close(self) -> Any:
        """Close the connections."""


class AsyncEngine:
    """
    Runs the calls of an engine that is written with `async def`.

    The registry puts one around such an engine when it builds it. Its event loop runs in one daemon thread until
    `close`. The threads of the calls in flight enter `generate` and wait there; a call past its deadline is cancelled.
    """

    def __init__(self, inner: CoroutineEngine) -> None:
        self._inner = inner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jsbench-loop", daemon=True)
        self._thread.start()

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._inner.info

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call, within the time that the request gives it."""
        deadline = Deadline(request.params.timeout)
        future = asyncio.run_coroutine_threadsafe(self._inner.generate(request), self._loop)
        try:
            return future.result(deadline.remaining)
        except concurrent.futures.TimeoutError:
            if future.done():  # the engine's own
                raise CallError(FaultKind.TIMEOUT, "the engine's call timed out") from None
            raise deadline.fault() from None
        finally:
            future.cancel()

    def close(self) -> None:
        """Close the engine on its loop, and end the loop."""
        with suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(_end(self._inner.close()), self._loop).result(2 * _PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():
            self._loop.close()


async def _end(closing: Any) -> None:
    """Let the engine close, then cancel and await what still runs, so that no task is destroyed while it is pending."""
    if inspect.isawaitable(closing):
        with suppress(TimeoutError):
            await asyncio.wait_for(closing, _PATIENCE)
    others: list[asyncio.Task[Any]] = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
