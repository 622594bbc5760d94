from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.lab.interchange.evaluation_files import aggregate
from tests.support.commands import failed, ran, run, shown


def written(path: Path, **metrics: Any) -> Path:
    path.write_text(json.dumps({"config_path": "c.yaml", "backend": "qwen3", "metrics": metrics}))
    return path


def invalid(*arguments: object) -> str:
    status, text = ran("validate", *arguments)
    assert status == 1
    return text


def test_validate_prints_one_line_per_problem_with_found_and_expected(tmp_path: Path) -> None:
    good = written(tmp_path / "good.json", f1=0.5, click_hit_rate=None)
    bad = written(tmp_path / "bad.json", click_hit_rate=7, num_steps="x", num_episodes=-3)
    bare = tmp_path / "bare.json"
    bare.write_text('{"f1": 0.5}')
    torn = tmp_path / "torn.json"
    torn.write_text('{"metrics"')

    lines = invalid(good, bad, bare, torn, tmp_path / "none.json").splitlines()

    assert lines[0] == f"{good}: valid"
    assert f"{bad}: metrics.click_hit_rate is 7, which is greater than the maximum of 1" in lines
    assert f"{bad}: metrics.num_episodes is -3, which is less than the minimum of 0" in lines
    assert f'{bad}: metrics.num_steps is "x", which is not of types "null", "integer"' in lines
    assert f"{bad}: metrics has no action_type_accuracy" in lines
    assert "`jsbench migrate` adds the fields config_path" in lines[-4]
    assert lines[-3].startswith(f"{torn}: ")
    assert lines[-2] == f"{tmp_path / 'none.json'}: cannot be read: No such file or directory"
    assert lines[-1] == "5 files, 4 not valid"


def test_a_run_is_valid_until_a_rate_of_one_of_its_tasks_is_seven(tmp_path: Path) -> None:
    path = run(tmp_path / "run.json", "m", 18)
    assert shown("validate", path) == f"{path}: valid\n1 file, 0 not valid\n"
    data = json.loads(path.read_text())
    next(iter(data["tasks"].values()))["metrics"]["pass_rate"] = 7
    path.write_text(json.dumps(data))

    assert ".metrics.pass_rate is 7, which is greater than the maximum of 1" in invalid(path)
    (said,) = json.loads(invalid(path, "--json"))["files"]
    assert (said["file"], len(said["problems"])) == (str(path), 1)


def test_what_is_no_evaluation_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[]")

    assert invalid(path).startswith(f"{path}: is not a JSON object; expected an evaluation")


def test_each_run_of_a_folder_is_checked_and_averaged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run(tmp_path / name / "run.json", "m", 18)
        (tmp_path / name / "records.jsonl").touch()

    assert shown("validate", tmp_path).splitlines() == [
        *(f"{tmp_path / name}: valid" for name in ("a", "b")),
        "2 files, 0 not valid",
    ]
    assert json.loads(shown("aggregate", tmp_path, "--json"))["evaluations"] == 2


def test_a_baseline_and_a_migrated_file_are_valid(tmp_path: Path) -> None:
    shown("baseline", run(tmp_path / "run.json", "m", 18), "-o", tmp_path / "base.json")
    old = tmp_path / "old.json"
    old.write_text('{"action_type_accuracy": 0.469, "click_hit_rate": 0.85}')
    shown("migrate", old, "--in-place")

    assert shown("validate", tmp_path / "base.json", old).endswith("2 files, 0 not valid\n")


def test_files_are_averaged_with_nulls_counted_and_weights_named(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.json", num_steps=10, action_type_accuracy=1.0, click_hit_rate=None),
        written(tmp_path / "b.json", num_steps=30, action_type_accuracy=0.5),
    ]

    said = shown("aggregate", *files)

    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line}
    assert rows["action_type_accuracy"] == ["2", "0", "0", "0.75", "0.625"]
    assert rows["click_hit_rate"] == ["0", "1", "1", "n/a", "n/a"]
    assert "Absent" in rows["Metric"]
    assert "weighted   by num_steps: action_type_accuracy\n" in said
    assert max(map(len, said.splitlines())) <= 80


def test_runs_are_averaged_by_their_attempts_within_80_columns(tmp_path: Path) -> None:
    files = [run(tmp_path / "a.json", "m", 5, of=10), run(tmp_path / "b.json", "n", 30, of=30)]

    said = shown("aggregate", *files)
    told = json.loads(shown("aggregate", *files, "--json"))

    assert max(map(len, said.splitlines())) <= 80
    assert "Absent" not in said
    assert "declared_coverage_excluding_errors " in said
    rate = next(one for one in told["metrics"] if one["metric"] == "pass_rate")
    assert (rate["mean"], rate["weighted_mean"], rate["weight"]) == (0.75, 0.875, "planned")


def test_a_weight_that_no_file_has_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "a.json", num_steps=10)

    assert "did you mean 'num_steps'?" in failed(capsys, "aggregate", path, "--weight", "num_step")


SMALL: dict[str, float | None] = {"num_steps": 10, "action_type_accuracy": 1.0, "click_hit_rate": None, "f1": 0.5}
LARGE: dict[str, float | None] = {"num_steps": 30, "action_type_accuracy": 0.5, "f1": 0.7}


@pytest.mark.parametrize(
    ("metric", "weight", "more", "expected"),
    [
        ("action_type_accuracy", None, {}, {"mean": 0.75, "weighted_mean": 0.625, "weight": "num_steps"}),
        ("action_type_accuracy", None, {"action_type_accuracy": 0.0}, {"mean": 0.5, "values": 3, "weighted": 2}),
        ("action_type_accuracy", None, {"action_type_accuracy": 0.0}, {"weighted_mean": 0.625}),
        ("click_hit_rate", None, {}, {"mean": None, "weighted_mean": None, "values": 0, "nulls": 1, "absent": 2}),
        (
            "click_hit_rate",
            None,
            {"click_hit_rate": 0.4, "coord_error_count": 5},
            {"mean": 0.4, "values": 1, "nulls": 1, "absent": 1},
        ),
        ("f1", None, {}, {"weighted_mean": None, "absent": 1}),
        ("f1", "num_steps", {}, {"weighted_mean": pytest.approx(0.65)}),
    ],
)
def test_aggregate_has_plain_and_weighted_means_without_nulls(
    metric: str, weight: str | None, more: dict[str, float | None], expected: dict[str, Any]
) -> None:
    (row,) = (row for row in aggregate([SMALL, LARGE, more], weight=weight) if row.metric == metric)

    assert {name: getattr(row, name) for name in expected} == expected


def test_aggregate_skips_bounds_and_percentiles_and_weights_times() -> None:
    ours: list[dict[str, float | None]] = [
        {"pass_rate": 0.5, "pass_rate_ci_low": 0.1, "planned": 1, "tgt_mean": 1.0, "tgt_p50": 1.0, "tgt_count": 1},
        {"pass_rate": 1.0, "pass_rate_ci_low": 0.9, "planned": 3, "tgt_mean": 2.0, "tgt_p50": 2.0, "tgt_count": 4},
    ]

    found = aggregate(ours)

    assert [one.metric for one in found] == ["pass_rate", "planned", "tgt_mean", "tgt_count"]
    assert [one.weighted_mean for one in found] == [0.875, None, 1.8, None]
