"""Check quarantined cases in whole runs: exit status, gates, and how pytest, JUnit and run.json show them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench import Request, evaluate
from tests.support.bench import NUMBER, Bench, both_ways
from tests.support.commands import ran

LIST = """
orders::bad: 9999-12-31: the server drops `minimum`
orders::fixed: 9999-12-31: was broken
orders::late: 2020-01-01: promised long ago
orders::typo: 9999-12-31: no such case
"""
QUARANTINE = "--jsbench-quarantine=quarantine.txt"


@pytest.fixture
def listed(bench: Bench) -> Bench:
    bench.case("good")
    bench.case("bad", '{"n": -1}')
    bench.case("fixed")
    bench.write({"quarantine.txt": LIST})
    return bench


@both_ways
def test_quarantined_failure_is_xfailed_and_does_not_fail_the_run(listed: Bench) -> None:
    result = listed.run(QUARANTINE, "--jsbench-output=out", "--junitxml=junit.xml", "-rx")

    assert result.ret == 0
    result.assert_outcomes(passed=1, xfailed=1, xpassed=1)
    result.stdout.fnmatch_lines(
        [
            "XFAIL jsbench::orders::bad - quarantined until 9999-12-31: the server drops `minimum`",
            "pass rate  2/3 = 0.667 *",
            "quarantine 2 cases of quarantine.txt left out of the gates and the verdict",
            "*failed, excused: orders::bad (9999-12-31: the server drops `minimum`)",
            "*passed, can be removed from quarantine.txt: orders::fixed",
            "*not among the dataset's cases in this run: orders::late, orders::typo",
            "verdict    PASSED: the attempt passed; 2 quarantined cases left out",
        ]
    )
    tests = {case.get("name"): case for case in ET.parse(listed.path / "junit.xml").iter("testcase")}
    skipped = tests["bad"].find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "pytest.xfail",
        "message": "quarantined until 9999-12-31: the server drops `minimum`",
    }
    assert tests["fixed"].find("skipped") is None
    data = listed.run_json()
    assert [(each["case"], each["state"]) for each in data["quarantine"]] == [
        ("orders::bad", "failed"),
        ("orders::fixed", "passed"),
        ("orders::late", "no_case"),
        ("orders::typo", "no_case"),
    ]
    assert data["metrics"]["pass_rate"] == pytest.approx(2 / 3)
    assert "failed, excused: orders::bad" in (listed.run_in() / "summary.md").read_text()


def test_gates_do_not_count_quarantined_cases(listed: Bench) -> None:
    listed.case("other", '{"n": -1}')

    met = listed.run(QUARANTINE, "--jsbench-gate=pass_rate>=0.5", "--jsbench-gate=planned==2")
    missed = listed.run(QUARANTINE, "--jsbench-min-pass-rate=0.6")

    assert (met.ret, missed.ret) == (0, 1)
    missed.stdout.fnmatch_lines(["gate       pass_rate 1/2 = 0.5, gate >= 0.6: NOT MET"])


def test_case_counts_again_after_its_date(listed: Bench) -> None:
    listed.case("late", '{"n": -1}')

    result = listed.run(QUARANTINE)

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1, xfailed=1, xpassed=1)
    result.stdout.fnmatch_lines(
        [
            "*expired, count again: orders::late (2020-01-01: promised long ago)",
            "verdict    FAILED: 1 test failed: jsbench::orders::late",
        ]
    )


def test_failed_call_of_a_quarantined_case_does_not_make_the_run_incomplete(listed: Bench) -> None:
    listed.case("bad", {"fault": "bad_request", "message": "no"})

    result = listed.run(QUARANTINE)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*without a result: orders::bad", "verdict    PASSED: *"])


def test_run_of_quarantined_cases_only_has_measured_nothing(listed: Bench) -> None:
    result = listed.run(QUARANTINE, "jsbench::orders::bad")

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["verdict    INCOMPLETE: nothing was measured: every selected case is quarantined"])


@both_ways
def test_list_that_is_removed_while_tests_run_still_applies(listed: Bench) -> None:
    listed.write({"conftest.py": "def pytest_collection_modifyitems():\n    open('quarantine.txt', 'w').close()"})

    result = listed.run(QUARANTINE, "--jsbench-output=out")

    assert result.ret == 0
    result.assert_outcomes(passed=1, xfailed=1, xpassed=1)
    assert [each["state"] for each in listed.run_json()["quarantine"]][:2] == ["failed", "passed"]


def test_runxfail_makes_the_failures_count(listed: Bench) -> None:
    result = listed.run(QUARANTINE, "--runxfail")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["verdict    FAILED: 1 test failed: jsbench::orders::bad"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders::bad 9999-12-31 x", "*quarantine.txt:1: found 'orders::bad 9999-12-31 x'; expected CASE: *"),
        (None, "*--jsbench-quarantine: *quarantine.txt*"),
    ],
)
def test_wrong_list_ends_the_session_before_any_call(bench: Bench, text: str | None, message: str) -> None:
    bench.case("a")
    if text is not None:
        bench.write({"quarantine.txt": text})

    result = bench.run(QUARANTINE, "--jsbench-output=out")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_run_without_a_list_has_no_trace_of_it(bench: Bench) -> None:
    bench.case("a")

    result = bench.run("--jsbench-output=out")

    assert "quarantine" not in bench.run_json()
    assert not [line for line in result.outlines if line.startswith("quarantine ")]


def test_merged_shards_are_decided_without_quarantined_cases(listed: Bench) -> None:
    for shard in ("1/2", "2/2"):
        listed.run(f"--jsbench-shard={shard}", f"--jsbench-output=shard{shard[0]}")
    shards = [listed.run_in(f"shard{number}") for number in (1, 2)]
    path = listed.path / "quarantine.txt"

    without = ran("merge", *shards, "-o", listed.path / "plain", "--gate", "pass_rate>=1")
    status, text = ran("merge", *shards, "-o", listed.path / "kept", "--gate", "pass_rate>=1", "--quarantine", path)

    assert without[0] == 1
    assert status == 0
    assert "failed, excused: orders::bad" in text
    assert "2 quarantined cases left out" in text
    data = json.loads((listed.path / "kept" / "run.json").read_text())
    assert data["quarantine"][0]["state"] == "failed"


def test_merged_shards_of_quarantined_cases_only_have_measured_nothing(listed: Bench) -> None:
    listed.run("jsbench::orders::bad", "--jsbench-output=bad")

    status, text = ran(
        *("merge", listed.run_in("bad"), "-o", listed.path / "merged"),
        *("--quarantine", listed.path / "quarantine.txt"),
    )

    assert status == 1
    assert "INCOMPLETE: nothing was measured: every selected case is quarantined" in text


def test_evaluation_in_python_leaves_quarantined_cases_out(listed: Bench) -> None:
    answers = {"good": '{"n": 1}', "bad": '{"n": -1}', "fixed": '{"n": 1}'}

    def answer(request: Request) -> str:
        return answers[request.key.id]

    run = evaluate(
        answer,
        [{"id": name, "task": "orders", "schema": NUMBER} for name in answers],
        output=None,
        gates=["pass_rate>=1"],
        quarantine=listed.path / "quarantine.txt",
    )

    assert run.verdict is not None
    assert run.verdict.text == "PASSED: the gate is met; 2 quarantined cases left out"


def test_case_that_fails_in_one_variant_and_is_left_out_of_another_has_failed(listed: Bench) -> None:
    result = listed.run(QUARANTINE, "--jsbench-rewrite=inline")  # its schema has no reference

    result.stdout.fnmatch_lines(["*failed, excused: orders::bad (9999-12-31: the server drops `minimum`)"])
