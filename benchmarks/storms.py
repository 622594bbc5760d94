"""
Compare the time of a run with the minimum that a rate-limiting provider (429 with Retry-After: 1) permits.

    python -m benchmarks.storms [--cases 500] [--in-flight 64] [--workers 0,2] [--wire responses]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from pathlib import Path

from benchmarks.loopback import KEY_VARIABLE, add_wire_option, engine_arguments, serve, write_cases

LATENCY = 0.2
#: Seconds within which calls count as simultaneous.
_TOGETHER = 0.1


def _run(folder: Path, arguments: list[str], in_flight: int, workers: int) -> tuple[float, str]:
    """Return the seconds of a run and the last line of its output."""
    spread = [] if not workers else ["-n", str(workers)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *spread]
    command += ["--jsbench-dataset=schemas", f"--jsbench-concurrency={in_flight // max(workers, 1)}"]
    started = time.perf_counter()
    environment = {**os.environ, KEY_VARIABLE: "none"}
    run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return time.perf_counter() - started, run.stdout.splitlines()[-1]


def main() -> None:
    """Run all rate limits, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--workers", default="0", help="comma-separated numbers of worker processes (default: 0)")
    parser.add_argument("--storm", action="append", help="run only this rate limit; repeatable")
    add_wire_option(parser)
    options = parser.parse_args()
    cases, in_flight = options.cases, options.in_flight
    ways: dict[str, tuple[dict[str, float], float]] = {
        "no rejections": ({}, cases * LATENCY / in_flight),
        # 16 rounds of a second, then about a quarter of the calls in flight, which increase slowly at first
        "the first 300 calls": ({"refused": 300}, 16 + 4 * cases * LATENCY / in_flight),
        "beyond 20 calls a second": ({"rate": 20}, cases / 20 - 1),
        "beyond 100 calls a second": ({"rate": 100}, cases / 100 - 1),
        "beyond 4 calls at once": ({"most": 4}, cases * LATENCY / 4),
        "beyond 16 calls at once": ({"most": 16}, cases * LATENCY / 16),
    }
    print(f"{'rejected':26}  workers  permitted (s)  calls (s)  whole (s)  calls  rejected  at once")
    with tempfile.TemporaryDirectory(prefix="jsbench-storms-") as name, serve(latency=LATENCY) as provider:
        write_cases(Path(name) / "schemas", cases)
        arguments = engine_arguments(provider.url, wire=options.wire)
        for title in options.storm or ways:
            settings, permitted = ways[title]
            for workers in map(int, options.workers.split(",")):
                provider.reset(**settings)
                whole, last_line = _run(Path(name), arguments, in_flight, workers)
                calls, refused = provider.arrivals(), provider.refusals()
                # maximum number of simultaneous calls after the first rejections
                later = [call for call in calls if call > (refused[0] + 0.5 if refused else calls[0])]
                together = max((bisect_left(later, call + _TOGETHER) - i for i, call in enumerate(later)), default=0)
                print(
                    f"{title:26}  {workers:7}  {permitted:13.1f}  {calls[-1] + LATENCY - calls[0]:9.1f}  {whole:9.1f}"
                    f"  {len(calls):5}  {len(refused):8}  {together:7}  {last_line}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
