"""What every engine of this package must do, beyond the contract of all engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_jsbench import testing
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import FaultKind, FinishReason
from pytest_jsbench.engines.base import Engine, EngineConfig, EngineFactory
from tests.support.engine_calls import complete, fault, request

#: Minimum seconds for an engine under the contract to answer.
SLOW = 0.02


class EngineContract(testing.EngineContract):
    @pytest.fixture
    def engine(self, factory: EngineFactory, config: EngineConfig) -> Iterator[Engine]:
        """Build the engine from a prepared configuration: one local server is enough for all tests."""
        engine = factory.build(config)
        yield engine
        engine.close()

    def test_unknown_option_is_rejected_with_the_nearest_name(
        self, factory: EngineFactory, config: EngineConfig
    ) -> None:
        mistaken = replace(config, options={**config.options, "strem": True})
        for step in (factory.check, factory.describe):
            with pytest.raises(EngineError, match=r"no option 'strem'.*one of "):
                step(mistaken)

    def test_generation_contains_what_was_sent(self, engine: Engine) -> None:
        sent = complete(engine).sent
        assert sent is not None
        assert sent.response_format is engine.info.response_format

    def test_slow_call_is_a_timeout(self, engine: Engine) -> None:
        error = fault(engine, request(timeout=SLOW / 4))
        assert error.kind is FaultKind.TIMEOUT
        assert error.message == "no complete answer within 0.005 s"


class ServedByAModel:
    """Engines with a real language model."""

    @pytest.fixture
    def limited(self) -> FinishReason:
        return FinishReason.LENGTH

    def test_local_token_counts_are_the_servers(self, engine: Engine, limited: FinishReason) -> None:
        answer = complete(engine, request(max_tokens=3))
        longer = complete(engine, request(max_tokens=1, prompt="Name a city, as JSON. " * 3)).usage
        assert (answer.finish_reason, answer.usage.output_tokens) == (limited, 3)
        assert answer.usage.input_tokens is not None
        assert longer.input_tokens is not None
        assert 5 < answer.usage.input_tokens < longer.input_tokens
