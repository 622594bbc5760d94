"""
Compare a run of a fast and a slow variant with a run of the slow one alone.

    python -m benchmarks.variants [--cases 1000] [--latencies 0.2 1.0] [--in-flight 64]

Each local server answers after a fixed time, with this many calls in flight per server. A run of both variants should
take little longer than one of the slower alone, and the faster should never wait for it.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.loopback import engine_arguments, serve, write_cases
from benchmarks.running import measure, pytest_run


def main() -> None:
    """Measure each variant alone and all together, and print a line for each."""
    parser = argparse.ArgumentParser(description="a fast and a slow variant in one run")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0.2, 1.0])
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jsbench-variants-") as name, ExitStack() as servers:
        folder = Path(name)
        write_cases(folder / "schemas", options.cases)
        urls = [servers.enter_context(serve(latency=latency)).url for latency in options.latencies]
        url_options = [f"--jsbench-base-url={url}/v1" for url in urls]
        others = [one for one in engine_arguments(urls[0]) if not one.startswith("--jsbench-base-url=")]
        print(f"{options.cases} cases, {options.in_flight} in flight for each variant")
        print(f"{'':20}  wall, s  wall/slowest alone  CPU, s  MB")
        for workers in (0, 2):
            slowest = 0.0
            ways = {f"{latency:g} s": [url] for latency, url in zip(options.latencies, url_options, strict=True)}
            for title, selected in {**ways, "together": url_options}.items():
                cost = measure(pytest_run(options.in_flight, workers, *others, *selected), folder)
                slowest = max(slowest, cost.wall) if title in ways else slowest
                label = f"{title}{f' -n {workers}' if workers else ''}"
                figures = f"{cost.wall:7.2f}  {cost.wall / slowest:18.2f}  {cost.cpu:6.2f}  {cost.megabytes:3.0f}"
                print(f"{label:20}  {figures}", flush=True)


if __name__ == "__main__":
    main()
