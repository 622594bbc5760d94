"""
Measure the overhead of a run: pytest, `evaluate`, and the SDK in a bare loop, with equally many calls in flight.

    python -m benchmarks.running [--cases 1000] [--latency 0.2] [--in-flight 64]

Each row calls the same local server, which answers each call after a fixed time, with the same SDK. The ideal time is
cases x latency / calls in flight. The bare loops neither record nor judge. CPU is that of all processes of the row
except the server; the start (interpreter, imports, collection) is measured by a run of 64 cases and subtracted. Memory
is that of the largest process.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loopback import KEY_VARIABLE, engine_arguments, serve, write_cases
from benchmarks.plain_pytest import pytest_command, pytest_environment
from benchmarks.process_times import wait_for_tree

_FEW = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a process with its children."""

    wall: float
    cpu: float
    megabytes: float


def measure(command: list[str], folder: Path) -> Cost:
    """Run the command and return its cost."""
    start = time.monotonic()
    environment = pytest_environment(**{KEY_VARIABLE: "none", "PYTHONPATH": str(Path(__file__).parents[1])})
    log = folder / "log.txt"
    with log.open("wb") as out, subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out) as child:
        tree = wait_for_tree(child)
    if tree.status:
        raise SystemExit(log.read_text()[-2000:])
    return Cost(wall=tree.at - start, cpu=tree.cpu, megabytes=tree.megabytes)


def pytest_run(in_flight: int, workers: int, *arguments: str) -> list[str]:
    """Return the command for a run of the cases in `schemas`, with this many calls in flight over all its processes."""
    return [
        *pytest_command(),
        "--jsbench-dataset=schemas",
        "--jsbench-output=out",
        f"--jsbench-concurrency={in_flight // max(1, workers)}",
        *(("-n", str(workers)) if workers else ()),
        *arguments,
    ]


def _bare(url: str, in_flight: int, way: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.running", "--bare", way, "--url", url, "--in-flight", str(in_flight)]


def _messages(path: Path) -> dict[str, Any]:
    schema = json.loads(path.read_text())
    return {
        "model": "loopback",
        "max_completion_tokens": 2048,
        "messages": [{"role": "user", "content": f"You need to generate a JSON object: {json.dumps(schema)}"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": False},
        },
    }


async def _bare_asyncio(url: str, in_flight: int, paths: list[Path]) -> None:
    from openai import AsyncOpenAI

    turn = asyncio.Semaphore(in_flight)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:

        async def call(path: Path) -> None:
            async with turn:
                await client.chat.completions.create(**_messages(path))

        await asyncio.gather(*map(call, paths))


def _bare_threads(url: str, in_flight: int, paths: list[Path]) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    with client, concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
        for _ in pool.map(lambda path: client.chat.completions.create(**_messages(path)), paths):
            pass


def _evaluate(url: str, in_flight: int) -> None:
    from pytest_jsbench import evaluate, open_engine

    engine = open_engine("openai", model="loopback", base_url=f"{url}/v1", api_key_env=KEY_VARIABLE, stream=False)
    evaluate(engine, "schemas", output="out", concurrency=in_flight)


def _bare_loop(way: str, url: str, in_flight: int) -> None:
    """Make the calls in this process, without pytest; the last printed line has the seconds of the calls alone."""
    paths = sorted(Path("schemas").glob("*.json"))
    start = time.perf_counter()
    if way == "asyncio":
        asyncio.run(_bare_asyncio(url, in_flight, paths))
    elif way == "evaluate":
        _evaluate(url, in_flight)
    else:
        _bare_threads(url, in_flight, paths)
    print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _row(name: str, command: list[str], folder: Path, ideal: float, cases: int) -> None:
    few, all_ = measure(command, folder / "few"), measure(command, folder / "all")
    cpu = (all_.cpu - few.cpu) / (cases - _FEW) * 1000
    print(
        f"{name:22}  {all_.wall:7.2f}  {all_.wall - few.wall:9.2f}  {all_.wall / ideal:10.2f}  {cpu:11.2f}"
        f"  {few.megabytes:9.0f}  {all_.megabytes:6.0f}",
        flush=True,
    )


def main() -> None:
    """Measure each row and print a line for it."""
    parser = argparse.ArgumentParser(description="measure the overhead of a run")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--bare", choices=("asyncio", "threads", "evaluate"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        _bare_loop(options.bare, options.url, options.in_flight)
        return
    ideal = options.cases * options.latency / options.in_flight
    with tempfile.TemporaryDirectory(prefix="jsbench-running-") as name, serve(latency=options.latency) as server:
        folder = Path(name)
        write_cases(folder / "few" / "schemas", _FEW)
        write_cases(folder / "all" / "schemas", options.cases)
        print(f"{options.cases} cases of {options.latency:g} s, {options.in_flight} in flight: ideal {ideal:.2f} s")
        print(f"{'':22}  wall, s  less start  wall/ideal  CPU ms/case  MB, of 64     all")
        rows = {
            "bare loop, asyncio": _bare(server.url, options.in_flight, "asyncio"),
            "bare loop, threads": _bare(server.url, options.in_flight, "threads"),
            "evaluate": _bare(server.url, options.in_flight, "evaluate"),
            "pytest": pytest_run(options.in_flight, 0, *engine_arguments(server.url)),
            "pytest -n 2": pytest_run(options.in_flight, 2, *engine_arguments(server.url)),
        }
        for title, command in rows.items():
            _row(title, command, folder, ideal, options.cases)


if __name__ == "__main__":
    main()
