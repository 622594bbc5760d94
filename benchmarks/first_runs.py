"""
Update the terminal output on the first pages with runs of the small model: `python -m benchmarks.first_runs`.

The output includes times: run it on an idle machine where the package is installed with only the extra local. It runs
all 88 built-in cases, and the 22 simple ones separately.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile

from benchmarks.pages import ROOT, write_part

CASE = "contact_card"
#: First words of pytest's header lines, which depend on the machine.
_PYTEST_HEADER = ("platform", "rootdir", "configfile", "testpaths", "plugins")


def run_cases(*options: str) -> list[str]:
    """Run the cases in an empty directory, in 80 columns, and return the lines of output."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--jsbench-engine=local", *options]
        environment = {**os.environ, "COLUMNS": "80", "PYTEST_ADDOPTS": ""}
        run = subprocess.run(command, check=False, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    return run.stdout.splitlines()


def opening_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines from the plugin's first line to the end of the progress."""
    first = next(at for at, line in enumerate(lines) if line.startswith("jsbench: engine"))
    last = next(at for at, line in enumerate(lines) if line.endswith("[100%]"))
    return [*(line for line in lines[first : last + 1] if not line.startswith(_PYTEST_HEADER)), "…"]


def ending_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines from the heading above the table to the run verdict."""
    first = next(at for at, line in enumerate(lines) if " jsbench: " in line and line.startswith("==="))
    return [lines[first], *takewhile(lambda line: not line.startswith("==="), lines[first + 1 :])]


def failure_lines(lines: Sequence[str], case: str) -> list[str]:
    """Return the failure report of a case."""
    first = next(at for at, line in enumerate(lines) if line.startswith("___") and f"::{case} " in line)
    return [lines[first], *takewhile(lambda line: not line.startswith(("___", "===")), lines[first + 1 :])]


def code_block(lines: Sequence[str]) -> str:
    """Return the lines as a Markdown code block."""
    return "\n".join(["```text", *lines, "```"])


def main() -> None:
    """Run the cases, and update the pages."""
    simple = run_cases("--jsbench-tasks=simple")
    every = run_cases()
    simple_ending = ending_lines(simple)
    last = next(at for at, line in enumerate(simple_ending) if line.startswith("failures"))
    write_part(
        ROOT / "docs" / "index.md", "simple cases", code_block([*opening_lines(simple), *simple_ending[: last + 1]])
    )
    write_part(ROOT / "docs" / "index.md", "a failing case", code_block(failure_lines(simple, CASE)))
    write_part(ROOT / "docs" / "results.md", "all cases", code_block(ending_lines(every)))
    write_part(ROOT / "README.md", "all cases", code_block([*opening_lines(every), *ending_lines(every), every[-1]]))


if __name__ == "__main__":
    main()
