from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any, cast

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.local_guard import RestartGuard, SharedState, Supervisor


class Server:
    """A server that is stuck, or has ended, from some call on until it is restarted."""

    def __init__(self) -> None:
        self.runs = self.answers = True
        self.restarts = 0
        #: why a restart fails
        self.failure = ""

    def restart(self) -> str:
        if not self.failure:
            self.runs = self.answers = True
        self.restarts += 1
        return self.failure

    def request(self, *_: object, **__: object) -> BytesIO:
        """Answer a probe, as the client does."""
        if not (self.runs and self.answers):
            raise CallError(FaultKind.CONNECTION, "connection refused")
        return BytesIO(b"[]")

    def stop(self) -> str:
        """Stop during a call that never ends otherwise."""
        self.answers = False
        raise CallError(FaultKind.TIMEOUT, "no answer")

    def end(self) -> str:
        """End the process during a call."""
        self.runs = False
        raise CallError(FaultKind.CONNECTION, "it was closed", closed=True)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def shared(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> SharedState:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: tmp_path)
    shared = SharedState("key")
    shared.create()
    return shared


@pytest.fixture
def guard(server: Server, shared: SharedState) -> Iterator[RestartGuard]:
    supervisor = Supervisor(shared, is_alive=lambda: server.runs, restart=server.restart)
    yield RestartGuard(
        shared, cast("Any", server), "/slots", subject="this request", start_timeout=1, least_patience=0.2
    )
    supervisor.stop(kill=lambda: None)


def call(guard: RestartGuard, make: Callable[[], str], *, test: str = "test", repeatable: bool = True) -> str:
    return guard.call(make, timeout=0.4, test=test, repeatable=repeatable)


def test_only_call_that_stops_the_server_is_blamed_at_once(guard: RestartGuard, server: Server) -> None:
    with pytest.raises(CallError, match="the local server stopped answering while processing this request") as caught:
        call(guard, server.stop)

    assert caught.value.kind is FaultKind.HANG
    assert caught.value.broke_server
    assert server.restarts == 1


def test_only_call_that_ends_the_server_is_blamed_at_once(guard: RestartGuard, server: Server) -> None:
    with pytest.raises(
        CallError, match="the process of the local server ended while processing this request"
    ) as caught:
        call(guard, server.end)

    assert caught.value.kind is FaultKind.CRASH
    assert caught.value.broke_server
    assert server.restarts == 1


def test_slow_call_of_a_server_that_answers_stays_a_timeout(guard: RestartGuard, server: Server) -> None:
    def make() -> str:
        raise CallError(FaultKind.TIMEOUT, "no answer")

    with pytest.raises(CallError, match="no answer") as caught:
        call(guard, make)

    assert caught.value.kind is FaultKind.TIMEOUT
    assert server.restarts == 0


def test_interrupted_calls_are_repeated_alone_and_not_blamed(guard: RestartGuard, server: Server) -> None:
    started, in_flight, most = threading.Barrier(4), [0], [0]
    counting = threading.Lock()

    def innocent() -> Callable[[], str]:
        tries = iter([True])

        def make() -> str:
            if next(tries, False):
                started.wait(10)
                return server.stop()
            with counting:
                in_flight[0] += 1
                most[0] = max(most[0], in_flight[0])
            time.sleep(0.05)
            with counting:
                in_flight[0] -= 1
            return "answer"

        return make

    first = iter([True])

    def guilty() -> str:
        if next(first, False):
            started.wait(10)
        assert in_flight[0] == 0 or not server.answers
        return server.stop()

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(call, guard, make) for make in (innocent(), innocent(), innocent())]
        failed = pool.submit(call, guard, guilty)

        assert [answer.result(timeout=30) for answer in answers] == ["answer"] * 3
        with pytest.raises(CallError) as caught:
            failed.result(timeout=30)

    assert caught.value.kind is FaultKind.HANG
    assert most == [1]
    assert server.restarts == 2


def test_no_call_starts_between_the_end_of_the_server_and_its_restart(shared: SharedState) -> None:
    started = threading.Event()

    def start() -> None:
        with shared.register_call(alone=False):
            started.set()

    with ThreadPoolExecutor(1) as pool:
        with shared.register_call(alone=False) as stopped:
            assert stopped.is_only()
            next_call = pool.submit(start)
            assert not started.wait(0.3)
        next_call.result(timeout=30)
    assert started.is_set()


def test_interrupted_call_of_an_application_is_left_to_it(
    guard: RestartGuard, server: Server, shared: SharedState
) -> None:
    with shared.register_call(alone=False), pytest.raises(CallError, match="was restarted during this call") as caught:
        call(guard, server.stop, repeatable=False)
    assert caught.value.kind is FaultKind.CONNECTION

    started = threading.Event()

    def repeated() -> str:
        started.set()
        return server.stop()

    with ThreadPoolExecutor(1) as pool:
        with shared.register_call(alone=False):
            again = pool.submit(call, guard, repeated, repeatable=False)
            assert not started.wait(0.3)
        with pytest.raises(CallError) as caught:
            again.result(timeout=30)
    assert caught.value.kind is FaultKind.HANG


@pytest.mark.slow
def test_server_that_cannot_be_restarted_fails_the_calls_with_the_reason(guard: RestartGuard, server: Server) -> None:
    server.failure = "no memory"

    for make in (server.end, lambda: "answer"):
        with pytest.raises(CallError, match="could not be restarted: no memory") as caught:
            call(guard, make)
        assert caught.value.kind is FaultKind.ENGINE


def test_supervisor_ends_a_start_under_way_when_it_stops(shared: SharedState) -> None:
    starting, killed = threading.Event(), threading.Event()

    def restart() -> str:
        starting.set()
        return "killed" if killed.wait(30) else ""

    supervisor = Supervisor(shared, is_alive=lambda: False, restart=restart)
    assert starting.wait(10)
    start = time.perf_counter()

    supervisor.stop(kill=killed.set)

    assert time.perf_counter() - start < 10
    assert killed.is_set()
