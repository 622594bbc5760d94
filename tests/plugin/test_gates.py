from __future__ import annotations

import pytest

from tests.support.bench import Bench


def test_variant_missing_in_the_baseline_is_reported_as_not_compared(bench: Bench) -> None:
    bench.case("a")
    bench.run("--jsbench-model=one", "--jsbench-model=two", "--jsbench-output=before")

    result = bench.run("--jsbench-model=one", "--jsbench-model=three", "--jsbench-baseline=before")

    result.stdout.fnmatch_lines(["baseline   *", "warning    variant three is not compared:*"])
    result.stdout.no_fnmatch_line("*variant one is not compared*")


def test_cases_that_got_worse_are_named_and_counted_by_gates(bench: Bench) -> None:
    for name in ("kept", "broke", "gone"):
        bench.case(name)
    bench.run("--jsbench-output=before").assert_outcomes(passed=3)
    (bench.path / "schemas" / "orders" / "gone.json").unlink()
    bench.case("broke", '{"n": -1}')
    bench.case("arrived", '{"n": -1}')
    bench.case("good")
    counts = ("vanished", "arrived_failing", "broken")

    result = bench.run(
        "--jsbench-output=out", "--jsbench-baseline=before", *(f"--jsbench-gate={count}<=0" for count in counts)
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "broke      1: orders::broke",
            "arrived    1 failing case: orders::arrived (not in the baseline *",
            "vanished   no longer in this run: 1 case: orders::gone",
            *(f"gate       {count} 1, gate <= 0: NOT MET" for count in counts),
        ]
    )
    compared = bench.run_json()["baseline"]
    assert [compared[count] for count in counts] == [["orders::gone"], ["orders::arrived"], ["orders::broke"]]


def test_gate_on_vanished_cases_needs_a_baseline(bench: Bench) -> None:
    bench.case("a")

    result = bench.run("--jsbench-gate=vanished<=0")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no baseline to compare with; add --jsbench-baseline=RUN*"])


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
            "worse      fewer correct values in 8 cases: test_one::test_it-a,*",
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
