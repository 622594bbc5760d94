"""
Measure how pinned clients cope with the faults of `jsbench.endpoint`.

    python -m benchmarks.coping [--write]

Installs each client with this package in a temporary directory, with pip and npm, and prints the table of
docs/applications.md. With --write it stores the results and puts the table into the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.coping.tables import PAGE, PART, RESULTS, Results, table
from benchmarks.pages import ROOT, write_part

#: Versions of the Python distributions; clients whose requirements conflict are in environments of their own.
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {"openai": "3.57.0", "anthropic": "2.14.0", "pydantic": "2.14.4"},
    {"instructor": "1.17.0", "openai": "3.3.0", "pydantic": "2.14.4"},
    {"pydantic-ai-slim[openai]": "2.68.0", "openai": "3.57.0", "pydantic": "2.14.4"},
    {"langchain-openai": "1.7.4", "langchain-core": "1.8.3", "openai": "3.57.0", "pydantic": "2.14.4"},
)
#: Names of the clients that each environment measures.
CLIENTS = (("openai", "anthropic"), ("instructor",), ("pydantic-ai",), ("langchain-openai",))
NODE_PINS = {"ai": "6.0.326", "@ai-sdk/openai": "3.0.141", "zod": "4.6.7"}


def versions() -> dict[str, str]:
    """Return the versions of the measured clients, by name."""
    pins = {name.partition("[")[0]: version for pins in reversed(ENVIRONMENTS) for name, version in pins.items()}
    names = ("openai", "anthropic", "instructor", "pydantic-ai-slim", "langchain-openai", "langchain-core")
    return {**{name: pins[name] for name in names}, "ai": NODE_PINS["ai"]}


def _environment(directory: Path, pins: dict[str, str]) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = directory / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pinned = [f"{name}=={version}" for name, version in pins.items()]
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *pinned, "-e", str(ROOT)], check=True)
    return python


def _measure(python: Path, *args: str) -> dict[str, Any]:
    command = [str(python), "-m", "benchmarks.coping.measurement", *args]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    coped: dict[str, Any] = json.loads(done.stdout)
    return coped


def _measure_all(directory: Path) -> Iterator[tuple[str, Any]]:
    pythons = []
    for number, (pins, clients) in enumerate(zip(ENVIRONMENTS, CLIENTS, strict=True)):
        pythons.append(_environment(directory / f"venv{number}", pins))
        yield from _measure(pythons[-1], *clients).items()
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed; install Node.js 20 or newer"
    pinned = [f"{name}@{version}" for name, version in NODE_PINS.items()]
    subprocess.run([npm, "install", "--silent", "--prefix", str(directory), *pinned], check=True)
    program = shutil.copy(Path(__file__).with_name("ai_sdk.mjs"), directory)
    yield from _measure(pythons[0], "--program", str(program)).items()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coping", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the results and write the table into the page")
    args = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as name:
        coped = dict(_measure_all(Path(name)))
    results: Results = {"measured": today, "versions": versions(), "coped": coped}
    print(table(results))
    if args.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        write_part(PAGE, PART, table(results))


if __name__ == "__main__":
    main()
