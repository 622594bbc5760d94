from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    EngineInfo,
    FaultKind,
    FinishReason,
    Request,
    ResponseFormat,
    Stopwatch,
)
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.functions import AsyncEngine
from pytest_jsbench.engines.registry import PlainFactory
from tests.engines.asking import complete, fault, request


class Choir:
    """Answers when as many calls as it has voices are in flight at once."""

    def __init__(self, config: EngineConfig) -> None:
        self.info = EngineInfo(engine=config.name, model="choir", response_format=ResponseFormat.TEXT, streaming=False)
        self.voices = int(config.options.get("voices", 1))
        self.singing = 0
        self.all_there = asyncio.Event()
        self.closed_in = ""
        self.cancelled = 0

    async def generate(self, request: Request) -> Completion:
        watch = Stopwatch()
        self.singing += 1
        if self.singing == self.voices:
            self.all_there.set()
        try:
            await self.all_there.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Completion(text=request.key.id, finish_reason=FinishReason.STOP, timing=watch.stop())

    async def close(self) -> None:
        self.closed_in = threading.current_thread().name


def choir(**options: object) -> tuple[Choir, Engine]:
    made: list[Choir] = []

    def make(config: EngineConfig) -> Choir:
        made.append(Choir(config))
        return made[0]

    engine = PlainFactory(make, "choir").build(EngineConfig(name="choir", options=options))
    return made[0], engine


def test_many_calls_are_in_flight_at_once_on_one_loop() -> None:
    inner, engine = choir(voices=64)
    assert isinstance(engine, AsyncEngine)
    with ThreadPoolExecutor(64) as pool:
        texts = set(pool.map(lambda n: complete(engine, request(case_id=f"c{n}", timeout=30)).text, range(64)))
    assert texts == {f"c{n}" for n in range(64)}
    engine.close()
    assert inner.closed_in == "jsbench-loop"
    assert engine.info.model == "choir"


def test_a_call_that_takes_longer_than_it_may_is_cancelled_and_a_timeout() -> None:
    inner, engine = choir(voices=2)
    error = fault(engine, request(timeout=0.05))
    assert (error.kind, error.message) == (FaultKind.TIMEOUT, "no complete answer within 0.05 s")
    engine.close()
    assert inner.cancelled == 1


def test_what_is_in_flight_when_it_is_closed_is_cancelled() -> None:
    inner, engine = choir(voices=2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: engine.generate(request(timeout=30)))
        while not inner.singing:
            time.sleep(0.01)
        engine.close()
        with pytest.raises(CancelledError):
            waiting.result()
    assert inner.cancelled == 1


class Hoarse(Choir):
    async def generate(self, request: Request) -> Completion:
        raise self.fault

    fault: Exception = TimeoutError()

    def close(self) -> None:  # type: ignore[override]
        """An engine need not be asynchronous in everything."""


def test_the_engines_own_faults_reach_the_caller() -> None:
    hoarse = Hoarse(EngineConfig(name="hoarse"))
    engine = AsyncEngine(hoarse)
    assert fault(engine, request()).message == "the engine's call timed out"
    hoarse.fault = CallError(FaultKind.QUOTA, "paid out")
    assert fault(engine, request()).kind is FaultKind.QUOTA
    hoarse.fault = ValueError("hoarse")
    with pytest.raises(ValueError, match="hoarse"):
        engine.generate(request())
    engine.close()
