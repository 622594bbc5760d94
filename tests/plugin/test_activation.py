from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from tests.support.bench import Bench, with_workers
from tests.support.run_files import validate

OWN = """
def negative(record):
    return "negative_number" if record.verdict.keyword == "minimum" else None

def broken(record):
    raise ValueError("no mood")
"""
CONFTEST = """
import os
import pathlib

def process():
    return os.environ.get("PYTEST_XDIST_WORKER", "no worker")

def pytest_runtest_logreport(report):
    if report.when == "call" and "jsbench_code_in_german" in report.keywords:
        pathlib.Path("keywords.log").write_text(report.nodeid)

def pytest_jsbench_classify(record):
    pathlib.Path("classified.log").write_text(process())
    text = getattr(record.generation, "text", "")
    return "in_german" if "leider" in text else None

def pytest_jsbench_record(config, record):
    if record.codes:
        pathlib.Path(f"{record.key.id}.log").write_text(" ".join([*record.codes, "in", process()]))
"""
OWN_TESTS = """
import pytest

@pytest.mark.jsbench(schema={"type": "object"}, prompt="An invoice, please.")
def test_invoice(jsbench):
    jsbench.generate()

@pytest.mark.jsbench(schema={"type": "object"}, prompt="An order, please.")
def test_order(jsbench):
    assert not jsbench.generate(check=False).verdict.passed
"""


@pytest.fixture
def three(bench: Bench) -> Bench:
    bench.write({"own_classifiers.py": OWN, "conftest.py": CONFTEST})
    bench.case("fine")
    bench.case("low", '{"n": -1}')
    bench.case("polite", "Das geht leider nicht.")
    return bench


@pytest.mark.slow
@with_workers
def test_code_appears_in_all_outputs_and_changes_no_outcome(three: Bench) -> None:
    result = three.run(
        *("--strict-markers", "--jsbench-output=out", "--junitxml=junit.xml"),
        *("--jsbench-classify=own_classifiers:negative", "--jsbench-classify=own_classifiers:broken"),
    )

    result.assert_outcomes(passed=1, failed=2)
    records = {record["id"]: record for record in three.records()}
    assert {name: record["codes"] for name, record in records.items()} == {
        "fine": [],
        "low": ["negative_number"],
        "polite": ["in_german"],
    }
    assert records["low"]["verdict"]["failure_type"] == "schema_violation"
    assert three.run_json()["metrics"]["code_counts"] == {"negative_number": 1, "in_german": 1}
    assert three.run_json()["run"]["classifiers"] == [
        *("own_classifiers:negative", "own_classifiers:broken", "pytest_jsbench_classify")
    ]
    result.stdout.fnmatch_lines(["*codes:  negative_number", "codes      negative_number 1, in_german 1"])
    summary = " ".join(result.stdout.str().split())
    message = "classifier 'own_classifiers:broken', a function of your own, raised ValueError: no mood, at orders::"
    assert re.search(rf"verdict FAILED: {re.escape(message)}(low|polite) and 1 more; 2 tests failed", summary)
    assert summary.count("no mood") == 1
    assert (three.path / "keywords.log").read_text() == "jsbench::orders::polite"
    assert (three.path / "polite.log").read_text() == "in_german in no worker"
    assert (three.path / "classified.log").read_text() in ({"gw0", "gw1"} if three.workers else {"no worker"})
    properties = ET.parse(three.path / "junit.xml").iter("property")
    codes = {p.get("value") for p in properties if p.get("name") == "jsbench.codes"}
    assert codes == {"negative_number", "in_german"}
    validate(three)


@pytest.mark.slow
def test_answers_to_a_projects_tests_have_codes_too(three: Bench) -> None:
    three.write({"test_own.py": OWN_TESTS})

    result = run_own(three)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*codes:  in_german", "codes      in_german 2"])


def test_a_run_whose_tests_pass_does_not_where_a_classifier_breaks(three: Bench) -> None:
    three.write({"test_own.py": OWN_TESTS})

    result = run_own(three, "-k", "order", "--jsbench-classify=own_classifiers:broken", "--jsbench-gate=n>=1")

    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "verdict    FAILED: classifier 'own_classifiers:broken', a function of your own,",
            "           raised ValueError: no mood, at test_own::test_order",
        ]
    )


def run_own(bench: Bench, *arguments: str) -> pytest.RunResult:
    bench.answers |= dict.fromkeys(("test_invoice", "test_order"), "Das geht leider nicht.")
    bench.write({"answers.json": json.dumps(bench.answers)})
    scripted = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json")
    return bench.run_only(*scripted, "test_own.py", *arguments)


def test_answers_taken_over_are_classified_as_this_run_classifies(bench: Bench) -> None:
    bench.write({"own_classifiers.py": OWN})
    bench.case("low", '{"n": -1}')
    bench.run("--jsbench-output=out")

    bench.run("--jsbench-output=again", "--jsbench-resume=out", "--jsbench-classify=own_classifiers:negative")

    assert bench.records()[0]["codes"] == []
    assert bench.records("again")[0]["codes"] == ["negative_number"]
    assert bench.run_json("again")["run"]["resumed"] == 1


EARLY_JUDGE = """
import os
import pathlib
import time

from pytest_jsbench.core.guarded_calls import guarded_calls

end = time.monotonic() + float(pathlib.Path("patience").read_text())
while not guarded_calls().is_running() and time.monotonic() < end:
    time.sleep(0.01)
if "PYTEST_XDIST_WORKER" not in os.environ:
    pathlib.Path("started").write_text(str(guarded_calls().is_running()))
SCHEMAS = {"case": {"type": "object"}}
"""


@pytest.mark.parametrize(
    ("arguments", "patience", "started"), [((), 60, True), (("--collect-only",), 0.5, False), (("-n2",), 0.5, False)]
)
def test_judge_starts_while_the_dataset_is_read_by_a_process_that_makes_attempts(
    bench: Bench, arguments: tuple[str, ...], patience: float, started: bool
) -> None:
    bench.write({"early_judge.py": EARLY_JUDGE, "patience": str(patience)})

    bench.run("--jsbench-dataset=early_judge:SCHEMAS", *arguments)

    assert (bench.path / "started").read_text() == str(started)


LEFT = """
import pathlib

from pytest_jsbench.core.guarded_calls import guarded_calls

def pytest_unconfigure():
    pathlib.Path("left").write_text(str(guarded_calls().is_running()))
"""


def test_no_process_is_left_by_a_run_that_cannot_start(bench: Bench) -> None:
    bench.write({"early_judge.py": EARLY_JUDGE, "patience": "60", "conftest.py": LEFT})

    result = bench.run("--jsbench-dataset=early_judge:SCHEMAS", "--jsbench-baseline=none.json")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert ((bench.path / "started").read_text(), (bench.path / "left").read_text()) == ("True", "False")


EARLY_READER = """
import pathlib
import sys

from pytest_jsbench.datasets.sources import parquet_child

START = parquet_child.start_for
sys.modules.pop("pytest_jsbench.plugin.activation", None)

def start_and_look(source):
    START(source)
    pathlib.Path("imported").write_text(str("pytest_jsbench.plugin.activation" in sys.modules))
    pathlib.Path("started").write_text(str(parquet_child.table_calls()._starting is not None))

parquet_child.start_for = start_and_look

def pytest_unconfigure():
    pathlib.Path("running").write_text(str(parquet_child.table_calls().is_running()))
"""


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--jsbench-baseline=none.json",), 4)])
def test_reader_of_the_dataset_starts_before_the_modules_of_the_run(
    bench: Bench, arguments: tuple[str, ...], status: int
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra datasets")
    rows = pyarrow.Table.from_pylist([{"json_schema": "{}", "unique_id": "a"}])
    pytest.importorskip("pyarrow.parquet").write_table(rows, bench.path / "rows.parquet")
    bench.answers["a"] = "{}"
    bench.write({"conftest.py": EARLY_READER})

    result = bench.run_subprocess("--jsbench-dataset=rows.parquet", *arguments)

    assert result.ret == status
    states = {name: (bench.path / name).read_text() for name in ("imported", "started", "running")}
    assert states == {"imported": "False", "started": "True", "running": "False"}
