"""Runs of published suites of tool calls: BFCL's rows, and chat requests with a reference's decisions."""

from __future__ import annotations

import json
from typing import Any

from tests.support.bench import Bench
from tests.support.bfcl_rows import WEATHER, write_suite

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def result(index: int, finish_reason: str) -> str:
    request = {"messages": [{"role": "user", "content": f"Question {index}?"}], "tools": TOOLS}
    row = {"data_index": index, "request": request, "status": "success", "finish_reason": finish_reason}
    return json.dumps(row)


def test_a_run_of_bfcl_excludes_contradictory_rows_and_names_skipped_files(bench: Bench) -> None:
    contradictory = [{"weather.get": {"city": [True]}}]
    rows: list[Any] = [
        ("simple_python", [WEATHER], [{"weather.get": {"city": ["Oslo, Norway"]}}]),
        ("simple_python", [WEATHER], [{"weather.get": {"city": ["Rome"]}}]),
        ("simple_python", [WEATHER], contradictory),
        ("live_relevance", [WEATHER], None),
    ]
    write_suite(bench.path / "suite", rows)
    bench.write({"suite/BFCL_v4_simple_java.json": "{}"})
    bench.answers.update(
        {
            "simple_python_0": call("weather_get", city="oslo norway"),
            "simple_python_1": call("weather_get", city="Rom"),
            "live_relevance_0": {"text": "Hello."},
        }
    )
    outcome = bench.run("--jsbench-dataset=suite", "--jsbench-output=out", "-rs")
    outcome.assert_outcomes(passed=1, failed=2, skipped=1)
    outcome.stdout.fnmatch_lines_random(
        [
            "no_call: no tool was called; expected a call of 'weather_get'",
            "wrong_arguments: the arguments of 'weather_get' are not those that the case expects: *\"rom\"*",
            "*(texts are compared in lower case, without spaces and punctuation)*",
            "*no acceptable call of 'weather_get' conforms to the function's own schema*",
            "excluded * 1 case *",
            "warning * suite/BFCL_v4_simple_java.json: skipped, as only single-turn rows*",
        ]
    )
    assert bench.run_json()["metrics"]["trigger_recall"] == 2 / 3


def test_a_run_of_requests_is_compared_with_the_reference_and_with_a_baseline(bench: Bench) -> None:
    bench.write({"results.jsonl": "\n".join([result(1, "tool_calls"), result(2, "stop"), result(3, "tool_calls")])})
    bench.answers.update({f"request-{number}": call("weather", city="Oslo") for number in (1, 2)})
    bench.answers["request-3"] = {"text": "No."}
    dataset = "--jsbench-dataset=results.jsonl@requests"
    first = bench.run(dataset, "--jsbench-output=out", "--jsbench-gate=trigger_f1>=0.6")
    first.stdout.fnmatch_lines_random(["gate * trigger_f1 2/4 = 0.5, gate >= 0.6: NOT MET"])
    baseline = bench.path / "first.json"
    baseline.write_text(json.dumps(bench.run_json()), "utf-8")

    bench.answers["request-3"] = call("weather", city="Rome")
    gates = [f"--jsbench-gate=baseline.triggers.{name}" for name in ("recall>=1", "precision>=0.6", "n>=3", "f1>=0.9")]
    second = bench.run(dataset, "--jsbench-output=again", f"--jsbench-baseline={baseline}", *gates)
    second.stdout.fnmatch_lines_random(
        [
            "triggers * decisions to call a tool: F1 0.800 (95 % interval 0.140 to 1.000),*",
            "gate * baseline.triggers.recall 2/2 = 1, gate >= 1: met",
            "gate * baseline.triggers.precision 2/3 = 0.6667, gate >= 0.6: met",
            "gate * baseline.triggers.n 3, gate >= 3: met",
            "gate * baseline.triggers.f1 4/5 = 0.8, gate >= 0.9: NOT MET",
        ]
    )
