from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.support.bench import Bench, import_session_modules
from tests.support.provider import Provider
from tests.support.warm_python import CHILD, can_be_warm, warm_python

with contextlib.suppress(
    ImportError
):  # pytest also reads this file in a checkout without the requirements of the tests
    from hypothesis import HealthCheck, settings

    # durations depend on the load of the machine, so tests do not check them
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.fixture(scope="session")
def _warm_python() -> Iterator[str]:
    with warm_python(CHILD) as program:
        yield program


@pytest.fixture(autouse=True)
def _starts_fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes from one that has already imported their modules."""
    if can_be_warm():
        monkeypatch.setattr(sys, "executable", request.getfixturevalue("_warm_python"))


@pytest.fixture(autouse=True, scope="session")
def _templates_are_compiled_once() -> Iterator[None]:
    """Compile the page's templates once, since this takes longer than most runs with a page."""
    try:
        from jinja2 import Environment
    except ImportError:
        yield
        return
    compile_anew, compiled = Environment.compile, dict[tuple[object, ...], Any]()

    def compile_once(self: Environment, source: Any, *place: Any, **how: Any) -> Any:
        key = (type(self), self.autoescape, self.trim_blocks, self.lstrip_blocks, source, place, tuple(how.items()))
        if key not in compiled:
            compiled[key] = compile_anew(self, source, *place, **how)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "compile", compile_once)
        yield


@pytest.fixture(scope="session")
def local_config() -> Iterator[EngineConfig]:
    """Return the configuration of a local server, which all tests share."""
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
    """Handle Ctrl-C as in a terminal; processes that a script starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def not_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each session its own environment, even if these tests run under xdist or on GitHub."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_XDIST_", "GITHUB_")) or name == "CI"]:
        monkeypatch.delenv(name)
    # keep compiled modules for the next process, as for a user
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.fixture(scope="session")
def session_modules() -> None:
    """Import the modules of a session once for all sessions in this process."""
    import_session_modules()


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, session_modules: None, not_a_worker: None, pytester: pytest.Pytester
) -> Bench:
    """Run pytest in one process, or with two workers if the test is parametrized so."""
    if getattr(request, "param", "plain") == "plain":
        return Bench(pytester=pytester)
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    return Bench(pytester=pytester, workers=("-n", "2"))


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Run a server with scripted answers."""
    with Provider() as running:
        yield running
