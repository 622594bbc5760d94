"""
Compare the cost of a verdict with another version, in one run: `python -m benchmarks.judge_versions OTHER_PYTHON`.

OTHER_PYTHON is the interpreter of an environment in which the other version is installed (`pip install -e` of a
checkout). Both judge the same answers against the same schemas, in turns, each time in a new process; the figures are
the best of the rounds, in milliseconds for the quantiles and in seconds for building all real schemas. `cpu` is
processor time, which depends less on other programs than wall time: that of judging in process, and that of both
processes when judging in the child process.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def measure(path: Path) -> dict[str, float]:
    """Measure the judging of the answers and schemas of a file with this interpreter's version, which may be old."""
    from pytest_jsbench.verdicts import Judge, JudgePolicy

    work = json.loads(path.read_text("utf-8"))
    policy, in_process = JudgePolicy(validator="jsonschema-rs"), _in_process()
    judge = in_process(policy)
    figures = {
        **_quantiles(
            "in process", work["answers"], lambda schema, text: list(judge.judge(schema, text, truncated=False))
        )
    }
    before = os.times()
    with Judge(policy) as child:
        answers = [[json.loads(schema), text] for schema, text in work["answers"]]
        figures |= _quantiles("child", answers, child.judge)
    figures["child, cpu s"] = sum(os.times()[:4]) - sum(before[:4])
    builder = in_process(policy)
    figures["building, cpu s"] = _building(builder.inspect, work["schemas"])
    return figures


def _in_process() -> Any:
    for name in ("in_process", "inprocess"):
        try:
            return importlib.import_module(f"pytest_jsbench.verdicts.{name}").InProcessJudge
        except ModuleNotFoundError:
            continue
    raise RuntimeError("this version has no judge in process")


def _quantiles(way: str, answers: Sequence[Any], judge: Callable[[Any, str], object]) -> dict[str, float]:
    """Return the quantiles of judging again, as in a run that has inspected each schema before."""

    def again(answer: Any) -> tuple[float, float]:
        judge(*answer)
        begin, processor = time.perf_counter(), time.thread_time()
        judge(*answer)
        return time.perf_counter() - begin, time.thread_time() - processor

    gc.collect()
    gc.freeze()
    clock, processor = (statistics.quantiles(times, n=100) for times in zip(*map(again, answers), strict=True))
    gc.unfreeze()
    figures = {f"{way}, p50 ms": clock[49] * 1000, f"{way}, p99 ms": clock[98] * 1000}
    #  the child's time is not included in this process's
    if way == "in process":
        figures |= {f"{way}, p50 cpu ms": processor[49] * 1000, f"{way}, p99 cpu ms": processor[98] * 1000}
    return figures


def _building(inspect: Callable[[str], object], schemas: Sequence[str]) -> float:
    begin = time.thread_time()
    for schema in schemas:
        inspect(schema)
    return time.thread_time() - begin


def write_answers(path: Path) -> None:
    from benchmarks.answers import labelled_answers, real_schemas

    answers = [[answer.schema_text, answer.text] for answer in labelled_answers()]
    path.write_text(json.dumps({"answers": answers, "schemas": [json.dumps(schema) for schema in real_schemas()]}))


def main(arguments: Sequence[str] | None = None, *, write: Callable[[Path], None] = write_answers) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_versions", description=__doc__)
    parser.add_argument("other", help="interpreter of the other version's environment")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    best: dict[str, dict[str, float]] = {sys.executable: {}, given.other: {}}
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "work.json")
        for _ in range(given.rounds):
            for python, figures in best.items():
                #  use another directory, so that each process imports its own version, and none of these modules
                # instead of the library
                command = [python, "-P", str(Path(__file__).resolve()), "--measure", str(path)]
                run = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
                for name, figure in json.loads(run.stdout).items():
                    figures[name] = min(figure, figures.get(name, figure))

    from tabulate import tabulate

    ours, theirs = best.values()
    rows = [[name, figure, theirs[name], figure / theirs[name]] for name, figure in ours.items()]
    print(tabulate(rows, headers=["", "this version", "other version", "ratio"], floatfmt=".3f", tablefmt="github"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main()
