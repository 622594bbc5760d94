"""Find engines by name: built-in engines, presets, installed engines, or a class or function in the user's code."""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError, UnknownEngine, nearest
from pytest_jsbench.core.extensions import find_entry_points, import_object, load, reinstall_hint
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    FinishReason,
    Request,
    ResponseFormat,
)
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import describe_error, kind_of, plain_value
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import EngineFactory
from pytest_jsbench.engines.engine_options import Options
from pytest_jsbench.engines.engine_secrets import public_options
from pytest_jsbench.engines.presets import PRESET_ENGINE, is_preset, preset_names

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine, EngineConfig

#: Import references of the built-in engines, so that only the selected engine's modules are imported.
_BUILT_IN = {
    "anthropic": "pytest_jsbench.engines.providers.anthropic_messages:FACTORY",
    "anthropic-bedrock": "pytest_jsbench.engines.providers.clouds:BEDROCK",
    "anthropic-vertex": "pytest_jsbench.engines.providers.clouds:VERTEX",
    "application": "pytest_jsbench.engines.registry:APPLICATION",
    "azure": "pytest_jsbench.engines.providers.openai:AZURE",
    "gemini": "pytest_jsbench.engines.providers.gemini:FACTORY",
    "local": "pytest_jsbench.engines.local:FACTORY",
    "openai": "pytest_jsbench.engines.providers.openai:FACTORY",
    "recorded": "pytest_jsbench.engines.recorded.engine:FACTORY",
    "replay": "pytest_jsbench.engines.recorded.engine:REPLAY",
    "scripted": "pytest_jsbench.engines.scripted:FACTORY",
}


def names() -> tuple[str, ...]:
    """Return the names of all engines: built-in engines, presets, and installed engines."""
    return tuple(sorted(find_entry_points("engine", error=EngineError).keys() | _BUILT_IN.keys() | {*preset_names()}))


def find(name: str) -> EngineFactory:
    """
    Return the factory with that name; if the name is unknown, raise UnknownEngine, which suggests
    the nearest name.
    """
    if (built_in := _BUILT_IN.get(PRESET_ENGINE if is_preset(name) else name)) is not None:
        module, _, attribute = built_in.partition(":")
        factory: EngineFactory = getattr(importlib.import_module(module), attribute)
        return factory
    if (point := find_entry_points("engine", error=EngineError).get(name)) is not None:
        return _to_factory(load(point, kind="engine", error=EngineError), name)
    if ":" in name:
        return _to_factory(import_object(name, purpose=f"engine '{name}'", error=EngineError), name)
    offer = f"{nearest(name, names())}; to use your own engine, name it as package.module:Factory{reinstall_hint()}"
    raise UnknownEngine(f"unknown engine '{name}': {offer}", found=name, expected=names(), option="engine")


def require_matcher(factory: EngineFactory, name: str) -> None:
    """Raise EngineError unless the engine can test its grammar without a model."""
    if not factory.has_matcher:
        problem = f"engine '{name}' has no grammar to test with labelled answers"
        raise _unsuitable_engine_error(problem, name, lambda other: other.has_matcher)


def require_batches(factory: EngineFactory, name: str) -> None:
    """Raise EngineError unless the engine's provider has a batch API."""
    if not factory.has_batches or is_preset(name):
        problem = f"--jsbench-batch: engine '{name}' has no batch API"
        raise _unsuitable_engine_error(problem, name, lambda other: other.has_batches, option="batch")


def require_forwarding(factory: EngineFactory, name: str, path: str) -> None:
    """Raise EngineError unless the engine forwards an application's calls of that API."""
    apis = factory.passes_on
    if path not in apis:
        problem = f"engine '{name}' does not forward an application's calls to {path}"
        if apis:
            problem += f", only to {' and '.join(apis)}"
        raise _unsuitable_engine_error(problem, name, lambda other: path in other.passes_on)


def _unsuitable_engine_error(
    problem: str, name: str, is_suitable: Callable[[EngineFactory], bool], *, option: str | None = None
) -> EngineError:
    suitable = []
    for other in names():
        with suppress(EngineError):  # the package of an engine cannot be imported
            if not is_preset(other) and is_suitable(find(other)):
                suitable.append(other)
    return EngineError(
        f"{problem}: expected {', '.join(suitable)}", found=name, expected=tuple(suitable), option=option
    )


def _to_factory(value: object, name: str) -> EngineFactory:
    """Return the object itself if it is a factory; wrap it if it is another callable."""
    try:
        factory = as_factory(value)
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:  # the constructor of a third-party class failed
        message = f"engine '{name}' cannot be used: {one_line(describe_error(error))}"
        raise EngineError(message, found=describe_error(error), where=name) from error
    if factory is not None:
        return factory
    if callable(value):
        return PlainFactory(value, name)
    message = f"engine '{name}' is {kind_of(value)}; expected a factory, or a callable that takes the config"
    raise EngineError(message, found=type(value).__name__, where=name)


def as_factory(value: Any) -> EngineFactory | None:
    """Return the factory if the object is a factory or a factory's class; otherwise None."""
    if isinstance(value, type) and issubclass(value, EngineFactory):
        return value()
    return value if isinstance(value, EngineFactory) else None


class PlainFactory(EngineFactory):
    """A factory that wraps a callable or class which takes the configuration and returns an engine."""

    def __init__(self, make: Callable[..., Any], name: str) -> None:
        self._make = make
        self._name = name

    @property
    def concurrency(self) -> int:
        """The callable's own `concurrency` attribute, or 16."""
        number = getattr(self._make, "concurrency", 16)
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return number
        message = f"engine '{self._name}': concurrency must be a whole number above 0, found {number!r}"
        raise EngineError(message, found=number, expected="a whole number above 0", where="concurrency")

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Build an engine, return its info with the options that the info does not contain, and close the engine."""
        with closing(self.build(config)) as engine:
            info = engine.info
        return replace(info, details={**public_options(config), **info.details})

    def build(self, config: EngineConfig) -> Engine:
        """Call the callable; raise EngineError if it raises an exception or returns something that is not an engine."""
        try:
            engine = self._make(config)
        except JSBenchError:
            raise
        except THIRD_PARTY_ERRORS as error:
            message = one_line(f"engine '{self._name}' cannot be built: {type(error).__name__}: {error}")
            raise EngineError(message) from error
        missing = [part for part in ("info", "generate", "close") if not hasattr(engine, part)]
        if missing:
            message = f"engine '{self._name}' built {kind_of(engine)} without {' and '.join(missing)}"
            raise EngineError(message, found=type(engine).__name__, expected=("info", "generate", "close"))
        return as_threaded(engine)


#: A function that returns the text of the answer, a Completion or a Declined. A plain function is called from several
#: threads, a coroutine function from one thread.
AnswerFunction = Callable[[Request], str | Completion | Declined | Awaitable[str | Completion | Declined]]
#: Time that a coroutine has to end after being cancelled, in seconds.
_CANCEL_SECONDS = 2.0


class FunctionFactory(EngineFactory):
    """The factory for an engine that calls a function; the function's name is the default model."""

    #: Name of the engine.
    name = "function"

    def __init__(self, function: AnswerFunction) -> None:
        self._function = function

    def check(self, config: EngineConfig) -> None:
        """Raise EngineError for settings that have no effect, because the function gets only the request."""
        fields = [name for name in ("base_url", "api_key_env") if getattr(config, name) is not None]
        names = ", ".join((*fields, *config.options))
        if names:
            raise EngineError(f"a function only gets the request; remove the settings: {names}", found=names)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that will be built."""
        function_name = getattr(self._function, "__name__", type(self._function).__name__)
        return EngineInfo(
            engine=self.name,
            model=config.model or function_name,
            response_format=config.response_format or ResponseFormat.JSON_SCHEMA,
            streaming=False,
            offers_tools=True,
        )

    def build(self, config: EngineConfig) -> Engine:
        """Build the engine."""
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
        return _to_answer(self.function(request), watch)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class _CoroutineFunctionEngine(_FunctionEngine):
    async def generate(self, request: Request) -> Completion | Declined:  # type: ignore[override]
        watch = Stopwatch()
        return _to_answer(await self.function(request), watch)


def _to_answer(result: object, watch: Stopwatch) -> Completion | Declined:
    """Convert the function's result to an answer; raise CallError for a result of another type."""
    if isinstance(result, Completion | Declined):
        return result
    if isinstance(result, str):  # a function does not report the finish reason
        return Completion(text=result, finish_reason=FinishReason.UNKNOWN, timing=watch.stop())
    message = f"the function returned {plain_value(result)}; expected a string, a Completion or a Declined"
    raise CallError(FaultKind.ENGINE, message)


class ApplicationFactory(FunctionFactory):
    """The factory for the `application` engine, which has no model, because the application under test answers."""

    options = frozenset[str]()

    def check(self, config: EngineConfig) -> None:
        """Raise EngineError for unknown options."""
        Options(config, self.options)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine; its model is the configured model, or `unknown`."""
        model = config.model or "unknown"
        return EngineInfo(engine=config.name, model=model, response_format=ResponseFormat.TEXT, streaming=False)


def _raise_no_model(_: Request) -> NoReturn:
    message = (
        "engine 'application' cannot generate answers: pass the application's answer to jsbench.check(answer); to call "
        "a model, select another engine"
    )
    raise CallError(FaultKind.ENGINE, message)


APPLICATION = ApplicationFactory(_raise_no_model)


def as_threaded(engine: Any) -> Engine:
    """Return the engine; if its methods are coroutines, wrap it for calls from several threads."""
    threaded: Engine = AsyncEngine(engine) if inspect.iscoroutinefunction(engine.generate) else engine
    return threaded


class AsyncEngine:
    """
    An engine that runs the coroutines of another engine: `generate` and, if it exists, `close`.

    Its event loop runs in one daemon thread until `close`. Other threads call `generate` and wait for the result; a
    call is cancelled at its deadline.
    """

    def __init__(self, inner: Any) -> None:
        import asyncio

        self._inner = inner
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="jsbench-loop", daemon=True)
        self._thread.start()

    @property
    def info(self) -> EngineInfo:
        """The engine's identity, for reports."""
        info: EngineInfo = self._inner.info
        return info

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call, within the timeout of the request."""
        from pytest_jsbench.engines.http.calls import Deadline

        deadline = Deadline(request.params.timeout)
        future = self._start(self._inner.generate(request))
        try:
            answer: Completion | Declined = future.result(deadline.remaining)
        except TimeoutError:
            if future.done():  # the engine itself raised the TimeoutError
                raise CallError(FaultKind.TIMEOUT, "the engine's call timed out") from None
            raise deadline.fault() from None
        finally:
            future.cancel()
        return answer

    def close(self) -> None:
        """Close the engine on its event loop, cancel pending calls, and end the loop."""
        import asyncio

        closing = self._inner.close()
        if inspect.isawaitable(closing):
            with suppress(TimeoutError):
                self._start(asyncio.wait_for(closing, _CANCEL_SECONDS)).result(2 * _CANCEL_SECONDS)
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_CANCEL_SECONDS)

    def _serve(self) -> None:
        # When it exits, the runner cancels pending tasks and waits for them, so that no running task is destroyed.
        with self._runner:
            self._runner.run(self._ended.wait())

    def _start(self, coroutine: Any) -> Any:
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
