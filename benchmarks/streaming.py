"""
Measure the cost of a streamed call, and the accuracy of its time to the first token.

    python -m benchmarks.streaming [--calls 500] [--in-flight 64] [--first 0.2] [--latency 0.31] [--chunks 64]
                                  [--wire chat]

A local server answers each call in this many chunks and records when it wrote the first. The rows are the engine,
streamed and not, and, for chat completions, the SDK's typed chunks, each called from one thread per call in flight, in
a separate process. Times to the first token are in milliseconds, those of the server first; CPU is that of the calling
process per call, without the first call.
"""

from __future__ import annotations

import argparse
import json
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

_ROWS = ("engine", "engine, not streamed", "SDK, typed chunks")
_PROMPT = "You need to generate a JSON object that conforms to the schema of case-1."
_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _engine(url: str, wire: str, *, streaming: bool) -> Callable[[], float | None]:
    from pytest_jsbench.core.cases import CaseKey, Prompt
    from pytest_jsbench.core.generations import Completion, GenerationParams, Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.registry import find

    spoken = WIRE_FORMATS[wire]
    options = {"stream": streaming, **spoken.options}
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
    call = _typed(url) if row == _ROWS[2] else _engine(url, wire, streaming=row == _ROWS[0])
    call()
    barrier = threading.Barrier(in_flight)
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(lambda _: barrier.wait(), range(in_flight)))
        wall, cpu = time.perf_counter(), time.process_time()
        firsts = list(pool.map(lambda _: call(), range(calls)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "firsts": firsts}))


def _quantiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{'-':>6} {'-':>6}"
    cuts = statistics.quantiles(seconds, n=20)
    return f"{cuts[9] * 1000:6.0f} {cuts[18] * 1000:6.0f}"


def _row(row: str, server: Loopback, wire: str, calls: int, in_flight: int) -> None:
    server.reset()
    command = [sys.executable, "-m", "benchmarks.streaming", f"--row={row}", f"--url={server.url}"]
    command += [f"--calls={calls}", f"--in-flight={in_flight}", f"--wire={wire}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    measured = json.loads(done.stdout)
    firsts = [first for first in measured["firsts"] if first is not None]
    print(
        f"{row:22}  {_quantiles(server.first_chunks()[1:])}  {_quantiles(firsts)}"
        f"  {measured['cpu'] / calls * 1000:11.2f}  {measured['wall']:7.2f}",
        flush=True,
    )


def main() -> None:
    """Measure each row and print a line for it."""
    parser = argparse.ArgumentParser(description="measure the cost of a streamed call")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--first", type=float, default=0.2, help="seconds to the first chunk")
    parser.add_argument("--latency", type=float, default=0.31, help="seconds to the last chunk")
    parser.add_argument("--chunks", type=int, default=64)
    add_wire_option(parser)
    parser.add_argument("--row", choices=_ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        _work(options.row, options.url, options.wire, options.calls, options.in_flight)
        return
    calls = f"{options.calls} calls, {options.in_flight} in flight, {options.chunks} chunks"
    print(f"{options.wire}, {calls}: first p50 p95, ms")
    print(f"{'':22}  {'server':>13}  {'measured':>13}  CPU ms/call  wall, s")
    with serve(latency=options.latency, first=options.first, chunks=options.chunks) as server:
        for row in _ROWS if options.wire == "chat" else _ROWS[:2]:
            _row(row, server, options.wire, options.calls, options.in_flight)


if __name__ == "__main__":
    main()
