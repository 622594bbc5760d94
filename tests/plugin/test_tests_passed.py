"""How a project's own tests ended is a figure of the run, beside the verdicts."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Bench
from tests.plugin.test_project_tests import run_one

MARK = "@pytest.mark.jsbench(schema=NUMBER, prompt='say {text}')\n"
TESTS = (
    f"{MARK}def test_right(jsbench): assert jsbench.generate(text='{{\"n\": 1}}').instance['n'] == 1\n"
    f"{MARK}def test_wrong(jsbench): assert jsbench.generate(text='{{\"n\": 1}}').instance['n'] == 2\n"
    f"{MARK}def test_broken(jsbench): jsbench.generate(text='{{\"n\": -1}}')\n"
    f"{MARK}def test_late(jsbench):\n"
    "    jsbench.generate(text='{\"n\": 1}')\n"
    "    pytest.fail('Timeout (>1.0s) from pytest-timeout.')\n"
    f"{MARK}def test_skipped(jsbench):\n    jsbench.generate(text='{{\"n\": 1}}')\n    pytest.skip('not now')\n"
    f"{MARK}@pytest.mark.xfail\ndef test_expected(jsbench): assert jsbench.generate(text='{{\"n\": 1}}') is None\n"
    "@pytest.mark.jsbench(schema=NUMBER, prompt='count', repeats=4, min_pass=1)\n"
    "def test_often(jsbench): assert jsbench.generate().instance['n'] == 3\n"
    "@pytest.fixture\ndef answer(jsbench): return jsbench.generate(text='{\"n\": 1}')\n"
    f"{MARK}def test_through_a_fixture(answer): assert not answer.instance\n"
)


def test_how_tests_ended_is_counted_shown_and_gated(bench: Bench) -> None:
    result = run_one(bench, TESTS, "--jsbench-output=out", "--jsbench-gate=tests_passed>=0.9")

    result.assert_outcomes(passed=2, failed=4, skipped=1, xfailed=1)
    metrics = bench.run_json()["metrics"]
    assert (metrics["tests_passed"], metrics["test_failures"]) == (
        2 / 9,
        {"answer": 3, "type_refused": 0, "assertion": 3, "timeout": 1, "error": 0},
    )
    result.stdout.fnmatch_lines(
        ["tests      2/9 = 0.222 passed; *", "gate       tests_passed 2/9 = 0.2222, gate >= 0.9: NOT MET"]
    )


def test_two_runs_are_compared_by_the_ends_of_their_tests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "abcdefgh"
    code = (
        f"@pytest.mark.parametrize('name', {list(names)!r})\n"
        f"{MARK}def test_it(jsbench, name):\n"
        "    import os\n"
        "    assert jsbench.generate(text='{\"n\": 1}').instance['n'] == int(os.environ['WANTED'])\n"
    )
    monkeypatch.setenv("WANTED", "1")
    run_one(bench, code, "--jsbench-output=before")
    monkeypatch.setenv("WANTED", "2")

    result = run_one(
        bench, code, "--jsbench-output=out", "--jsbench-baseline=before", "--jsbench-gate=baseline.tests.worse<=0"
    )

    result.stdout.fnmatch_lines(
        [
            "baseline   *",
            "tests      8 fewer of 8 cases pass their test (-1.000, *",
            "worse      no longer passed by their test in 8: *",
            "gate       baseline.tests.worse 8, gate <= 0: NOT MET",
        ]
    )
    compared = bench.run_json()["baseline"]["tests"]
    assert (compared["n"], compared["difference"], len(compared["worse"])) == (8, -1, 8)
