from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_jsbench.adaptation.subsets import SUBSETS
from tests.support.commands import failed, ran

OPENAI = "--subset=openai"


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """
    Write a schema that OpenAI accepts unchanged, one that can be narrowed, one that cannot, and a file without a
    schema.
    """
    folder = tmp_path / "schemas"
    folder.mkdir()
    closed = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    unique = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2}
    for name, schema in {
        "closed": closed,
        "open": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "unique": {**closed, "properties": {"n": unique}},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(schema))
    (folder / "broken.json").write_text("nonsense")
    return folder


def test_adapt_table_counts_outcomes_and_obstacles_of_schemas(schemas: Path) -> None:
    status, shown = ran("adapt", schemas, OPENAI)

    lines = [line.split() for line in shown.splitlines()]
    assert status == 1
    assert lines[0] == ["Subset", "As", "it", "Narrowed", "Not", "at", "Schemas"]
    assert lines[3] == ["openai@2026-08", "1", "1", "1", "3"]
    assert shown.splitlines()[-2:] == [
        "openai@2026-08: first obstacle: uniqueItems 1",
        "omitted: 1 of 4 cases, without a schema",
    ]


def test_dataset_without_schemas_fails(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("nonsense\n")

    status, shown = ran("adapt", tmp_path, OPENAI)

    assert status == 1
    assert shown.splitlines()[-1] == "omitted: 1 of 1 case, without a schema"


def test_relaxing_leaves_out_what_cannot_be_said(schemas: Path) -> None:
    status, shown = ran("adapt", schemas, OPENAI, "--mode=relax")

    assert status == 0
    assert shown.splitlines()[3].split() == ["openai@2026-08", "1", "1", "1", "0", "3"]


def test_json_is_one_outcome_per_line(schemas: Path) -> None:
    outcomes = {line["id"]: line for line in map(json.loads, ran("adapt", schemas, OPENAI, "--json")[1].splitlines())}

    assert {name: one["outcome"] for name, one in outcomes.items()} == {
        "closed": "as it is",
        "open": "narrowed",
        "unique": "not at all",
    }
    assert outcomes["open"]["schema"]["additionalProperties"] is False
    assert outcomes["unique"]["keyword"] == "uniqueItems"


def test_adapt_has_a_row_per_provider_and_selects_profiles_by_date(schemas: Path) -> None:
    rows = [line.split() for line in ran("adapt", schemas)[1].splitlines()]
    assert [row[0] for row in rows[3 : 3 + len(SUBSETS)]] == [subset.version for subset in SUBSETS.values()]

    rows = [line.split() for line in ran("adapt", schemas, "--subset=openai@2024-08")[1].splitlines()]
    assert rows[3] == ["openai@2024-08", "1", "1", "1", "3"]


def test_what_is_likely_too_complex_is_foretold(tmp_path: Path) -> None:
    properties = {f"p{number}": {"type": "integer"} for number in range(31)}
    (tmp_path / "wide.json").write_text(json.dumps({"type": "object", "properties": properties}))

    _, text = ran("adapt", tmp_path, "--subset=gemini", "-v")

    assert "  likely too complex: 31 optional properties\n" in text
    assert text.endswith(": likely too complex: 1\n")


def test_a_dataset_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "adapt", "nowhere").startswith("jsbench: no dataset 'nowhere'")


def test_refused_schemas_are_named_by_file_with_the_reason(schemas: Path) -> None:
    files = [schemas / f"{name}.json" for name in ("closed", "open", "unique", "broken")]

    status, shown = ran("adapt", *files, "--for=openai")

    assert status == 1
    opened, unique, broken, counts = shown.splitlines()
    assert opened == (
        f"{files[1]}: openai@2026-08 rejects the unchanged schema: required at /: also requires 'n' (and 1 more); "
        "--jsbench-adapt=narrow sends it rewritten"
    )
    assert unique.startswith(f"{files[2]}: openai@2026-08 rejects the schema: uniqueItems at /properties/n: ")
    assert broken.startswith(f"{files[3]}: not JSON")
    assert counts == "openai@2026-08: 4 schemas: 1 accepted, 1 broken, 2 refused"


def test_accepted_schemas_pass_and_a_directory_names_its_cases(schemas: Path) -> None:
    assert ran("adapt", schemas / "closed.json", "--for=openai") == (0, "openai@2026-08: 1 schema: 1 accepted\n")
    assert f"{schemas}: schemas::open: openai@2024-08 " in ran("adapt", schemas, "--for=openai@2024-08")[1]


def test_refused_schemas_as_json_have_the_reason(schemas: Path) -> None:
    status, shown = ran("adapt", schemas, "--for=anthropic", "--json")

    outcomes = {line["id"]: line for line in map(json.loads, shown.splitlines())}
    assert status == 1
    assert {name: one["outcome"] for name, one in outcomes.items()} == {
        "closed": "accepted",
        "open": "refused",
        "unique": "refused",
        "broken": "broken",
    }
    assert outcomes["closed"]["reason"] == ""
    assert outcomes["open"]["subset"].startswith("anthropic@")


def test_name_of_a_refused_schema_has_no_escape_codes(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.json").write_text('{"type": "object"}')

    assert "\x1b" not in ran("adapt", tmp_path / "a\x1b[31m.json", "--for=openai")[1]


def test_each_offered_tool_is_adapted(tmp_path: Path) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2}
    tools = [
        {"name": "count", "parameters": {"type": "object"}},
        {"name": "find", "parameters": {"type": "object", "properties": {"n": schema}}},
    ]
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"tools": tools, "cases": [{"id": "a", "ask": "?", "expect": "find"}]}))

    status, shown = ran("adapt", path, OPENAI, "--json")
    outcomes = [json.loads(line) for line in shown.splitlines()]
    refused, reasons = ran("adapt", path, "--for=openai")

    assert (status, refused) == (1, 1)
    assert [(outcome["id"], outcome["outcome"]) for outcome in outcomes] == [
        ("a.count", "narrowed"),
        ("a.find", "not at all"),
    ]
    assert f"{path}: agent::a.find: " in reasons
