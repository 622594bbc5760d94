"""Test that every output, and the exit status, agree with the one verdict of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from xml.etree import ElementTree as ET

import pytest

from tests.support.bench import Bench, with_workers
from tests.support.project_tests import ASKS, GOOD, KEPT, RUN_AGAIN, run_one, verdict


def run_changing(bench: Bench, code: str, *args: str) -> pytest.RunResult:
    """Run a module whose first answer is prose, and all others correct."""
    head = "import pytest\nNUMBER = {'type': 'object', 'required': ['n']}\n"
    bench.write({"test_one.py": head + code})
    return bench.run_only(
        *(
            "--jsbench-engine=scripted",
            "--jsbench-engine-option=answers=answering:changing",
            "test_one.py",
            *KEPT,
            *args,
        )
    )


@pytest.mark.parametrize("rerunning", ["conftest", "rerunfailures"])
def test_running_a_test_again_buys_no_pass(bench: Bench, rerunning: str) -> None:
    args: Sequence[str] = ()
    if rerunning == "rerunfailures":
        pytest.importorskip("pytest_rerunfailures", reason="needs pytest-rerunfailures")
        bench.plugins = ("rerunfailures",)
        args = ("--reruns=2",)
    else:
        bench.write({"conftest.py": RUN_AGAIN})

    result = run_changing(bench, f"{ASKS}def test_it(jsbench): {GOOD}\n", *args, "--jsbench-gate=pass_rate>=1")

    assert verdict(bench, result) == ("failed", ["the gate is not met: pass_rate>=1"])
    assert len(bench.calls()) == 1
    assert [record["verdict"]["passed"] for record in bench.records()] == [False]
    tests = ET.parse(bench.path / "junit.xml").getroot().iterfind(".//testcase")
    for names in ([one.get("name") for one in test.iterfind("properties/property")] for test in tests):
        assert len(names) == len(set(names))


def test_rerun_test_with_another_question_makes_one_more_attempt(bench: Bench) -> None:
    bench.write({"conftest.py": RUN_AGAIN})
    code = f"times = []\n{ASKS}def test_it(jsbench):\n    times.append(1)\n    jsbench.generate(text=str(times))\n"

    result = run_changing(bench, code, "--jsbench-gate=pass_rate>=1")

    assert verdict(bench, result)[0] == "failed"
    assert [(one["id"], one["verdict"]["passed"]) for one in bench.records()] == [
        ("test_it", False),
        ("test_it@2", True),
    ]


def test_gate_allows_failed_answers_in_subtests_but_no_other_failure(bench: Bench) -> None:
    if not hasattr(pytest, "Subtests"):
        pytest.skip("needs pytest 9")
    code = (
        f"{ASKS}def test_it(jsbench, subtests):\n"
        "    for text in ('{\"n\": 1}', 'prose', 'more'):\n"
        "        with subtests.test(text=text):\n            jsbench.generate(text=text)\n"
    )
    other = f"{ASKS}def test_other(jsbench, subtests):\n    {GOOD}\n    with subtests.test('mine'):\n        assert 0\n"

    result = run_one(bench, code, *KEPT, "--jsbench-gate=pass_rate>=0.3")
    assert verdict(bench, result) == (
        "passed",
        ["the gate is met", "1 test failed, which the gate allows: test_one.py::test_it"],
    )
    lines = [line for line in result.outlines if line.startswith(("SUBFAILED", "FAILED"))]
    assert [line.partition(" test_one")[0] for line in lines] == [
        "SUBFAILED(text='prose')",
        "SUBFAILED(text='more')",
        "FAILED",
    ]
    result = run_one(bench, code + other, "--jsbench-gate=pass_rate>=0.3")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["verdict    FAILED: test_one.py::test_other failed"])


UNIT = "def test_unit(): pass\n"
SKIPPED = f"{ASKS}@pytest.mark.skip\ndef test_skipped(jsbench): {GOOD}\n"


@pytest.mark.parametrize("args", [("--deselect=test_one.py::test_it",), ("-m", "not jsbench")])
def test_a_gate_for_which_nothing_was_left_to_measure_is_not_met(bench: Bench, args: tuple[str, ...]) -> None:
    bench.write({"pytest.ini": "[pytest]\njsbench_gate = pass_rate>=0\n"})

    result = run_one(bench, f"{ASKS}def test_it(jsbench): {GOOD}\n{UNIT}", *KEPT, *args)

    assert verdict(bench, result) == (
        "incomplete",
        ["the gate is not met, because too little was measured: pass_rate>=0"],
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@with_workers
def test_a_gate_for_which_workers_had_nothing_left_to_measure_is_not_met(bench: Bench) -> None:
    bench.write({"pytest.ini": "[pytest]\njsbench_gate = pass_rate>=0\n"})

    result = run_one(bench, SKIPPED + UNIT, *KEPT)

    assert verdict(bench, result)[0] == "incomplete"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("place", ["ini", "addopts", "command line"])
def test_a_gate_asks_for_attempts_where_it_was_given_for_this_very_run(bench: Bench, place: str) -> None:
    written = {"ini": "jsbench_gate = n>=0", "addopts": "addopts = --jsbench-gate=n>=0", "command line": ""}
    bench.write({"pytest.ini": f"[pytest]\n{written[place]}\n"})

    result = run_one(bench, UNIT, *(["--jsbench-gate=n>=0"] if place == "command line" else []))

    assert result.ret == (pytest.ExitCode.TESTS_FAILED if place == "command line" else pytest.ExitCode.OK)
    assert ("verdict    INCOMPLETE" in result.stdout.str()) is (place == "command line")


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_looking_at_what_would_run_asks_nothing_and_decides_nothing(bench: Bench, option: str) -> None:
    bench.case("a", {"fault": "engine", "message": "must not be asked"})

    result = bench.run(option, "--jsbench-gate=n>=1", "--jsbench-output=out")

    assert result.ret == pytest.ExitCode.OK
    assert "verdict" not in result.stdout.str()
    assert not any(path.read_text() for path in bench.path.glob("out/*/records.jsonl"))


@pytest.mark.skipif(sys.platform == "win32", reason="ends a test the POSIX way")
def test_a_test_that_a_time_limit_ends_is_named_and_its_call_is_missing(bench: Bench) -> None:
    pytest.importorskip("pytest_timeout", reason="needs pytest-timeout")
    bench.plugins = ("timeout",)
    # pytest-timeout's alarm, without the wait
    code = (
        "import signal\nlate = pytest.mark.timeout(60, method='signal')\n"
        f"{ASKS}@late\ndef test_after(jsbench):\n    {GOOD}\n    signal.raise_signal(signal.SIGALRM)\n"
        f"{ASKS}@late\ndef test_within(jsbench): jsbench.generate(text='late')\n"
    )
    bench.write({"test_one.py": f"import pytest\nNUMBER = {{}}\n{code}"})

    late_engine = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:alarmed")
    result = bench.run_only(*late_engine, "test_one.py", *KEPT, "--jsbench-gate=n>=1")

    status, because = verdict(bench, result)
    assert (status, sorted(because)) == ("failed", [f"test_one.py::test_{one} failed" for one in ("after", "within")])
    metrics = bench.run_json()["metrics"]
    assert (metrics["passed"], metrics["planned"], metrics["missing_reasons"]["error"]) == (1, 2, 1)


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="needs pytest's own subtests")
def test_a_test_with_several_failed_subtests_is_named_once(bench: Bench) -> None:
    code = (
        f"{ASKS}def test_it(jsbench, subtests):\n    {GOOD}\n"
        "    for n in range(3):\n        with subtests.test(n=n):\n            assert n < 0\n"
    )

    result = run_one(bench, code, *KEPT)

    assert verdict(bench, result) == ("failed", ["test_one.py::test_it failed"])


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="needs pytest's own subtests")
def test_min_pass_with_subtests_is_an_error_before_any_call(bench: Bench) -> None:
    code = (
        "@pytest.mark.jsbench(schema=NUMBER, prompt='x', repeats=3, min_pass=2)\n"
        "def test_it(jsbench, subtests): jsbench.generate()\n"
    )

    result = run_one(bench, code)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*min_pass=2 of repeats=3 cannot be combined with the fixture subtests*"])
    assert not bench.calls()


def test_a_worker_that_a_test_ends_is_named_and_its_attempt_missing(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    bench = Bench(pytester=pytester, workers=("-n", "1"))
    code = f"import os\n{ASKS}def test_a(jsbench): {GOOD}\n{ASKS}def test_b(jsbench): os._exit(3)\n"

    result = run_one(bench, code, *KEPT, "--jsbench-gate=pass_rate>=0.5")

    assert verdict(bench, result) == ("failed", ["test_one.py::test_b ended its process"])
    assert bench.run_json()["metrics"]["missing_reasons"]["worker_died"] == 1


COUNTING = """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    result = yield
    session.testsfailed += 1
    return result
"""
LAST_WORD = "def pytest_sessionfinish(session): session.exitstatus = 7\n"
RAISING = "def pytest_terminal_summary(): raise ValueError('too slow')\n"
AT_LAST = """
import pytest
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 6
"""


@pytest.mark.parametrize(
    ("conftest", "exit_status", "reason"),
    [
        (COUNTING, 1, "1 failure in addition to failed tests, for example because of --cov-fail-under"),
        (LAST_WORD, 7, "another plugin has set the exit status to 7"),
        (AT_LAST, 6, "another plugin has set the exit status to 6"),
    ],
)
def test_what_other_plugins_make_of_the_exit_status_is_the_verdict(
    bench: Bench, conftest: str, exit_status: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.case("a")
    bench.write({"conftest.py": conftest, "step.md": "before\n"})
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.path / "step.md"))

    result = bench.run(*KEPT, "--jsbench-gate=pass_rate>=0.5", ".")

    assert (result.ret, verdict(bench, result)) == (exit_status, ("failed", [reason]))
    assert (bench.path / "step.md").read_text() == "before\n" + (bench.run_in() / "summary.md").read_text()


def test_summary_error_of_another_plugin_is_in_the_verdict(bench: Bench) -> None:
    bench.case("a")
    bench.write({"conftest.py": RAISING})

    result = bench.run_subprocess(*KEPT, "--jsbench-gate=pass_rate>=0.5", ".")

    assert verdict(bench, result) == ("failed", ["another plugin: ValueError: too slow"])
    assert "pass rate  1/1" in result.stdout.str()


REQUESTED = """
repeated = pytest.mark.jsbench(schema=NUMBER, prompt='x', repeats=3, min_pass=2)

@repeated
def test_in_the_test(jsbench, request):
    runs = request.getfixturevalue('subtests')
    jsbench.generate()

@pytest.fixture
def parts(request):
    return request.getfixturevalue('subtests')

@repeated
def test_in_a_fixture_after_jsbench(jsbench, parts):
    jsbench.generate()

@repeated
def test_in_a_fixture_before_jsbench(parts, jsbench):
    jsbench.generate()

@pytest.fixture
def application(request):
    return request.getfixturevalue('jsbench')

@repeated
def test_with_jsbench_by_name(subtests, application):
    application.generate()
"""


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="needs pytest's own subtests")
def test_min_pass_with_subtests_requested_by_name_is_an_error(bench: Bench) -> None:
    result = run_one(bench, REQUESTED, *KEPT)

    result.assert_outcomes(failed=1, errors=3)
    refused = "*RepeatsRefused: min_pass=2 of repeats=3 cannot be combined with the fixture subtests*"
    assert len([line for line in result.outlines if fnmatch(line, f"E  {refused}")]) == 4
    assert not bench.calls()


@pytest.mark.slow
def test_repeats_with_jsbench_requested_while_running_are_an_error(bench: Bench) -> None:
    code = (
        "@pytest.mark.jsbench(schema=NUMBER, prompt='x', repeats=3)\n"
        "def test_it(request): request.getfixturevalue('jsbench').generate()\n"
        "@pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
        "def test_once(request): request.getfixturevalue('jsbench').generate(text='{\"n\": 1}')\n"
    )

    result = run_one(bench, code)

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["E*repeats=3 needs the fixture jsbench before the test runs: make the fixture an argument*"]
    )
    assert len(bench.calls()) == 1
