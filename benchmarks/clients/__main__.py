"""
Compare how the judge and pinned clients read the same answers.

    python -m benchmarks.clients [--write]

Installs the clients in a temporary directory, with pip and npm, and prints the table of docs/judging.md. With --write
it stores the results and puts the table into the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks.clients.answers import ANSWERS
from benchmarks.clients.tables import PAGE, PART, RESULTS, table
from benchmarks.pages import write_part
from benchmarks.pinned_clients import install_node, install_python, run_module

#: Versions of the Python distributions.
PINS = {
    "pydantic": "2.14.4",
    "openai": "3.3.0",
    "instructor": "1.17.0",
    "langchain-core": "1.8.3",
    "pydantic-ai-slim": "2.68.0",
    "json-repair": "0.64.6",
}
NODE_PINS = {"ai": "6.0.326", "zod": "4.6.7"}

Results = dict[str, list[str | None]]


def _read_with_python(directory: Path) -> Results:
    python = install_python(directory / "venv", PINS, needs_this_package=False)
    results = run_module(python, "benchmarks.clients.parsers", *PINS)
    return {f"{name} {PINS[name]}": values for name, values in results.items()}


def _read_with_node(directory: Path) -> Results:
    program = install_node(directory, NODE_PINS, Path(__file__).with_name("ai_sdk.mjs"))
    answers = json.dumps([dataclasses.asdict(answer) for answer in ANSWERS])
    done = subprocess.run(["node", program], check=True, input=answers, stdout=subprocess.PIPE, text=True)
    return {f"ai {NODE_PINS['ai']}": json.loads(done.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the results and write the table into the page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = _read_with_python(Path(name)) | _read_with_node(Path(name))
    print(table(results))
    if args.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        write_part(PAGE, PART, table(results))


if __name__ == "__main__":
    main()
