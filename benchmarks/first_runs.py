"""
Update the terminal output on the first pages with runs of the small model: `python -m benchmarks.first_runs`.

The output includes times: run it on an idle machine where the package is installed with only the extra local. It runs
the quick cases, the 22 simple ones, and all 88 built-in cases, or only those that its arguments name, and the demo of
the probe.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile

from benchmarks.pages import ROOT, write_part

CASE, QUICK_CASE = "contact_card", "dns_aaaa_record"
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


def write_quick() -> None:
    """Update the README with a run of the quick cases."""
    lines = run_cases("--jsbench-dataset=builtin-quick")
    page = ROOT / "README.md"
    write_part(page, "quick cases", code_block([*opening_lines(lines), *ending_lines(lines), lines[-1]]))
    write_part(page, "a failing quick case", code_block(failure_lines(lines, QUICK_CASE)))


def write_simple() -> None:
    """Update the page for the first ten minutes with a run of the simple cases."""
    lines = run_cases("--jsbench-tasks=simple")
    ending = ending_lines(lines)
    last = next(at for at, line in enumerate(ending) if line.startswith("failures"))
    page = ROOT / "docs" / "index.md"
    write_part(page, "simple cases", code_block([*opening_lines(lines), *ending[: last + 1]]))
    write_part(page, "a failing case", code_block(failure_lines(lines, CASE)))


def write_all() -> None:
    """Update the page about results with a run of all built-in cases."""
    write_part(ROOT / "docs" / "results.md", "all cases", code_block(ending_lines(run_cases())))


def write_demo() -> None:
    """Update the README and the page about probes with a probe of the demo server."""
    command = [sys.executable, "-m", "pytest_jsbench", "probe", "--demo"]
    run = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    for page in (ROOT / "README.md", ROOT / "docs" / "probe.md"):
        write_part(page, "demo", code_block(run.stdout.splitlines()))


PARTS = {"quick": write_quick, "simple": write_simple, "all": write_all, "demo": write_demo}


def main() -> None:
    """Update the named parts of the pages, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all of them)")
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
