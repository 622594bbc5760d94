from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.registry import find
from tests.support.cloud_wire import AWS
from tests.support.provider import Provider


@pytest.fixture
def engine(request: pytest.FixtureRequest, provider: Provider) -> Iterator[Engine]:
    """Build the engine that the test's module has `configured`."""
    config: EngineConfig = request.module.configured(provider)
    with closing(find(config.name).build(config)) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _nowhere_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all cloud credentials except those set by a test."""
    for name, value in AWS.items():
        if value.startswith("/") or value == "true":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
