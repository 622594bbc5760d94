"""Check the agreement of repeated answers in whole runs: figures, gates, resumption, redaction and older records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bench import NUMBER, Bench, both_ways
from tests.support.commands import ran

FIXED = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:fixed", "--jsbench-dataset=schemas")
REPEATED = (*FIXED, "--jsbench-repeats=3")
OWN = f"""
import pytest

@pytest.mark.jsbench(schema={NUMBER!r}, prompt="How many?", repeats=3)
def test_repeated(jsbench):
    jsbench.generate()

@pytest.mark.jsbench(schema={NUMBER!r}, prompt="How many?")
def test_single(jsbench):
    jsbench.generate()
"""


@pytest.fixture
def three(bench: Bench) -> Bench:
    """Create a case with equal answers, one with different answers, and one that does not always conform."""
    bench.case("steady", ['{"n": 1}', '{ "n": 1.0 }', '{"n":1}'])
    bench.case("changing", ['{"n": 1}', '{"n": 2}', '{"n": 1}'])
    bench.case("failing", ['{"n": 1}', '{"n": -1}', "Sure!"])
    return bench


def run(bench: Bench, *args: str) -> pytest.RunResult:
    bench.write({"answers.json": json.dumps(bench.answers)})
    return bench.run_only(*args)


def metrics_of(bench: Bench, folder: str = "out") -> dict[str, Any]:
    metrics: dict[str, Any] = bench.run_json(folder)["metrics"]
    return metrics


@both_ways
def test_run_with_repeats_reports_its_agreement(three: Bench) -> None:
    result = run(three, *REPEATED, "--jsbench-output=out", "--jsbench-gate=agreement>=0.9", "--junitxml=junit.xml")

    assert result.ret == 1
    metrics = metrics_of(three)
    assert metrics["agreement"] == pytest.approx(4 / 6)
    assert metrics["field_agreement"]["n"] == pytest.approx(4 / 6)
    cases = three.run_json()["cases"]
    assert {name: case.get("agreement") for name, case in cases.items()} == {
        "orders::changing": [1, 3],
        "orders::failing": None,
        "orders::steady": [3, 3],
    }
    result.stdout.fnmatch_lines(
        [
            "agreement  4/6 = 0.667 (95 % interval *",
            "*1 field with different values: n 4/6",
            "*1 case with different answers: orders::changing 1/3",
            "gate       agreement 4/6 = 0.6667, gate >= 0.9: NOT MET",
        ]
    )
    assert 'name="jsbench.agreement" value="0.666667"' in (three.path / "junit.xml").read_text()


def test_run_with_single_attempts_has_no_digests_and_reports_no_agreement(bench: Bench) -> None:
    bench.case("a")

    result = run(bench, *FIXED, "--jsbench-output=out", "-v")

    assert result.ret == 0
    assert all("value_digest" not in record for record in bench.records())
    assert not [line for line in result.outlines if line.startswith("agreement") or "Agreement" in line]
    assert all("agreement" not in case for case in bench.run_json()["cases"].values())


def test_gate_on_agreement_without_repeats_fails_before_any_call(bench: Bench) -> None:
    bench.case("a")

    result = run(bench, *FIXED, "--jsbench-output=out", "--jsbench-gate=agreement>=0.9")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'agreement' needs 2 attempts per case: found 1; use --jsbench-repeats=2*"])


def test_repeated_test_of_the_project_has_agreement(bench: Bench) -> None:
    bench.answers |= {"test_repeated": ['{"n": 1}', '{"n": 2}', '{"n": 2}']}
    bench.write({"test_own.py": OWN})

    run(bench, *FIXED[:2], "--jsbench-output=out", "test_own.py")

    assert metrics_of(bench)["agreement"] == pytest.approx(1 / 3)
    having = {record["id"] for record in bench.records() if "value_digest" in record}
    assert having == {"test_repeated"}


def test_judge_computes_the_agreement_of_older_records(three: Bench) -> None:
    run(three, *REPEATED, "--jsbench-output=out")
    path = three.run_in() / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    digests = [line.pop("value_digest", None) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    (three.run_in() / "run.json").unlink()
    _, text = ran("judge", three.run_in(), "--output", three.path / "judged")

    assert "agreement  4/6 = 0.667" in text
    again = [json.loads(line) for line in (three.path / "judged" / "records.jsonl").read_text().splitlines()]
    assert [line.get("value_digest") for line in again] == digests
    assert sum(digest is not None for digest in digests) == 7
    compared = json.loads(ran("compare", three.run_in(), three.path / "judged", "--json")[1])
    assert [each["metrics"]["agreement"] for each in compared["evaluations"]] == [None, pytest.approx(4 / 6)]


def test_resumed_run_keeps_the_digests_of_its_answers(three: Bench) -> None:
    run(three, *REPEATED, "--jsbench-output=out")

    run(three, *REPEATED, "--jsbench-output=more", f"--jsbench-resume={three.run_in()}")

    assert metrics_of(three, "more")["agreement"] == pytest.approx(4 / 6)


def test_redacted_run_has_agreement_without_names_and_keys_of_runs_are_not_mixed(three: Bench) -> None:
    run(three, *REPEATED, "--jsbench-output=out", "--jsbench-redact")

    metrics = metrics_of(three)
    digests = [record["value_digest"] for record in three.records() if "value_digest" in record]
    assert metrics["agreement"] == pytest.approx(4 / 6)
    assert metrics["field_agreement"] == {}
    assert all(digest.keys() == {"whole", "is_cut", "key"} for digest in digests)

    path = three.run_in() / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"repeat": 2' not in line and '"repeat":2' not in line))
    run(three, *REPEATED, "--jsbench-output=more", "--jsbench-redact", f"--jsbench-resume={three.run_in()}")

    digests = [record["value_digest"] for record in three.records("more") if "value_digest" in record]
    assert len({digest["key"] for digest in digests}) == 2
    # only the pairs of the first two answers to each case, which have the same key
    assert metrics_of(three, "more")["agreement"] == 0.5
