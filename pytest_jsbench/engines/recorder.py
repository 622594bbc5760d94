"""An engine that writes down what another one says (`--jsbench-record`)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pytest_jsbench.engines.base import TokenCounter
from pytest_jsbench.engines.recordings import Recording, Recordings
from pytest_jsbench.errors import JSBenchError
from pytest_jsbench.generations import CallError, Completion, Declined, EngineInfo, FaultKind, Request

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.engines.base import Engine
    from pytest_jsbench.prompts import Prompt


class RecordingEngine:
    """Asks the engine, and records every answer; a call that broke has none."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._recordings = Recordings(folder)

    @property
    def info(self) -> EngineInfo:
        """Who answers."""
        return self._engine.info

    def generate(self, request: Request) -> Completion | Declined:
        """The engine's answer, written down."""
        schema = copy.deepcopy(request.schema)  # which an engine may change
        answer = self._engine.generate(request)
        try:
            self._recordings.write(Recording.of(request, schema, answer, self.info))
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, f"the answer came and is not recorded: {error}") from error
        return answer

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
