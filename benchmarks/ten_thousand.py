"""
Ten thousand schemas beside ten thousand tests that do nothing: `python -m benchmarks.ten_thousand`.

Every figure of the suite stands beside that of bare pytest (a parametrized function of as many items, in the same
folder, with the same plugins), measured alternately in the same run. Seconds are the best of the rounds, processor time
that of every process; memory is the peak of the proportional set sizes summed over every process, sampled in a round of
its own.
"""

from __future__ import annotations

import argparse
import contextlib
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
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset

#: keeps what is collected from being run, in every process
NONE_RUN = ("-k", "no_such_case_at_all")
WORKERS = ((), ("-n", "2"), ("-n", "8"))
QUIET = ("-q", "-p", "no:randomly", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
SUITE = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:answer", "--jsbench-split=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took, all its processes together."""

    wall: float
    cpu: float


def _run(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    # what was compiled stays compiled, as for a user
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def cost(folder: Path, arguments: Sequence[str]) -> Cost:
    begin = time.perf_counter()
    process = _run(folder, arguments)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1, 5}:
        message = f"pytest {' '.join(arguments)} ended with {process.returncode}"
        raise RuntimeError(message)
    return Cost(wall=time.perf_counter() - begin, cpu=used.ru_utime + used.ru_stime)


def peak_memory(folder: Path, arguments: Sequence[str]) -> float:
    """MB."""
    process = _run(folder, arguments)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_proportional_kb, _tree(process.pid))))
        time.sleep(0.05)
    return peak / 1024


def _tree(root: int) -> Iterator[int]:
    yield root
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _proportional_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _write(folder: Path, count: int) -> None:
    (folder / "answering.py").write_text("def answer(request): return '{}'")
    (folder / "test_bare.py").write_text(
        f"import pytest\n@pytest.mark.parametrize('number', range({count}))\ndef test_nothing(number): pass\n"
    )


def _table(folder: Path, schemas: Path, rounds: int, extra: Sequence[str], *, memory: bool) -> Iterator[list[object]]:
    ways = {"bare pytest": ("test_bare.py",), "jsbench": (*SUITE, f"--jsbench-dataset={schemas}")}
    for workers in WORKERS:
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, arguments in ways.items():
                costs[name].append(cost(folder, [*arguments, *workers, *extra]))
        for name, arguments in ways.items():
            bare, best = (_best(costs[which]) for which in ("bare pytest", name))
            used = peak_memory(folder, [*arguments, *workers, *extra]) if memory else None
            yield [
                " ".join(workers) or "plain",
                name,
                f"{best.wall:.2f}",
                f"{best.wall / bare.wall:.2f}",
                f"{best.cpu:.2f}",
                f"{best.cpu / bare.cpu:.2f}",
                "" if used is None else f"{used:.0f}",
            ]


def _best(costs: Sequence[Cost]) -> Cost:
    return Cost(wall=min(cost.wall for cost in costs), cpu=min(cost.cpu for cost in costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["collect", "run", []], default=["collect"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--schemas", type=Path, default=SCHEMAS, help="JSONSchemaBench as a folder")
    arguments = parser.parse_args()
    count = len(open_dataset(Selection(source=str(arguments.schemas), split="all")).keys())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, count)
        rows = _table(folder, arguments.schemas, arguments.rounds, NONE_RUN, memory=True)
        print(tabulate(rows, headers=["workers", "what", "wall s", "x", "CPU s", "x", "MB"]))


if __name__ == "__main__":
    main()
