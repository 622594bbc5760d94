"""
Runs that are broken off in every way, gone on with, and held against one that nobody disturbed.

    python -m benchmarks.faults [--times 20] [--cases 60] [--scenario NAME …]

Each line says in how many of the runs the records came out equal, and how many calls were made twice beside the most
that could be: those in flight when their process ended, and those that were told to have failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loopback import KEY_VARIABLE, Loopback, engine_arguments, serve, write_cases

LATENCY = 0.1
IN_FLIGHT = 8
WORKERS = 2
_TIMES = frozenset({"started_at", "queue_s", "timing", "retries"})
#: no file gets larger, which is in the middle of some record
_SMALL_DISK = (
    "import resource, sys, pytest; resource.setrlimit(resource.RLIMIT_FSIZE, (30000, -1));"
    "sys.exit(pytest.main(sys.argv[1:]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one disturbed run came out in the end."""

    equal: bool
    #: calls beyond one for each case
    twice: int
    #: the most that there can be: in flight when their process ended, or told that they had failed
    accounted: int
    #: exit status of the disturbed run
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where runs are made, and whom they ask."""

    folder: Path
    provider: Loopback
    cases: int

    def start(self, output: str, *more: str, small_disk: bool = False) -> subprocess.Popen[bytes]:
        """A run in processes of its own; it is not waited for."""
        python = [sys.executable, "-c", _SMALL_DISK] if small_disk else [sys.executable, "-m", "pytest"]
        arguments = [
            *("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio"),
            *engine_arguments(self.provider.url),
            "--jsbench-dataset=schemas",
            f"--jsbench-output={output}",
            f"--jsbench-concurrency={IN_FLIGHT}",
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
        """What the newest run has recorded, but for times."""
        run = max((self.folder / output).iterdir())
        return [_without_times(json.loads(line)) for line in (run / "records.jsonl").read_text().splitlines()[1:]]

    def wait_for_calls(self, count: int, process: subprocess.Popen[bytes]) -> None:
        """Until so many calls were made, or the run is over."""
        while self.provider.counts().total() < count and process.poll() is None:
            time.sleep(0.01)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key not in _TIMES}
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


#: breaks a started run off
Disturbance = Callable[[Bench, "subprocess.Popen[bytes]"], None]


def _kill(pid_of: Callable[[subprocess.Popen[bytes]], int | None]) -> Disturbance:
    def disturb(bench: Bench, process: subprocess.Popen[bytes]) -> None:
        bench.wait_for_calls(random.randrange(1, bench.cases), process)
        time.sleep(random.random() * LATENCY)
        if (pid := pid_of(process)) is not None:
            os.kill(pid, signal.SIGKILL)

    return disturb


def _interrupt(times: int) -> Disturbance:
    def disturb(bench: Bench, process: subprocess.Popen[bytes]) -> None:
        bench.wait_for_calls(random.randrange(1, bench.cases), process)
        for _ in range(times):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way to break a run off."""

    disturb: Disturbance
    workers: int = WORKERS
    #: how many processes have calls in flight that are lost with them
    lost: int = 0
    #: of the provider
    settings: dict[str, float]
    options: tuple[str, ...] = ()
    small_disk: bool = False


def _scenarios(down: float) -> dict[str, Scenario]:
    nothing: dict[str, float] = {}
    return {
        "worker killed": Scenario(disturb=_kill(_worker_of), lost=1, settings=nothing),
        "controller killed": Scenario(disturb=_kill(_itself), lost=WORKERS, settings=nothing),
        "the only process killed": Scenario(disturb=_kill(_itself), lost=1, settings=nothing, workers=0),
        "Ctrl-C": Scenario(disturb=_interrupt(1), lost=WORKERS, settings=nothing),
        "Ctrl-C twice": Scenario(disturb=_interrupt(2), lost=WORKERS, settings=nothing),
        "disk full": Scenario(disturb=_leave_alone, lost=1, settings=nothing, workers=0, small_disk=True),
        f"down for {down:g} s": Scenario(
            disturb=_leave_alone, settings={"down": down}, options=("--jsbench-retries=1",)
        ),
        "300 refused, no retries": Scenario(
            disturb=_leave_alone, settings={"refused": 300}, options=("--jsbench-retries=0",)
        ),
        "10 % fail, no retries": Scenario(
            disturb=_leave_alone, settings={"failing": 0.1}, options=("--jsbench-retries=0",)
        ),
        "10 % fail, with retries": Scenario(disturb=_leave_alone, settings={"failing": 0.1}),
    }


def _once(bench: Bench, scenario: Scenario, expected: list[Any], output: str) -> Ending:
    workers = ("-n", str(scenario.workers)) if scenario.workers else ()
    bench.provider.reset(**scenario.settings)
    back_up = time.perf_counter() + scenario.settings.get("down", 0.0)
    process = bench.start(output, *workers, *scenario.options, small_disk=scenario.small_disk)
    scenario.disturb(bench, process)
    status = process.wait()
    while _has_members(process.pid):  # workers whose controller is gone end by themselves
        time.sleep(LATENCY)
    broken = _broken_calls(bench.folder / output)
    time.sleep(max(0.0, back_up - time.perf_counter()))
    bench.start(output, *workers, f"--jsbench-resume={output}").wait()
    counts = bench.provider.counts()
    return Ending(
        equal=bench.records(output) == expected,
        twice=counts.total() - len(counts),
        accounted=IN_FLIGHT * scenario.lost + broken,
        status=status,
    )


def _has_members(group: int) -> bool:
    """Whether a process of the group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _broken_calls(output: Path) -> int:
    """Calls, failed tries of answered ones too, of which the provider said that they had failed."""
    broken = 0
    for file in max(output.iterdir()).glob("records*.jsonl"):
        for line in file.read_text().splitlines()[1:]:
            try:
                record = json.loads(line)
            except ValueError:  # torn
                continue
            broken += record["retries"] + ((record["generation"] or {}).get("type") == "failed")
    return broken


def main() -> int:
    """Run them, and print a line for each way; 1 where records differ or calls were made twice without a reason."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=20, help="runs of each way to be killed (default: 20)")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--down", type=float, default=30.0, help="seconds for which the provider is down")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", action="append", help="only this one; repeatable")
    options = parser.parse_args()
    random.seed(options.seed)
    scenarios = _scenarios(options.down)
    failed = False
    with tempfile.TemporaryDirectory(prefix="jsbench-faults-") as name, serve(latency=LATENCY) as provider:
        bench = Bench(folder=Path(name), provider=provider, cases=options.cases)
        write_cases(bench.folder / "schemas", options.cases)
        bench.start("undisturbed", "-n", str(WORKERS)).wait()
        expected = bench.records("undisturbed")
        assert len(expected) == options.cases
        print(f"{'':26}  runs  equal  called twice (most)    at most  exit statuses")
        for title in options.scenario or scenarios:
            times = options.times if "killed" in title else max(1, options.times // 5)
            endings = [
                _once(bench, scenarios[title], expected, f"{title.replace(' ', '-').replace('%', '')}-{number}")
                for number in range(times)
            ]
            good = all(ending.equal and ending.twice <= ending.accounted for ending in endings)
            failed |= not good
            worst = max(endings, key=lambda ending: ending.twice)
            statuses = sorted({ending.status for ending in endings})
            equal = sum(ending.equal for ending in endings)
            print(
                f"{title:26}  {times:4}  {equal:5}  {worst.twice:19}  {worst.accounted:9}  {statuses}"
                f"{'' if good else '  <-- not as it must be'}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
