"""Test runs whose cases also run with rewritten schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import pytest_jsbench.run.batches
from pytest_jsbench.run.batches import Polling
from tests.support.batch_server import OpenAIServer
from tests.support.bench import Bench
from tests.support.provider import Provider

#: Engine that needs a reference in the schema to answer correctly.
NEEDS_REFERENCE = """
import json
from pathlib import Path

def answer(request):
    with Path("calls.txt").open("a") as calls:
        calls.write(json.dumps([request.key.id, list(request.schema["properties"])]) + "\\n")
    return '{"n": 1}' if "$ref" in json.dumps(request.schema) else "[]"
"""
ENGINE = "--jsbench-engine-option=answers=needing:answer"
REFERRING = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/n"}, "m": {"type": "string"}},
    "$defs": {"n": {"type": "integer"}},
}


@pytest.fixture
def referring(bench: Bench) -> Bench:
    """Create two cases with a reference and one without."""
    for name in "ab":
        bench.case(name, schema={**REFERRING, "title": name})
    bench.case("plain", schema={"type": "object", "properties": {"n": {}}})
    bench.write({"needing.py": NEEDS_REFERENCE})
    return bench


def newest_run(bench: Bench, folder: str) -> dict[str, Any]:
    path = max((bench.path / folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    data: dict[str, Any] = json.loads((path / "run.json").read_text())
    return data


def test_rewritten_variants_are_paired_with_the_original(referring: Bench) -> None:
    result = referring.run(ENGINE, "--jsbench-rewrite=order,inline", "--jsbench-output=out", "-rs")

    result.assert_outcomes(passed=4, failed=3, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "jsbench: variant original: *",
            "jsbench: variant order: *, schemas rewritten: order), *",
            "jsbench: variant inline: *, schemas rewritten: inline), *",
            "*jsbench::orders::plain[[]inline[]]: not rewritten: the schema has no $ref to inline",
        ],
    )
    shown = " ".join(result.stdout.str().split())
    assert "original neither gains nor loses if properties, required names and enum values have another order" in shown
    assert "original loses 100.0 points if $ref is inlined: 2 fewer of 2 cases pass" in shown
    assert "1 case left out of inline 1: the schema has no $ref to inline: orders::plain" in shown
    data = referring.run_json()
    pairs = [(pair["first"], pair["second"], pair["rewriting"], pair["n"]) for pair in data["comparisons"]]
    assert pairs == [("original", "order", "order", 2), ("original", "inline", "inline", 2)]
    assert [variant.get("rewrite") for variant in data["run"]["variants"]] == [None, "order", "inline"]
    assert data["variants"]["inline"]["metrics"]["planned"] == 2
    assert data["metrics"]["planned"] == 7
    assert [json.loads(call) for call in referring.calls()] == [
        *([name, order] for name in "ab" for order in (["m", "n"], ["n", "m"], ["n", "m"])),
        ["plain", ["n"]],
    ]


def test_gate_of_a_rewritten_variant_counts_only_its_cases(referring: Bench) -> None:
    result = referring.run(ENGINE, "--jsbench-rewrite=order", "--jsbench-gate=order.pass_rate>=1")

    result.assert_outcomes(passed=4, failed=1, skipped=1)  # the original variant fails at a case
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["gate *order.pass_rate 2/2 = 1, gate >= 1: met"])


def test_answers_to_original_schemas_are_reused(referring: Bench) -> None:
    referring.run(ENGINE, "--jsbench-output=out")
    first = referring.calls()
    rewritten = (ENGINE, "--jsbench-rewrite=inline", "--jsbench-output=out", "--jsbench-resume=out")

    referring.run(*rewritten)
    second = referring.calls()
    referring.run(*rewritten)

    assert (len(first), len(second), referring.calls()) == (3, 2, [])
    assert newest_run(referring, "out")["run"]["resumed"] == 5


def test_replayed_run_rewrites_as_the_recorded_one(referring: Bench) -> None:
    recorded = referring.run(ENGINE, "--jsbench-rewrite=order,inline", "--jsbench-output=out")
    run = referring.run_in()

    replayed = referring.run_only(f"--jsbench-replay={run}", "--jsbench-dataset=schemas", "--jsbench-output=again")

    assert replayed.parseoutcomes() == recorded.parseoutcomes()
    assert [pair["rewriting"] for pair in referring.run_json("again")["comparisons"]] == ["order", "inline"]


def test_recorded_answers_are_replayed_by_variant(referring: Bench) -> None:
    recorded = referring.run(ENGINE, "--jsbench-rewrite=order,inline", "--jsbench-record=kept")

    replayed = referring.run_only(
        "--jsbench-replay=kept", "--jsbench-dataset=schemas", "--jsbench-rewrite=order,inline"
    )

    assert replayed.parseoutcomes() == recorded.parseoutcomes()
    assert sorted(path.name for path in (referring.path / "kept").iterdir() if path.is_dir()) == [
        "inline",
        "order",
        "original",
    ]


def test_tests_of_the_project_run_only_with_original_schemas(referring: Bench) -> None:
    referring.write(
        {"test_own.py": "def test_own(jsbench):\n    assert jsbench.generate('go', schema={'properties': {'n': {}}})\n"}
    )

    result = referring.run_only(
        *("--jsbench-engine=scripted", ENGINE, "--jsbench-rewrite=inline", "test_own.py", "--collect-only", "-q")
    )

    result.stdout.fnmatch_lines(["test_own.py::test_own[[]original[]]"])
    result.stdout.no_fnmatch_line("*inline[]]")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    monkeypatch.setenv("MY_KEY", "not-a-real-key")
    monkeypatch.setattr(pytest_jsbench.run.batches, "POLLING", Polling(first=0.01, patience=1))
    with Provider() as provider:
        yield OpenAIServer(provider=provider)


def test_rewritten_variants_are_in_one_batch(bench: Bench, server: OpenAIServer) -> None:
    server.answers = {"a": '{"n": 1}'}
    bench.case("a", schema={**REFERRING, "title": "a"})
    engine = ("--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={server.url}")

    result = bench.run_only(
        *engine, "--jsbench-api-key-env=MY_KEY", "--jsbench-dataset=schemas", "--jsbench-batch",
        "--jsbench-rewrite=order,inline",
    )  # fmt: skip

    result.assert_outcomes(passed=3)
    assert len(server.batches) == 1
    assert server.live == []
