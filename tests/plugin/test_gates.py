from __future__ import annotations

import json

import pytest

from tests.support.bench import Bench


def three_of_four(bench: Bench) -> Bench:
    for name in ("a", "b", "c"):
        bench.case(name)
    bench.case("d", '{"n": -1}', task="hard")
    return bench


def test_gates_of_the_ini_file_that_are_met_decide_about_failing_cases(bench: Bench) -> None:
    three_of_four(bench).write({"pytest.ini": "[pytest]\njsbench_gate =\n    pass_rate>=0.75\n    n>=4\n"})

    result = bench.run()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["verdict    PASSED: all 2 gates are met; * failed, which the gates allow*"])


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
            "fixed      1: hard::d",
            "gate       n 4, gate >= 4: met",
            "gate       baseline.difference -0.25, gate >= -0.2: NOT MET",
        ]
    )
    found = bench.run_json()["baseline"]
    assert (found["newly_failing"], found["newly_passing"]) == (["orders::a", "orders::b"], ["hard::d"])
    assert "1 fewer of 4 cases pass (-0.250" in found["sentence"]
    assert found["sentence"].endswith("not distinguishable from no change (exact test: p = 1)")


def test_variant_missing_in_the_baseline_is_reported_as_not_compared(bench: Bench) -> None:
    bench.case("a")
    bench.run("--jsbench-model=one", "--jsbench-model=two", "--jsbench-output=before")

    result = bench.run("--jsbench-model=one", "--jsbench-model=three", "--jsbench-baseline=before")

    result.stdout.fnmatch_lines(["baseline   *", "warning    variant three is not compared:*"])
    result.stdout.no_fnmatch_line("*variant one is not compared*")


EXPECTING = """
import pytest
INVOICE = {"properties": {"total": {"type": "number"}, "vendor": {"type": "string"}}}

@pytest.mark.parametrize("name", list("abcdefgh"))
@pytest.mark.jsbench(schema=INVOICE, prompt="an invoice", expected={"total": 1, "vendor": "ACME"})
def test_it(jsbench, name): assert jsbench.generate().instance["total"] == 1
"""


def test_runs_with_equal_verdicts_are_compared_by_values_and_outcomes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write({"test_one.py": EXPECTING})
    scripted = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:invoiced", "test_one.py")
    monkeypatch.setenv("TOTAL", "1")
    bench.run_only(*scripted, "--jsbench-output=before").assert_outcomes(passed=8)
    monkeypatch.setenv("TOTAL", "2")
    gates = ("--jsbench-gate=baseline.tests.worse<=0", "--jsbench-gate=baseline.values.worse<=0")

    result = bench.run_only(*scripted, "--jsbench-output=out", "--jsbench-baseline=before", *gates)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "baseline   *",
            "           the same verdict on each of 8 cases",
            "tests      8 fewer of 8 cases pass their test (-1.000, *",
            "worse      answers no longer pass their test in 8 cases: *",
            "values     8 fewer of 8 cases have every value right *",
            "field      total: 8 fewer of 8 cases have it right *",
            "worse      fewer values right in 8 cases: test_one::test_it-a,*",
            "gate       baseline.tests.worse 8, gate <= 0: NOT MET",
            "gate       baseline.values.worse 8, gate <= 0: NOT MET",
        ]
    )
    compared = bench.run_json()["baseline"]
    tests, values = compared["tests"], compared["values"]
    assert (tests["n"], tests["difference"], len(tests["worse"])) == (8, -1, 8)
    assert (values["p_value"], values["worse"][0]) == (0.0078125, "test_one::test_it-a")
    assert values["fields"]["vendor"]["p_value"] == 1
    (page,) = bench.path.glob("out/*/report.html")
    assert "8 fewer of 8 cases have every value right" in page.read_text()
