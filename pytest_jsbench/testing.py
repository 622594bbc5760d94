"""
Tests of all that an engine must do, for its author: a subclass of `EngineContract` with a configuration of the engine.

It imports pytest, so that it is no part of the core, and it calls the engine for real, a dozen times.
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
    """A request as the runner makes it."""
    messages = (Message(role="system", content=system),) if system else ()
    return Request(
        key=CaseKey(task=task, id=case_id),
        repeat=repeat,
        prompt=Prompt(messages=(*messages, Message(role="user", content=prompt))),
        schema=schema,
        params=GenerationParams(max_tokens=max_tokens, temperature=temperature, seed=seed, timeout=timeout),
    )


def complete(engine: Engine, asked: Request | None = None) -> Completion:
    """The completion; anything else is a failure of the test."""
    outcome = engine.generate(asked or request())
    assert isinstance(outcome, Completion), outcome
    return outcome


class EngineContract:
    """Subclass it, name the subclass `Test…`, and override `config`."""

    @pytest.fixture
    def config(self) -> EngineConfig:
        """The configuration of the engine under test."""
        raise NotImplementedError

    @pytest.fixture
    def factory(self, config: EngineConfig) -> EngineFactory:
        """The factory that its name stands for."""
        return find(config.name)

    @pytest.fixture
    def engine(self, factory: EngineFactory, config: EngineConfig) -> Iterator[Engine]:
        """The engine, closed at the end."""
        with factory.prepare(config) as prepared:
            engine = factory.build(prepared)
            yield engine
            engine.close()

    def test_its_configuration_is_found_sound(self, factory: EngineFactory, config: EngineConfig) -> None:
        factory.check(config)

    def test_it_is_described_as_it_will_say_itself(
        self, factory: EngineFactory, config: EngineConfig, engine: Engine
    ) -> None:
        assert factory.describe(config) == engine.info

    def test_its_factory_says_how_much_it_is_best_given(self, factory: EngineFactory) -> None:
        assert factory.concurrency >= 1
        assert factory.max_tokens >= 1
        assert factory.shared in (True, False)

    def test_its_configuration_travels_to_a_worker(
        self, factory: EngineFactory, config: EngineConfig, engine: Engine
    ) -> None:
        travelled = from_json(EngineConfig, json.loads(json.dumps(to_json(config))))
        assert factory.describe(travelled) == engine.info

    def test_what_it_says_of_itself_is_json(self, engine: Engine) -> None:
        details = dict(engine.info.details)
        assert json.loads(json.dumps(details)) == details

    def test_it_answers_with_text_that_ended_for_a_reason(self, engine: Engine) -> None:
        answer = complete(engine)
        assert answer.text.strip()
        assert answer.finish_reason.value in {"stop", "length"}

    def test_its_times_are_in_order(self, engine: Engine) -> None:
        timing = complete(engine).timing
        assert timing is not None
        assert timing.tgt > 0
        if engine.info.streaming:
            assert timing.ttft is not None
            assert 0 < timing.ttft <= timing.ttft + (timing.gct or 0.0) <= timing.tgt
        else:
            assert timing.ttft is None
            assert timing.gct is None

    def test_what_it_says_it_sent_is_in_the_format_it_names(self, engine: Engine) -> None:
        sent = complete(engine).sent
        assert sent is None or sent.response_format is engine.info.response_format

    def test_what_is_not_known_of_its_usage_is_none_and_not_zero(self, engine: Engine) -> None:
        usage = complete(engine).usage
        assert usage.input_tokens is None or usage.input_tokens > 0
        assert usage.output_tokens is None or usage.output_tokens > 0

    def test_it_leaves_the_request_as_it_was(self, engine: Engine) -> None:
        asked = request()
        before = copy.deepcopy(asked)
        engine.generate(asked)
        assert asked == before

    def test_several_threads_may_call_it_at_once(self, engine: Engine) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: complete(engine), range(4)))
        assert all(answer.text.strip() for answer in answers)
