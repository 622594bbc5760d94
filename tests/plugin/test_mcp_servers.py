"""Runs whose schemas or tools an MCP server lists, which has ended before the run does."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from pytest_jsbench.engines.engine_options import is_installed
from tests.support import mcp_tools
from tests.support.bench import Bench, both_ways
from tests.support.mcp_processes import StartedServer

pytest.importorskip("mcp", reason="needs the extra mcp")
ANSWERS: dict[str, Any] = {
    "get_weather": {"instance": {"city": "Paris"}},
    "get_weather.output": {"instance": {"celsius": 20}},
    "set_light": {"instance": {"on": True}},
    "light": {"calls": [{"name": "set_light", "arguments": {"on": True}}]},
}


@pytest.fixture
def server(bench: Bench) -> StartedServer:
    bench.write({"agent.json": json.dumps({"cases": [{"id": "light", "ask": "Light!", "expect": "set_light"}]})})
    bench.answers.update(ANSWERS)
    return StartedServer(bench.path / "starts", [sys.executable, mcp_tools.__file__])


@both_ways
def test_schemas_of_a_server_are_tested(bench: Bench, server: StartedServer) -> None:
    result = bench.run(f"--jsbench-dataset={server.source()}", "--jsbench-output=out")

    result.assert_outcomes(passed=3)
    assert {record["task"] for record in bench.records()} == {"home"}
    assert len(server.processes) == (3 if bench.workers else 1), "each process lists the tools once"
    assert server.ended()


@both_ways
def test_tools_of_a_server_are_offered(bench: Bench, server: StartedServer) -> None:
    result = bench.run(f"--jsbench-dataset=agent.json@{server.source()}", "--jsbench-output=out")

    result.assert_outcomes(passed=1)
    assert server.ended()
    (record,) = bench.records()
    assert [tool["name"] for tool in record["offer"]["tools"]] == ["get_weather", "set_light"]


@both_ways
def test_server_that_fails_is_a_usage_error_of_one_line(bench: Bench, server: StartedServer) -> None:
    result = bench.run(f"--jsbench-dataset={server.source('crash')}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in result.stderr.lines if "cannot reach the database" in line]
    assert len(told) == 1
    assert server.ended()


@pytest.mark.slow
def test_public_server_is_listed_and_tested_with_the_bundled_model(bench: Bench) -> None:
    """mcp-server-time 2026.10.19, from the public index."""
    pytest.importorskip("mcp_server_time", reason="needs mcp-server-time==2026.10.19")
    if not is_installed("xllamacpp"):
        pytest.skip("needs the extra local")
    script = 'echo $$ >> "$0" && exec "$@" -m mcp_server_time --local-timezone=UTC'
    starts = StartedServer(bench.path / "starts", ["sh", "-c", script])
    source = f"{starts.source()} {shlex.quote(sys.executable)}"
    bench.write({"agent.json": json.dumps({"cases": [{"ask": "What time is it in Tokyo?"}]})})

    schemas = bench.run_only(
        "--jsbench-engine=local", f"--jsbench-dataset={source}", "--jsbench-limit=2", "--jsbench-output=schemas"
    )
    choice = bench.run_only(
        "--jsbench-engine=local", f"--jsbench-dataset=agent.json@{source}", "--jsbench-output=choice"
    )

    schemas.assert_outcomes(passed=2)
    assert [record["id"] for record in bench.records("schemas")] == ["get_current_time", "get_current_time.output"]
    choice.assert_outcomes(passed=1)
    assert starts.ended()
