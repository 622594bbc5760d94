from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench.plugin.batch
from pytest_jsbench.batching.handing import Polling
from tests.engines.batch_server import AnthropicServer, BatchServer, OpenAIServer
from tests.engines.openai_wire import error_body
from tests.engines.provider import Provider, json_reply
from tests.plugin.conftest import NUMBER, WITHOUT_SLOW_PLUGINS, Bench
from tests.plugin.test_records import without_times

KEY = "Zq7-not-to-be-told-4411"

for _name in ("openai", "anthropic"):
    pytest.importorskip(_name, reason=f"needs the {_name} package")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setattr(pytest_jsbench.plugin.batch, "POLLING", Polling(first=0.01, patience=1))


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with Provider() as provider:
        yield OpenAIServer(provider=provider)


def add_cases(bench: Bench, server: BatchServer, **answers: Any) -> None:
    server.answers = answers
    for name in answers:
        bench.case(name, schema={**NUMBER, "title": name})


MIXED = {
    "passed": '{"n": 1}',
    "violated": '{"n": -1}',
    "unsupported": (400, error_body("Invalid schema for response_format 'output'", param="response_format")),
    "broke": (429, error_body("slow down", type="rate_limit_error")),
    "late": "batch_expired",
}


def run(bench: Bench, server: BatchServer, *args: str) -> pytest.RunResult:
    engine = "anthropic" if isinstance(server, AnthropicServer) else "openai"
    return bench.pytester.runpytest_inprocess(
        f"--jsbench-engine={engine}",
        "--jsbench-model=m",
        f"--jsbench-base-url={server.url}",
        "--jsbench-api-key-env=MY_KEY",
        *("--jsbench-dataset=schemas", "--jsbench-output=out", "-p", "no:randomly", "-p", "no:benchmark"),
        *WITHOUT_SLOW_PLUGINS,
        *bench.workers,
        *args,
    )


def runs(bench: Bench) -> list[Path]:
    return sorted((bench.path / "out").iterdir())


def records(folder: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()[1:]]
    return {line["id"]: line for line in lines}


def without_batch(found: dict[str, Any]) -> Any:
    for record in found.values():
        (record["generation"].get("sent") or {}).pop("batch", None)
    return without_times(found)


def test_a_batch_ends_as_calls_would_have(bench: Bench, server: OpenAIServer) -> None:
    add_cases(bench, server, **{**MIXED, "late": '{"n": 5'})
    server.looks = 2

    result = run(bench, server, "--jsbench-batch", "--junitxml=junit.xml")

    assert list(server.batches) == ["batch_0"]
    assert server.live == []
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(["jsbench: batch batch_0 (5 requests) handed in"])
    assert "jsbench.tgt_s" not in (bench.path / "junit.xml").read_text()
    run(bench, server, "--jsbench-retries=0", "--jsbench-engine-option=stream=false").assert_outcomes(passed=1, failed=4)
    batched, live = (records(folder) for folder in runs(bench))
    assert batched["passed"]["generation"]["sent"]["batch"] == "batch_0"
    assert (batched["passed"]["generation"]["timing"], batched["passed"]["queue_s"]) == (None, None)
    assert without_batch(batched) == without_batch(live)
