"""The engine `application`: nobody is asked, because tests hand in what their application got (`jsbench.check`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pytest_jsbench.core.generations import CallError, EngineInfo, FaultKind, ResponseFormat
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.options import Options

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

OPTIONS: frozenset[str] = frozenset()


class ApplicationEngine:
    """Stands in a run for clients that the application calls by itself."""

    def __init__(self, info: EngineInfo) -> None:
        self.info = info

    def generate(self, _: Request) -> NoReturn:
        """Say that somebody else is to be asked."""
        message = f"engine '{self.info.engine}' asks nobody: jsbench.check(answer) takes what an application got"
        raise CallError(FaultKind.ENGINE, f"{message}; to ask a model, name another engine")

    def close(self) -> None:
        """Nothing is open."""


class ApplicationFactory(UnsharedFactory):
    """Builds the `application` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that nothing is said of it that it cannot do."""
        Options(config, OPTIONS)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """The model is the one that the user names, if any."""
        model = config.model or "unknown"
        return EngineInfo(engine=config.name, model=model, response_format=ResponseFormat.TEXT, streaming=False)

    def build(self, config: EngineConfig) -> ApplicationEngine:
        """The engine."""
        return ApplicationEngine(self.describe(config))


FACTORY = ApplicationFactory()
