from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.plugin.configuration import Settings
from pytest_jsbench.plugin.context import select
from pytest_jsbench.run.plan import Plan, gates_of
from pytest_jsbench.settings.options import GateOptions


def plan(
    pytester: pytest.Pytester, *args: str, workers: int = 1, hook: Callable[[object], object] | None = None
) -> Plan:
    settings = Settings.from_config(pytester.parseconfig("--jsbench-limit=1", *args))
    return Plan.of(settings.spec, hook=hook, workers=workers).over(select(settings, {})[0])


@pytest.mark.parametrize(
    ("args", "workers", "concurrency"),
    [
        (["--jsbench-engine=local"], 1, 4),
        (["--jsbench-engine=local"], 3, 2),
        (["--jsbench-engine=local", "--jsbench-concurrency=5"], 3, 5),
        (["--jsbench-engine=openai"], 3, 16),
    ],
)
def test_workers_share_the_calls_in_flight_of_a_shared_server(
    pytester: pytest.Pytester, args: list[str], workers: int, concurrency: int
) -> None:
    assert plan(pytester, *args, workers=workers).variants[""].concurrency == concurrency


def test_a_gate_on_a_metric_of_ones_own_is_offered_by_its_whole_name() -> None:
    with pytest.raises(GateError, match=r"^--jsbench-gate: no metric 'filled': did you mean 'scores\.filled'\?$"):
        gates_of(GateOptions({"gate": ["filled>=0.5"]}), own=["filled"])


def test_classifying_hook_runs_after_the_named_classifiers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(mine="def german(record): ...")
    pytester.syspathinsert()
    named = ("--jsbench-engine=scripted", "--jsbench-classify=mine:german")

    both = plan(pytester, *named, hook=lambda _record: None)

    assert [classifier.name for classifier in both.classifiers] == ["mine:german", "pytest_jsbench_classify"]
    assert [classifier.name for classifier in plan(pytester, *named).classifiers] == ["mine:german"]
