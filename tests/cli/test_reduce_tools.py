"""Tests of `jsbench reduce` on cases that offer tools, with scripted engines that have one fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.library.evaluation import evaluate
from tests.support.commands import ran

#: Place of the tool with a fault among 30.
BAD = 17


def harmless(number: int) -> dict[str, Any]:
    properties = {f"acmeField{number}": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": [f"acmeField{number}"]}
    return {"name": f"acme_tool_{number}", "description": f"Does number {number} at Acme.", "parameters": parameters}


def thirty_tools(bad: dict[str, Any]) -> list[dict[str, Any]]:
    """Return 30 tools, one with these properties in addition to its own."""
    tools = [harmless(number) for number in range(30)]
    tools[BAD]["parameters"]["properties"] |= bad
    return tools


def run_of(folder: Path, fault: str, tools: list[dict[str, Any]], case: dict[str, Any], **options: Any) -> Path:
    """Evaluate a case with these tools, and return the run's directory."""
    document = folder / "agent.json"
    document.write_text(json.dumps({"tools": tools, "cases": [{"id": "a", **case}]}))
    answers = {"answers": f"tests.support.planted_faults:{fault}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[2])
        run = evaluate("scripted", str(document), engine_option=answers, output=folder / "runs", retries=0, **options)
    assert run.folder is not None
    return run.folder


def reduce_case(folder: Path, fault: str, *more: str, status: int = 0) -> dict[str, Any]:
    answers = f"--engine-option=answers=tests.support.planted_faults:{fault}"
    found, text = ran("reduce", folder, "agent::a", answers, "--json", *more)
    assert found == status
    result: dict[str, Any] = json.loads(text)
    return result


def test_one_bad_tool_of_thirty_is_found_in_few_calls(tmp_path: Path) -> None:
    fault = "refuse_a_tool_with_unique_items"
    bad = {"acmeTags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}
    folder = run_of(tmp_path, fault, thirty_tools(bad), {"ask": "Tag Acme."})

    result = reduce_case(folder, fault, "--concurrency=1")

    assert (result["tools_before"], result["tools_after"]) == (30, 1)
    assert result["document"]["tools"] == [{"name": "a", "parameters": {"uniqueItems": True}}]
    assert result["document"]["cases"] == [{"id": "reduced", "ask": "Call the tool a."}]
    assert result["calls"] <= 80
    shared = (folder / "reduced" / "agent" / "a" / "issue.md").read_text("utf-8") + json.dumps(result["document"])
    assert "acme" not in shared.lower()


def test_tool_with_wrong_arguments_is_called_under_a_neutral_name(tmp_path: Path) -> None:
    fault = "call_with_short_texts"
    tools = thirty_tools({"street": {"type": "string", "minLength": 7}})
    case = {"ask": f"Please call acme_tool_{BAD} for Acme.", "expect": f"acme_tool_{BAD}"}
    folder = run_of(tmp_path, fault, tools, case)

    result = reduce_case(folder, fault)

    assert (result["failure_type"], result["keyword"]) == ("schema_violation", "minLength")
    assert result["document"]["tools"] == [{"name": "a", "parameters": {"properties": {"b": {"minLength": 1}}}}]
    assert "expect" not in result["document"]["cases"][0]
    again = evaluate(
        "scripted",
        str(folder / "reduced" / "agent" / "a" / "reduced.json"),
        engine_option={"answers": f"tests.support.planted_faults:{fault}"},
    )
    assert [outcome.failure_type for outcome in again.outcomes] == ["schema_violation"]


def test_confused_tools_stay_with_the_message_that_confuses(tmp_path: Path) -> None:
    fault = "confuse_tools_with_the_same_parameter"
    tools = [harmless(number) for number in range(12)]
    for tool in (tools[3], tools[8]):
        tool["parameters"] = {"type": "object", "properties": {"acmeId": {"type": "string"}}}
    turns = [
        {"role": "system", "content": "You work for Acme."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Call acme_tool_3."},
    ]
    folder = run_of(tmp_path, fault, tools, {"messages": turns, "expect": "acme_tool_3"})

    result = reduce_case(folder, fault, status=1)

    assert (result["failure_type"], result["reason"]) == ("wrong_tool", "not_expected")
    assert [tool["name"] for tool in result["document"]["tools"]] == ["acme_tool_3", "acme_tool_8"]
    (case,) = result["document"]["cases"]
    assert [turn["content"] for turn in case["messages"]] == ["You work for Acme.", "Call acme_tool_3."]
    assert case["expect"] == ["acme_tool_3"]
    assert not result["shareable"]
    private = json.loads((folder / "reduced" / "agent" / "a" / "private.json").read_text("utf-8"))
    assert private == result["document"]


def test_refused_tool_of_an_adaptation_needs_no_call(tmp_path: Path) -> None:
    bad = {"tags": {"type": "array", "uniqueItems": True, "minItems": 2}}
    folder = run_of(tmp_path, "never_fail", thirty_tools(bad), {"ask": "Tag it."}, adapt="narrow:openai")

    status, text = ran("reduce", folder, "agent::a")

    assert status == 0
    assert "tools    30 -> 1" in text
    assert "0 calls" in text
    assert "acme" not in text.lower()
    again = next(line.split(None, 1)[1] for line in text.splitlines() if line.startswith("again"))
    status, shown = ran(*again.split()[1:])
    assert status == 1
    assert "uniqueItems" in shown


def test_choice_of_the_run_is_part_of_the_reduced_case(tmp_path: Path) -> None:
    fault = "call_with_short_texts"
    tools = [harmless(number) for number in range(3)]
    folder = run_of(tmp_path, fault, tools, {"ask": "Tell me a joke."}, tool_choice="required")

    result = reduce_case(folder, fault, status=1)

    assert result["failure_type"] == "no_call"
    assert [case["tool_choice"] for case in result["document"]["cases"]] == ["required"]
