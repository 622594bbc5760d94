from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs the extra pydantic")

from pydantic import ValidationError

from pytest_jsbench import EvalMetrics, EvalOutput, JSBenchError, load_evaluation
from pytest_jsbench.formats import load_format_schema
from pytest_jsbench.reports.run_json import load, metric_problems
from tests.support.commands import run
from tests.support.public_data import OPENADAPT_EVALS

KNOWN = load_format_schema("evaluation")["properties"]["metrics"]["properties"]
#: The documented example of an evaluation without clicks.
MARKED: dict[str, Any] = {
    "config_path": "configs/som.yaml",
    "backend": "claude",
    "dsl_mode": "som",
    "metrics": {
        "num_episodes": 32,
        "num_steps": 192,
        "action_type_accuracy": 1.0,
        "mean_coord_error": None,
        "coord_error_count": 0,
        "episode_success_rate": 1.0,
        "click_hit_rate": None,
        "element_accuracy": 1.0,
    },
}


def test_an_evaluation_is_read_with_types_and_written_again() -> None:
    found = EvalOutput.model_validate(MARKED)

    assert (found.metrics.num_steps, found.metrics.click_hit_rate, found.dsl_mode) == (192, None, "som")
    assert found.model_dump(mode="json", exclude_unset=True) == MARKED


def taken(metrics: dict[str, Any]) -> bool:
    try:
        EvalMetrics.model_validate(metrics)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("value", [0, 0.5, 1, 3, 32.0, 7, -0.1, -3, None, "x", True, [], 10**16, math.nan])
def test_models_accept_what_the_published_schema_accepts(value: Any) -> None:
    tried = [{**dict.fromkeys(KNOWN), name: value} for name in KNOWN]

    assert [taken(metrics) for metrics in tried] == [not metric_problems(metrics) for metrics in tried]


def test_retired_metric_is_none() -> None:
    assert EvalMetrics.model_validate({"click_hit_rate": -1.0, "delta": -1}).click_hit_rate is None


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"num_episodes": 3}, "metrics has no num_steps"),
        ({"pass_rate": 7}, "pass_rate is 7, which is greater than the maximum of 1"),
        ({"declared_coverage": 7}, "declared_coverage is 7"),
        ({"f1": [1, 2, 3]}, "metrics.f1 is an array"),
        ({}, "less than 1 property"),
    ],
)
def test_models_check_rules_across_fields(metrics: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvalMetrics.model_validate(metrics)


def test_a_run_of_ours_is_loaded_with_its_metrics_as_attributes(tmp_path: Path) -> None:
    found = load_evaluation(run(tmp_path / "run.json", "m", 15))

    assert found.metrics.pass_rate == 0.75  # type: ignore[attr-defined]
    assert (found.backend, found.metrics.num_steps) == ("scripted", None)
    assert EvalOutput.model_validate_json(found.model_dump_json()).metrics == found.metrics


def test_of_a_folder_of_runs_the_newest_is_loaded(tmp_path: Path) -> None:
    for name, passed in (("a", 5), ("b", 15)):
        (tmp_path / name).mkdir()
        run(tmp_path / name / "run.json", "m", passed)
        (tmp_path / name / "records.jsonl").write_text("x")

    assert load_evaluation(tmp_path) == load_evaluation(tmp_path / "b") != load_evaluation(tmp_path / "a")


def test_bare_metrics_are_loaded_and_errors_name_the_place(tmp_path: Path) -> None:
    old, wrong = tmp_path / "old.json", tmp_path / "wrong.json"
    old.write_text('{"action_type_accuracy": 0.469, "click_hit_rate": 0.85}')
    wrong.write_text(json.dumps({**MARKED, "metrics": {**MARKED["metrics"], "element_accuracy": 7}}))

    assert load_evaluation(old).metrics.click_hit_rate == 0.85
    with pytest.raises(JSBenchError, match=r"wrong\.json: metrics\.element_accuracy: .*less than.* \(found 7\)"):
        load_evaluation(str(wrong))


@pytest.mark.parametrize("path", sorted(OPENADAPT_EVALS.glob("*.json")) or [None], ids=str)
def test_files_of_another_project_are_loaded(path: Path | None) -> None:
    if path is None:
        pytest.skip("shared/data/openadapt_evals is not there")

    assert load_evaluation(path).model_dump(mode="json", exclude_unset=True).items() >= load(path).items()
