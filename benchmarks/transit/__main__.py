"""
Compare the schemas that pinned clients send with the schemas of twenty types.

    python -m benchmarks.transit [--write]

Installs each client in a temporary directory, with pip and npm, and prints the table of
docs/schemas-in-transit.md. With --write it stores the results and puts the table into the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages import ROOT, write_part
from benchmarks.transit.tables import PAGE, PART, RESULTS, Results, table

_PYDANTIC = {"pydantic": "2.14.4"}
#: Versions of the Python distributions of each client; each client has an environment of its own.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "openai": {"openai": "3.57.0"},
    "anthropic": {"anthropic": "2.14.0"},
    "google-genai": {"google-genai": "3.6.1"},
    "instructor": {"instructor": "1.17.0"},
    "pydantic-ai": {"pydantic-ai-slim[openai]": "2.68.0"},
    "langchain-openai": {"langchain-openai": "1.7.4"},
    "litellm": {"litellm": "1.110.2"},
}
NODE_PINS = {"ai": "6.0.326", "@ai-sdk/openai": "3.0.141", "zod": "4.6.7"}


def versions() -> dict[str, str]:
    """Return the versions of the measured clients, and of the libraries with their types, by name."""
    pins = {name.partition("[")[0]: version for each in ENVIRONMENTS.values() for name, version in each.items()}
    return {**pins, **_PYDANTIC, "ai": NODE_PINS["ai"], "zod": NODE_PINS["zod"]}


def _environment(directory: Path, pins: dict[str, str]) -> Path:
    """Install a client, and what this package requires, which is itself imported from the repository."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = directory / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pinned = [f"{name}=={version}" for name, version in pins.items()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    install = ["install", "-q", "--disable-pip-version-check", "--no-compile"]
    command = [sys.executable, "-m", "pip", "--python", str(python), *install]
    subprocess.run([*command, *pinned, *project["dependencies"]], check=True)
    return python


def _measure(python: Path, *args: str) -> dict[str, Any]:
    command = [str(python), "-m", "benchmarks.transit.measurement", *args]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    sent: dict[str, Any] = json.loads(done.stdout)
    return sent


def _measure_all(directory: Path) -> Iterator[tuple[str, Any]]:
    for client, pins in ENVIRONMENTS.items():
        python = _environment(directory / client, {**_PYDANTIC, **pins})
        yield from _measure(python, client).items()
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed; install Node.js 20 or newer"
    pinned = [f"{name}@{version}" for name, version in NODE_PINS.items()]
    subprocess.run([npm, "install", "--silent", "--prefix", str(directory), *pinned], check=True)
    program = shutil.copy(Path(__file__).with_name("ai_sdk.mjs"), directory)
    yield from _measure(python, "--program", str(program)).items()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the results and write the table into the page")
    args = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as name:
        sent = dict(_measure_all(Path(name)))
    results: Results = {"measured": today, "versions": versions(), "sent": sent}
    print(table(results))
    if args.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        write_part(PAGE, PART, table(results))


if __name__ == "__main__":
    main()
