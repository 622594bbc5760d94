"""
Compare ten thousand schemas with ten thousand empty tests: `python -m benchmarks.ten_thousand collect|run`.

Each figure is compared with that of bare pytest (a parametrized function with as many items, in the same directory,
with the same plugins), measured alternately in the same run. Seconds are the best of the rounds, processor time is that
of all processes; memory is the peak of the sum of the proportional set sizes of all processes, sampled in a separate
round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.answers import SCHEMAS
from benchmarks.instances import find_answers
from benchmarks.plain_pytest import pytest_command, pytest_environment
from benchmarks.process_times import wait_for_tree
from pytest_jsbench.core.cases import Case
from pytest_jsbench.datasets.base import CaseSource, Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.verdicts import Judge, JudgePolicy

#:  Deselects all collected items, in each process.
NONE_RUN = ("-k", "no_such_case_at_all")
SUITE = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=kept.json", "--jsbench-split=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one run, summed over its processes."""

    wall: float
    cpu: float


def _run(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = pytest_environment()
    return subprocess.Popen(pytest_command(*arguments), cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def cost(folder: Path, arguments: Sequence[str]) -> Cost:
    begin = time.monotonic()
    tree = wait_for_tree(_run(folder, arguments))
    if tree.status not in {0, 1, 5}:
        raise RuntimeError(f"pytest {' '.join(arguments)} ended with {tree.status}")
    return Cost(wall=tree.at - begin, cpu=tree.cpu)


def peak_memory(folder: Path, arguments: Sequence[str]) -> float:
    """Return the peak memory in MB."""
    process = _run(folder, arguments)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(proportional_kb, tree(process.pid))))
        time.sleep(0.05)
    return peak / 1024


def tree(root: int) -> Iterator[int]:
    yield root
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def proportional_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _write_tests(folder: Path, count: int) -> None:
    (folder / "test_bare.py").write_text(
        f"import pytest\n@pytest.mark.parametrize('number', range({count}))\ndef test_nothing(number): pass\n"
    )


def _write_answers(path: Path, dataset: CaseSource) -> int:
    """Return the number of correct answers; cases without a known answer fail."""
    answers: dict[str, str] = {}
    with Judge(JudgePolicy(validator="jsonschema-rs")) as judge:
        answer = find_answers(judge)
        for key in dataset.keys():
            case = dataset.case(key)
            if isinstance(case, Case) and (text := answer(case.schema)) is not None:
                answers[str(key)] = text
    path.write_text(json.dumps({"*": "{}", **answers}))
    return len(answers)


def _table(folder: Path, given: argparse.Namespace, count: int, extra: Sequence[str]) -> Iterator[list[object]]:
    ways = {"bare pytest": ("test_bare.py",), "jsbench": (*SUITE, f"--jsbench-dataset={given.schemas}")}
    for number in map(int, given.workers.split(",")):
        workers = ["-n", str(number)] if number else []
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for _ in range(given.rounds):
            for name, arguments in ways.items():
                costs[name].append(cost(folder, [*arguments, *workers, *extra]))
        best = {name: _best(found) for name, found in costs.items()}
        used = {name: peak_memory(folder, [*arguments, *workers, *extra]) for name, arguments in ways.items()}
        bare = best["bare pytest"]
        for name in ways:
            yield [
                " ".join(workers) or "plain",
                name,
                f"{best[name].wall:.2f}",
                f"{best[name].wall / bare.wall:.2f}",
                f"{best[name].cpu:.2f}",
                f"{best[name].cpu / bare.cpu:.2f}",
                f"{(best[name].wall - bare.wall) / count * 1000:.2f}",
                f"{used[name]:.0f}",
                f"{used[name] - used['bare pytest']:+.0f}",
            ]


def _best(costs: Sequence[Cost]) -> Cost:
    return Cost(wall=min(cost.wall for cost in costs), cpu=min(cost.cpu for cost in costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "run"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--workers", default="0,2,8", help="comma-separated numbers of xdist workers; 0: none (default: 0,2,8)"
    )
    parser.add_argument("--schemas", type=Path, default=SCHEMAS, help="directory of JSONSchemaBench")
    parser.add_argument(
        "--answers", type=Path, help="file that caches the answers of `run`, which take a minute to find"
    )
    arguments = parser.parse_args()
    dataset = open_dataset(Selection(source=str(arguments.schemas), split="all"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tests(folder, len(dataset.keys()))
        answers = arguments.answers or folder / "answers.json"
        if arguments.what == "run":
            if not answers.is_file():
                print(f"answers found for {_write_answers(answers, dataset)} of {len(dataset.keys())} schemas")
            shutil.copy(answers, folder / "kept.json")
        else:
            (folder / "kept.json").write_text('{"*": "{}"}')
        extra = NONE_RUN if arguments.what == "collect" else ("--tb=no", "-p", "no:benchmark")
        rows = _table(folder, arguments, len(dataset.keys()), extra)
        print(tabulate(rows, headers=["workers", "what", "wall s", "x", "CPU s", "x", "ms a case", "MB", "more"]))


if __name__ == "__main__":
    main()
