"""
Print the table of docs/decoding-results.md for the directories of runs: `python -m benchmarks.decoding RUN...`.

A run is a directory written by --jsbench-output, or its run.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_HEADERS = (
    "engine",
    "schemas",
    "declared",
    "empirical",
    "passed",
    "truncated",
    "compilation p50 (ms)",
    "p99 (ms)",
    "crashes",
    "hangs",
)
_DECISIONS = (
    "engine",
    "schemas",
    "declared",
    "valid, rejected",
    "invalid, accepted",
    "schemas without a wrong one",
    "compilation p50 (ms)",
    "p99 (ms)",
    "crashes",
    "hangs",
)


def main(arguments: list[str]) -> None:
    runs = [_read(Path(argument)) for argument in arguments]
    answered = [run for run in runs if not run["run"]["dataset"].get("labelled")]
    decided = [run for run in runs if run["run"]["dataset"].get("labelled")]
    lines: list[str] = []
    if answered:
        lines += _table(_HEADERS, [_answers(run) for run in answered])
    if decided:
        lines += ["", *_table(_DECISIONS, [_decisions(run) for run in decided])]
    sys.stdout.write("\n".join(lines) + "\n")


def _read(path: Path) -> dict[str, Any]:
    path = path / "run.json" if path.is_dir() else path
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def _name(run: dict[str, Any]) -> str:
    details = run["run"]["details"]
    package = {"outlines": "outlines-core"}.get(run["backend"], run["backend"])
    version = f" {details[package]}" if package in details else ""
    narrowed = ", bounded" if details.get("bounded") else ""
    free = "" if run["run"]["response_format"] == "json_schema" else f", {run['run']['response_format']}"
    adapted = "" if run["run"]["adapt"] == "verbatim" else f", {run['run']['adapt']}"
    return f"{run['backend']}{version}{narrowed}{free}{adapted}"


def _answers(run: dict[str, Any]) -> list[str]:
    figures = run["metrics"]
    return [
        _name(run),
        str(figures["planned"]),
        _rate(figures["declared_coverage"]),
        _rate(figures["empirical_coverage"]),
        _rate(figures["pass_rate"]),
        str(figures["failure_counts"]["truncated"]),
        *_grammars(figures),
    ]


def _decisions(run: dict[str, Any]) -> list[str]:
    figures = run["metrics"]
    return [
        _name(run),
        str(figures["planned"]),
        _rate(figures["declared_coverage"]),
        f"{figures['valid_rejected']} of {figures['valid_instances']}",
        f"{figures['invalid_accepted']} of {figures['invalid_instances']}",
        _rate(figures["pass_rate"]),
        *_grammars(figures),
    ]


def _grammars(figures: dict[str, Any]) -> list[str]:
    faults = figures["fault_counts"]
    return [
        _milliseconds(figures["grammar_compilation_p50"]),
        _milliseconds(figures["grammar_compilation_p99"]),
        str(faults.get("crash", 0)),
        str(faults.get("hang", 0)),
    ]


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _milliseconds(seconds: float | None) -> str:
    return "n/a" if seconds is None else f"{seconds * 1000:,.1f}"


def _table(headers: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in headers[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows)]


if __name__ == "__main__":
    main(sys.argv[1:])
