from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from pytest_jsbench.runs.records import Record
from tests import examples
from tests.examples import record


@pytest.mark.parametrize(
    "records",
    [
        (),
        (record(),),
        (
            record(schema={"type": "object"}),
            record("b", schema={"minimum": 0}, verdict=examples.VIOLATED),
            record("c", verdict=examples.EXCLUDED),
            record("d", verdict=examples.DISPUTED),
        ),
        (record(verdict=examples.BROKEN, generation=examples.failed()),),
    ],
)
def test_it_conforms_to_the_published_schema_and_is_read_as_seed_004_says(
    tmp_path: Path, records: tuple[Record, ...]
) -> None:
    run = examples.run(*records)
    summary = summarize(run)
    gate = check(Gate.parse("pass_rate>=0.5"), summary)
    baseline = compare(summary.outcomes, summary.outcomes).to_dict(source="base.json")

    written = run_to_dict(run, summary, config_path="pytest.ini", gates=[gate], baseline=baseline)
    write_run(tmp_path / "run.json", written)

    data = json.loads((tmp_path / "run.json").read_text())
    schema = json.loads(files("pytest_jsbench.formats").joinpath("run.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(data)
    assert data.get("metrics", data)["planned"] == summary.total.planned
    assert (data["config_path"], data["backend"]) == ("pytest.ini", "scripted")
    assert data["gates"] == [{"gate": "pass_rate>=0.5", "met": gate.met, "message": gate.message}]
    assert list(data["cases"]) == [str(key) for key in summary.outcomes]
    assert data["keywords"].keys() == summary.keywords.keys()
    assert data["disputed"] == [str(one.key) for one in records if one.verdict.disputed]


def test_every_metric_it_writes_is_in_the_published_schema() -> None:
    schema = json.loads(files("pytest_jsbench.formats").joinpath("run.schema.json").read_text())
    described = set(schema["$defs"]["metrics"]["properties"])

    assert set(summarize(examples.run(record())).total.to_dict()) == described
