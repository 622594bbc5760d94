"""Table of how clients cope with injected faults, from the stored results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from benchmarks.pages import ROOT
from pytest_jsbench.fixture.faults import DEFAULTS

PAGE = ROOT / "docs" / "faults.md"
PART = "coping"
RESULTS = Path(__file__).with_name("results.json")


class Results(TypedDict):
    """What was measured, when, and with which versions."""

    #: Day of the measurement in ISO 8601.
    measured: str
    #: Version of each client's distributions, by the name of the client.
    versions: Mapping[str, str]
    #: For each client and fault, how the application coped, whole and streamed.
    coped: Mapping[str, Mapping[str, Sequence[str]]]


def shorten(cell: str) -> str:
    """Return what the table shows of a measured cell: no names of exceptions, and no values."""
    cell = re.sub(r"^(\*\*)?raises \w+.*", r"raises", cell.removeprefix("waits, "))
    cell = re.sub(r"^returns the invoice(?: after (\d+) retr(?:y|ies))?$", r"recovers (\1)", cell)
    cell = cell.replace("**returns nothing**", "**None**").replace("**returns the invoice**", "**accepts**")
    return re.sub(r"^\*\*returns `.*`\*\*$", "**a part**", cell)


def _cell(whole: str, streamed: str) -> str:
    shown = [shorten(cell) or "n/a" for cell in (whole, streamed)]
    waits = "waits, " if whole.startswith("waits, ") else ""
    return waits + (shown[0] if shown[0] == shown[1] else " · ".join(shown))


def table(results: Results) -> str:
    """Return the versions and the table in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [["fault", *results["coped"]], ["---"] * (len(results["coped"]) + 1)]
    for fault in DEFAULTS:
        cells = (of_client[fault.value] for of_client in results["coped"].values())
        lines.append([f"`{fault.value}`", *(_cell(whole, streamed) for whole, streamed in cells)])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    legend = (
        f"How each client copes by default, whole · streamed if different, on {results['measured']} ({versions}). "
        "*recovers (2)*: two more calls; *waits*: for all 2 seconds; *accepts*: broken arguments, or those of another "
        "tool, are returned as the answer; *a part*: a truncated value is returned; *None*: without an exception."
    )
    return f"{legend}\n\n{rows}"
