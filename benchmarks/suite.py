"""
Print the test suite tables of docs/decoding-results.md: `python -m benchmarks.suite RUN...`.

A run is a directory written by --jsbench-output with `--jsbench-instances=…/tests/DRAFT`, or its run.json.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

_DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")


def main(arguments: list[str]) -> None:
    runs: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for argument in arguments:
        path = Path(argument)
        data = json.loads((path / "run.json" if path.is_dir() else path).read_text(encoding="utf-8"))
        runs[Path(data["run"]["dataset"]["source"]).name][data["backend"]] = data
    found = {draft: runs[draft] for draft in _DRAFTS if draft in runs}
    sys.stdout.write("\n".join([*_totals(found), "", *_features(list(found.values())[-1])]) + "\n")


def _totals(runs: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    rows = [
        [draft, engine, *_figures(run["metrics"], run["tasks"])]
        for draft, engines in runs.items()
        for engine, run in sorted(engines.items())
    ]
    heads = ["draft", "engine", "cases", "declared", "passed", "valid, rejected", "invalid, accepted"]
    return _table([*heads, "features > 0 %", "> 50 %", "100 %", "hangs, crashes"], rows)


def _figures(total: dict[str, Any], tasks: dict[str, Any]) -> list[str]:
    rates = [rate for task in tasks.values() if (rate := task["metrics"]["pass_rate"]) is not None]
    faults = total["fault_counts"]
    return [
        str(total["planned"]),
        f"{total['declared_coverage']:.3f}",
        f"{total['pass_rate']:.3f}",
        f"{total['valid_rejected']} of {total['valid_instances']}",
        f"{total['invalid_accepted']} of {total['invalid_instances']}",
        *(f"{sum(map(reached, rates))} of {len(rates)}" for reached in (_some, _half, _all)),
        str(faults.get("hang", 0) + faults.get("crash", 0)),
    ]


def _some(rate: float) -> bool:
    return rate > 0


def _half(rate: float) -> bool:
    return rate > 0.5


def _all(rate: float) -> bool:
    return rate == 1


def _features(engines: dict[str, dict[str, Any]]) -> list[str]:
    names = sorted(engines)
    tasks = dict.fromkeys(task for engine in names for task in engines[engine]["tasks"])
    rows = []
    for task in sorted(tasks):
        ours = [engines[engine]["tasks"][task]["metrics"] for engine in names]
        rows.append([f"`{task}`", str(ours[0]["planned"]), *(_share(one["pass_rate"]) for one in ours)])
    return _table(["feature", "cases", *names], rows)


def _share(rate: float | None) -> str:
    return "n/a" if rate is None else f"{rate:.2f}"


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


if __name__ == "__main__":
    main(sys.argv[1:])
