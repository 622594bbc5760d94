"""What every engine must do; an engine's tests subclass `EngineContract` with its factory and a configuration."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import EngineError
from pytest_jsbench.generations import FaultKind, FinishReason
from tests.engines.asking import complete, fault, request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory


#: seconds; an engine under the contract takes at least so long to answer
SLOW = 0.05


class EngineContract:
    @pytest.fixture
    def factory(self) -> EngineFactory:
        raise NotImplementedError

    @pytest.fixture
    def config(self) -> EngineConfig:
        """As `prepare` gives it out."""
        raise NotImplementedError

    @pytest.fixture
    def engine(self, factory: EngineFactory, config: EngineConfig) -> Iterator[Engine]:
        engine = factory.build(config)
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
        travelled = EngineConfig.from_dict(json.loads(json.dumps(config.to_dict())))
        assert factory.describe(travelled) == engine.info

    def test_what_it_says_of_itself_is_json(self, engine: Engine) -> None:
        details = dict(engine.info.details)
        assert json.loads(json.dumps(details)) == details

    def test_an_option_it_does_not_know_is_refused_with_the_nearest_name(
        self, factory: EngineFactory, config: EngineConfig
    ) -> None:
        with pytest.raises(EngineError, match=r"no option 'strem'.*one of "):
            factory.check(replace(config, options={**config.options, "strem": True}))

    def test_it_answers_with_text_that_ended_for_a_reason(self, engine: Engine) -> None:
        answer = complete(engine)
        assert answer.text.strip()
        assert answer.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)

    def test_its_times_are_in_order(self, engine: Engine) -> None:
        timing = complete(engine).timing
        assert timing.tgt > 0
        if engine.info.streaming:
            assert timing.ttft is not None
            assert timing.gct is not None
            assert 0 < timing.ttft <= timing.ttft + timing.gct <= timing.tgt
        else:
            assert timing.ttft is None
            assert timing.gct is None

    def test_it_says_how_the_schema_reached_it(self, engine: Engine) -> None:
        sent = complete(engine).sent
        assert sent is not None
        assert sent.response_format is engine.info.response_format

    def test_it_leaves_the_request_as_it_was(self, engine: Engine) -> None:
        asked = request()
        before = copy.deepcopy(asked)
        engine.generate(asked)
        assert asked == before

    def test_the_same_request_in_several_threads_gets_the_same_answer(self, engine: Engine) -> None:
        asked = request(temperature=0)
        with ThreadPoolExecutor(4) as pool:
            texts = set(pool.map(lambda _: complete(engine, asked).text, range(4)))
        assert len(texts) == 1

    def test_a_call_that_takes_longer_than_it_may_is_a_timeout(self, engine: Engine) -> None:
        error = fault(engine, request(timeout=SLOW / 4))
        assert error.kind is FaultKind.TIMEOUT
        assert error.message == "no complete answer within 0.0125 s"


class ServedContract(EngineContract):
    """Engines that a real language model answers."""

    def test_it_counts_tokens_as_the_server_does(self, engine: Engine) -> None:
        usage = complete(engine, request(max_tokens=6)).usage
        assert usage.input_tokens is not None
        assert usage.input_tokens > 5
        assert usage.output_tokens is not None
        assert 1 <= usage.output_tokens <= 6

    def test_an_answer_that_reaches_the_limit_says_so(self, engine: Engine) -> None:
        answer = complete(engine, request(max_tokens=3))
        assert answer.finish_reason is FinishReason.LENGTH
        assert answer.usage.output_tokens == 3

    def test_a_longer_prompt_is_more_tokens(self, engine: Engine) -> None:
        short = complete(engine, request(max_tokens=1)).usage.input_tokens
        long = complete(engine, request(max_tokens=1, prompt="Name a city, as JSON. " * 3)).usage
        assert short is not None
        assert long.input_tokens is not None
        assert long.input_tokens > short
