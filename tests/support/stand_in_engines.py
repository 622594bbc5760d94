"""Provide stand-ins for engines, which have the identity of the real ones and answer without a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.core.generations import Completion, EngineInfo, FinishReason, Request, ResponseFormat, Usage
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import Acceptance, EngineConfig, EngineFactory

#: Answers to prompts that contain these words; any other prompt gets an empty object.
ANSWERS: Mapping[str, str] = {"99.50 EUR": '{"number": "AB-1234", "currency": "EUR", "total": 99.5}'}


class StandIn:
    """Engine that answers at once."""

    def __init__(self, info: EngineInfo) -> None:
        self.info = info

    def generate(self, request: Request) -> Completion:
        watch = Stopwatch()
        watch.token()
        asked = "\n".join(message.content for message in request.prompt.messages)
        text = next((answer for words, answer in ANSWERS.items() if words in asked), "{}")
        return Completion(
            text=text,
            finish_reason=FinishReason.STOP,
            timing=watch.stop(),
            usage=Usage(input_tokens=10, output_tokens=5),
        )

    def close(self) -> None:
        pass


class StandInFactory(EngineFactory):
    """Factory of stand-ins, which validates settings as the real factory does."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.max_tokens, self.shared = real.max_tokens, real.shared

    @property
    def concurrency(self) -> int:
        number: int = self._real.concurrency
        return number

    def check(self, config: EngineConfig) -> None:
        self.describe(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        try:
            info: EngineInfo = self._real.describe(config)
        except MissingRequirement:  # a library that is not installed here
            model, chosen = config.model or "unknown", config.response_format or ResponseFormat.JSON_SCHEMA
            info = EngineInfo(engine=config.name, model=model, response_format=chosen, streaming=True)
        return info

    def build(self, config: EngineConfig) -> StandIn:
        return StandIn(self.describe(config))


class AcceptingFactory(StandInFactory):
    """Factory for an engine with a grammar."""

    def build_matcher(self, config: EngineConfig) -> AcceptsEverything:
        return AcceptsEverything()


class AcceptsEverything:
    """Grammar that accepts any text."""

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance:
        return Acceptance(accepted=(True,) * len(texts), grammar_compilation=0.001)

    def close(self) -> None:
        pass
