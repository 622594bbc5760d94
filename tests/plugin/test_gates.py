from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import Bench


def three_of_four(bench: Bench) -> Bench:
    for name in ("a", "b", "c"):
        bench.case(name)
    bench.case("d", '{"n": -1}', task="hard")
    return bench


def test_gates_of_the_ini_file_that_are_met_decide_about_failing_cases(bench: Bench) -> None:
    three_of_four(bench).write({"pytest.ini": "[pytest]\njsbench_gate =\n    pass_rate>=0.75\n    n>=4\n"})

    result = bench.run()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["verdict    PASSED: all 2 gates are met"])


def test_a_run_is_compared_with_its_baseline_by_name(bench: Bench) -> None:
    three_of_four(bench).answers |= {"a": '{"n": -1}', "d": '{"n": 1}', "b": '{"n": -1}'}
    before = {"orders::a": "passed", "orders::b": "passed", "orders::c": "passed", "hard::d": "truncated"}
    cases = {name: {"attempts": [end]} for name, end in before.items()}
    bench.write({"base.json": json.dumps({"metrics": {"pass_rate": 0.75}, "cases": cases})})

    result = bench.run(
        "--jsbench-baseline=base.json", "--jsbench-max-regression=0.2", "--jsbench-output=out", "--jsbench-gate=n>=4"
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "baseline   *",
            "broke      2: orders::a, orders::b",
            "mended     1: hard::d",
            "gate       n 4, gate >= 4: met",
            "gate       baseline.difference -0.25, gate >= -0.2: NOT MET",
        ]
    )
    found = bench.run_json()["baseline"]
    assert (found["newly_failing"], found["newly_passing"]) == (["orders::a", "orders::b"], ["hard::d"])
    assert "1 fewer of 4 cases pass (-0.250" in found["sentence"]
    assert found["sentence"].endswith("not distinguishable from no change (exact test: p = 1)")


def test_a_variant_that_the_baseline_does_not_have_is_said_to_be_compared_with_nothing(bench: Bench) -> None:
    bench.case("a")
    bench.run("--jsbench-model=one", "--jsbench-model=two", "--jsbench-output=before")

    result = bench.run("--jsbench-model=one", "--jsbench-model=three", "--jsbench-baseline=before")

    result.stdout.fnmatch_lines(["baseline   *", "warning    variant three is compared with nothing:*"])
    result.stdout.no_fnmatch_line("*variant one is compared with nothing*")
