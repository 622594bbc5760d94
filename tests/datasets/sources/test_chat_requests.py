"""Chat requests that offer tools, and results with the decision of a reference deployment (Kimi K2's verifiers)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.settings.layers import place_path
from tests.support.dataset_reading import keys, problem, read, write

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": CITY}}]
OFFERED = (OfferedTool(name="weather", description="Weather.", parameters=CITY),)
REQUEST: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it raining in Oslo?"}],
    "tools": TOOLS,
    "temperature": 0.6,
    "stream": True,
}


def result(index: int, finish_reason: str | None, **changes: Any) -> dict[str, Any]:
    """Return a line of a results file, with the fields that the verifiers write."""
    return {
        "data_index": index,
        "request": {**REQUEST, "model": "kimi-k2"},
        "response": {"choices": [{"finish_reason": finish_reason, "message": {"content": "Yes."}}]},
        "status": "success",
        "finish_reason": finish_reason,
        "tool_calls_valid": True,
        "last_run_at": "2025-11-15T10:00:00",
        "duration_ms": 900,
        "hash": "d41d8cd9",
        **changes,
    }


def requests(tmp_path: Path, *rows: Any) -> str:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return f"{write(tmp_path, {'samples.jsonl': text})}/samples.jsonl@requests"


def case(source: str, name: str | None = None) -> Case:
    found = read(source, name)
    assert isinstance(found, Case), found
    return found


def test_a_request_offers_its_tools_and_expects_nothing(tmp_path: Path) -> None:
    source = requests(tmp_path, REQUEST)
    found = case(source)
    assert found.offer == ToolOffer(tools=OFFERED)
    assert [message.to_dict() for message in found.messages] == REQUEST["messages"]
    assert found.schema is True
    assert is_published(source)


def test_a_line_is_named_by_its_number(tmp_path: Path) -> None:
    source = requests(tmp_path, REQUEST, "", REQUEST, result(7, "stop"), "[")
    assert keys(source) == [f"samples::request-{number}" for number in (1, 3, 7, 5)]


@pytest.mark.parametrize(
    ("finish_reason", "changes", "expected", "some_call"),
    [
        ("tool_calls", {}, None, True),
        ("stop", {}, (), False),
        ("length", {}, (), False),
        (None, {}, None, False),
        ("tool_calls", {"status": "failed"}, None, False),
    ],
)
def test_a_result_says_what_the_reference_decided(
    tmp_path: Path, finish_reason: str | None, changes: Any, expected: Any, some_call: bool
) -> None:
    offer = case(requests(tmp_path, result(1, finish_reason, **changes))).offer
    assert offer == ToolOffer(tools=OFFERED, expected=expected, some_call=some_call)


def test_the_tool_choice_and_the_role_of_the_input_are_read(tmp_path: Path) -> None:
    turns = [{"role": "_input", "content": "Now is noon."}, {"role": "user", "content": "Oslo?"}]
    choice = {"type": "function", "function": {"name": "weather"}}
    found = case(requests(tmp_path, {**REQUEST, "messages": turns, "tool_choice": choice}))
    assert found.offer is not None
    assert found.offer.choice == "weather"
    assert [message.role for message in found.messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "the line is a JSON array; expected a request"),
        ({"messages": []}, "tools is a JSON null; expected the tools of a request as a list"),
        ({**REQUEST, "tools": []}, "tools contains no tool definition"),
        ({**REQUEST, "tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}, "tools contains"),
        ({**REQUEST, "tools": [*TOOLS, *TOOLS]}, "tools contains 'weather' 2 times"),
        ({**REQUEST, "messages": None}, "messages is a JSON null; expected a list"),
        ({**REQUEST, "messages": [{"role": "user"}]}, "messages[0].content is a JSON null; expected text"),
        ({**REQUEST, "tool_choice": 3}, "tool_choice is a JSON number"),
        ("{", "not JSON"),
    ],
)
def test_a_wrong_line_is_reported(tmp_path: Path, row: Any, message: str) -> None:
    found = problem(requests(tmp_path, row))
    assert "samples.jsonl line 1: " in found
    assert message in found


def test_a_file_without_the_word_still_defines_the_tools_of_its_requests(tmp_path: Path) -> None:
    source = requests(tmp_path, REQUEST).removesuffix("@requests")
    assert keys(source) == ["samples::weather"]
    assert not is_published(source)


def test_the_word_stays_when_a_configuration_file_places_the_file(tmp_path: Path) -> None:
    requests(tmp_path, REQUEST)
    assert place_path("samples.jsonl@requests", tmp_path, tmp_path.parent) == f"{tmp_path.name}/samples.jsonl@requests"


def test_a_packed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl.gz").write_bytes(b"")
    with pytest.raises(DatasetError, match="unpack it first"):
        keys(f"{tmp_path / 'samples.jsonl.gz'}@requests")
