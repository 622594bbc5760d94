"""
The lines of a terminal on the first pages, from runs of the small model: `python -m benchmarks.first_runs`.

The pages show its times: run it on a quiet machine, where the package is installed with the extra local alone. It asks
all 88 built-in cases, and the 22 simple ones again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile

from benchmarks.pages import ROOT, put

CASE = "contact_card"
#: lines about the machine
_OF_PYTEST = ("platform", "rootdir", "configfile", "testpaths", "plugins")


def shown(*options: str) -> list[str]:
    """Run the cases in an empty folder, in 80 columns, and return what a terminal shows."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--jsbench-engine=local", *options]
        environment = {**os.environ, "COLUMNS": "80", "PYTEST_ADDOPTS": ""}
        run = subprocess.run(command, check=False, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    return run.stdout.splitlines()


def opening(lines: Sequence[str]) -> list[str]:
    """From the plugin's first line to the last of the progress."""
    first = next(at for at, line in enumerate(lines) if line.startswith("jsbench: engine"))
    last = next(at for at, line in enumerate(lines) if line.endswith("[100%]"))
    return [*(line for line in lines[first : last + 1] if not line.startswith(_OF_PYTEST)), "…"]


def ending(lines: Sequence[str]) -> list[str]:
    """From the heading above the table to the run verdict."""
    first = next(at for at, line in enumerate(lines) if " jsbench: " in line and line.startswith("==="))
    return [lines[first], *takewhile(lambda line: not line.startswith("==="), lines[first + 1 :])]


def failure(lines: Sequence[str], case: str) -> list[str]:
    """What stands of a failing case."""
    first = next(at for at, line in enumerate(lines) if line.startswith("___") and f"::{case} " in line)
    return [lines[first], *takewhile(lambda line: not line.startswith(("___", "===")), lines[first + 1 :])]


def block(lines: Sequence[str]) -> str:
    """Lines as a block of a page."""
    return "\n".join(["```text", *lines, "```"])


def main() -> None:
    """Ask, and put the lines into the pages."""
    simple, every = shown("--jsbench-tasks=simple"), shown()
    of_simple = ending(simple)
    last = next(at for at, line in enumerate(of_simple) if line.startswith("failures"))
    put(ROOT / "docs" / "index.md", "simple cases", block([*opening(simple), *of_simple[: last + 1]]))
    put(ROOT / "docs" / "index.md", "a failing case", block(failure(simple, CASE)))
    put(ROOT / "docs" / "results.md", "all cases", block(ending(every)))
    put(ROOT / "README.md", "all cases", block([*opening(every), *ending(every), every[-1]]))


if __name__ == "__main__":
    main()
