"""A run of a model that reasons, from the wire to the table, the records and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.openai_wire import SECRET, USAGE, chunk, usage_chunk
from tests.engines.provider import DONE, Asked, Provider, Reply, stream_reply
from tests.plugin.conftest import Bench

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

SAID = "It may be 1, or 2. I take 1.\n"
ANSWER = '{"n": 1}'


def reasoned(asked: Asked) -> Reply:
    """Reasoning and then the answer; of the case `lost` all in the reasoning channel."""
    lost = "lost" in json.dumps(asked.body["messages"])
    pieces = [chunk(reasoning_content=SAID), chunk(reasoning_content=ANSWER) if lost else chunk(ANSWER)]
    ending = [chunk(finish="stop"), usage_chunk({**USAGE, "completion_tokens": 30}), DONE]
    return stream_reply(*pieces, *ending, pause=0.02)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        provider.choose = reasoned
        yield provider


def run(bench: Bench, provider: Provider, *args: str) -> pytest.RunResult:
    said = [each for each in bench.arguments() if not each.startswith("--jsbench-engine")]
    return bench.pytester.runpytest_inprocess(
        *said,
        "--jsbench-engine=openai",
        "--jsbench-model=m",
        f"--jsbench-base-url={provider.url}/v1",
        "--jsbench-output=out",
        *args,
    )


def test_reasoning_is_kept_apart_counted_timed_and_shown(
    bench: Bench, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    number: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    bench.case("found", schema=number)
    bench.case("lost", schema={**number, "title": "lost"})
    gates = ["--jsbench-gate=reasoning_time_max<=30", "--jsbench-gate=reasoning_tokens<=8"]
    result = run(bench, provider, *gates)
    result.stdout.fnmatch_lines(["Task *TGT *Reasoning *n", "tokens * (8 of them reasoning)"])
    records = {record["id"]: record for record in bench.records()}
    found, lost = records["found"]["generation"], records["lost"]["generation"]
    assert (found["text"], found["reasoning"], lost["text"]) == (ANSWER, SAID, "")
    assert found["timing"]["reasoning_time"] > 0
    assert "reasoning_time" not in lost["timing"]
    assert records["lost"]["verdict"]["reason"] == "in_reasoning"
    metrics = bench.run_json()["metrics"]
    assert (metrics["reasoning_time_count"], metrics["reasoning_tokens"]) == (1, 8)
    (page,) = (bench.path / "out").glob("*/report.html")
    assert re.search(r"<th[^>]*>Reasoning \(s\)</th>", page.read_text())
