"""
Measure how pinned clients cope with the faults of `jsbench.endpoint`.

    python -m benchmarks.coping [--write]

Installs each client with this package in a temporary directory, with pip and npm, and prints the table of
docs/faults.md. With --write it stores the results and puts the table into the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.coping.tables import PAGE, PART, RESULTS, Results, table
from benchmarks.pages import write_part
from benchmarks.pinned_clients import install_node, install_python, run_module

#: Versions of the Python distributions; clients whose requirements conflict are in environments of their own.
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {"openai": "3.57.0", "anthropic": "2.14.0", "pydantic": "2.14.4"},
    {"instructor": "1.17.0", "openai": "3.3.0", "pydantic": "2.14.4"},
    {"pydantic-ai-slim[openai]": "2.68.0", "openai": "3.57.0", "pydantic": "2.14.4"},
    {"langchain-openai": "1.7.4", "langchain-core": "1.8.3", "openai": "3.57.0", "pydantic": "2.14.4"},
)
#: Names of the clients that each environment measures.
CLIENTS = (("openai", "anthropic"), ("instructor",), ("pydantic-ai",), ("langchain-openai",))
#: Module that measures the clients of an environment.
_MEASUREMENT = "benchmarks.coping.measurement"
NODE_PINS = {"ai": "6.0.326", "@ai-sdk/openai": "3.0.141", "zod": "4.6.7"}


def versions() -> dict[str, str]:
    """Return the versions of the measured clients, by name."""
    pins = {name.partition("[")[0]: version for pins in reversed(ENVIRONMENTS) for name, version in pins.items()}
    names = ("openai", "anthropic", "instructor", "pydantic-ai-slim", "langchain-openai", "langchain-core")
    return {**{name: pins[name] for name in names}, "ai": NODE_PINS["ai"]}


def _measure_all(directory: Path) -> Iterator[tuple[str, Any]]:
    pythons = []
    for number, (pins, clients) in enumerate(zip(ENVIRONMENTS, CLIENTS, strict=True)):
        pythons.append(install_python(directory / f"venv{number}", pins, needs_this_package=True))
        yield from run_module(pythons[-1], _MEASUREMENT, *clients).items()
    program = install_node(directory, NODE_PINS, Path(__file__).with_name("ai_sdk.mjs"))
    yield from run_module(pythons[0], _MEASUREMENT, "--program", program).items()


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
