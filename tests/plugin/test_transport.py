from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.transport import WorkerInput
from pytest_jsbench.records import journal
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.run.handover import Handover
from tests.support import examples
from tests.support.bench import Bench, Ended, with_workers


@with_workers
def test_a_failed_case_says_what_where_and_how_to_run_it_again(ended: Ended) -> None:
    result = ended.result

    result.stdout.fnmatch_lines(
        [
            "*_ jsbench::orders::violated _*",
            "schema_violation: *",
            "  minimum at $.n [[]schema /properties/n/minimum]",
            '  answer: {"n": -1}',
            "  again:  pytest --jsbench-engine=scripted * --jsbench-dataset=schemas * jsbench::orders::violated",
        ]
    )
    result.stdout.fnmatch_lines(["hallucination (unnamed): *", "  not in the schema: $.color"])
    assert "Traceback" not in result.stdout.str()


@with_workers
def test_the_short_summary_begins_with_the_failure_type(ended: Ended) -> None:
    result = ended.result

    result.assert_outcomes(passed=1, failed=7, skipped=1)
    for line in (
        "FAILED jsbench::orders::violated - schema_violation: *",
        "FAILED jsbench::orders::invented - hallucination (unnamed): *",
        "FAILED jsbench::talk::prose - syntax_error (*): *",
        "FAILED jsbench::talk::cut - truncated*",
        "FAILED jsbench::talk::unsupported - unsupported_schema: oneOf is not supported",
        "FAILED jsbench::talk::refused - refusal: I would rather not",
        "FAILED jsbench::talk::broke - api_error (bad_request): context too long",
        "SKIPPED *jsbench::talk::badschema: invalid_schema*",
        "PASSED jsbench::orders::passed",
    ):
        result.stdout.fnmatch_lines([line])


@with_workers
def test_junit_has_a_testcase_per_case_with_the_failure_type_first(ended: Ended) -> None:
    cases = {case.get("name"): case for case in ET.parse(ended.bench.path / "junit.xml").iter("testcase")}
    assert len(cases) == 9
    violated = cases["violated"]
    assert violated.get("classname") == "jsbench.orders"
    failure = violated.find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("schema_violation: ")
    properties = {p.get("name"): p.get("value") for p in violated.iter("property")}
    assert properties["jsbench.failure_type"] == "schema_violation"
    assert properties["jsbench.keyword"] == "minimum"
    assert float(properties["jsbench.tgt_s"] or "nan") >= 0
    assert "jsbench.failure_type" not in {p.get("name") for p in cases["passed"].iter("property")}


@with_workers
def test_a_hook_sees_the_failure_type_as_a_keyword_and_as_a_record(mixed: Bench) -> None:
    mixed.write(
        {
            "conftest.py": "import pathlib\n"
            "def pytest_runtest_logreport(report):\n"
            "    if report.failed and 'jsbench_hallucination' in report.keywords:\n"
            "        pathlib.Path('keywords.log').write_text(report.nodeid)\n"
            "def pytest_jsbench_record(config, record):\n"
            "    pathlib.Path(f'{record.key.id}.log').write_text(str(record.verdict.failure_type))\n"
            "def pytest_jsbench_summary(run, summary):\n"
            "    pathlib.Path('summary.log').write_text(str(summary.total.planned))\n"
        }
    )

    mixed.run("--strict-markers")

    assert (mixed.path / "keywords.log").read_text() == "jsbench::orders::invented"
    assert (mixed.path / "refused.log").read_text() == "refusal"
    assert (mixed.path / "summary.log").read_text() == "9"


PREPARED = {"": EngineConfig(name="scripted", api_key="the local server's own"), "b": EngineConfig(name="openai")}


@pytest.fixture
def handover(tmp_path: Path) -> Handover:
    recorded = tmp_path / journal.RESUMED
    journal.write(recorded, examples.metadata(), [examples.record("a")])
    redaction = Redaction.new()
    return Handover(
        metadata=examples.metadata(), folder=tmp_path, shared=tmp_path, recorded=recorded, redaction=redaction
    )


@pytest.mark.parametrize("steals", [False, True])
def test_a_worker_knows_all_that_the_controller_does(handover: Handover, steals: bool) -> None:
    selected = {"folder": "cases", "marks": {}}
    given = WorkerInput(handover=handover, prepared=PREPARED, selected=selected, steals=steals, workers=3)
    config: Any = SimpleNamespace(workerinput={"workercount": 3})

    given.send_to_worker(config)

    assert WorkerInput.of(config) == given


def test_worker_input_is_none_without_a_controller() -> None:
    config: Any = SimpleNamespace()

    assert WorkerInput.of(config) is None
