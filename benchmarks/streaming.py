"""
Measure the cost of a streamed call, and the accuracy of its time to the first token.

    python -m benchmarks.streaming [--calls 500] [--in-flight 64] [--first 0.2] [--latency 0.31] [--chunks 64]
                                  [--wire chat] [--rounds 1]

A local server answers each call in this many chunks and records when it wrote the first. The rows are the engine with
its own client, streamed and not, the same with `transport=sdk`, and, for chat completions, the SDK in a bare loop, each
called from one thread per call in flight, in a separate process. Times to the first token are in milliseconds, those of
the server first; CPU is that of the calling process per call, without the first call. With several rounds, the rows
alternate, and the median of each column is printed; the last column is the number of connections per call.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.loopback import Loopback, add_wire_option, serve
from benchmarks.wire_formats import WIRE_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS: dict[str, dict[str, Any]] = {
    "http": {"stream": True},
    "http, not streamed": {"stream": False},
    "sdk": {"stream": True, "transport": "sdk"},
    "sdk, not streamed": {"stream": False, "transport": "sdk"},
}
_BARE = "the SDK alone"
_PROMPT = "You need to generate a JSON object that conforms to the schema of case-1."
_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _engine(url: str, wire: str, own: dict[str, Any]) -> Callable[[], float | None]:
    from pytest_jsbench.core.cases import CaseKey, Prompt
    from pytest_jsbench.core.generations import Completion, GenerationParams, Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.registry import find

    spoken = WIRE_FORMATS[wire]
    options = {**own, **spoken.options}
    base_url = f"{url}{spoken.root}"
    config = EngineConfig(name=spoken.engine, model="m", base_url=base_url, api_key="none", options=options)
    engine = find(spoken.engine).build(config)
    prompt = Prompt(messages=(Message(role="user", content=_PROMPT),))
    params = GenerationParams(max_tokens=64, timeout=60)
    request = Request(key=CaseKey(task="t", id="c"), repeat=0, prompt=prompt, schema=_SCHEMA, params=params)

    def call() -> float | None:
        answer = engine.generate(request)
        assert isinstance(answer, Completion)
        assert answer.timing is not None
        return answer.timing.ttft

    return call


def _typed(url: str) -> Callable[[], float | None]:
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    arguments: Any = {"model": "m", "messages": [{"role": "user", "content": _PROMPT}], "stream": True}

    def call() -> float | None:
        start = time.perf_counter()
        first = None
        for chunk in client.chat.completions.create(**arguments):
            if first is None and chunk.choices[0].delta.content:
                first = time.perf_counter() - start
        return first

    return call


def _work(row: str, url: str, wire: str, calls: int, in_flight: int) -> None:
    """Measure in this process, and print one line."""
    call = _typed(url) if row == _BARE else _engine(url, wire, _ROWS[row])
    call()
    barrier = threading.Barrier(in_flight)
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(lambda _: barrier.wait(), range(in_flight)))
        wall, cpu = time.perf_counter(), time.process_time()
        firsts = list(pool.map(lambda _: call(), range(calls)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "firsts": firsts}))


def _quantiles(seconds: list[float]) -> list[float]:
    """Return p50 and p95 in milliseconds; nothing if there are too few."""
    cuts = statistics.quantiles(seconds, n=20) if len(seconds) > 1 else []
    return [cuts[9] * 1000, cuts[18] * 1000] if cuts else [math.nan, math.nan]


def _measure(row: str, server: Loopback, wire: str, calls: int, in_flight: int) -> list[float]:
    """Return the figures of one row, in the order of the columns."""
    server.reset()
    command = [sys.executable, "-m", "benchmarks.streaming", f"--row={row}", f"--url={server.url}"]
    command += [f"--calls={calls}", f"--in-flight={in_flight}", f"--wire={wire}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    measured = json.loads(done.stdout)
    firsts = [first for first in measured["firsts"] if first is not None]
    times = [*_quantiles(server.first_chunks()[1:]), *_quantiles(firsts)]
    return [*times, measured["cpu"] / calls * 1000, measured["wall"], server.connections() / (calls + 1)]


def _print(row: str, rounds: list[list[float]]) -> None:
    """Print the median of each column."""
    figures = [statistics.median(column) for column in zip(*rounds, strict=True)]
    times = " ".join(f"{'-':>6}" if math.isnan(figure) else f"{figure:6.0f}" for figure in figures[:4])
    cpu, wall, connections = figures[4:]
    print(f"{row:22}  {times}  {cpu:11.2f}  {wall:7.2f}  {connections:11.2f}", flush=True)


def main() -> None:
    """Measure each row and print a line for it."""
    parser = argparse.ArgumentParser(description="measure the cost of a streamed call")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--first", type=float, default=0.2, help="seconds to the first chunk")
    parser.add_argument("--latency", type=float, default=0.31, help="seconds to the last chunk")
    parser.add_argument("--chunks", type=int, default=64)
    add_wire_option(parser)
    parser.add_argument("--rounds", type=int, default=1, help="number of times that each row is measured (default: 1)")
    parser.add_argument("--row", choices=(*_ROWS, _BARE), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        _work(options.row, options.url, options.wire, options.calls, options.in_flight)
        return
    calls = f"{options.calls} calls, {options.in_flight} in flight, {options.chunks} chunks"
    print(f"{options.wire}, {calls}: first p50 p95, ms")
    print(f"{'':22}  {'server':>13} {'measured':>13}  CPU ms/call  wall, s  connections")
    rows = [row for row, own in _ROWS.items() if options.wire != "generateContent" or "transport" not in own]
    rows += [_BARE] if options.wire == "chat" else []
    measured: dict[str, list[list[float]]] = {row: [] for row in rows}
    with serve(latency=options.latency, first=options.first, chunks=options.chunks) as server:
        for _ in range(options.rounds):
            for row in rows:
                measured[row].append(_measure(row, server, options.wire, options.calls, options.in_flight))
    for row in rows:
        _print(row, measured[row])


if __name__ == "__main__":
    main()
