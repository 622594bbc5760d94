"""
Measure a whole run of real schemas: wall time, processor time of all processes, start and end.

    python -m benchmarks.whole_run [--shard 1/10] [--streaming] [--rounds 3] [--latency 0.2] [--in-flight 64]
    python -m benchmarks.whole_run --limit 50 --against ../other      # alternately with another checkout

A local server answers the schemas of JSONSchemaBench; all reports and pytest's JUnit file are written. The ideal time
is cases x latency / calls in flight. `start` is from the process's start to the first request, `end` from the last
answer to the process's exit. Each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.answers import SCHEMAS
from benchmarks.loopback import KEY_VARIABLE, Loopback, engine_arguments, serve
from benchmarks.plain_pytest import pytest_command, pytest_environment
from benchmarks.process_times import wait_for_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Times of one run in seconds."""

    calls: int
    wall: float
    cpu: float
    start: float
    end: float


def run(server: Loopback, given: argparse.Namespace, checkout: Path) -> Run:
    """Make one run with the package in this checkout."""
    server.reset()
    environment = pytest_environment(**{KEY_VARIABLE: "none", "PYTHONPATH": str(checkout)})
    command = [
        *pytest_command("--tb=no"),
        *engine_arguments(server.url, streaming=given.streaming),
        *(f"--jsbench-dataset={given.schemas}", "--jsbench-split=all", "--jsbench-output=runs"),
        *(f"--jsbench-concurrency={given.in_flight}", "--junitxml=junit.xml"),
        *((f"--jsbench-shard={given.shard}",) if given.shard else ()),
        *((f"--jsbench-limit={given.limit}",) if given.limit else ()),
    ]
    with tempfile.TemporaryDirectory(prefix="jsbench-whole-run-") as name:
        log = Path(name) / "log.txt"
        began = time.monotonic()
        with log.open("wb") as out, subprocess.Popen(command, cwd=name, env=environment, stdout=out, stderr=out) as one:
            tree = wait_for_tree(one)
        if tree.status not in {0, 1}:
            raise SystemExit(log.read_text()[-2000:])
    #  asyncio uses the same clock, time.monotonic
    arrivals = server.arrivals()
    return Run(
        calls=len(arrivals),
        wall=tree.at - began,
        cpu=tree.cpu,
        start=min(arrivals) - began,
        end=tree.at - max(arrivals) - given.latency,
    )


def main() -> None:
    """Make all rounds, and print a line for each and one for the medians."""
    parser = argparse.ArgumentParser(description="measure a whole run of real schemas")
    parser.add_argument("--schemas", type=Path, default=SCHEMAS, help="directory of JSONSchemaBench")
    parser.add_argument("--shard", default="", help="run only this shard, such as 1/10")
    parser.add_argument("--limit", type=int, help="run only the first cases of each task")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with the package in this directory")
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=64)
    given = parser.parse_args()
    here = Path(__file__).parents[1]
    checkouts = {"": here} if given.against is None else {"against": given.against.resolve(), "here": here}
    rounds: dict[str, list[Run]] = {name: [] for name in checkouts}
    print(f"{'':8} calls  wall, s  ideal  CPU, s  ms/call  start    end", flush=True)
    with serve(latency=given.latency) as server:
        for _ in range(given.rounds):
            for name, checkout in checkouts.items():
                rounds[name].append(run(server, given, checkout))
                _print(name, rounds[name][-1:], given)
    print("medians:")
    for name in checkouts:
        _print(name, rounds[name], given)


def _print(name: str, rounds: list[Run], given: argparse.Namespace) -> None:
    wall, cpu, start, end = (
        statistics.median(getattr(one, name) for one in rounds) for name in ("wall", "cpu", "start", "end")
    )
    calls = rounds[0].calls
    ideal = calls * given.latency / given.in_flight
    per_call = cpu / calls * 1000
    figures = f"{wall:7.2f}  {ideal:5.1f}  {cpu:6.1f}  {per_call:7.2f}  {start:5.2f}  {end:5.2f}"
    print(f"{name:8} {calls:5}  {figures}", flush=True)


if __name__ == "__main__":
    main()
