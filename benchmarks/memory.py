"""
Measure the memory of a run by its number of attempts: `python -m benchmarks.memory [--attempts
1000,10000,50000,100000]`.

All 9,557 schemas of JSONSchemaBench, or a shard of them, or all of them several times, answered by a local provider,
with all reports, compared with bare pytest with as many empty parametrized tests. Memory is the peak of the sum of the
proportional set sizes of all processes of the run, and of each process; the memory per attempt is the growth from one
row to the next, less that of bare pytest.

With `--commands RUN` no run is made: it measures memory and processor time of `jsbench merge`, `judge`, `report`,
`export` and `compare` on the directory of a run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.answers import SCHEMAS
from benchmarks.loopback import KEY_VARIABLE, engine_arguments, serve
from benchmarks.plain_pytest import PYTEST, pytest_environment
from benchmarks.ten_thousand import proportional_kb, tree

CASES = 9_557


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Peak memory in MB."""

    total: float
    #:  Memory of each process at its own peak, the largest first.
    processes: tuple[float, ...]
    #:  Processor seconds of all processes.
    cpu: float


def peak(folder: Path, arguments: Sequence[str], *, program: Sequence[str] = PYTEST) -> Peak:
    command = [sys.executable, "-m", *program, *arguments]
    with (folder / "output.txt").open("w") as output:
        environment = pytest_environment(**{KEY_VARIABLE: "none"})
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        most, each = 0, dict[int, int]()
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            found = {pid: proportional_kb(pid) for pid in tree(process.pid)}
            most = max(most, sum(found.values()))
            each |= {pid: max(size, each.get(pid, 0)) for pid, size in found.items()}
            time.sleep(0.1)
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        message = f"{program[0]} {' '.join(arguments)} ended with {process.returncode}: see {folder / 'output.txt'}"
        raise RuntimeError(message)
    sizes = tuple(size / 1024 for size in sorted(each.values(), reverse=True))
    return Peak(total=most / 1024, processes=sizes, cpu=used.ru_utime + used.ru_stime)


def cases(attempts: int) -> list[str]:
    """Return the options for about this many attempts."""
    if attempts < CASES:
        return [f"--jsbench-shard=1/{CASES // attempts}"]
    return [f"--jsbench-repeats={max(1, round(attempts / CASES))}"]


def bare_tests(attempts: int) -> str:
    return f"import pytest\n@pytest.mark.parametrize('number', range({attempts}))\ndef test_nothing(number): pass\n"


def measure(url: str, given: argparse.Namespace, attempts: int, workers: int) -> list[object]:
    spread = ["-n", str(workers)] if workers else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reports = ["--jsbench-output=runs", *(["--junitxml=junit.xml"] if given.junit else []), "--tb=no"]
        options = [*engine_arguments(url), f"--jsbench-dataset={given.schemas}", "--jsbench-split=all"]
        found = peak(folder, [*options, *cases(attempts), "--jsbench-concurrency=64", *reports, *spread])
        (records,) = folder.glob("runs/*/records.jsonl")
        with records.open("rb") as file:
            count = sum(1 for _ in file) - 1
        (folder / "test_bare.py").write_text(bare_tests(count))
        bare = peak(folder, ["test_bare.py", *spread, *reports[1:]])
    each = " ".join(f"{size:.0f}" for size in found.processes[:6])
    return [count, workers, f"{found.total:.0f}", each, f"{bare.total:.0f}", f"{found.cpu:.1f}"]


def measure_commands(run: Path) -> Iterator[list[object]]:
    with tempfile.TemporaryDirectory() as name:
        folder, given = Path(name), str(run.absolute())
        for arguments in (
            ["merge", given, "--output=merged"],
            ["judge", given],
            ["report", given, "--output=report.html"],
            ["export", given, "--output=exported"],
            ["compare", given, "merged"],
        ):
            found = peak(folder, arguments, program=("pytest_jsbench",))
            each = " ".join(f"{size:.0f}" for size in found.processes[:6])
            yield [arguments[0], f"{found.total:.0f}", each, f"{found.cpu:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", default="1000,10000,50000,100000")
    parser.add_argument(
        "--workers", default="0,2", help="comma-separated numbers of xdist workers; 0: none (default: 0,2)"
    )
    parser.add_argument("--latency", type=float, default=0.05, help="seconds per answer (default: 0.05)")
    parser.add_argument("--schemas", type=Path, default=SCHEMAS, help="directory of JSONSchemaBench")
    parser.add_argument("--junit", action="store_true", help="write pytest's JUnit file, which pytest keeps in memory")
    parser.add_argument(
        "--commands", type=Path, metavar="RUN", help="measure only the commands, on this run's directory"
    )
    given = parser.parse_args()
    if given.commands is not None:
        print(tabulate(measure_commands(given.commands), headers=["jsbench", "MB", "each process", "CPU s"]))
        return
    rows = []
    with serve(latency=given.latency) as server:
        for workers in map(int, given.workers.split(",")):
            for attempts in map(int, given.attempts.split(",")):
                rows.append(measure(server.url, given, attempts, workers))
                print(rows[-1], file=sys.stderr)
    head = ["attempts", "workers", "MB", "each process", "bare pytest MB", "CPU s"]
    print(tabulate(rows, headers=head))


if __name__ == "__main__":
    main()
