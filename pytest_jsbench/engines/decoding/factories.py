"""Builds an engine over a decoding library and the embedded model."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.engines.decoding.grammars import Grammars, LibraryAcceptor
from pytest_jsbench.engines.decoding.settings import (
    MODEL_FILE,
    OPTIONS,
    DecodingSettings,
    model_file,
    server_config,
)
from pytest_jsbench.engines.decoding.token_server import slots_folder
from pytest_jsbench.engines.local import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_jsbench.core.generations import EngineInfo, GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.engines.decoding.settings import LibraryPackage


class DecodingFactory:
    """Serves the model as the engine `local` does, and builds what holds it to a grammar."""

    options = OPTIONS
    concurrency = engine.SLOTS
    shared = True
    max_tokens = engine.LocalFactory.max_tokens

    def __init__(
        self,
        package: LibraryPackage,
        make: Callable[[EngineConfig, LibraryPackage, DecodingSettings], Engine],
        *,
        streaming: bool,
        masked: bool,
    ) -> None:
        self._package = package
        self._make = make
        self._streaming = streaming
        #: whether it takes each token itself
        self._masked = masked

    def check(self, config: EngineConfig) -> None:
        """See that the packages and the model's file are there, and that every option is known."""
        DecodingSettings.from_config(config)
        self._package.require(config)
        engine.FACTORY.check(server_config(config))

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """At temperature 0, unless another is asked for; what only takes the likeliest tokens has no seed."""
        sampled = engine.FACTORY.sampled(config, params)
        return replace(sampled, seed=None) if self._masked and not sampled.temperature else sampled

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return self._package.describe(config, streaming=self._streaming)

    @contextmanager
    def prepare(self, config: EngineConfig) -> Iterator[EngineConfig]:
        """Serve the model; what comes out names the server, its key, the model's alias and its file."""
        self.check(config)
        path = model_file(config)
        with engine.FACTORY.prepare(server_config(config)) as served:
            try:
                yield replace(served, options={**config.options, MODEL_FILE: path})
            finally:
                shutil.rmtree(slots_folder(str(served.api_key)), ignore_errors=True)

    def build(self, config: EngineConfig) -> Engine:
        """The engine, for a configuration that `prepare` has given out."""
        settings = DecodingSettings.from_config(config)
        if config.base_url is None or config.api_key is None:
            message = f"engine '{config.name}' has no server yet: build it with what prepare() gives out"
            raise EngineError(message)
        return self._make(config, self._package, settings)

    def build_acceptor(self, config: EngineConfig) -> LibraryAcceptor:
        """What says which answers the grammar takes; there is no server behind it."""
        settings = DecodingSettings.from_config(config)
        return LibraryAcceptor(Grammars(self._package.to_settings(config, settings), settings))
