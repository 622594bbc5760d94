"""Every decoding library, over the model that the engine `local` serves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from pytest_jsbench.generations import FinishReason, ResponseFormat, Sent
from tests.engines.asking import CITY, complete, request
from tests.engines.contract import ServedContract

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_jsbench.engines.base import Engine, EngineFactory

    Decoding = Callable[[str], tuple[EngineConfig, Engine]]

LIBRARIES = ("llguidance", "outlines", "xgrammar")


class Contract(ServedContract):
    name: str

    @pytest.fixture
    def config(self, decoding: Decoding) -> EngineConfig:
        return decoding(self.name)[0]

    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find(self.name)

    @pytest.fixture
    def engine(self, decoding: Decoding) -> Engine:
        """One for all tests: its library takes longer to load than it takes to answer."""
        return decoding(self.name)[1]


class TestLLGuidance(Contract):
    name = "llguidance"


class TestOutlines(Contract):
    name = "outlines"


class TestXGrammar(Contract):
    name = "xgrammar"


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_model_is_held_to_the_schema_and_the_grammar_is_timed(decoding: Decoding, name: str) -> None:
    _, engine = decoding(name)
    answer = complete(engine, request(CITY, max_tokens=40))
    instance = json.loads(answer.text)
    assert set(instance) == {"city", "old"}
    assert isinstance(instance["old"], bool)
    assert answer.finish_reason is FinishReason.STOP
    assert answer.timing.grammar_compilation is not None
    assert 0 < answer.timing.grammar_compilation < answer.timing.tgt
    assert answer.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA)
