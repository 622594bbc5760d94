"""`run.json`: the stable evaluation JSON of seed 004, with the run's own fields beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.metrics.gates import GateResult
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.runs.records import Run

#: the version of `run.json`; raised when a field is added
RUN_VERSION = "1.3"


def run_to_dict(
    run: Run,
    summary: Summary,
    *,
    config_path: str,
    gates: Sequence[GateResult] = (),
    baseline: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The run's metrics and what produced them, as JSON values."""
    return {
        "schema_version": RUN_VERSION,
        "config_path": config_path,
        "backend": run.metadata.engine,
        "metrics": summary.total.to_dict(),
        "tasks": {task: {"metrics": metrics.to_dict()} for task, metrics in summary.tasks.items()},
        "keywords": {name: figures.to_dict() for name, figures in summary.keywords.items()},
        "disputed": [str(key) for key in summary.disputed],
        "run": {
            **{name: value for name, value in run.metadata.to_dict().items() if name != "plan"},
            "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": summary.total.complete,
            "resumed": run.resumed,
            "dataset": {**run.metadata.dataset, "digest": _dataset_digest(run)},
        },
        "cases": {str(key): outcome.to_dict() for key, outcome in summary.outcomes.items()},
        "verdict": None if run.verdict is None else run.verdict.to_dict(),
        "gates": [{"gate": one.gate.text, "met": one.met, "message": one.message} for one in gates],
        "baseline": baseline,
    }


def write_run(path: Path, data: Mapping[str, Any]) -> None:
    """Write it in one step; JournalError when the disk will not take it."""
    write_atomically(path, json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False) + "\n")


def _dataset_digest(run: Run) -> str:
    return digest(sorted([str(record.key), record.schema_digest] for record in run.records))
