from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.runs import journal
from pytest_jsbench.settings.plan import RateLimits
from tests import examples

PREPARED = {"": EngineConfig(name="scripted", api_key="the local server's own"), "b": EngineConfig(name="openai")}


def node(dist: str = "load") -> Any:
    """One of xdist's workers, as the controller sees it."""
    return SimpleNamespace(workerinput={}, config=SimpleNamespace(getoption=lambda _name: dist))


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    recorded = tmp_path / journal.RESUMED
    journal.write(recorded, examples.metadata(), [examples.record("a")])
    limits = RateLimits(requests_per_minute=60)
    return Handover(metadata=examples.metadata(), folder=tmp_path, shared=tmp_path, limits=limits, recorded=recorded)


SELECTED = {"folder": "cases", "marks": {}}


def taken(handover: Handover, worker: Any) -> Handover:
    """What arrives at the worker."""
    handover.hand_to(worker, PREPARED, SELECTED)
    config: Any = SimpleNamespace(workerinput=worker.workerinput, add_cleanup=lambda _cleanup: None)
    found = Handover.from_worker_input(config)
    assert found is not None
    return found


def test_a_worker_shares_all_files(handover: Handover) -> None:
    assert taken(handover, node()) == replace(handover, prepared=PREPARED, selected=SELECTED)


def test_a_worker_from_which_tests_are_stolen_knows(handover: Handover) -> None:
    assert taken(handover, node("worksteal")).steals


def test_where_there_is_no_controller_nothing_was_handed_over() -> None:
    config: Any = SimpleNamespace()

    assert Handover.from_worker_input(config) is None
