from __future__ import annotations

import asyncio
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.errors import EngineError, UnknownEngine
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    EngineInfo,
    FaultKind,
    FinishReason,
    GenerationParams,
    Request,
    ResponseFormat,
)
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines import presets, registry
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.presets import is_preset
from pytest_jsbench.engines.providers.anthropic_messages import messages_settings
from pytest_jsbench.engines.providers.gemini import gemini_settings
from pytest_jsbench.engines.providers.openai import openai_settings
from pytest_jsbench.engines.registry import AsyncEngine, PlainFactory, find, names
from tests.support.engine_calls import complete, fault, request

OWN = """
from pytest_jsbench import Completion, Stopwatch
from pytest_jsbench.engines.base import EngineFactory
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import EngineInfo, FinishReason, ResponseFormat

closed = []

class Parrot:
    concurrency = 3

    def __init__(self, config):
        self.info = EngineInfo(
            engine=config.name, model="parrot", response_format=ResponseFormat.TEXT, streaming=False
        )

    def generate(self, request):
        text = request.prompt.messages[-1].content
        return Completion(text=text, finish_reason=FinishReason.STOP, timing=Stopwatch().stop())

    def close(self):
        closed.append(self)

def broken(config):
    raise ValueError("no cage")

def particular(config):
    raise EngineError("set CAGE")

def empty(config):
    return object()

number = 3

class Perch(EngineFactory):
    def describe(self, config):
        return Parrot(config).info

    def build(self, config):
        return Parrot(config)

class Egg(EngineFactory):
    def build(self, config):
        return Parrot(config)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in the current directory, which is not on the import path."""
    (tmp_path / "jsbench_own_engine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.delitem(sys.modules, "jsbench_own_engine", raising=False)
    return "jsbench_own_engine"


def test_every_built_in_name_is_found_and_listed() -> None:
    assert {"anthropic", "local", "openai", "scripted"} <= set(names())
    # from a package that has not been imported
    assert {"llguidance", "outlines", "xgrammar"} <= set(names())
    for name in names():
        assert find(name).concurrency >= 1


def test_unknown_engine_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(UnknownEngine, match=r"unknown engine 'opanai': did you mean 'openai'\? \(one of "):
        find("opanai")


def test_own_class_is_an_engine(own_module: str) -> None:
    name = f"{own_module}:Parrot"
    factory, config = find(name), EngineConfig(name=f"{own_module}:Parrot")
    assert factory.concurrency == 3
    factory.check(config)
    with factory.prepare(config) as prepared:
        assert prepared == config
    assert complete(factory.build(config)).text == "Name a city, as JSON."
    assert factory.describe(config).model == "parrot"
    assert len(sys.modules[own_module].closed) == 1  # built only for `describe`


def test_own_factory_needs_only_describe_and_build(own_module: str) -> None:
    name = f"{own_module}:Perch"
    factory, config = find(name), EngineConfig(name=name)
    asked = GenerationParams(max_tokens=64, seed=1)

    factory.check(config)
    with factory.prepare(config) as prepared:
        assert prepared == config
    assert complete(factory.build(config)).text == "Name a city, as JSON."
    assert (factory.concurrency, factory.slots(config), factory.max_tokens, factory.shared) == (16, 16, 2048, False)
    assert factory.sampled(config, asked) == asked
    assert (factory.has_matcher, factory.has_batches, factory.model_file(config)) == (False, False, None)


def test_own_factory_without_describe_is_rejected_in_one_line(own_module: str) -> None:
    with pytest.raises(EngineError, match=r"cannot be used: TypeError: Can't instantiate abstract class Egg.*describe"):
        find(f"{own_module}:Egg")


def test_details_of_a_class_distinguish_options_without_their_texts(own_module: str) -> None:
    def details(**options: object) -> dict[str, Any]:
        name = f"{own_module}:Parrot"
        return dict(find(name).describe(EngineConfig(name=name, options=options)).details)

    warm, cold = details(mode="warm", depth=2, api_key="one"), details(mode="cold", depth=2, api_key="one")

    assert warm["depth"] == 2
    assert warm != cold
    assert not {"warm", "one"} & set(warm.values())
    assert details(mode="warm", depth=2, api_key="renewed") == warm
    assert details() == {}


def test_own_factory_is_used_unchanged() -> None:
    reference = "pytest_jsbench.engines.scripted:FACTORY"
    assert find(reference) is find("scripted")
    assert type(find("pytest_jsbench.engines.scripted:ScriptedFactory")) is type(find("scripted"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Parot", r"has no 'Parot': did you mean 'Parrot'\?"),
        ("number", "is an? int; expected a factory"),
        ("broken", "cannot be built: ValueError: no cage"),
        ("particular", "^set CAGE$"),
        ("empty", "built an? object without info and generate"),
    ],
)
def test_invalid_engine_object_is_rejected_in_one_line(own_module: str, name: str, message: str) -> None:
    reference = f"{own_module}:{name}"
    with pytest.raises(EngineError, match=message) as caught:
        find(reference).build(EngineConfig(name=reference))
    assert "\n" not in str(caught.value)


def test_invalid_concurrency_is_rejected(own_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = find(f"{own_module}:Parrot")
    monkeypatch.setattr(sys.modules[own_module].Parrot, "concurrency", 0)
    with pytest.raises(EngineError, match="concurrency must be a whole number above 0, found 0"):
        assert factory.concurrency


def test_application_engine_raises_an_error_with_advice() -> None:
    config, factory = EngineConfig(name="application", model="m"), find("application")
    factory.check(config)
    engine = factory.build(config)
    error = fault(engine)
    assert "cannot generate answers: pass" in error.message
    assert (error.kind, engine.info.model) == (FaultKind.ENGINE, "m")
    with pytest.raises(EngineError, match="engine 'application' has no option 'strem': none exists"):
        factory.check(EngineConfig(name="application", options={"strem": True}))


def test_an_installed_engine_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "pytest_jsbench.engines"
    point = metadata.EntryPoint(name="parrot", value="pytest_jsbench.engines.scripted:FACTORY", group=group)
    broken = metadata.EntryPoint(name="dodo", value="no_such_module_at_all:X", group=group)
    points = metadata.EntryPoints([point, broken])
    monkeypatch.setattr(metadata, "entry_points", lambda **wanted: points.select(**wanted))
    assert find("parrot") is find("scripted")
    assert {"parrot", "dodo", "openai"} <= set(names())
    with pytest.raises(EngineError, match="engine 'dodo': cannot import no_such_module_at_all:X"):
        find("dodo")


@pytest.mark.parametrize("name", ["", "openai", "scripted", "groq"])
def test_own_engine_names_search_no_other_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    presets._find_entry_points.cache_clear()
    monkeypatch.delattr(metadata, "entry_points")

    assert presets.is_preset(name) == (name == "groq")


def test_find_imports_no_sdk() -> None:
    import subprocess

    code = (
        "import sys\n"
        "from pytest_jsbench.engines.registry import find, names\n"
        "[find(name) for name in names()]\n"
        "heavy = ('openai', 'anthropic', 'google.genai', 'xllamacpp', 'httpx2', 'pytest')\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    root = Path(registry.__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("engine", "options", "temperature", "seed", "limit"),
    [
        ("local", {}, 0.0, 5, 64),
        ("xgrammar", {}, 0.0, None, 64),
        ("llguidance", {}, 0.0, 5, 64),
        ("openai", {}, None, 5, 64),
        ("openai", {"api": "responses"}, None, None, 64),
        ("openai", {"extra_body": {"temperature": 0.5, "max_completion_tokens": 9, "api_key": "x"}}, 0.5, 5, 9),
        ("anthropic", {"extra_body": {"temperature": 0.5}}, 0.5, None, 64),
        ("gemini", {"extra_body": {"generationConfig": {"temperature": 0.5, "maxOutputTokens": 9}}}, 0.5, 5, 9),
        ("scripted", {}, None, 5, 64),
        ("gemini-openai", {}, None, None, 64),
        ("mistral", {}, None, 5, 64),
    ],
)
def test_sampled_returns_the_applied_parameters(
    engine: str, options: dict[str, object], temperature: float | None, seed: int | None, limit: int
) -> None:
    asked = GenerationParams(max_tokens=64, seed=5)
    config = EngineConfig(name=engine, model="m" if is_preset(engine) else None, options=options)

    used = find(engine).sampled(config, asked)

    assert (used.temperature, used.seed, used.max_tokens) == (temperature, seed, limit)
    if engine in {"local", "openai"} and not options:
        warm = structs.replace(asked, temperature=0.7)
        assert find(engine).sampled(EngineConfig(name=engine), warm) == warm


@pytest.mark.parametrize(
    ("engine", "options", "field"),
    [
        ("openai", {"extra_body": {"seed": 5}}, "seed"),
        ("openai", {"extra_body": {"seed": 5}, "seed_field": False}, "seed"),
        ("openai", {"extra_body": {"dice": 5}, "seed_field": "dice"}, "dice"),
        ("openai", {"extra_body": {"seed": 5}, "api": "responses"}, "seed"),
        ("anthropic", {"extra_body": {"seed": 5}}, "seed"),
        ("gemini", {"extra_body": {"generationConfig": {"seed": 5}}}, "seed"),
    ],
)
def test_seed_of_the_extra_body_is_raised_per_repeat_and_recorded(
    engine: str, options: dict[str, object], field: str
) -> None:
    config = EngineConfig(name=engine, model="m", options=options)
    used = find(engine).sampled(config, GenerationParams(max_tokens=64, seed=1))
    attempts = [replace(request(), repeat=repeat, params=used.with_repeat(repeat)) for repeat in range(3)]

    settings = {"anthropic": messages_settings, "gemini": gemini_settings, "openai": openai_settings}[engine](config)
    bodies = [settings.wire.to_body(settings, attempt) for attempt in attempts]

    bodies = [body.get("generationConfig", body) for body in bodies]
    assert [body[field] for body in bodies] == [5, 6, 7]
    assert [attempt.params.seed for attempt in attempts] == [5, 6, 7]


class Choir:
    """An engine that answers when as many calls as it has voices are in flight."""

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


def test_slow_coroutine_is_cancelled_as_a_timeout() -> None:
    inner, engine = choir(voices=2)
    error = fault(engine, request(timeout=0.05))
    assert (error.kind, error.message) == (FaultKind.TIMEOUT, "no complete answer within 0.05 s")
    engine.close()
    assert inner.cancelled == 1


def test_close_cancels_calls_in_flight() -> None:
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
        """Do nothing; an asynchronous engine may have synchronous methods."""


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


def test_preset_lookup_excludes_all_built_in_engines() -> None:
    assert registry._BUILT_IN.keys() == presets._ENGINES
