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
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages import write_part
from benchmarks.pinned_clients import install_node, install_python, run_module
from benchmarks.transit.tables import PAGE, PART, RESULTS, Results, table

_PYDANTIC = {"pydantic": "2.14.4"}
#: Versions of the Python distributions of each client; each client has an environment of its own.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "openai": {"openai": "3.57.0"},
    "anthropic": {"anthropic": "2.14.0"},
    "google-genai": {"google-genai": "3.6.1"},
    "instructor": {"instructor": "1.17.0", "openai": "3.3.0"},
    "pydantic-ai": {"pydantic-ai-slim[openai]": "2.68.0", "openai": "3.57.0"},
    "langchain-openai": {"langchain-openai": "1.7.4", "openai": "3.57.0"},
    "litellm": {"litellm": "1.110.2", "openai": "3.57.0"},
}
#: Module that measures the clients of an environment.
_MEASUREMENT = "benchmarks.transit.measurement"
NODE_PINS = {"ai": "6.0.326", "@ai-sdk/openai": "3.0.141", "zod": "4.6.7"}


def versions() -> dict[str, str]:
    """
    Return the versions of the measured clients, and of the libraries with their types, by name.

    The version of `openai` is that of the client itself, not that with which instructor is measured.
    """
    pins: dict[str, str] = {}
    for each in ENVIRONMENTS.values():
        for name, version in each.items():
            pins.setdefault(name.partition("[")[0], version)
    return {**pins, **_PYDANTIC, "ai": NODE_PINS["ai"], "zod": NODE_PINS["zod"]}


def _measure_all(directory: Path) -> Iterator[tuple[str, Any]]:
    pythons = {
        client: install_python(directory / client, {**_PYDANTIC, **pins}, needs_this_package=True)
        for client, pins in ENVIRONMENTS.items()
    }
    for client, python in pythons.items():
        yield from run_module(python, _MEASUREMENT, client).items()
    program = install_node(directory, NODE_PINS, Path(__file__).with_name("ai_sdk.mjs"))
    yield from run_module(pythons["openai"], _MEASUREMENT, "--program", program).items()


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
