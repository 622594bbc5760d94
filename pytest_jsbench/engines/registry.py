"""Engines, found by name: built in, presets, installed, or a user's own class or function."""

from __future__ import annotations

import importlib
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError, JSBenchError, UnknownEngine, nearest
from pytest_jsbench.core.extensions import import_object, installed, load
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.engines.base import AcceptorFactory, BatchFactory, PassingFactory, Sampler, UnsharedFactory
from pytest_jsbench.engines.presets import PRESET_ENGINE, is_preset, preset_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from pytest_jsbench.core.generations import EngineInfo, GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig, EngineFactory


ENTRY_POINTS = "pytest_jsbench.engines"
_OF_FACTORY = ("concurrency", "shared", "max_tokens", "check", "describe", "prepare", "build")

#: by reference, so that no provider's module is imported for another's sake
_BUILT_IN = {
    "anthropic": "pytest_jsbench.engines.providers.messages:FACTORY",
    "anthropic-bedrock": "pytest_jsbench.engines.providers.clouds:BEDROCK",
    "anthropic-vertex": "pytest_jsbench.engines.providers.clouds:VERTEX",
    "application": "pytest_jsbench.engines.functions:APPLICATION",
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
    return tuple(sorted(_installed().keys() | _BUILT_IN.keys() | {*preset_names()}))


def find(name: str) -> EngineFactory:
    """The factory of that name; UnknownEngine with the nearest name where there is none."""
    if (built_in := _BUILT_IN.get(PRESET_ENGINE if is_preset(name) else name)) is not None:
        module, _, attribute = built_in.partition(":")
        factory: EngineFactory = getattr(importlib.import_module(module), attribute)
        return factory
    if (point := _installed().get(name)) is not None:
        return _as_factory(load(point, kind="engine", error=EngineError), name)
    if ":" in name:
        return _as_factory(import_object(name, purpose=f"engine '{name}'", error=EngineError), name)
    message = f"unknown engine '{name}': {nearest(name, names())}; one of your own is package.module:Factory"
    raise UnknownEngine(message, found=name, expected=names(), option="engine")


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


def _installed() -> dict[str, EntryPoint]:
    return installed(ENTRY_POINTS, kind="engine", error=EngineError)


def _as_factory(value: object, name: str) -> EngineFactory:
    """The object itself where it is a factory; a plain callable is made one."""
    if (factory := as_factory(value)) is not None:
        return factory
    if callable(value):
        return PlainFactory(value, name)
    message = f"engine '{name}' is a {type(value).__name__}; expected a factory, or a callable that takes the config"
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
        from pytest_jsbench.engines.secrets import public_options

        with closing(self.build(config)) as engine:
            info = engine.info
        return replace(info, details={**public_options(config), **info.details})

    def build(self, config: EngineConfig) -> Engine:
        """Call it; EngineError for an exception, and for what is no engine."""
        try:
            engine = self._make(config)
        except JSBenchError:
            raise
        except Exception as error:
            message = one_line(f"engine '{self._name}' cannot be built: {type(error).__name__}: {error}")
            raise EngineError(message) from error
        missing = [part for part in ("info", "generate", "close") if not hasattr(engine, part)]
        if missing:
            message = f"engine '{self._name}' built a {type(engine).__name__} without {' and '.join(missing)}"
            raise EngineError(message, found=type(engine).__name__, expected=("info", "generate", "close"))
        from pytest_jsbench.engines.functions import as_threaded

        return as_threaded(engine)
