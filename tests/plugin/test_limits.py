from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bench import NUMBER, Bench, with_workers
from tests.support.openai_wire import SECRET, error_body, whole
from tests.support.provider import Provider, Reply, json_reply


def add_cases(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.case(f"c{number:02}")


@pytest.mark.slow
@with_workers
def test_requests_a_minute_are_those_of_all_workers_together(bench: Bench) -> None:
    add_cases(bench, 16)

    result = bench.run("--jsbench-engine-option=answers=answering:clocked", "--jsbench-rpm=600")

    result.assert_outcomes(passed=16)
    result.stdout.fnmatch_lines(["jsbench: dataset schemas, 16 cases, 16 in flight, 600 requests a minute"])
    # ten calls at once, then one each tenth of a second
    starts = [float(line) for line in bench.calls()]
    assert max(starts) - min(starts) > 0.3


def priced(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.run_only("--jsbench-engine=answering:Priced", "--jsbench-dataset=schemas", *args)


@pytest.mark.slow
@with_workers
def test_calls_stop_before_the_cost_limit_and_the_rest_is_reported(bench: Bench) -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    add_cases(bench, 20)

    result = priced(bench, "--jsbench-max-cost=0.005", "--jsbench-max-tokens=500", "--jsbench-output=out", "-rs")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    metrics: dict[str, Any] = bench.run_json()["metrics"]
    assert (metrics["completions"], metrics["missing"]) == (15, 5)
    assert metrics["missing_reasons"]["limit"] == 5
    assert metrics["cost"] == pytest.approx(15 * 0.000327)
    result.assert_outcomes(passed=15, skipped=5)
    result.stdout.fnmatch_lines(
        [
            "SKIPPED * not run: --jsbench-max-cost=0.005 would be exceeded",
            "errors     5 of 20 attempts (not run, limit reached 5): the figures are",
        ]
    )


def test_a_wrong_key_is_not_tried_for_every_case(bench: Bench) -> None:
    add_cases(bench, 40)
    result = bench.run(
        "--jsbench-engine-option=answers=answering:wrong_key", "--jsbench-concurrency=2", "--jsbench-output=out"
    )

    metrics: dict[str, Any] = bench.run_json()["metrics"]
    # five, and those in flight
    assert 5 <= metrics["failed"] <= 8
    assert metrics["missing_reasons"]["unavailable"] == 40 - metrics["failed"]
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "jsbench: scripted scripted: given up; the remaining attempts are not made: * failed with: no such key",
            "verdict * INCOMPLETE*",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("bench", "verbosity"), [("plain", "-v"), ("xdist", "-q")], indirect=["bench"])
def test_provider_outage_is_reported_while_tests_wait(bench: Bench, verbosity: str) -> None:
    for number in range(12):
        bench.case(f"c{number}", {"fault": "connection", "message": "connection refused"})

    lines = bench.run_subprocess("--jsbench-patience=10", "--jsbench-concurrency=12", verbosity).outlines

    reported = [line for line in lines if line.startswith("jsbench: scripted scripted: ")]
    assert [line.partition(": ")[2][19:40] for line in reported] == ["provider is down; ret", "given up; the remaini"]
    assert all(lines.index(line) < lines.index(next(one for one in lines if "FAILURES" in one)) for line in reported)
    assert not [line for line in lines if "Captured stdout" in line]


@pytest.mark.slow
@with_workers
@pytest.mark.parametrize("answer", ["closed", "reset", "status 500"])
def test_cases_that_break_their_own_calls_fail_alone(
    bench: Bench, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai", reason="needs the package openai")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    for number in range(24):
        title = "breaks" if number % 2 else "answers"
        bench.case(f"c{number:02}", schema={**NUMBER, "title": title})
    broken = {
        "closed": Reply(pieces=()),
        "reset": Reply(pieces=(), reset=True),
        "status 500": json_reply(error_body("broke"), status=500),
    }[answer]

    with Provider() as provider:
        provider.choose = lambda asked: broken if "breaks" in json.dumps(asked.body) else json_reply(whole('{"n": 1}'))
        result = bench.run_only(
            "--jsbench-engine=openai",
            "--jsbench-model=m",
            f"--jsbench-base-url={provider.url}/v1",
            "--jsbench-dataset=schemas",
            "--jsbench-output=out",
        )

    result.assert_outcomes(passed=12, failed=12)
    assert {one["id"]: one["verdict"]["failure_type"] for one in bench.records()} == {
        f"c{number:02}": "api_error" if number % 2 else None for number in range(24)
    }
    assert "given up" not in result.stdout.str()
