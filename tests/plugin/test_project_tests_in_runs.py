"""Test that the project's tests share the limits, the resumption and the gates of a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_jsbench.plugin.project_tests import ProjectTest
from tests.support.bench import NUMBER, Bench
from tests.support.project_tests import run_one

#: Has about the length of a prompt that the priced engine reports.
LONG = "count " * 150


def calls(bench: Bench) -> list[str]:
    """Return the cases of the calls made since the last time."""
    return sorted(json.loads(line)[0].partition("::")[2] for line in bench.calls())


def runs(bench: Bench) -> list[Path]:
    return sorted((bench.path / "out").iterdir())


def test_attempt_over_a_limit_is_skipped_and_counted_as_missing(bench: Bench) -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    bench.write(
        {
            "test_one.py": f"import pytest\npytestmark = pytest.mark.jsbench(schema={NUMBER!r}, prompt={LONG!r})\n"
            "@pytest.mark.parametrize('n', range(30))\ndef test_it(jsbench, n): jsbench.generate()\n"
            "@pytest.mark.jsbench(engine='answering:StandIn')\ndef test_other(jsbench): jsbench.generate()\n",
        }
    )
    limited = ("--jsbench-max-cost=0.005", "--jsbench-max-tokens=500", "--jsbench-output=out", "-rs")

    result = bench.run_only("test_one.py", "--jsbench-engine=answering:Priced", *limited)

    metrics = bench.run_json()["metrics"]
    passed, skipped = metrics["passed"], metrics["missing_reasons"]["limit"]
    result.assert_outcomes(passed=passed, skipped=skipped, failed=1)
    assert 0 < metrics["cost"] <= 0.005
    assert (passed + skipped, metrics["planned"], metrics["missing"]) == (30, 30, skipped)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED * not run: --jsbench-max-cost=0.005 would be exceeded",
            "E * --jsbench-max-cost: calls of engine 'standin' have no published price; remove the limit",
        ]
    )


def test_own_attempts_are_taken_over_where_they_ask_the_same(bench: Bench) -> None:
    bench.case("a")
    code = (
        "mark = pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
        "@mark\ndef test_same(jsbench):\n"
        "    jsbench.generate(text='{\"n\": 1}')\n    jsbench.generate(text='{\"n\": 2}')\n"
        "@mark\ndef test_reworded(jsbench): jsbench.generate(text='{\"n\": %s}')\n"
        "@pytest.mark.jsbench(temperature=%s)\n@mark\ndef test_warmer(jsbench): jsbench.generate(text='{\"n\": 1}')\n"
        "@pytest.mark.jsbench(schema=NUMBER, prompt='count', repeats=2, min_pass=1)\n"
        "def test_repeated(jsbench): jsbench.generate()\n"
    )
    kept = ("--jsbench-output=out", "--jsbench-dataset=schemas")
    run_one(bench, code % (3, 0.5), *kept).assert_outcomes(passed=4, failed=1)
    asked = ["test_repeated", "test_repeated", "test_reworded", "test_same", "test_same@2", "test_warmer"]
    assert calls(bench) == ["a", *asked]

    result = run_one(bench, code % (4, 0.7), *kept, "--jsbench-resume=out", "--junitxml=junit.xml")

    result.assert_outcomes(passed=4, failed=1)
    assert calls(bench) == ["test_reworded", "test_warmer"]
    first, second = runs(bench)
    taken = "1 answer reused, 6 answers to own tests, reused if unchanged"
    result.stdout.fnmatch_lines(
        [f"jsbench: resuming {first.name}: {taken}", f"resumed    5 answers reused from {first.name}*"]
    )
    assert (bench.path / "junit.xml").read_text().count('name="jsbench.resumed"') == 3
    lines = [json.loads(line) for line in (second / "records.jsonl").read_text().splitlines()]
    assert sorted(lines[0]["run"]["plan"]["test_one"]) == asked
    assert {line["id"]: line["asked_by"] and line["asked_by"]["test"] for line in lines[1:]} == {
        "a": None,
        **{name: f"test_one.py::{name.partition('@')[0]}" for name in asked},
    }
    assert not (second / "records.resumed.jsonl").exists()


def test_a_replay_costs_nothing_and_so_passes_no_limit(bench: Bench) -> None:
    code = "@pytest.mark.jsbench(schema=NUMBER, prompt='echo {\"n\": 1}')\ndef test_it(jsbench): jsbench.generate()\n"
    run_one(bench, code, "--jsbench-record=kept").assert_outcomes(passed=1)

    result = bench.run_only("--jsbench-max-cost=1", "--jsbench-rpm=1", "test_one.py", "--jsbench-replay=kept")

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("failure", [AssertionError(), pytest.fail.Exception("nothing was read")])
def test_test_is_skipped_if_a_limit_forbids_its_application_a_call(failure: BaseException) -> None:
    endpoint = SimpleNamespace(refusal=pytest.skip.Exception("not run"))
    test = cast("Any", SimpleNamespace(running=False, attempts=SimpleNamespace(endpoints=[endpoint])))

    with pytest.raises(pytest.skip.Exception, match="not run"):
        ProjectTest.__exit__(test, type(failure), failure, None)
