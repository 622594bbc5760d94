from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator

import pytest

from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.warm_python import CHILD, can_be_warm, warm_python

with contextlib.suppress(ImportError):  # pytest reads this file also where a checkout only asks a model
    from hypothesis import HealthCheck, settings

    # how long anything takes depends on what else the machine does, and is no test's to say
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.fixture(scope="session")
def _warm_python() -> Iterator[str]:
    with warm_python(CHILD) as program:
        yield program


@pytest.fixture(autouse=True)
def _starts_fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this one starts need not import anew what all of them do."""
    if can_be_warm():
        monkeypatch.setattr(sys, "executable", request.getfixturevalue("_warm_python"))


@pytest.fixture(scope="session")
def local_config() -> Iterator[EngineConfig]:
    """A local server, the same for all tests."""
    config = EngineConfig(name="local")
    factory = find("local")
    try:
        factory.check(config)
    except MissingRequirement as error:
        pytest.skip(str(error))
    with factory.prepare(config) as prepared:
        yield prepared


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal: what a script starts in the background ignores it, and hands that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
