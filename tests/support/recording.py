"""Record the answer of an engine that always gives the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.core.generations import Completion, Declined, EngineInfo, Request, ResponseFormat
from pytest_jsbench.engines.recorded.engine import RecordingEngine
from pytest_jsbench.engines.recorded.recordings import Recordings


class Fixed:
    """An engine that always gives the same answer."""

    info = EngineInfo(engine="fixed", model="m1", response_format=ResponseFormat.JSON_SCHEMA, streaming=True)

    def __init__(self, answer: Completion | Declined) -> None:
        self.answer = answer
        self.closed = False

    def generate(self, asked: Request) -> Completion | Declined:
        assert isinstance(asked.schema, dict)
        asked.schema["changed"] = True  # as an engine may do
        return self.answer

    def close(self) -> None:
        self.closed = True


def record(folder: Path, asked: Request, answer: Completion | Declined) -> Path:
    RecordingEngine(Fixed(answer), folder, lost=pytest.fail).generate(asked)
    return Recordings(folder).path(asked.key, asked.repeat)
