"""
Contract tests for engines: to test an engine, subclass `EngineContract` and override `config`.

The tests call the real engine about a dozen times. This module imports pytest, so no other module imports this one.
"""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import CaseKey, Prompt
from pytest_jsbench.core.generations import Completion, GenerationParams, Request
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.engines.base import Engine, EngineFactory

CITY: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "old": {"type": "boolean"}},
    "required": ["city", "old"],
    "additionalProperties": False,
}


def request(
    schema: Schema = CITY,
    *,
    case_id: str = "city",
    task: str = "simple",
    repeat: int = 0,
    prompt: str = "Name a city, as JSON.",
    system: str | None = None,
    max_tokens: int = 12,
    temperature: float | None = None,
    seed: int | None = None,
    timeout: float = 60.0,
) -> Request:
    """Return a request as a run would make it."""
    messages = (Message(role="system", content=system),) if system else ()
    return Request(
        key=CaseKey(task=task, id=case_id),
        repeat=repeat,
        prompt=Prompt(messages=(*messages, Message(role="user", content=prompt))),
        schema=schema,
        params=GenerationParams(max_tokens=max_tokens, temperature=temperature, seed=seed, timeout=timeout),
    )


def complete(engine: Engine, asked: Request | None = None) -> Completion:
    """Return the engine's completion; fail the test for any other outcome."""
    outcome = engine.generate(asked or request())
    assert isinstance(outcome, Completion), outcome
    return outcome


class EngineContract:
    """The tests that every engine must pass; name a subclass `Test…`, and override `config` in it."""

    @pytest.fixture
    def config(self) -> EngineConfig:
        """Return the configuration of the engine under test."""
        raise NotImplementedError

    @pytest.fixture
    def factory(self, config: EngineConfig) -> EngineFactory:
        """Return the factory of the configured engine."""
        return find(config.name)

    @pytest.fixture
    def engine(self, factory: EngineFactory, config: EngineConfig) -> Iterator[Engine]:
        """Yield the engine, and close it at the end."""
        with factory.prepare(config) as prepared:
            engine = factory.build(prepared)
            yield engine
            engine.close()

    def test_configuration_passes_check(self, factory: EngineFactory, config: EngineConfig) -> None:
        factory.check(config)

    def test_description_equals_engine_info(self, factory: EngineFactory, config: EngineConfig, engine: Engine) -> None:
        assert factory.describe(config) == engine.info

    def test_factory_states_concurrency(self, factory: EngineFactory) -> None:
        assert factory.concurrency >= 1
        assert factory.max_tokens >= 1
        assert factory.shared in (True, False)

    def test_configuration_can_be_sent_to_worker(
        self, factory: EngineFactory, config: EngineConfig, engine: Engine
    ) -> None:
        travelled = from_json(EngineConfig, json.loads(json.dumps(to_json(config))))
        assert factory.describe(travelled) == engine.info

    def test_engine_info_is_json(self, engine: Engine) -> None:
        details = dict(engine.info.details)
        assert json.loads(json.dumps(details)) == details

    def test_completion_has_text_and_finish_reason(self, engine: Engine) -> None:
        answer = complete(engine)
        assert answer.text.strip()
        assert answer.finish_reason.value in {"stop", "length"}

    def test_times_are_in_order(self, engine: Engine) -> None:
        timing = complete(engine).timing
        assert timing is not None
        assert timing.tgt > 0
        if engine.info.streaming:
            assert timing.ttft is not None
            assert 0 < timing.ttft <= timing.ttft + (timing.gct or 0.0) <= timing.tgt
        else:
            assert timing.ttft is None
            assert timing.gct is None

    def test_sent_schema_matches_response_format(self, engine: Engine) -> None:
        sent = complete(engine).sent
        assert sent is None or sent.response_format is engine.info.response_format

    def test_unknown_usage_is_none(self, engine: Engine) -> None:
        usage = complete(engine).usage
        assert usage.input_tokens is None or usage.input_tokens > 0
        assert usage.output_tokens is None or usage.output_tokens > 0

    def test_request_is_not_modified(self, engine: Engine) -> None:
        asked = request()
        before = copy.deepcopy(asked)
        engine.generate(asked)
        assert asked == before

    def test_engine_is_thread_safe(self, engine: Engine) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: complete(engine), range(4)))
        assert all(answer.text.strip() for answer in answers)
