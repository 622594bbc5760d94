from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.plugin.options.settings import Settings
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.session.plan import Plan
from pytest_jsbench.runner.limits import RateLimits
from tests import examples


def settings(pytester: pytest.Pytester, *args: str) -> Settings:
    return Settings.from_config(pytester.parseconfig("--jsbench-limit=1", *args))


def handed_to_one_of(workers: int, folder: Path) -> Handover:
    return Handover(metadata=examples.metadata(), folder=None, shared=folder, limits=RateLimits(), workers=workers)


@pytest.mark.parametrize(
    ("args", "workers", "concurrency"),
    [
        (["--jsbench-engine=local"], 1, 4),
        (["--jsbench-engine=local"], 3, 2),
        (["--jsbench-engine=local", "--jsbench-concurrency=5"], 3, 5),
        (["--jsbench-engine=openai"], 3, 16),
    ],
)
def test_workers_share_the_calls_in_flight_of_a_server_that_is_theirs_together(
    pytester: pytest.Pytester, args: list[str], workers: int, concurrency: int
) -> None:
    plan = Plan.make(settings(pytester, *args), handed_to_one_of(workers, pytester.path))

    assert plan.concurrency == concurrency


def test_a_plan_has_the_cases_of_its_shard(pytester: pytest.Pytester) -> None:
    whole = Plan.make(settings(pytester, "--jsbench-engine=scripted"), None)
    parts = [Plan.make(settings(pytester, "--jsbench-engine=scripted", f"--jsbench-shard={n}/2"), None) for n in (1, 2)]

    assert len(whole.keys) > 1
    assert sorted([*parts[0].keys, *parts[1].keys]) == sorted(whole.keys)
    assert all(part.selected.dataset.keys() == whole.keys for part in parts)


def test_a_hook_that_classifies_comes_after_the_classifiers_that_were_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine="def german(record): ...")
    pytester.syspathinsert()
    named = settings(pytester, "--jsbench-engine=scripted", "--jsbench-classify=mine:german")

    plan = Plan.make(named, None, hook=lambda _record: None)

    assert [classifier.name for classifier in plan.classifiers] == ["mine:german", "pytest_jsbench_classify"]
    assert [classifier.name for classifier in Plan.make(named, None).classifiers] == ["mine:german"]
