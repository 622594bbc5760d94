"""What every engine of this package must do, beyond the contract of all engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_jsbench import testing
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import FaultKind, FinishReason
from pytest_jsbench.engines.base import Engine, EngineConfig, EngineFactory
from tests.engines.asking import complete, fault, request

#: seconds; an engine under the contract takes at least so long to answer
SLOW = 0.02


class EngineContract(testing.EngineContract):
    @pytest.fixture
    def engine(self, factory: EngineFactory, config: EngineConfig) -> Iterator[Engine]:
        """Of a configuration that is prepared already: one local server is enough for all tests."""
        engine = factory.build(config)
        yield engine
        engine.close()

    def test_an_option_it_does_not_know_is_refused_with_the_nearest_name(
        self, factory: EngineFactory, config: EngineConfig
    ) -> None:
        mistaken = replace(config, options={**config.options, "strem": True})
        for step in (factory.check, factory.describe):
            with pytest.raises(EngineError, match=r"no option 'strem'.*one of "):
                step(mistaken)

    def test_it_says_how_the_schema_reached_it(self, engine: Engine) -> None:
        sent = complete(engine).sent
        assert sent is not None
        assert sent.response_format is engine.info.response_format

    def test_a_call_that_takes_longer_than_it_may_is_a_timeout(self, engine: Engine) -> None:
        error = fault(engine, request(timeout=SLOW / 4))
        assert error.kind is FaultKind.TIMEOUT
        assert error.message == "no complete answer within 0.005 s"


class ServedByAModel:
    """Engines that a real language model answers."""

    @pytest.fixture
    def limited(self) -> FinishReason:
        return FinishReason.LENGTH

    def test_its_tokens_are_counted_as_the_server_does_up_to_the_limit(
        self, engine: Engine, limited: FinishReason
    ) -> None:
        answer = complete(engine, request(max_tokens=3))
        longer = complete(engine, request(max_tokens=1, prompt="Name a city, as JSON. " * 3)).usage
        assert (answer.finish_reason, answer.usage.output_tokens) == (limited, 3)
        assert answer.usage.input_tokens is not None
        assert longer.input_tokens is not None
        assert 5 < answer.usage.input_tokens < longer.input_tokens
