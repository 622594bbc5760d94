from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.registry import find
from pytest_jsbench.lab.decoding.engines import MODEL_FILE, model_file, slots_folder


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """Start servers and grammar processes in new interpreters, as they import unusual modules."""


@pytest.fixture(scope="session")
def decoding(local_config: EngineConfig) -> Iterator[Callable[[str], tuple[EngineConfig, Engine]]]:
    """Return a library's engine and its configuration; its process is loaded once for all tests."""
    with contextlib.ExitStack() as engines:
        built: dict[str, tuple[EngineConfig, Engine]] = {}

        def build(name: str) -> tuple[EngineConfig, Engine]:
            if name not in built:
                # One slot: a single process of the library is enough, also for concurrent calls.
                options = {"slots": 1, MODEL_FILE: model_file(replace(local_config, model=None))}
                config = replace(local_config, name=name, options=options)
                try:
                    find(name).check(config)
                except MissingRequirement as error:
                    pytest.skip(str(error))
                engine = find(name).build(config)
                engines.callback(engine.close)
                built[name] = config, engine
            return built[name]

        yield build
    shutil.rmtree(slots_folder(str(local_config.api_key)), ignore_errors=True)
