from __future__ import annotations

import os
import sys
import time

import pytest

from tests.support.bench import NUMBER, Bench, both_ways
from tests.support.stand_in_server import ENDS, PIDS, STOPS

#: The local engine with the stand-in as its server, and less patience with it.
STAND_IN = """
from pytest_jsbench.engines.local import LocalFactory

class StandIn(LocalFactory):
    server = "tests.support.stand_in_server:address_of"
    least_patience = 0.5

FACTORY = StandIn()
"""
GOOD = 10

pytest.importorskip("xllamacpp", reason="the local engine needs the package xllamacpp")


@pytest.fixture
def served(bench: Bench) -> Bench:
    """Make cases that the stand-in answers, and an engine that starts it."""
    bench.write({"stand_in.py": STAND_IN, "model.gguf": "GGUF"})
    for number in range(GOOD):
        bench.case(f"good{number}")
    return bench


def run_locally(bench: Bench, *args: str) -> tuple[pytest.RunResult, float]:
    start = time.perf_counter()
    result = bench.run_only(
        "--jsbench-engine=stand_in:FACTORY",
        "--jsbench-model=model.gguf",
        "--jsbench-dataset=schemas",
        "--jsbench-output=out",
        "--jsbench-timeout=2",
        *args,
    )
    return result, time.perf_counter() - start


def servers(bench: Bench) -> list[int]:
    """The process ids of all servers of the bench's runs."""
    return [int(line) for line in (bench.path / PIDS).read_text().splitlines()]


def is_running(process: int) -> bool:
    """Return whether a process runs, or is not waited for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill with 0 asks only on POSIX")
@both_ways
@pytest.mark.parametrize(("word", "kind"), [(STOPS, "hang"), (ENDS, "crash")])
def test_case_that_stops_the_local_server_fails_alone(served: Bench, word: str, kind: str) -> None:
    served.case("guilty", schema={**NUMBER, "title": word}, task="another")

    result, seconds = run_locally(served)

    result.assert_outcomes(passed=GOOD, failed=1)
    failed = [record for record in served.records() if record["verdict"]["failure_type"] is not None]
    assert [(record["id"], record["verdict"]["reason"]) for record in failed] == [("guilty", kind)]
    assert "the server was restarted" in failed[0]["generation"]["message"]
    assert seconds < 30
    assert 2 <= len(servers(served)) <= 3
    assert not [process for process in servers(served) if is_running(process)]
    (hint,) = [line for line in result.outlines if line.startswith("  next:   ")]
    assert "simplify the schema" in hint
    assert "--jsbench-timeout" not in hint
