from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bench import Bench, Ended
from tests.support.warm_python import CHILD, SESSION, warm_python


@pytest.fixture(autouse=True)
def _own_sessions(session_modules: None, not_a_worker: None) -> None:
    """Start each session fast, and with its own environment."""


@pytest.fixture(scope="session")
def _warm_python() -> Iterator[str]:
    with warm_python(SESSION, CHILD) as program:
        yield program


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a new interpreter for each process, as a user does: the test is about startup."""
    monkeypatch.setenv("JSBENCH_COLD_START", "1")


@pytest.fixture
def mixed(bench: Bench) -> Bench:
    """Create one case of each outcome."""
    bench.case("passed")
    bench.case("violated", '{"n": -1}')
    bench.case("invented", '{"n": 1, "color": "red"}')
    bench.case("prose", 'Sure! {"n": 1}', task="talk")
    bench.case("cut", {"text": '{"n": ', "finish_reason": "length"}, task="talk")
    bench.case("unsupported", {"decline": "unsupported_schema", "message": "oneOf is not supported"}, task="talk")
    bench.case("refused", {"decline": "refusal", "message": "I would rather not"}, task="talk")
    bench.case("broke", {"fault": "bad_request", "message": "context too long"}, task="talk")
    bench.case("badschema", schema={"type": "intger"}, task="talk")
    return bench


@pytest.fixture(scope="session")
def _ended() -> dict[tuple[str, ...], Ended]:
    return {}


@pytest.fixture
def ended(mixed: Bench, _ended: dict[tuple[str, ...], Ended]) -> Ended:
    """Run one session in each mode, shared by many tests."""
    if mixed.workers not in _ended:
        result = mixed.run(
            "-rA",
            "--jsbench-invalid-schemas=skip",
            "--jsbench-output=out",
            "--junitxml=junit.xml",
            "--jsbench-min-pass-rate=0.1",
        )
        _ended[mixed.workers] = Ended(bench=mixed, result=result)
    return _ended[mixed.workers]
