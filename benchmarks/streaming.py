"""
Measure the cost of a streamed call, and the accuracy of its time to the first token.

    python -m benchmarks.streaming [--calls 500] [--in-flight 64] [--first 0.2] [--latency 0.31] [--chunks 64]
                                  [--wire chat] [--tls] [--rounds 1] [--only http]

A local server answers each call in this many chunks and records when it wrote the first. The rows are the engine with
its own client, streamed and not, the same with `transport=sdk`, and, for chat completions, the SDK in a bare loop, each
called from one thread per call in flight, in a separate process. Times to the first token are in milliseconds, those of
the server first. So is the lateness of the first token: by the server's clock, from its writing of the chunk to the
stamp of the same call, and as the tool measures it. CPU is that of the calling process per call, without the first
call. With several rounds, the rows alternate, and the median of each column is printed; the last column is the number
of connections per call.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.loopback import Loopback, add_wire_option, serve
from benchmarks.wire_formats import WIRE_FORMATS
from tests.support.certificates import write_certificate

_ROWS: dict[str, dict[str, Any]] = {
    "http": {"stream": True},
    "http, not streamed": {"stream": False},
    "sdk": {"stream": True, "transport": "sdk"},
    "sdk, not streamed": {"stream": False, "transport": "sdk"},
}
_BARE = "the SDK alone"
_PROMPT = "You need to generate a JSON object that conforms to the schema of case-{}."
_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class _Times(NamedTuple):
    """Times of one call in seconds; None if not streamed, or not measured."""

    #: Time to the first token.
    first: float | None
    #: Time of the first token by the monotonic clock.
    first_at: float | None
    #: Lateness of the first token, as the tool measures it.
    lateness: float | None


_Call = Callable[[int], _Times]


def _engine(url: str, wire: str, own: dict[str, Any]) -> _Call:
    from pytest_jsbench.core.cases import CaseKey, Prompt
    from pytest_jsbench.core.generations import Completion, GenerationParams, Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.providers import provider
    from pytest_jsbench.engines.registry import find

    stamps = threading.local()

    class Stamping(Stopwatch):
        """Note the time of the first token."""

        def token(self, *, piece: object = None) -> float:
            at = super().token(piece=piece)
            stamps.first = stamps.first or at
            return at

    spoken = WIRE_FORMATS[wire]
    options = {**own, **spoken.options}
    base_url = f"{url}{spoken.root}"
    config = EngineConfig(name=spoken.engine, model="m", base_url=base_url, api_key="none", options=options)
    engine = find(spoken.engine).build(config)
    params = GenerationParams(max_tokens=64, timeout=60)
    patch.object(provider, "Stopwatch", Stamping).start()

    def call(number: int) -> _Times:
        prompt = Prompt(messages=(Message(role="user", content=_PROMPT.format(number)),))
        request = Request(key=CaseKey(task="t", id="c"), repeat=0, prompt=prompt, schema=_SCHEMA, params=params)
        stamps.first = None
        answer = engine.generate(request)
        assert isinstance(answer, Completion)
        assert answer.timing is not None
        return _Times(answer.timing.ttft, stamps.first, answer.timing.ttft_lateness)

    return call


def _typed(url: str) -> _Call:
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def call(number: int) -> _Times:
        messages: Any = [{"role": "user", "content": _PROMPT.format(number)}]
        start = time.perf_counter()
        first = None
        for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
            if first is None and chunk.choices[0].delta.content:
                first = time.perf_counter()
        return _Times(first and first - start, first, None)

    return call


def _work(row: str, url: str, wire: str, calls: int, in_flight: int) -> None:
    """Measure in this process, and print one line."""
    call = _typed(url) if row == _BARE else _engine(url, wire, _ROWS[row])
    call(calls)
    barrier = threading.Barrier(in_flight)
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(lambda _: barrier.wait(), range(in_flight)))
        wall, cpu = time.perf_counter(), time.process_time()
        times = list(pool.map(call, range(calls)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "times": times}))


def _quantiles(seconds: list[float], high: int) -> list[float]:
    """Return the median and a high percentile in milliseconds; NaN if there are too few."""
    cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else []
    return [cuts[49] * 1000, cuts[high - 1] * 1000] if cuts else [math.nan, math.nan]


def _measure(row: str, server: Loopback, wire: str, calls: int, in_flight: int) -> list[float]:
    """Return the figures of one row, in the order of the columns."""
    server.reset()
    url = server.secure_url or server.url
    command = [sys.executable, "-m", "benchmarks.streaming", f"--row={row}", f"--url={url}"]
    command += [f"--calls={calls}", f"--in-flight={in_flight}", f"--wire={wire}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    measured = json.loads(done.stdout)
    made = [_Times(*times) for times in measured["times"]]
    writes = server.first_writes()
    times = [
        *_quantiles(server.first_chunks()[1:], 95),
        *_quantiles([each.first for each in made if each.first is not None], 95),
        *_quantiles([each.first_at - writes[str(n)] for n, each in enumerate(made) if each.first_at is not None], 99),
        *_quantiles([each.lateness for each in made if each.lateness is not None], 99),
    ]
    return [*times, measured["cpu"] / calls * 1000, measured["wall"], server.connections() / (calls + 1)]


def _print(row: str, rounds: list[list[float]]) -> None:
    """Print the median of each column."""
    figures = [statistics.median(column) for column in zip(*rounds, strict=True)]
    digits = [0] * 4 + [1] * 4
    texts = ["-" if math.isnan(each) else f"{each:.{n}f}" for each, n in zip(figures[:8], digits, strict=True)]
    times = " ".join(f"{text:>6}" for text in texts)
    cpu, wall, connections = figures[8:]
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
    parser.add_argument("--tls", action="store_true", help="call the server with TLS")
    parser.add_argument("--rounds", type=int, default=1, help="number of times that each row is measured (default: 1)")
    parser.add_argument("--only", choices=(*_ROWS, _BARE), help="measure only this row")
    parser.add_argument("--row", choices=(*_ROWS, _BARE), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        _work(options.row, options.url, options.wire, options.calls, options.in_flight)
        return
    if options.tls and shutil.which("openssl") is None:
        parser.error("--tls needs the program openssl, which makes the server's certificate")
    calls = f"{options.calls} calls, {options.in_flight} in flight, {options.chunks} chunks"
    print(f"{options.wire}, {calls}: first token p50 p95, its lateness p50 p99, ms")
    times = " ".join(f"{text:>13}" for text in ("server", "measured", "late, server", "late, tool"))
    print(f"{'':22}  {times}  CPU ms/call  wall, s  connections")
    rows = [row for row, own in _ROWS.items() if options.wire != "generateContent" or "transport" not in own]
    rows += [_BARE] if options.wire == "chat" else []
    rows = [row for row in rows if options.only in (None, row)]
    measured: dict[str, list[list[float]]] = {row: [] for row in rows}
    with tempfile.TemporaryDirectory(prefix="jsbench-streaming-") as name, ExitStack() as running:
        certificate = write_certificate(Path(name)) if options.tls else None
        if certificate is not None:
            running.enter_context(patch.dict(os.environ, SSL_CERT_FILE=str(certificate)))
        server = running.enter_context(
            serve(latency=options.latency, first=options.first, chunks=options.chunks, certificate=certificate)
        )
        for _ in range(options.rounds):
            for row in rows:
                measured[row].append(_measure(row, server, options.wire, options.calls, options.in_flight))
    for row in rows:
        _print(row, measured[row])


if __name__ == "__main__":
    main()
