"""Engines, found by name: built in, presets, installed, or a program's own class or function."""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError, UnknownEngine, nearest
from pytest_jsbench.core.extensions import import_object, installed, load, reinstall
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
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import described, kind_of, plain_value
from pytest_jsbench.engines.base import AcceptorFactory, BatchFactory, PassingFactory, Sampler, UnsharedFactory
from pytest_jsbench.engines.engine_options import Options
from pytest_jsbench.engines.engine_secrets import public_options
from pytest_jsbench.engines.presets import PRESET_ENGINE, is_preset, preset_names

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig, EngineFactory

_OF_FACTORY = ("concurrency", "shared", "max_tokens", "check", "describe", "prepare", "build")

#: by reference, so that no provider's module is imported for another's sake
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
    """The engines that have a name: built in, presets of one, and installed."""
    return tuple(sorted(installed("engine", error=EngineError).keys() | _BUILT_IN.keys() | {*preset_names()}))


def find(name: str) -> EngineFactory:
    """The factory of that name; UnknownEngine with the nearest name where there is none."""
    if (built_in := _BUILT_IN.get(PRESET_ENGINE if is_preset(name) else name)) is not None:
        module, _, attribute = built_in.partition(":")
        factory: EngineFactory = getattr(importlib.import_module(module), attribute)
        return factory
    if (point := installed("engine", error=EngineError).get(name)) is not None:
        return _as_factory(load(point, kind="engine", error=EngineError), name)
    if ":" in name:
        return _as_factory(import_object(name, purpose=f"engine '{name}'", error=EngineError), name)
    offer = f"{nearest(name, names())}; one of your own is package.module:Factory{reinstall()}"
    raise UnknownEngine(f"unknown engine '{name}': {offer}", found=name, expected=names(), option="engine")


def require_acceptor(factory: EngineFactory, name: str) -> AcceptorFactory:
    """The factory as one whose engine has a grammar that can be asked; EngineError where it has none."""
    if isinstance(factory, AcceptorFactory):
        return factory
    problem = f"engine '{name}' has no grammar that could be asked about labelled answers"
    raise _unable(problem, name, lambda other: isinstance(other, AcceptorFactory))


def require_batches(factory: EngineFactory, name: str) -> BatchFactory:
    """The factory as one whose provider has a batch API; EngineError where it has none."""
    if isinstance(factory, BatchFactory) and not is_preset(name):
        return factory
    problem = f"--jsbench-batch: engine '{name}' has no batch API"
    raise _unable(problem, name, lambda other: isinstance(other, BatchFactory), option="batch")


def require_passing(factory: EngineFactory, name: str, path: str) -> None:
    """See that the engine passes on an application's calls of that API; EngineError where it cannot."""
    spoken = factory.passes_on if isinstance(factory, PassingFactory) else ()
    if path not in spoken:
        problem = f"engine '{name}' passes on {' and '.join(spoken) or 'no calls of an application'}, and not {path}"
        raise _unable(problem, name, lambda other: path in getattr(other, "passes_on", ()))


def _unable(
    problem: str, name: str, is_able: Callable[[EngineFactory], bool], *, option: str | None = None
) -> EngineError:
    able = []
    for other in names():
        with suppress(EngineError):  # one whose package cannot be imported
            if not is_preset(other) and is_able(find(other)):
                able.append(other)
    return EngineError(f"{problem}: expected {', '.join(able)}", found=name, expected=tuple(able), option=option)


def sampled(factory: EngineFactory, config: EngineConfig, params: GenerationParams) -> GenerationParams:
    """Return how an engine samples that is asked with these parameters, as far as it says."""
    return factory.sampled(config, params) if isinstance(factory, Sampler) else params


def _as_factory(value: object, name: str) -> EngineFactory:
    """The object itself where it is a factory; a plain callable is made one."""
    try:
        factory = as_factory(value)
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:  # a factory's class is called
        message = f"engine '{name}' cannot be used: {one_line(described(error))}"
        raise EngineError(message, found=described(error), where=name) from error
    if factory is not None:
        return factory
    if callable(value):
        return PlainFactory(value, name)
    message = f"engine '{name}' is {kind_of(value)}; expected a factory, or a callable that takes the config"
    raise EngineError(message, found=type(value).__name__, where=name)


def as_factory(value: Any) -> EngineFactory | None:
    """The factory that a program holds, itself or as its class; None for anything else."""
    if not all(hasattr(value, step) for step in _OF_FACTORY):
        return None
    factory: EngineFactory = value() if isinstance(value, type) else value
    return factory


class PlainFactory(UnsharedFactory):
    """The factory made of a callable, or a class, that takes the configuration and gives an engine."""

    def __init__(self, make: Callable[..., Any], name: str) -> None:
        self._make = make
        self._name = name

    @property
    def concurrency(self) -> int:
        """The callable's own attribute of that name, or 16."""
        number = getattr(self._make, "concurrency", 16)
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return number
        message = f"engine '{self._name}': concurrency is a whole number above 0, not {number!r}"
        raise EngineError(message, found=number, expected="a whole number above 0", where="concurrency")

    def check(self, config: EngineConfig) -> None:
        """A callable says what it lacks when it is called."""

    def describe(self, config: EngineConfig) -> EngineInfo:
        """The info of an engine that is built for it and closed again; and the options that it does not name."""
        with closing(self.build(config)) as engine:
            info = engine.info
        return replace(info, details={**public_options(config), **info.details})

    def build(self, config: EngineConfig) -> Engine:
        """Call it; EngineError for an exception, and for what is no engine."""
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
    message = f"the function gave {plain_value(given)}; expected a text, a Completion or a Declined"
    raise CallError(FaultKind.ENGINE, message)


class ApplicationFactory(FunctionFactory):
    """Builds the `application` engine, which says that somebody else is to be asked."""

    options: frozenset[str] = frozenset()

    def check(self, config: EngineConfig) -> None:
        """See that nothing is said of it that it cannot do."""
        Options(config, self.options)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """The model is the one that the user names, if any."""
        model = config.model or "unknown"
        return EngineInfo(engine=config.name, model=model, response_format=ResponseFormat.TEXT, streaming=False)


def _ask_nobody(_: Request) -> NoReturn:
    message = (
        "engine 'application' asks nobody: jsbench.check(answer) takes what an application got; to ask a model, "
        "name another engine"
    )
    raise CallError(FaultKind.ENGINE, message)


APPLICATION = ApplicationFactory(_ask_nobody)


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
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="jsbench-loop", daemon=True)
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
        """Close the engine on its loop, and end the loop; what is still in flight is cancelled."""
        import asyncio

        closing = self._inner.close()
        if inspect.isawaitable(closing):
            with suppress(TimeoutError):
                self._start(asyncio.wait_for(closing, _PATIENCE)).result(2 * _PATIENCE)
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        # at its end it cancels and awaits what still runs, so that no task is destroyed while it is pending
        with self._runner:
            self._runner.run(self._ended.wait())

    def _start(self, coroutine: Any) -> Any:
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
