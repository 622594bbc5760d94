from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_jsbench.adaptation.subsets import SUBSETS
from tests.support.commands import failed, ran
from tests.support.enforcing_server import refusal
from tests.support.openai_wire import error_body, whole
from tests.support.provider import Asked, Provider, Reply, json_reply

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


def closed(*names: str, required: bool = True) -> dict[str, object]:
    """Return an object schema that Anthropic accepts unchanged, with these properties."""
    properties = {name: {"type": "integer"} for name in names}
    needed = list(names) if required else []
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def write_tools(folder: Path, *tools: object) -> Path:
    path = folder / "agent.json"
    path.write_text(json.dumps({"tools": tools, "cases": [{"id": "a", "ask": "?", "expect": "t0"}]}))
    return path


def test_tools_of_one_request_share_its_limits(tmp_path: Path) -> None:
    optional = [closed(*(f"p{at}" for at in range(13)), required=False) for _ in range(2)]
    path = write_tools(tmp_path, *({"name": f"t{at}", "parameters": tool} for at, tool in enumerate(optional)))

    status, shown = ran("adapt", path, "--for=anthropic")
    alone, _ = ran("adapt", write_tools(tmp_path, {"name": "t0", "parameters": optional[0]}), "--for=anthropic")

    assert (status, alone) == (1, 0)
    rejected, counts = shown.splitlines()
    assert rejected == (
        f"{path}: anthropic@2026-09 rejects the request: 26 optional properties in all strict schemas, at most 24 are "
        "supported in one request"
    )
    assert counts == "anthropic@2026-09: 2 schemas: 2 accepted; 1 request refused"


@pytest.mark.parametrize(("strict", "status"), [(True, 1), (None, 1), (False, 0)])
def test_only_strict_tools_count_towards_the_limits_of_a_request(
    tmp_path: Path, strict: bool | None, status: int
) -> None:
    own = {} if strict is None else {"strict": strict}
    tools = [{"name": f"t{at}", "parameters": closed("n"), **own} for at in range(21)]

    found, shown = ran("adapt", write_tools(tmp_path, *tools), "--for=anthropic", "--json")

    outcomes = [json.loads(line) for line in shown.splitlines()]
    assert found == status
    assert [outcome["outcome"] for outcome in outcomes] == ["accepted"] * 21 + ["refused"] * status
    assert status == 0 or "21 strict tools, at most 20 are supported" in outcomes[-1]["reason"]
    assert ran("adapt", write_tools(tmp_path, *tools), "--for=openai")[0] == 0


def test_schema_of_a_tool_that_is_not_strict_is_accepted(tmp_path: Path) -> None:
    path = write_tools(
        tmp_path,
        {"name": "t0", "parameters": {"type": "object"}, "strict": False},
        {"name": "t1", "parameters": {"type": "object"}},
    )

    status, shown = ran("adapt", path, "--for=openai", "--json")

    outcomes = {line["id"]: line["outcome"] for line in map(json.loads, shown.splitlines())}
    assert (status, outcomes) == (1, {"a.t0": "accepted", "a.t1": "refused"})


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Start a server that rejects schemas with `minimum`, and is down for schemas with a title."""
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    monkeypatch.setenv("MY_KEY", "not-a-real-key")

    def answer(asked: Asked) -> Reply:
        schema = json.dumps(asked.body["response_format"])
        if "minimum" in schema:
            return refusal("Invalid schema for response_format 'output': 'minimum' is not permitted\x1b[31m")
        return json_reply(error_body("down"), status=500) if "title" in schema else json_reply(whole("{}"))

    with Provider() as provider:
        provider.choose = answer
        yield provider


def test_live_calls_show_where_profile_and_provider_differ(tmp_path: Path, provider: Provider) -> None:
    n = {"type": "integer"}
    for name, schema in {
        "agreed": closed("n"),
        "bound": {**closed("n"), "properties": {"n": {**n, "minimum": 0}}},
        "down": {**closed("n"), "title": "down"},
        "open": {"type": "object", "properties": {"n": n}},
        "wrong": {"type": "object", "properties": {"n": {**n, "minimum": 0}}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))
    engine = (
        *("--engine=openai", "--model=m", f"--base-url={provider.url}", "--api-key-env=MY_KEY"),
        "--engine-option=stream=false",
    )

    status, shown = ran("adapt", tmp_path, "--for=openai", "--live", *engine)

    place = f"{tmp_path}: {tmp_path.name}"
    assert status == 1
    assert "\x1b" not in shown
    lines = [line for line in shown.splitlines() if "sends it rewritten" not in line]
    assert lines[0].startswith(f"{place}::bound: openai@2026-08 accepts it, but the provider rejects it: ")
    assert "'minimum' is not permitted" in lines[0]
    assert lines[1].startswith(
        f"{place}::down: the call does not show whether the provider accepts the schema: server:"
    )
    assert lines[2] == f"{place}::open: the provider accepts it, although openai@2026-08 rejects it"
    assert lines[3].startswith(f"{place}::wrong: the provider rejects it too: ")
    assert lines[4:] == [
        "openai@2026-08: 5 schemas: 3 accepted, 2 refused",
        (
            "openai@2026-08 and openai m: 5 calls: 1 accepted by both, 1 rejected by both, "
            "1 rejected only by the profile, 1 rejected only by the provider, 1 unknown"
        ),
    ]
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "agreed.json").write_text(json.dumps(closed("n")))
    assert ran("adapt", tmp_path / "only", "--for=openai", "--live", *engine)[0] == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--live", "--engine=scripted"], "--live needs --for: name the provider whose profile is checked"),
        (["--live", "--for=openai"], "--live needs --engine: name the engine that calls the provider"),
        (["--for=openai", "--engine=scripted"], "--engine needs --live: add --live to call the provider"),
        (["--base-url=http://localhost"], "--base-url needs --live: add --live to call the provider"),
        (["--engine-option=a=1"], "--engine-option needs --live: add --live to call the provider"),
        (["--max-tokens=9"], "--max-tokens needs --live: add --live to call the provider"),
    ],
)
def test_options_of_live_calls_need_each_other(
    schemas: Path, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(capsys, "adapt", schemas, *args)
