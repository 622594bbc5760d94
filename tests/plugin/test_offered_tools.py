"""Runs of cases that offer tools: verdicts, figures, records, recordings, the tool choice, and gates."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from tests.support.bench import Bench, both_ways

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"name": "weather", "description": "Get the weather.", "parameters": CITY},
    {"name": "erase", "parameters": CITY},
]
CASES: list[dict[str, Any]] = [
    {"id": "one", "ask": "Oslo?", "expect": {"weather": {"city": "Oslo"}}},
    {"id": "two", "ask": "Oslo and Rome?", "expect": [{"weather": {"city": "Oslo"}}, {"weather": {"city": "Rome"}}]},
    {"id": "none", "ask": "Joke!", "expect": "none", "forbid": "erase"},
    {"id": "other", "ask": "Rome?", "expect": "weather"},
]


def call(city: str, name: str = "weather") -> dict[str, Any]:
    return {"name": name, "arguments": {"city": city}}


ANSWERS: dict[str, Any] = {
    "one": {"calls": [call("Oslo")]},
    "two": {"calls": [call("Rome"), call("Oslo")]},
    "none": {"text": "Knock, knock."},
    "other": {"calls": [call("Rome", "erase")]},
}
DATASET = "--jsbench-dataset=agent.json"


ENGINE_WITHOUT_TOOLS = """
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.engines.base import EngineFactory

class Engine:
    def __init__(self, info):
        self.info = info

    def generate(self, request):
        raise AssertionError("called")

    def close(self):
        pass

class Factory(EngineFactory):
    def describe(self, config):
        return EngineInfo(engine=config.name, model="m", response_format=ResponseFormat.TEXT, streaming=False)

    def build(self, config):
        return Engine(self.describe(config))
"""


@pytest.fixture
def agent(bench: Bench) -> Bench:
    bench.write({"agent.json": json.dumps({"tools": TOOLS, "cases": CASES})})
    bench.answers.update(ANSWERS)
    return bench


@both_ways
def test_a_run_judges_calls_and_reports_their_figures(agent: Bench) -> None:
    result = agent.run(DATASET, "--jsbench-output=out", "-v")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "wrong_tool (not_expected): the tool 'erase' was called, but the case expects 'weather'",
            '  answer: erase({"city": "Rome"})',
            "Tool *Precision *Recall",
            "calls * 4/4 = 1.000 with conforming arguments; trigger precision 3/3 = 1.000;",
            "* trigger recall 3/3 = 1.000; trigger F1 6/6 = 1.000; erase instead of",
            "* weather 1 time",
        ]
    )
    total = agent.run_json()["metrics"]
    assert (total["call_pass_rate"], total["trigger_f1"]) == (1.0, 1.0)
    assert total["tool_recall"]["weather"] == 0.75
    assert total["wrong_calls"] == {"erase instead of weather": 1}
    (record,) = (record for record in agent.records() if record["id"] == "one")
    assert record["offer"]["tools"][0]["parameters"] == CITY
    assert [called["name"] for called in record["generation"]["calls"]] == ["weather"]


def test_a_likely_mistake_in_two_tools_of_a_case_counts_once(bench: Bench) -> None:
    tools = [{"name": name, "parameters": {"type": "object", "propertes": {}}} for name in ("find", "erase")]
    cases = [{"id": name, "ask": "?", "expect": "none"} for name in "ab"]
    bench.write({"agent.json": json.dumps({"tools": tools, "cases": cases})})
    bench.answers.update({name: {"text": "No."} for name in "ab"})

    result = bench.run(DATASET)

    result.stdout.fnmatch_lines(["*agent::a and 1 more case: unknown keyword 'propertes'*"])


def test_the_choice_of_the_run_replaces_that_of_the_cases(agent: Bench) -> None:
    result = agent.run(DATASET, "--jsbench-tool-choice=none", "--jsbench-output=out")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        ["wrong_tool: the tool 'weather' was called, but it may not be called; expected no call"]
    )
    assert {record["params"]["tool_choice"] for record in agent.records()} == {"none"}


def test_choices_are_variants(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-tool-choice=auto", "--jsbench-tool-choice=required").assert_outcomes(
        passed=5, failed=3
    )


def test_an_unknown_tool_as_the_choice_makes_no_call(agent: Bench) -> None:
    result = agent.run(DATASET, "--jsbench-tool-choice=waether")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        ["api_error (bad_request): nothing was sent: tool_choice names the tool 'waether'; offered are weather, erase"]
    )


def test_gates_name_the_figures_of_calls(agent: Bench) -> None:
    gates = (
        "--jsbench-gate=trigger_f1>=0.9",
        "--jsbench-gate=tool_recall.weather>=0.7",
        "--jsbench-gate=call_pass_rate>=1",
    )
    assert agent.run(DATASET, *gates).ret == 0
    result = agent.run(DATASET, "--jsbench-gate=tool_precision.erase>=0.5")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*tool_precision.erase*0*"])


def test_a_run_is_resumed_unless_what_a_case_offers_has_changed(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-output=out")
    changed = [{**case, "expect": "erase"} if case["id"] == "other" else case for case in CASES]
    agent.write({"agent.json": json.dumps({"tools": TOOLS, "cases": changed})})
    agent.answers = {"other": ANSWERS["other"]}
    agent.run(DATASET, "--jsbench-resume=out").assert_outcomes(passed=4)


def test_calls_are_replayed_from_recordings_and_from_records(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-record=recorded", "--jsbench-output=out")
    agent.run_only(DATASET, "--jsbench-replay=recorded").assert_outcomes(passed=3, failed=1)
    records = f"--jsbench-engine-option=records={agent.run_in()}"
    agent.run_only(DATASET, "--jsbench-engine=replay", records).assert_outcomes(passed=3, failed=1)
    other = [{**TOOLS[0], "parameters": {"type": "object"}}, TOOLS[1]]
    agent.write({"agent.json": json.dumps({"tools": other, "cases": CASES})})
    result = agent.run_only(DATASET, "--jsbench-replay=recorded")
    result.stdout.fnmatch_lines(["*the offer of tools differs from the recording: $.tools[[]0].parameters*"])


def test_records_are_judged_again_with_what_the_case_expects(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-output=out")
    before = agent.run_json()["metrics"]
    agent.pytester.run("jsbench", "judge", str(agent.run_in()), "--output=again")
    again = json.loads((agent.path / "again" / "run.json").read_text())
    assert again["metrics"] == before


def test_an_engine_without_tools_declines_such_cases(agent: Bench) -> None:
    agent.write({"engines.py": ENGINE_WITHOUT_TOOLS})
    result = agent.run_only(DATASET, "--jsbench-engine=engines:Factory", "--jsbench-output=out")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        ["unsupported_schema (unsupported_tools): engine 'engines:Factory' cannot offer tools to a model;*"]
    )


def test_a_run_without_tools_shows_nothing_of_them(bench: Bench) -> None:
    bench.case("plain")
    result = bench.run("--jsbench-output=out", "-v")
    result.assert_outcomes(passed=1)
    assert "Tool" not in result.stdout.str()
    assert "Trigger" not in result.stdout.str()
    (record,) = bench.records()
    assert "offer" not in record
    assert "tool_choice" not in record["params"]
    assert "conforming_calls" not in record["verdict"]


def test_cases_with_tools_have_no_second_tries(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-repairs=1", "--jsbench-output=out").assert_outcomes(passed=3, failed=1)
    assert not any("repairs" in record for record in agent.records())


def test_runs_with_tools_are_compared_and_read_by_others(agent: Bench) -> None:
    agent.run(DATASET, "--jsbench-output=out")
    agent.answers["other"] = {"calls": [call("Rome")]}
    agent.run(DATASET, "--jsbench-output=later")
    result = agent.pytester.run("jsbench", "compare", str(agent.run_in()), str(agent.run_in("later")))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*agent::other*"])
    schema = json.loads(files("pytest_jsbench").joinpath("formats", "run.schema.json").read_text("utf-8"))
    jsonschema.validate(agent.run_json(), schema)
