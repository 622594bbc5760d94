"""
A function of a program as an engine: it takes a request, and gives a text; and engines that are written with `async`.

The engine `application` is one too. Nobody is asked, because tests hand in what their application got
(`jsbench.check`); it stands in a run for clients that the application calls by itself.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    FinishReason,
    Request,
    ResponseFormat,
    Stopwatch,
)
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.options import Options

if TYPE_CHECKING:
    import asyncio

    from pytest_jsbench.engines.base import Engine, EngineConfig

#: what answers: a text, or what an engine gives; it is called from several threads at once, a coroutine in one
AnswerFunction = Callable[[Request], str | Completion | Declined | Awaitable[str | Completion | Declined]]
#: seconds that a coroutine gets to end after it was cancelled
_PATIENCE = 2.0


class FunctionFactory(UnsharedFactory):
    """Makes an engine of a function; its model is called as the function, unless the user says."""

    #: what such an engine is called
    name = "function"

    def __init__(self, function: AnswerFunction) -> None:
        self._function = function

    def check(self, config: EngineConfig) -> None:
        """See that nothing is asked for that only an engine with a configuration could heed."""
        fields = [name for name in ("base_url", "api_key_env") if getattr(config, name) is not None]
        names = ", ".join((*fields, *config.options))
        if names:
            raise EngineError(f"a function takes a request and nothing else: found {names}; leave it out", found=names)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that will be built."""
        called = getattr(self._function, "__name__", type(self._function).__name__)
        return EngineInfo(
            engine=self.name,
            model=config.model or called,
            response_format=config.response_format or ResponseFormat.JSON_SCHEMA,
            streaming=False,
        )

    def build(self, config: EngineConfig) -> Engine:
        """The engine."""
        self.check(config)
        info = self.describe(config)
        call = self._function if inspect.isroutine(self._function) else getattr(self._function, "__call__", None)  # noqa: B004  the method itself is wanted
        kind = _CoroutineFunctionEngine if inspect.iscoroutinefunction(call) else _FunctionEngine
        return as_threaded(kind(function=self._function, info=info))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FunctionEngine:
    function: Callable[[Request], Any]
    info: EngineInfo

    def generate(self, request: Request) -> Completion | Declined:
        watch = Stopwatch()
        return _answer(self.function(request), watch)

    def close(self) -> None:
        """There is nothing to close."""


class _CoroutineFunctionEngine(_FunctionEngine):
    async def generate(self, request: Request) -> Completion | Declined:  # type: ignore[override]
        watch = Stopwatch()
        return _answer(await self.function(request), watch)


def _answer(given: object, watch: Stopwatch) -> Completion | Declined:
    """Read what the function gave as an answer; CallError where it is none."""
    if isinstance(given, Completion | Declined):
        return given
    if isinstance(given, str):  # how it came to its end the function does not say
        return Completion(text=given, finish_reason=FinishReason.UNKNOWN, timing=watch.stop())
    message = f"the function gave a {type(given).__name__}; expected a text, a Completion or a Declined"
    raise CallError(FaultKind.ENGINE, message)


class ApplicationFactory(UnsharedFactory):
    """Builds the `application` engine."""

    options: frozenset[str] = frozenset()

    def check(self, config: EngineConfig) -> None:
        """See that nothing is said of it that it cannot do."""
        Options(config, self.options)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """The model is the one that the user names, if any."""
        model = config.model or "unknown"
        return EngineInfo(engine=config.name, model=model, response_format=ResponseFormat.TEXT, streaming=False)

    def build(self, config: EngineConfig) -> Engine:
        """Return an engine that says that somebody else is to be asked."""
        message = (
            f"engine '{config.name}' asks nobody: jsbench.check(answer) takes what an application got; to ask a model, "
            "name another engine"
        )

        def refuse(_: Request) -> NoReturn:
            raise CallError(FaultKind.ENGINE, message)

        return _FunctionEngine(function=refuse, info=self.describe(config))


APPLICATION = ApplicationFactory()


def as_threaded(engine: Any) -> Engine:
    """Return the engine, which threads call; one that is written with `async` is wrapped for them."""
    threaded: Engine = AsyncEngine(engine) if inspect.iscoroutinefunction(engine.generate) else engine
    return threaded


class AsyncEngine:
    """
    Runs the calls of an engine whose `generate`, and maybe `close`, are coroutines.

    Its event loop runs in one daemon thread until `close`. The threads of the calls in flight enter `generate` and wait
    there; a call past its deadline is cancelled.
    """

    def __init__(self, inner: Any) -> None:
        import asyncio

        self._inner = inner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jsbench-loop", daemon=True)
        self._thread.start()

    @property
    def info(self) -> EngineInfo:
        """Its identity, for reports."""
        info: EngineInfo = self._inner.info
        return info

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call, within the time that the request gives it."""
        from pytest_jsbench.engines.http.calls import Deadline

        deadline = Deadline(request.params.timeout)
        future = self._start(self._inner.generate(request))
        try:
            answer: Completion | Declined = future.result(deadline.remaining)
        except TimeoutError:
            if future.done():  # the engine's own
                raise CallError(FaultKind.TIMEOUT, "the engine's call timed out") from None
            raise deadline.fault() from None
        finally:
            future.cancel()
        return answer

    def close(self) -> None:
        """Close the engine on its loop, and end the loop."""
        with suppress(TimeoutError):
            self._start(_end(self._inner.close())).result(2 * _PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():
            self._loop.close()

    def _start(self, coroutine: Any) -> Any:
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


async def _end(closing: Any) -> None:
    """Let the engine close, then cancel and await what still runs, so that no task is destroyed while it is pending."""
    import asyncio

    if inspect.isawaitable(closing):
        with suppress(TimeoutError):
            await asyncio.wait_for(closing, _PATIENCE)
    others: list[asyncio.Task[Any]] = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
