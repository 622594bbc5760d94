"""The engine of runs whose answers all come from the application, which is a function that refuses."""

from __future__ import annotations

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.engines.asking import request


def test_it_asks_nobody_and_says_what_to_do() -> None:
    config = EngineConfig(name="application", model="m")
    factory = find("application")
    factory.check(config)
    engine = factory.build(config)

    with pytest.raises(CallError, match=r"asks nobody: jsbench\.check") as raised:
        engine.generate(request())
    assert (raised.value.kind, engine.info.model) == (FaultKind.ENGINE, "m")
    with pytest.raises(EngineError, match="engine 'application' has no option 'strem': there is none"):
        factory.check(EngineConfig(name="application", options={"strem": True}))
