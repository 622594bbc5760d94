from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.plugin.benchmark import _measured
from tests.support import examples
from tests.support.bench import COUNTED, Bench, with_workers

pytest.importorskip("pytest_benchmark", reason="needs pytest-benchmark")


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.plugins = ("benchmark",)
    return bench


@pytest.fixture
def timed(bench: Bench) -> Bench:
    bench.case("a", {"text": '{"n": 1}', "delay": 0.05, "ttft": 0.02})
    bench.case("b", {"text": '{"n": -1}', "delay": 0.05, "ttft": 0.02})
    bench.case("c", {"fault": "bad_request", "message": "no"})
    bench.case("d", {"text": '{"n": 1}', "delay": 0.05, "ttft": 0.02}, task="others")
    return bench


def rows(bench: Bench) -> dict[str, Any]:
    data = json.loads((bench.path / "times.json").read_text())
    return {row["fullname"]: row for row in data["benchmarks"]}


@with_workers
def test_benchmark_has_a_row_per_task_and_metric(timed: Bench) -> None:
    result = timed.run("--benchmark-json=times.json")

    found = rows(timed)
    assert set(found) == {f"jsbench::{task}[{m}]" for task in ("orders", "others") for m in ("ttft", "tgt", "gct")}
    orders = found["jsbench::orders[tgt]"]
    assert orders["stats"]["rounds"] == 2
    assert 0.05 <= orders["stats"]["min"] < 5
    assert orders["extra_info"] == {
        "engine": "scripted",
        "model": "scripted",
        "completions": 2,
        "passed": 1,
        "failures": {"schema_violation": 1},
        "input_tokens": None,
        "output_tokens": None,
    }
    assert (orders["group"], orders["params"]) == ("jsbench orders", {"task": "orders", "metric": "tgt"})
    assert "benchmark 'jsbench" not in result.stdout.str()


@pytest.mark.parametrize("option", ["--benchmark-sort=min", "--benchmark-verbose", "--jsbench-benchmark-rows=task"])
def test_its_table_is_shown_where_an_option_of_the_table_is_typed(bench: Bench, option: str) -> None:
    bench.case("a", {"text": '{"n": 1}', "delay": 0.02, "ttft": 0.01})

    assert "benchmark 'jsbench orders': 3 tests" in bench.run(option).stdout.str()


def test_benchmark_table_has_only_project_rows_unless_requested(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.case("a", {"text": '{"n": 1}', "delay": 0.02, "ttft": 0.01})
    bench.write({"test_own.py": "def test_own(benchmark): benchmark.pedantic(int)"})

    own = bench.run(".").stdout.str()
    monkeypatch.setenv("PYTEST_ADDOPTS", "--benchmark-columns=min,max")
    both = bench.run(".").stdout.str()

    assert ("benchmark: 1 tests" in own, "benchmark 'jsbench orders'" in own) == (True, False)
    assert ("benchmark: 1 tests" in both, "benchmark 'jsbench orders': 3 tests" in both) == (True, True)
    assert "Median" not in both


def test_a_row_per_case_comes_on_request(timed: Bench) -> None:
    timed.answers["b"]["usage"] = {"input_tokens": 30, "output_tokens": 5}
    timed.run("--benchmark-json=times.json", "--jsbench-benchmark-rows=case")

    found = rows(timed)
    assert found["jsbench::orders::a[ttft]"]["group"] == "jsbench orders ttft"
    told = {name: found[f"jsbench::orders::{name}[tgt]"]["extra_info"] for name in ("a", "b")}
    assert [told[name]["verdict"] for name in told] == ["passed", "schema_violation"]
    assert (told["b"]["input_tokens"], told["b"]["output_tokens"]) == (30, 5)


def test_each_case_is_called_once_and_never_in_a_calibrated_loop(bench: Bench) -> None:
    bench.case("a")

    bench.run(COUNTED, "--benchmark-json=times.json")

    assert len(bench.calls()) == 1


@pytest.mark.slow
def test_runs_are_compared_and_one_that_became_slower_fails(timed: Bench) -> None:
    timed.run("--benchmark-autosave")
    timed.answers["d"]["delay"] = 0.4

    options = ("--benchmark-compare=0001", "--benchmark-compare-fail=min:0.2")
    result = timed.run(*options, "--jsbench-gate=planned>=4", "--junitxml=junit.xml")

    text = result.stdout.str() + result.stderr.str()
    for name in ("ttft[orders]", "tgt[orders]", "tgt[others]"):
        assert f"{name} (0001_" in text
        assert f"{name} (NOW)" in text
    assert "benchmark 'jsbench orders': 6 tests" in text
    assert "Performance has regressed" in text
    assert "tgt[others] (0001_" in text.partition("Performance has regressed")[2]
    assert "verdict    FAILED" in text
    assert result.ret != 0
    assert 'name="jsbench.verdict" value="failed"' in (timed.path / "junit.xml").read_text()


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_its_own_switches_keep_their_meaning(timed: Bench, option: str) -> None:
    result = timed.run(option)

    assert "benchmark 'jsbench" not in result.stdout.str()


def test_only_benchmarks_includes_the_suite(bench: Bench) -> None:
    bench.case("a")
    bench.write({"test_own.py": "def test_own(): pass"})

    bench.run(".", "--benchmark-only").assert_outcomes(passed=1, skipped=1)


def test_variants_stand_side_by_side_in_a_group_of_each_task_and_metric() -> None:
    run = examples.compared(a="pv", b="p")

    rows = {row.fullname: (row, seconds) for row, seconds in _measured(run, "task")}

    assert rows.keys() == {f"jsbench::simple-{name}[{metric}]" for name in "ab" for metric in ("ttft", "tgt", "gct")}
    first, seconds = rows["jsbench::simple-a[tgt]"]
    assert (first.group, seconds) == ("jsbench simple tgt", [1.0, 1.0])
    assert (first.params, first.extra_info["model"]) == ({"task": "simple", "metric": "tgt", "variant": "a"}, "model a")
