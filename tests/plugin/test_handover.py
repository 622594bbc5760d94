from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.transport import WorkerInput
from pytest_jsbench.records import journal
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.run.handover import Handover
from tests import examples

PREPARED = {"": EngineConfig(name="scripted", api_key="the local server's own"), "b": EngineConfig(name="openai")}


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    recorded = tmp_path / journal.RESUMED
    journal.write(recorded, examples.metadata(), [examples.record("a")])
    redaction = Redaction.new()
    return Handover(
        metadata=examples.metadata(), folder=tmp_path, shared=tmp_path, recorded=recorded, redaction=redaction
    )


@pytest.mark.parametrize("steals", [False, True])
def test_a_worker_knows_all_that_the_controller_does(handover: Handover, steals: bool) -> None:
    selected = {"folder": "cases", "marks": {}}
    given = WorkerInput(handover=handover, prepared=PREPARED, selected=selected, steals=steals, workers=3)
    config: Any = SimpleNamespace(workerinput={"workercount": 3})

    given.hand_to(config)

    assert WorkerInput.of(config) == given


def test_where_there_is_no_controller_nothing_was_handed_over() -> None:
    config: Any = SimpleNamespace()

    assert WorkerInput.of(config) is None
