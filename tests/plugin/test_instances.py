"""Labelled answers are asked about, and no model is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.bench import Bench, with_workers
from tests.support.run_files import validate

INTEGER = {"type": "integer"}


@pytest.fixture
def labelled(bench: Bench) -> Bench:
    schemas: Mapping[str, Any] = {
        "right": INTEGER,
        "wrong": INTEGER,
        "declined": INTEGER | {"title": "declines"},
        "hung": INTEGER | {"title": "hangs"},
        "broken": {"type": "intger"},
    }
    answers = [("right", True, 1), ("right", False, "1"), ("declined", True, 1), ("hung", True, 1), ("broken", True, 1)]
    answers += [("wrong", True, -1), ("wrong", True, 2), ("wrong", False, 2.5)]
    bench.write(
        {
            "labels/schemas.jsonl": "".join(
                json.dumps({"schema_id": name, "task": "easy", "schema": schema}) + "\n"
                for name, schema in schemas.items()
            ),
            "labels/instances.jsonl": "".join(
                json.dumps({"id": f"{name}#{n}", "schema_id": name, "valid": valid, "data": data}) + "\n"
                for n, (name, valid, data) in enumerate(answers)
            ),
        }
    )
    return bench


def run(bench: Bench, *args: str, engine: str = "answering:Grammars") -> pytest.RunResult:
    return bench.run_only(f"--jsbench-engine={engine}", "--jsbench-instances=labels", *args)


@pytest.mark.slow
@with_workers
def test_the_grammars_wrong_decisions_fail_a_case_and_are_counted(labelled: Bench) -> None:
    result = run(labelled, "--jsbench-output=out", "-rs")
    result.assert_outcomes(passed=1, failed=3, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "wrong_decision (both): 1 of 2 valid answers rejected (wrong#5), 1 of 1 invalid answers accepted (wrong#7)",
            "  again:  pytest --jsbench-engine=answering:Grammars --jsbench-instances=labels jsbench::easy::wrong",
            "easy *0.25 *0.50 *1/3* *1/2* *2.00 *2 *1",
            " *(.01-.81) *(.07-.93) *(0-.97) *(.01-.99)",
            "failures   *wrong_decision 1*",
        ]
    )
    data = labelled.run_json()
    validate(labelled)
    figures = data["tasks"]["easy"]["metrics"]
    assert (figures["valid_instances"], figures["valid_rejected"]) == (3, 1)
    assert (figures["invalid_instances"], figures["invalid_accepted"]) == (2, 1)
    assert figures["fault_counts"] == {"hang": 1}
    assert data["run"]["dataset"]["labelled"] is True
    (wrong,) = (record for record in labelled.records() if record["id"] == "wrong")
    assert wrong["generation"]["decisions"][0] == {"id": "wrong#5", "valid": True, "accepted": False}
    assert (labelled.path / "closed").read_text() == "xx"


def test_what_cannot_be_asked_is_refused_before_anything_runs(labelled: Bench) -> None:
    result = run(labelled, engine="scripted")
    result.stderr.fnmatch_lines(["ERROR: engine 'scripted' has no grammar * expected llguidance, outlines, xgrammar"])


def test_project_tests_are_skipped_where_no_model_is_called(labelled: Bench) -> None:
    labelled.write({"test_one.py": "def test_it(jsbench): raise AssertionError"})

    result = run(labelled, "test_one.py", "-rs")

    result.assert_outcomes(passed=1, failed=3, skipped=2)
    result.stdout.fnmatch_lines(["jsbench: labelled answers of labels (no model calls), 5 cases, 16 in flight"])
    result.stdout.fnmatch_lines(["SKIPPED*--jsbench-instances calls no model; omit the option to run a project's own*"])
