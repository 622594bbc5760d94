"""
Compare runs that were interrupted in different ways and resumed with an undisturbed run.

    python -m benchmarks.faults [--times 20] [--cases 60] [--in-flight 8] [--workers 0,2]
                               [--wire chat] [--scenario NAME …]

Each line has the number of runs with equal records, and the number of repeated calls next to the maximum: calls that
were in flight when their process ended, and calls that the provider failed. Calls in flight are counted per process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.loopback import KEY_VARIABLE, Loopback, add_wire_option, engine_arguments, serve, write_cases

LATENCY = 0.1
WORKERS = 2
_TIMES = frozenset({"started_at", "queue_s", "timing", "retries"})
#:  Limits the file size, so that a write fails in the middle of a record.
_SMALL_DISK = (
    "import resource, sys, pytest; resource.setrlimit(resource.RLIMIT_FSIZE, (30000, -1));"
    "sys.exit(pytest.main(sys.argv[1:]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Outcome of one disturbed and resumed run."""

    equal: bool
    #:  Calls beyond one per case.
    twice: int
    #:  Maximum of `twice`: calls in flight when their process ended, and calls that the provider failed.
    accounted: int
    #:  Exit status of the disturbed run.
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Directory of the runs, and the provider that they call."""

    folder: Path
    provider: Loopback
    cases: int
    #:  Calls in flight per process.
    in_flight: int
    wire: str

    def start(self, output: str, *more: str, small_disk: bool = False) -> subprocess.Popen[bytes]:
        """Start a run in new processes, without waiting for it."""
        python = [sys.executable, "-c", _SMALL_DISK] if small_disk else [sys.executable, "-m", "pytest"]
        arguments = [
            *("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio"),
            *engine_arguments(self.provider.url, wire=self.wire),
            "--jsbench-dataset=schemas",
            f"--jsbench-output={output}",
            f"--jsbench-concurrency={self.in_flight}",
            *more,
        ]
        with (self.folder / f"{output}.txt").open("ab") as log:
            return subprocess.Popen(
                [*python, *arguments],
                cwd=self.folder,
                env={**os.environ, KEY_VARIABLE: "none"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def records(self, output: str) -> list[Any]:
        """Return the records of the newest run."""
        return _records(max((self.folder / output).iterdir()) / "records.jsonl")

    def wait_for_calls(self, count: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until this many calls were made, or the run has ended."""
        while self.provider.counts().total() < count and process.poll() is None:
            time.sleep(0.01)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key not in _TIMES}
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


def _records(file: Path) -> list[Any]:
    """Read the records of a file, skipping an incomplete one."""
    records = []
    for line in file.read_text().splitlines()[1:]:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


#:  Interrupts a started run.
Disturbance = Callable[[Bench, "subprocess.Popen[bytes]"], None]


def _send(
    number: signal.Signals, target: Callable[[subprocess.Popen[bytes]], int | None], *, times: int = 1
) -> Disturbance:
    """Return a function that sends a signal at a random moment."""

    def disturb(bench: Bench, process: subprocess.Popen[bytes]) -> None:
        bench.wait_for_calls(random.randrange(1, bench.cases), process)
        time.sleep(random.random() * LATENCY)
        for _ in range(times):
            if process.poll() is None and (pid := target(process)) is not None:
                os.kill(pid, number)
            time.sleep(0.2)

    return disturb


def _leave_alone(_bench: Bench, _process: subprocess.Popen[bytes]) -> None:
    pass


def _worker_of(process: subprocess.Popen[bytes]) -> int | None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    return random.choice(pids) if pids else None


def _itself(process: subprocess.Popen[bytes]) -> int:
    return process.pid


def _group(process: subprocess.Popen[bytes]) -> int:
    return -process.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way to interrupt a run."""

    disturb: Disturbance
    #:  Maximum number of processes whose calls in flight are lost.
    lost: int = 0
    #:  Settings of the provider.
    settings: Mapping[str, float] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    small_disk: bool = False
    alone: bool = True


def _scenarios(down: float) -> dict[str, Scenario]:
    once = "--jsbench-retries=0"
    failing = {"failing": 0.1}
    return {
        "worker killed": Scenario(disturb=_send(signal.SIGKILL, _worker_of), lost=1, alone=False),
        "killed": Scenario(disturb=_send(signal.SIGKILL, _itself), lost=WORKERS),
        "Ctrl-C": Scenario(disturb=_send(signal.SIGINT, _group), lost=WORKERS),
        "Ctrl-C twice": Scenario(disturb=_send(signal.SIGINT, _group, times=2), lost=WORKERS),
        "SIGTERM": Scenario(disturb=_send(signal.SIGTERM, _itself), lost=WORKERS),
        "SIGTERM to all": Scenario(disturb=_send(signal.SIGTERM, _group), lost=WORKERS),
        "-x": Scenario(disturb=_leave_alone, lost=WORKERS, settings=failing, options=("-x", once)),
        "--maxfail=3": Scenario(disturb=_leave_alone, lost=WORKERS, settings=failing, options=("--maxfail=3", once)),
        "disk full": Scenario(disturb=_leave_alone, lost=WORKERS, small_disk=True),
        f"down for {down:g} s": Scenario(
            disturb=_leave_alone, settings={"down": down}, options=("--jsbench-retries=1",)
        ),
        "300 rejected, no retries": Scenario(disturb=_leave_alone, settings={"refused": 300}, options=(once,)),
        "10 % fail, no retries": Scenario(disturb=_leave_alone, settings=failing, options=(once,)),
        "10 % fail, with retries": Scenario(disturb=_leave_alone, settings=failing),
    }


def _once(bench: Bench, scenario: Scenario, workers: int, expected: list[Any], output: str) -> Ending:
    spread = ("-n", str(workers)) if workers else ()
    bench.provider.reset(**scenario.settings)
    back_up = time.perf_counter() + scenario.settings.get("down", 0.0)
    process = bench.start(output, *spread, *scenario.options, small_disk=scenario.small_disk)
    scenario.disturb(bench, process)
    status = process.wait()
    while _has_members(process.pid):  # workers without a controller end on their own
        time.sleep(LATENCY)
    failed = _failed_calls(max((bench.folder / output).iterdir()))
    time.sleep(max(0.0, back_up - time.perf_counter()))
    bench.start(output, *spread, f"--jsbench-resume={output}").wait()
    counts = bench.provider.counts()
    records = bench.records(output)
    failed += sum(record["retries"] for record in records)
    return Ending(
        equal=_without_times(records) == _without_times(expected),
        twice=counts.total() - len(counts),
        accounted=bench.in_flight * min(scenario.lost, max(1, workers)) + failed,
        status=status,
    )


def _has_members(group: int) -> bool:
    """Return whether a process of the group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _failed_calls(run: Path) -> int:
    """Count the calls of a run that the provider failed; resuming repeats them."""
    records = [record for file in run.glob("records*.jsonl") for record in _records(file)]
    return sum(record["retries"] + 1 for record in records if (record["generation"] or {}).get("type") == "failed")


def _row(bench: Bench, title: str, scenario: Scenario, workers: int, expected: list[Any], times: int) -> bool:
    """Interrupt this many runs and print a line for them; return False if one has a wrong outcome."""
    output = f"{title.replace(' ', '-').replace('%', '')}-{workers}"
    endings = [_once(bench, scenario, workers, expected, f"{output}-{number}") for number in range(times)]
    good = all(ending.equal and ending.twice <= ending.accounted for ending in endings)
    worst = max(endings, key=lambda ending: ending.twice - ending.accounted)
    statuses = sorted({ending.status for ending in endings})
    equal = sum(ending.equal for ending in endings)
    print(
        f"{title:26}  {workers:7}  {times:4}  {equal:5}  {worst.twice:21}  {worst.accounted:9}  {statuses}"
        f"{'' if good else '  <-- wrong'}",
        flush=True,
    )
    return good


def main() -> int:
    """
    Run all scenarios and print a line for each; return 1 if records differ or calls were repeated
    without a reason.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=20, help="runs of each kill scenario (default: 20)")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--in-flight", type=int, default=8, help="calls in flight per process (default: 8)")
    parser.add_argument(
        "--workers", default=f"0,{WORKERS}", help="comma-separated numbers of worker processes (default: 0,2)"
    )
    parser.add_argument("--down", type=float, default=30.0, help="seconds for which the provider is down (default: 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", action="append", help="run only this scenario; repeatable")
    add_wire_option(parser)
    options = parser.parse_args()
    random.seed(options.seed)
    #  background processes of a shell ignore Ctrl-C, and the runs would inherit this
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scenarios = _scenarios(options.down)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="jsbench-faults-") as name, serve(latency=LATENCY) as provider:
        bench = Bench(
            folder=Path(name), provider=provider, cases=options.cases, in_flight=options.in_flight, wire=options.wire
        )
        write_cases(bench.folder / "schemas", options.cases)
        bench.start("undisturbed", "-n", str(WORKERS)).wait()
        expected = bench.records("undisturbed")
        assert len(expected) == options.cases
        print(f"{options.wire}, {options.cases} cases, {options.in_flight} calls in flight per process")
        print(f"{'':26}  workers  runs  equal  repeated calls (most)  at most  exit statuses")
        for title in options.scenario or scenarios:
            scenario = scenarios[title]
            times = options.times if "killed" in title else max(1, options.times // 5)
            for workers in map(int, options.workers.split(",")):
                if workers or scenario.alone:
                    failures += not _row(bench, title, scenario, workers, expected, times)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
