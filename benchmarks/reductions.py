"""
Reduce the first failing cases of runs, reproduce each result in a run of its own, and print a table.

`python -m benchmarks.reductions RUN… [--cases N] [--max-calls N] [--option FLAG]…`; options are passed to `jsbench
reduce`, such as `--option=--max-tokens=48`. Results are in RUN/reduced; an interrupted measurement is continued.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pytest_jsbench.library.run import EvaluatedRun, load_run
from pytest_jsbench.run.reduction.same_failure import FailurePattern, ReductionError

_HEADS = ("engine", "case", "failure", "bytes", "calls", "smallest schema", "answer, or message", "reproduced")


def failing_cases(run: EvaluatedRun, most: int) -> list[str]:
    """Return the names of the first cases whose failure a schema causes."""
    names: dict[str, None] = {}
    for outcome in run.outcomes:
        if not outcome.failing or len(names) == most:
            continue
        try:
            if not FailurePattern.of(outcome.read()).is_death:
                names[str(outcome.key)] = None
        except ReductionError:
            continue
    return list(names)


def reduce_case(run: Path, case: str, options: list[str]) -> dict[str, Any] | None:
    """Return the result of `jsbench reduce`; None, after printing the error, if the case cannot be reduced."""
    command = ["jsbench", "reduce", str(run), case, "--json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout.startswith("{"):
        sys.stderr.write(f"{case}: {ended.stderr.strip()[-300:]}\n")
        return None
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def reproduce(result: dict[str, Any], folder: Path) -> bool:
    """Run the command that reproduces a result, in its directory, and return whether it fails in the same way."""
    arguments = shlex.split(result["again"])
    if arguments[0] != "pytest":  # jsbench adapt exits with 1 if it refuses a schema
        return subprocess.run(arguments, cwd=folder, capture_output=True, check=False).returncode == 1
    with tempfile.TemporaryDirectory() as runs:
        more = ["-q", "-p", "no:cacheprovider", f"--jsbench-output={runs}"]
        subprocess.run([*arguments, *more], cwd=folder, capture_output=True, check=False)
        made = list(Path(runs).iterdir())
        outcomes = load_run(made[0]).outcomes if made else ()
        return [outcome.failure_type for outcome in outcomes] == [result["failure_type"]]


def row_of(result: dict[str, Any], *, reproduced: bool) -> tuple[str, ...]:
    """Return the cells of a result."""
    schema = result.get("document") or {name: part for name, part in result["schema"].items() if name != "$schema"}
    what = f"`{json.dumps(result['answer'])}`" if "answer" in result else _shorten(result["message"])
    reason = result["keyword"] or result["reason"]
    failure = result["failure_type"] if reason is None else f"{result['failure_type']} ({reason})"
    return (
        result["engine"],
        f"`{result['case']}`",
        failure,
        f"{result['bytes_before']:,} → {result['bytes_after']:,}",
        str(result["calls"]),
        f"`{json.dumps(schema)}`",
        what,
        "yes" if reproduced else "no",
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:89]}…"


def main() -> None:
    """Reduce, reproduce, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--max-calls", type=int, default=100)
    parser.add_argument("--option", action="append", default=[])
    given = parser.parse_args()
    print(f"| {' | '.join(_HEADS)} |\n| {' | '.join('---' for _ in _HEADS)} |")
    for path in given.runs:
        for case in failing_cases(load_run(path), given.cases):
            options = [f"--max-calls={given.max_calls}", *given.option]
            result = reduce_case(path, case, options)
            if result is None:
                continue
            task, _, name = case.partition("::")
            reproduced = result["shareable"] and reproduce(result, path / "reduced" / task / name)
            cells = [cell.replace("|", "\\|") for cell in row_of(result, reproduced=reproduced)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
