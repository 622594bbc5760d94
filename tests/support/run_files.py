"""Write the files of runs, and check and compare those of a run of pytest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.records import Attempt, Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from tests.support import examples
from tests.support.bench import Bench
from tests.support.examples import replace

#: Keys whose values differ in each run.
TIMES = {"started_at", "queue_s", "timing"}
#: Names of the cases of all shards.
NAMES = "abcdefg"


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def validate(bench: Bench) -> None:
    """Validate all lines of a run's records, and its run.json, against the published schemas."""
    for name, values in (("records", bench.lines()), ("run", [bench.run_json()])):
        schema = json.loads(files("pytest_jsbench.formats").joinpath(f"{name}.schema.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        for value in values:
            validator.validate(value)


def store_run(folder: Path, run: Run, *, ended: bool = True) -> None:
    """Write a run's directory, with a run.json if the run has ended."""
    folder.mkdir(parents=True)
    journal.write(folder / "records.jsonl", run.metadata, run.records)
    if ended:
        write_run(folder / "run.json", run_to_dict(run, summarize(run), config_path="unknown"))


def store_shard(
    folder: Path, shard: str | None, records: Sequence[Record], plan: str, *, own: Sequence[str] = (), **changes: Any
) -> Path:
    """Write the directory of a run of this shard, or of all cases."""
    folder.mkdir(parents=True)
    dataset = {"source": "builtin", "cases": len(NAMES), "cases_digest": f"sha256:{1:064}", "shard": shard}
    metadata = replace(examples.metadata(), **{"dataset": dataset, **changes})
    keys = [CaseKey(task="simple", id=name) for name in plan] + [CaseKey(task="test_it", id=name) for name in own]
    journal.write(folder / "records.jsonl", metadata.with_plan(Attempt(key, 0) for key in keys), records)
    return folder
