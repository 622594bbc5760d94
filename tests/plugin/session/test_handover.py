from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.session.handover import Handover, is_remote
from pytest_jsbench.runner.limits_address import LimitsAddress, LimitsServer
from pytest_jsbench.runner.rate_limits import RateLimits
from pytest_jsbench.runs import journal
from tests import examples

HERE, ELSEWHERE = SimpleNamespace(popen=True), SimpleNamespace(popen=None, ssh="elsewhere")
PREPARED = {"": EngineConfig(name="scripted", api_key="the local server's own"), "b": EngineConfig(name="openai")}


def node(spec: Any, *others: Any, dist: str = "load") -> Any:
    """One of xdist's workers, as the controller sees it."""
    specs = [spec, *others]
    gateway, nodes = SimpleNamespace(spec=spec), SimpleNamespace(specs=specs)
    config = SimpleNamespace(getoption=lambda _name: dist)
    return SimpleNamespace(gateway=gateway, nodemanager=nodes, workerinput={}, config=config)


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    recorded = tmp_path / journal.RESUMED
    journal.write(recorded, examples.metadata(), [examples.record("a")])
    limits = RateLimits(requests_per_minute=60)
    return Handover(metadata=examples.metadata(), folder=tmp_path, shared=tmp_path, limits=limits, recorded=recorded)


SELECTED = {"folder": "cases", "marks": {}}


def taken(
    handover: Handover,
    worker: Any,
    serve: Callable[[], LimitsAddress] | None = None,
    folder: str | None = None,
) -> Handover:
    """What arrives at the worker."""
    handover.hand_to(worker, PREPARED, SELECTED, serve, folder)
    config: Any = SimpleNamespace(workerinput=worker.workerinput, add_cleanup=lambda _cleanup: None)
    found = Handover.from_worker_input(config)
    assert found is not None
    return found


def test_a_worker_on_this_machine_shares_all_files(handover: Handover) -> None:
    assert taken(handover, node(HERE, HERE)) == replace(handover, prepared=PREPARED, selected=SELECTED)


def test_a_worker_from_which_tests_are_stolen_knows(handover: Handover) -> None:
    assert taken(handover, node(HERE, HERE, dist="worksteal")).steals


@pytest.mark.parametrize("folder", [None, "/home/there/run"])
def test_a_worker_on_another_machine_gets_the_records_and_keeps_its_own_there(
    handover: Handover, folder: str | None
) -> None:
    worker = node(ELSEWHERE, HERE)

    found = taken(handover, worker, folder=folder)

    assert is_remote(worker)
    assert found.apart  # it sends them too
    assert found.folder == (None if folder is None else Path(folder))
    assert found.recorded is not None
    assert found.recorded.parent == found.shared != handover.shared
    assert list(journal.read(found.recorded).records) == [examples.record("a")]


@pytest.mark.parametrize("spec", [HERE, ELSEWHERE])
def test_where_one_worker_is_elsewhere_each_keeps_to_its_share(handover: Handover, spec: Any) -> None:
    found = taken(handover, node(spec, ELSEWHERE, HERE))

    assert found.limits == RateLimits(requests_per_minute=20)
    assert found.shared != handover.shared


def test_where_the_limits_have_an_address_all_machines_keep_them_together(handover: Handover) -> None:
    with closing(LimitsServer("127.0.0.1", 0, handover.shared_limits)) as server:
        here = taken(handover, node(HERE, ELSEWHERE), lambda: server.address)
        elsewhere = taken(handover, node(ELSEWHERE, HERE), lambda: server.address)

        assert (here.limits, here.limits_at, here.shared) == (handover.limits, None, handover.shared)
        assert (elsewhere.limits, elsewhere.limits_at) == (handover.limits, server.address)
        with closing(elsewhere.shared_limits()) as over_there, closing(here.shared_limits()) as over_here:
            over_there.spend(0.5)
            assert over_here.spent() == 0.5


def test_the_token_of_the_limits_is_in_nothing_that_is_shown_or_written(handover: Handover) -> None:
    address = LimitsAddress(host="login1", port=7070, token="the token")

    found = taken(handover, node(ELSEWHERE, HERE), lambda: address)

    assert "the token" not in repr(found)
    assert "the token" not in json.dumps(found.metadata.to_dict())


def test_where_there_is_no_controller_nothing_was_handed_over() -> None:
    config: Any = SimpleNamespace()

    assert Handover.from_worker_input(config) is None
