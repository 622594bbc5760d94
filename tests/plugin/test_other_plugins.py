"""Runs with plugins that repeat tests, change their order or read their reports have the same results as without."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.plugin.failure_sections import MOST_EXPLAINED
from tests.support.bench import Bench, both_ways
from tests.support.project_tests import verdict

#: by the module of each plugin: the names by which pytest registers it and what it needs, and its options
PLUGINS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "_pytest": ((), ()),
    "flaky": (("flaky",), ("--force-flaky",)),
    "pytest_rerunfailures": (("rerunfailures",), ("--reruns=1",)),
    "pytest_retry": (("pytest-retry",), ("--retries=1",)),
    "pytest_randomly": (("randomly",), ()),
    "pytest_timeout": (("timeout",), ("--timeout=60",)),
    "pytest_html": (("html", "metadata"), ("--html=page.html",)),
    "pytest_jsonreport": (("pytest_jsonreport", "metadata"), ("--json-report",)),
}
KEPT = ("--jsbench-output=out", "--junitxml=junit.xml")
WRONG = {"b", "e"}
MARK_FLAKY = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.flaky)
"""
REPORT_AS_PASSED = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if report.when == "call":
        report.outcome = "passed"
    return report
"""
REPORT_NOTHING = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if item.name == "b":
        return True
"""
EXIT_WITH_0 = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""

REPEATED = """
import pytest

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "object", "properties": {"n": {"type": "string"}}}
runs = []

@pytest.mark.jsbench(schema=NUMBER, prompt="One.")
def test_second_run_passes(jsbench):
    jsbench.generate()
    runs.append(1)
    assert len(runs) > 1

@pytest.mark.jsbench(schema=NUMBER, prompt="Two.")
def test_never_passes(jsbench):
    jsbench.generate()
    assert False

@pytest.mark.jsbench(schema=TEXT, prompt="Three.")
def test_wrong_answer(jsbench):
    jsbench.generate()

@pytest.mark.jsbench(schema=TEXT, prompt="Four.", repeats=2)
def test_wrong_answers(jsbench):
    jsbench.generate()
"""

PARTS = """
def test_fails(subtests):
    for n in range(3):
        with subtests.test(n=n):
            assert n == 1

def test_passes(subtests):
    with subtests.test():
        pass
"""
ASKING_IN_PARTS = """
import pytest

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "object", "properties": {"n": {"type": "string"}}}

@pytest.mark.jsbench(schema=NUMBER, prompt="One {part}.")
def test_passes(jsbench, subtests):
    for part in range(2):
        with subtests.test(part=part):
            jsbench.generate(part=part)

@pytest.mark.jsbench(schema=NUMBER, prompt="Two.")
def test_assertion_fails(jsbench, subtests):
    number = jsbench.generate().instance["n"]
    for least in (0, 2):
        with subtests.test(least=least):
            assert number >= least

@pytest.mark.jsbench(schema=TEXT, prompt="Three {part}.")
def test_answers_fail(jsbench, subtests):
    for part in range(2):
        with subtests.test(part=part):
            jsbench.generate(part=part)

@pytest.mark.jsbench(schema=TEXT, prompt="Four.")
def test_one_answer_fails(jsbench, subtests):
    with subtests.test():
        jsbench.generate()
"""

needs_subtests = pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="needs pytest's own subtests")


def _add_cases(bench: Bench) -> None:
    for name in "abcdef":
        bench.case(name, '{"n": -1}' if name in WRONG else '{"n": 1}')


def _check_results(bench: Bench, result: pytest.RunResult) -> None:
    """Check that exit status, summary, JUnit and records state the same two failures of six."""
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["passed"]) == (2, 4)
    status, (because,) = verdict(bench, result)
    assert status == "failed"
    assert set(re.findall(r"jsbench::orders::(\w)", because)) == WRONG
    assert "pass rate  4/6" in result.stdout.str()
    cases = [*ET.parse(bench.path / "junit.xml").iter("testcase")]
    assert {case.get("name") for case in cases if case.find("failure") is not None} == WRONG
    assert len({case.get("name") for case in cases}) == 6
    records = bench.records()
    assert len(records) == 6
    assert {record["id"] for record in records if record["verdict"]["failure_type"]} == WRONG


def _failed_in_junit(bench: Bench) -> dict[str, int]:
    """Count the failures of each test case in the JUnit file that has any; each test is there once."""
    cases = [*ET.parse(bench.path / "junit.xml").iter("testcase")]
    names = [case.get("name", "") for case in cases]
    assert len(names) == len(set(names))
    failures = {case.get("name", ""): len(case.findall("failure")) for case in cases}
    return {name: count for name, count in failures.items() if count}


def _names(because: str) -> tuple[str, set[str]]:
    """Split a reason of the verdict into what happened and to which tests; workers end in any order."""
    what, _, names = because.partition(": ")
    return what, set(names.split(", "))


def _use(bench: Bench, module: str) -> tuple[str, ...]:
    """Load this plugin and no other; return its options."""
    if find_spec(module) is None:
        pytest.skip(f"needs {module}")
    bench.plugins, options = PLUGINS[module]
    return options


@both_ways
@pytest.mark.parametrize("module", PLUGINS)
def test_results_are_the_same_with_another_plugin(bench: Bench, module: str) -> None:
    options = _use(bench, module)
    _add_cases(bench)

    result = bench.run(*KEPT, *options)

    _check_results(bench, result)


@needs_subtests
@both_ways
def test_results_are_the_same_next_to_tests_with_subtests(bench: Bench) -> None:
    _add_cases(bench)
    bench.write({"test_parts.py": PARTS})

    result = bench.run(*KEPT, ".")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    # two cases, two subtests and the test that they are of; four cases and the other test
    assert (outcomes["failed"], outcomes["passed"]) == (2 + 3, 4 + 1)
    status, (own, cases) = verdict(bench, result)
    assert (status, own) == ("failed", "test_parts.py::test_fails failed")
    assert _names(cases) == ("2 tests failed", {"jsbench::orders::b", "jsbench::orders::e"})
    assert "pass rate  4/6" in result.stdout.str()
    assert _failed_in_junit(bench) == {**dict.fromkeys(WRONG, 1), "test_fails": 3}
    records = bench.records()
    assert len(records) == 6
    assert {record["id"] for record in records if record["verdict"]["failure_type"]} == WRONG


@needs_subtests
@both_ways
def test_a_project_test_with_subtests_counts_once(bench: Bench) -> None:
    bench.write({"test_own.py": ASKING_IN_PARTS, "answers.py": "def one(prompt, **_): return '{\"n\": 1}'\n"})
    engine = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers:one")

    result = bench.run_only(*KEPT, *engine, "test_own.py")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    # pytest counts each failed subtest, and the test that it is of
    assert (outcomes["failed"], outcomes["passed"]) == (2 + 3 + 2, 1)
    status, (assertion, answers) = verdict(bench, result)
    assert (status, assertion) == ("failed", "test_own.py::test_assertion_fails failed")
    by_answers = {"test_own.py::test_answers_fail", "test_own.py::test_one_answer_fails"}
    assert _names(answers) == ("2 tests failed", by_answers)
    result.stdout.fnmatch_lines(["tests      1/4 = 0.250*passed; answer 2, assertion 1"])
    failing = {"test_assertion_fails": 2, "test_answers_fail": 3, "test_one_answer_fails": 2}
    assert _failed_in_junit(bench) == failing
    ends = {record["id"]: record["test_outcome"] for record in bench.records()}
    assert {name: end["cause"] if end["end"] == "failed" else None for name, end in ends.items()} == {
        "test_passes": None,
        "test_passes@2": None,
        "test_assertion_fails": "assertion",
        "test_answers_fail": "answer",
        "test_answers_fail@2": "answer",
        "test_one_answer_fails": "answer",
    }


@both_ways
@pytest.mark.parametrize("module", ["flaky", "pytest_rerunfailures", "pytest_retry"])
def test_cases_with_the_marker_flaky_keep_their_results(bench: Bench, module: str) -> None:
    options = _use(bench, module) if module != "flaky" else _use(bench, module)[1:]
    _add_cases(bench)
    bench.write({"conftest.py": MARK_FLAKY})

    _check_results(bench, bench.run(*KEPT, *options, "."))


@both_ways
@pytest.mark.parametrize("module", ["flaky", "pytest_rerunfailures", "pytest_retry"])
def test_repeated_project_tests_count_once_by_their_last_run(bench: Bench, module: str) -> None:
    options = _use(bench, module)
    bench.write({"test_own.py": REPEATED, "answers.py": "def one(prompt, **_): return '{\"n\": 1}'\n"})
    engine = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers:one")

    result = bench.run_only(*KEPT, *engine, *options, "test_own.py")

    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["passed"], outcomes.get("errors", 0)) == (3, 1, 0)
    ends = {(record["id"], record["repeat"]): record["test_outcome"] for record in bench.records()}
    causes = {name: None if end is None else end["cause"] for name, end in ends.items()}
    assert causes == {
        ("test_second_run_passes", 0): None,
        ("test_never_passes", 0): "assertion",
        ("test_wrong_answer", 0): "answer",
        ("test_wrong_answers", 0): "answer",
        ("test_wrong_answers", 1): "answer",
    }
    assert ends["test_second_run_passes", 0]["end"] == "passed"


def test_attempts_reported_as_passed_after_failing_fail_the_run(bench: Bench) -> None:
    _add_cases(bench)
    bench.write({"conftest.py": REPORT_AS_PASSED})

    result = bench.run(*KEPT, ".")

    reason = "another plugin reported failed attempts as passed: 2 attempts: orders::b, orders::e"
    assert verdict(bench, result) == ("failed", [reason])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@both_ways
@pytest.mark.parametrize("gate", [(), ("--jsbench-min-pass-rate=0.5",)])
def test_an_attempt_without_a_reported_test_makes_the_run_incomplete(bench: Bench, gate: tuple[str, ...]) -> None:
    bench.case("a")
    bench.case("b")
    bench.case("c")
    bench.write({"conftest.py": REPORT_NOTHING})

    result = bench.run(*KEPT, *gate, ".")

    status, because = verdict(bench, result)
    assert status == "incomplete"
    assert "no test was reported for 1 attempt: orders::b" in because


def test_an_exit_status_of_another_plugin_leaves_the_verdict_failed(bench: Bench) -> None:
    _add_cases(bench)
    bench.write({"conftest.py": EXIT_WITH_0})

    result = bench.run(*KEPT, ".")

    assert result.ret == pytest.ExitCode.OK
    failed = "2 tests failed: jsbench::orders::b, jsbench::orders::e"
    assert verdict(bench, result) == ("failed", [failed, "another plugin has set the exit status to 0"])


WATCH_REPORTS = """
import json
import pytest
from pathlib import Path

class Watch:
    def __init__(self, reporter):
        self.reporter, self.received, self.seen = reporter, [], {}

    def pytest_runtest_logreport(self, report):
        self.received.append(report)

    def look(self, when):
        kept = [report for reports in self.reporter.stats.values() for report in reports]
        same = {id(report) for report in self.received} == {id(report) for report in kept}
        self.seen[when] = same and len(kept) == len(self.received)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        self.look("sessionfinish")

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self):
        self.look("summary")

    @pytest.hookimpl(specname="pytest_terminal_summary", wrapper=True)
    def pytest_terminal_summary_2(self):
        result = yield
        self.look("after other summaries")
        return result

    def pytest_unconfigure(self, config):
        self.look("unconfigure")
        name = getattr(config, "workerinput", {}).get("workerid", "main")
        Path(f"watch.{name}").write_text(json.dumps([len(self.received), self.seen]))

def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    session.config.pluginmanager.register(Watch(reporter))
"""


@both_ways
def test_other_plugins_find_all_reports_that_pytest_keeps(bench: Bench) -> None:
    for number in range(MOST_EXPLAINED + 2):
        bench.case(f"c{number}", '{"n": -1}')
    bench.write({"conftest.py": WATCH_REPORTS})

    result = bench.run(*KEPT, ".")

    result.stdout.fnmatch_lines(["jsbench: 2 more failing cases are not explained here*"])
    watched = {path.suffix: json.loads(path.read_text()) for path in bench.path.glob("watch.*")}
    assert len(watched) == (3 if bench.workers else 1)
    moments = ["sessionfinish", "summary", "after other summaries", "unconfigure"]
    for received, seen in watched.values():
        assert received
        assert seen == dict.fromkeys(moments, True)
    assert watched[".main"][0] == 3 * (MOST_EXPLAINED + 2)


def test_another_plugin_reads_the_exception_of_a_failed_case(bench: Bench) -> None:
    bench.case("b", '{"n": -1}')
    reading = """
import pytest
from pathlib import Path
calls = []

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call):
    calls.append(call)

def pytest_runtest_logfinish():
    names = [call.excinfo.typename for call in calls if call.excinfo is not None]
    Path("read.txt").write_text(str(names))
"""
    bench.write({"conftest.py": reading})

    bench.run(".")

    assert (bench.path / "read.txt").read_text() == "['CaseFailed']"


def test_forked_processes_are_refused_in_one_line(bench: Bench) -> None:
    pytest.importorskip("pytest_forked", reason="needs pytest-forked")
    bench.case("a")

    result = bench.run("--forked")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --forked cannot be combined with an engine*"])
