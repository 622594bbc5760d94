from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.lab.interchange.every_eval_ever import Version, write
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.public_data import DATA

SCHEMAS = DATA / "every_eval_ever"
needs_schemas = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"the schemas of every_eval_ever are not at {SCHEMAS}")
HOSTILE = '<script>alert(1)</script>\x1b[31m\u202e\ud800"}\n'
RECORDS = (
    record("passed"),
    record("violated", verdict=examples.VIOLATED, generation=replace(examples.completion(HOSTILE), reasoning=HOSTILE)),
    record("unstreamed", generation=examples.completion(ttft=None, tokens=None)),
    record("broke", task="hard", verdict=examples.BROKEN, generation=examples.failed()),
    record("declined", task="hard", verdict=examples.UNSUPPORTED, generation=examples.declined()),
    record("excluded", task="hard", verdict=examples.EXCLUDED),
    replace(record("passed"), repeat=1),
)


def exported(
    folder: Path, *records: Record, version: Version = "0.3.0", **changes: object
) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    run = examples.run(*(records or RECORDS))
    run = Run(metadata=examples.metadata(**changes), planned=run.planned, outcomes=run.outcomes)
    path = write(folder, run, summarize(run), version=version)
    data = json.loads(path.read_text())
    rows = (folder / data["detailed_evaluation_results"]["file_path"]).read_text()
    return path, data, [json.loads(line) for line in rows.splitlines()]


def validate(instance: object, name: str) -> None:
    schema = json.loads((SCHEMAS / name).read_text())
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(instance)


ROW, ROW_OF_THE_SEEDS = "instance_level_eval.schema.json", "instance_level_eval-0.2.0.schema.json"


@needs_schemas
@pytest.mark.parametrize(
    ("version", "schema", "other"), [("0.3.0", ROW, ROW_OF_THE_SEEDS), ("0.2.0", ROW_OF_THE_SEEDS, ROW)]
)
def test_aggregate_and_rows_conform_to_their_version_only(
    tmp_path: Path, version: Version, schema: str, other: str
) -> None:
    _, data, rows = exported(tmp_path, version=version, model="meta-llama/Llama-3.1-8B", provider="openai")

    validate(data, "eval.schema.json")
    for row in rows:
        validate(row, schema)
        with pytest.raises(jsonschema.ValidationError):
            validate(row, other)


def test_the_pair_is_laid_out_and_joined_as_that_project_asks(tmp_path: Path) -> None:
    path, data, rows = exported(tmp_path, model="meta-llama/Llama-3.1-8B")
    detail = data["detailed_evaluation_results"]
    content = (tmp_path / detail["file_path"]).read_bytes()

    parts = path.relative_to(tmp_path).parts
    assert parts[:4] == ("data", "pytest-jsbench", "meta-llama", "Llama-3.1-8B")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json", parts[4])
    assert detail["file_path"] == path.relative_to(tmp_path).as_posix().replace(".json", "_samples.jsonl")
    assert (detail["total_rows"], detail["checksum"]) == (6, hashlib.sha256(content).hexdigest())
    results = {one["evaluation_result_id"]: one["evaluation_name"] for one in data["evaluation_results"]}
    for row in rows:
        assert (row["evaluation_id"], row["model_id"]) == (data["evaluation_id"], data["model_info"]["id"])
        assert results[row["evaluation_result_id"]] == row["evaluation_name"]
    assert len({row["sample_id"] for row in rows}) == 6


def test_runs_and_shards_have_unique_deterministic_names(tmp_path: Path) -> None:
    names = ["8b5ed9a0-0000-4000-8000-00000000000a", "8b5ed9a0-0000-4000-8000-00000000000b", None]

    first, second, old = ([exported(tmp_path, uuid=name)[1]["evaluation_id"] for _ in range(2)] for name in names)

    assert [len(set(ids)) for ids in (first, second, old)] == [1, 1, 1]
    assert len({*first, *second, *old}) == 3
    assert all(re.search(r"/\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", name) for name in (*first, *old))
    shards = [{"source": "builtin", "cases": 3, "shard": shard} for shard in (None, "1/2", "2/2")]
    together = [exported(tmp_path, uuid=None, dataset=dataset)[1]["evaluation_id"] for dataset in shards]
    assert len({*old, *together}) == 3


def test_inapplicable_metric_has_no_result_and_unreported_value_is_null(tmp_path: Path) -> None:
    _, data, rows = exported(tmp_path, record(generation=examples.completion(ttft=None, tokens=None)))

    metrics = [one["metric_config"]["metric_id"] for one in data["evaluation_results"]]
    assert "pytest-jsbench.ttft" not in metrics
    assert "pytest-jsbench.tgt" in metrics
    assert rows[0]["token_usage"] is None
    assert rows[0]["performance"]["time_to_first_token_ms"] is None


def test_each_task_has_its_own_coverage_times_and_failure_rates(tmp_path: Path) -> None:
    _, data, _ = exported(tmp_path)
    scores = {
        (one["evaluation_name"], one["metric_config"]["metric_id"].removeprefix("pytest-jsbench.")): one[
            "score_details"
        ]["score"]
        for one in data["evaluation_results"]
    }

    simple, hard, total = (f"pytest-jsbench{task}" for task in (".simple", ".hard", ""))
    assert scores[simple, "declared_coverage"] == 1
    assert (scores[hard, "declared_coverage"], scores[hard, "error_rate"]) == (0, 0.5)
    assert (scores[simple, "empirical_coverage"], scores[total, "empirical_coverage"]) == (0.75, 0.75)
    assert (hard, "empirical_coverage") not in scores
    assert (scores[simple, "tgt"], scores[simple, "ttft"], scores[simple, "tpot"]) == (1.0, 0.2, 80.0)
    assert (hard, "tgt") not in scores
    assert scores[simple, "failure_rates.schema_violation"] == 0.25
    assert scores[hard, "failure_rates.schema_violation"] == 0
    assert (scores[hard, "failure_rates.api_error"], scores[total, "failure_rates.api_error"]) == (0.5, 1 / 6)
    failures = [one for one in data["evaluation_results"] if "#hard.failure_rates" in one["evaluation_result_id"]]
    assert all(one["metric_config"]["lower_is_better"] for one in failures)
    assert (total, "failure_rates.truncated") not in scores


def test_results_of_a_task_that_is_called_total_are_not_those_of_the_run(tmp_path: Path) -> None:
    _, data, rows = exported(tmp_path, record("a", task="total"), record("b", verdict=examples.VIOLATED))

    results = {one["evaluation_result_id"]: one["score_details"]["score"] for one in data["evaluation_results"]}
    assert len(results) == len(data["evaluation_results"])
    assert [results[row["evaluation_result_id"]] for row in rows] == [1.0, 0.0]
    assert results[f"{data['evaluation_id']}#pass_rate"] == 0.5


def test_a_broken_call_is_an_error_without_an_answer(tmp_path: Path) -> None:
    _, _, rows = exported(tmp_path)
    (broke,) = (row for row in rows if row["sample_id"] == "hard::broke")

    assert broke["error"].startswith("api_error (timeout): ")
    assert (broke["output"], broke["evaluation"]) == ({"raw": []}, {"score": 0.0, "is_correct": False})
    assert broke["metadata"]["failure_type"] == "api_error"


@pytest.mark.parametrize(
    "model", ["../../x", "/etc/passwd", "data", "a/../b", "..", "\x1b[31mé\u202e", "x" * 500, "C:\\x"]
)
def test_a_hostile_model_name_stays_in_its_place(tmp_path: Path, model: str) -> None:
    path, data, _ = exported(tmp_path / "out", model=model)

    inside = path.resolve().relative_to((tmp_path / "out").resolve())
    assert len(inside.parts) == 5
    assert inside.parts[:2] == ("data", "pytest-jsbench")
    assert "data" not in inside.parts[2:]
    assert data["model_info"]["id"] == f"{inside.parts[2]}/{inside.parts[3]}"


def test_a_run_without_an_attempt_has_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(JSBenchError, match="nothing to export"):
        exported(tmp_path, record("x", verdict=examples.EXCLUDED))


def test_that_projects_own_validator_takes_the_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("every_eval_ever", reason="needs every-eval-ever, and Python 3.12")
    path, data, _ = exported(tmp_path, model="meta-llama/Llama-3.1-8B")
    files = [str(path), str(tmp_path / data["detailed_evaluation_results"]["file_path"])]
    monkeypatch.chdir(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "every_eval_ever", "validate", *files], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_actual_sampling_and_engine_options_are_exported(tmp_path: Path) -> None:
    sampled = GenerationParams(max_tokens=64, temperature=0.0, seed=6)

    def of(*, bounded: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        params = {"max_tokens": 64, "temperature": 0.0, "seed": 5}
        details = {"xllamacpp": "1.2.3", "bounded": bounded, "slots": 4}
        _, data, rows = exported(
            tmp_path / str(bounded), replace(record("a"), params=sampled), params=params, details=details
        )
        return data["evaluation_results"][0]["generation_config"], rows[0]["metadata"]

    config, row = of(bounded=True)
    assert config["generation_args"] == {"temperature": 0.0, "max_tokens": 64}
    assert config["additional_details"]["engine_settings"] == '{"bounded": true}'
    assert (row["temperature"], row["max_tokens"], row["seed"]) == ("0", "64", "6")
    assert of(bounded=False)[0] != config


def test_each_variant_is_an_evaluation_of_its_own(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp", c="mm")

    folder = write(tmp_path, run, summarize(run))

    files = sorted(folder.rglob("*.json"))
    found = {json.loads(path.read_text())["model_info"]["name"]: json.loads(path.read_text()) for path in files}
    assert found.keys() == {"model a", "model b"}
    assert {one["source_metadata"]["additional_details"]["variant"] for one in found.values()} == {"a", "b"}
    assert [one["detailed_evaluation_results"]["total_rows"] for one in found.values()] == [2, 2]
    assert len({one["evaluation_id"] for one in found.values()}) == 2


def test_variants_of_one_model_do_not_write_over_each_other(tmp_path: Path) -> None:
    metadata = examples.variants(a={"prompt": "schema"}, b={"prompt": "chat"})
    run = examples.run_of_variants(metadata, *(replace(record("x"), variant=name) for name in "ab"))

    folder = write(tmp_path, run, summarize(run))

    assert len(list(folder.rglob("*_samples.jsonl"))) == 2


@pytest.mark.parametrize(("version", "trace"), [("0.3.0", ["Hm."]), ("0.2.0", "Hm.")])
def test_reasoning_is_a_trace_next_to_the_answer(tmp_path: Path, version: Version, trace: object) -> None:
    thought = record("thought", generation=replace(examples.completion("{}"), reasoning="Hm."))
    _, _, rows = exported(tmp_path, thought, record("passed"), version=version)
    assert [row["output"].get("reasoning_trace") for row in rows] == [trace, None]
