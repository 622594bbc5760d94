from __future__ import annotations

import gc
import json

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.files import LinesByPlace
from pytest_jsbench.plugin.items import attempt_of
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Attempt, Record
from tests.support.bench import COUNTED, NUMBER, Bench, both_ways, with_workers


@pytest.fixture
def counted(bench: Bench) -> Bench:
    """Create three cases that pass and two that fail, with a log of their calls."""
    for name in ("alpha", "beta", "gamma"):
        bench.case(name, task="good")
    for name in ("bad_d", "bad_e"):
        bench.case(name, '{"n": -1}', task="bad")
    return bench


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.run(COUNTED, *args)


def test_collecting_only_calls_nothing_and_needs_no_answers(counted: Bench) -> None:
    result = counted.run("--collect-only", "-q", "--jsbench-engine-option=answers=missing.json")

    assert result.ret == 0
    assert [line for line in result.outlines if line.startswith("jsbench::")] == [
        "jsbench::bad::bad_d",
        "jsbench::bad::bad_e",
        "jsbench::good::alpha",
        "jsbench::good::beta",
        "jsbench::good::gamma",
    ]
    assert counted.calls() == []
    assert not (counted.path / "out").exists()


@pytest.mark.parametrize(
    ("bench", "args", "expected"),
    [
        ("plain", ["-k", "good and not beta"], ["good::alpha", "good::gamma"]),
        ("plain", ["jsbench::good"], ["good::alpha", "good::beta", "good::gamma"]),
        ("plain", ["jsbench::good::alpha", "jsbench::bad::bad_e"], ["bad::bad_e", "good::alpha"]),
        ("plain", ["jsbench", "--deselect", "jsbench::bad"], ["good::alpha", "good::beta", "good::gamma"]),
        ("xdist", ["jsbench", "--deselect", "jsbench::bad", "--jsbench-limit=2"], ["good::alpha", "good::beta"]),
        ("plain", ["--jsbench-tasks=good", "--jsbench-limit=2"], ["good::alpha", "good::beta"]),
    ],
    indirect=["bench"],
)
def test_only_what_is_selected_is_paid_for(counted: Bench, args: list[str], expected: list[str]) -> None:
    run(counted, *args)

    assert counted.calls() == expected


def test_the_marker_selects_the_suite(counted: Bench) -> None:
    counted.write({"test_own.py": "def test_own(): pass"})

    run(counted, ".", "-m", "jsbench").assert_outcomes(passed=3, failed=2)
    run(counted, ".", "-m", "not jsbench").assert_outcomes(passed=1)
    assert len(counted.calls()) == 5


def test_last_failed_runs_the_failed_cases_again(counted: Bench) -> None:
    counted.write({"test_own.py": "def test_own(): pass\ndef test_wrong(): assert 0"})
    run(counted, ".")
    counted.calls()

    run(counted, ".", "--lf").assert_outcomes(failed=3)

    assert counted.calls() == ["bad::bad_d", "bad::bad_e"]


def test_a_projects_tests_run_once_where_a_path_names_them(counted: Bench) -> None:
    counted.write(
        {"tests/test_own.py": "def test_own():\n    with open('own.log', 'a') as log:\n        log.write('x')\n"}
    )

    run(counted, "tests").assert_outcomes(passed=4, failed=2)

    assert (counted.path / "own.log").read_text() == "x"
    assert len(counted.calls()) == 5


def test_run_without_a_path_runs_only_the_suite_and_reports_it(counted: Bench) -> None:
    counted.write({"test_own.py": "def test_own(): raise AssertionError"})

    result = run(counted)

    result.assert_outcomes(passed=3, failed=2)
    assert counted.calls() == ["bad::bad_d", "bad::bad_e", "good::alpha", "good::beta", "good::gamma"]
    result.stdout.fnmatch_lines(["jsbench: only the dataset's cases run; add a path to run your own tests too"])


@both_ways
def test_stopping_at_the_first_failure_does_not_pay_for_the_rest(bench: Bench) -> None:
    for number in range(30):
        bench.case(f"bad_{number:02}", '{"n": -1}')

    result = run(bench, "-x", "--jsbench-concurrency=2")

    assert 1 <= result.parseoutcomes()["failed"] <= 2
    assert len(bench.calls()) <= 8


def test_a_test_that_asks_for_a_case_gets_each_of_them(counted: Bench) -> None:
    counted.write(
        {
            "test_own.py": "def test_case(jsbench_case):\n"
            "    assert jsbench_case.schema['required'] == ['n']\n"
            "    assert jsbench_case.key.task in {'good', 'bad'}\n"
        }
    )

    result = run(counted, "test_own.py", "-m", "not jsbench", "-v")

    result.assert_outcomes(passed=5)
    assert "test_own.py::test_case[good-alpha]" in result.stdout.str()
    assert counted.calls() == []


@with_workers
def test_random_order_runs_every_case_once(counted: Bench) -> None:
    pytest.importorskip("pytest_randomly", reason="needs pytest-randomly")
    counted.plugins = ("randomly",)

    counted.run_subprocess(COUNTED, "-p", "no:cacheprovider").assert_outcomes(passed=3, failed=2)

    assert len(counted.calls()) == 5


@with_workers
def test_no_process_keeps_records(counted: Bench) -> None:
    counted.write(
        {
            "conftest.py": """
import gc, os, pytest
from pytest_jsbench.records.records import Record

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    kept = sum(isinstance(one, Record) for one in gc.get_objects())
    with open(f"kept-{os.getpid()}.log", "w") as log:
        log.write(f"{kept} records")
"""
        }
    )

    counted.run_subprocess(COUNTED).assert_outcomes(passed=3, failed=2)

    kept = [path.read_text() for path in counted.path.glob("kept-*.log")]
    assert len(kept) == 3
    assert set(kept) == {"0 records"}


A = CaseKey(task="t", id="a")


@pytest.mark.parametrize(
    ("nodeid", "repeats", "attempt"),
    [
        ("jsbench::t::a", 1, Attempt(A, 0)),
        ("jsbench::t::a[3]", 3, Attempt(A, 2)),
        ("jsbench::t::a[gpt-5]", 1, Attempt(A, 0, "gpt-5")),
        ("jsbench::t::a[gpt-5-2]", 2, Attempt(A, 1, "gpt-5")),
    ],
)
def test_a_node_id_names_its_attempt(nodeid: str, repeats: int, attempt: Attempt) -> None:
    assert attempt_of(nodeid, repeats=repeats) == attempt
    assert f"jsbench::{attempt.name(several=repeats > 1)}" == nodeid
    assert attempt_of("tests/test_it.py::test_it[3]", repeats=repeats) is None


#: Lists exceptions and calls of failed tests that only garbage collection frees, at the end of the session.
GARBAGE = """
import gc, pathlib
import pytest

gc.disable()

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    names = [type(thing).__name__ for thing in gc.garbage]
    gc.garbage.clear()
    gc.enable()
    found = sum(name in {"CaseFailed", "CallInfo", "ExceptionInfo", "AttemptResult"} for name in names)
    with open("garbage.log", "a") as log:
        log.write(f"{session.testsfailed} {found}\\n")
"""


@with_workers
def test_a_failed_case_leaves_no_exception_to_the_collection_of_cycles(bench: Bench) -> None:
    bench.write({"conftest.py": GARBAGE})
    for number in range(5):
        bench.case(f"bad_{number}", '{"n": -1}')

    result = bench.run_subprocess("-rf")

    result.stdout.fnmatch_lines(["*bad_0 - schema_violation*"])
    lines = [tuple(map(int, line.split())) for line in (bench.path / "garbage.log").read_text().splitlines()]
    assert max(failed for failed, _ in lines) >= 2
    assert {found for _, found in lines} <= {0, 1}  # the last one is in sys.last_value


def test_a_large_record_of_a_failed_case_is_read_from_disk_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = AttemptFacts.read

    def noted(self: AttemptFacts, *args: LinesByPlace) -> Record:
        reads.append(self.key.id)
        return read(self, *args)

    monkeypatch.setattr(AttemptFacts, "read", noted)
    bench.case("large", json.dumps({"n": "x" * 40_000}))
    bench.write({"conftest.py": "def pytest_jsbench_record(record): assert record.verdict.valid is False"})

    bench.run().assert_outcomes(failed=1)
    assert reads == ["large"]


@pytest.mark.parametrize(("own_test", "frozen"), [("", True), ("def test_own(): pass\n", False)])
def test_garbage_collector_skips_items_only_if_all_tests_are_cases(
    bench: Bench, *, own_test: str, frozen: bool
) -> None:
    bench.case("alpha")
    look = """
import gc
def pytest_runtest_teardown(item):
    with open("frozen.log", "a") as log:
        log.write(f"{gc.get_freeze_count() > 0} ")
def pytest_jsbench_summary(run):
    with open("frozen.log", "a") as log:
        log.write(f"{not any(one is run.outcomes[0].usage for one in gc.get_objects())} ")
"""
    bench.write({"conftest.py": look, "test_own.py": own_test})

    result = bench.run("jsbench", "test_own.py")

    result.assert_outcomes(passed=1 if frozen else 2)
    assert {word == "True" for word in (bench.path / "frozen.log").read_text().split()} == {frozen}
    assert gc.get_freeze_count() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize(("own_test", "collected"), [("", False), ("def test_own(): pass\n", True)])
def test_interpreter_exit_collects_nothing_only_if_all_tests_are_cases(
    bench: Bench, *, own_test: str, collected: bool
) -> None:
    bench.case("alpha")
    circle = """
import functools, os
class Circle:
    def __init__(self):
        self.itself, self.write = self, functools.partial(os.open, "collected", os.O_CREAT)
    def __del__(self):
        self.write()
circle = Circle()
"""
    bench.write({"conftest.py": circle, "test_own.py": own_test})

    result = bench.run_subprocess("jsbench", "test_own.py")

    result.assert_outcomes(passed=2 if collected else 1)
    assert (bench.path / "collected").exists() is collected


def test_a_case_or_one_of_its_attempts_can_be_named(bench: Bench) -> None:
    bench.case("a")
    bench.case("ab")

    bench.run("--jsbench-repeats=2", "jsbench::orders::a").assert_outcomes(passed=2)
    result = bench.run("--jsbench-repeats=2", "jsbench::orders::a[2]")

    result.assert_outcomes(passed=1)
    assert "missing" not in result.stdout.str()
    result.stdout.fnmatch_lines(["pass rate  1/1 *"])


def test_attempts_have_distinct_seeds_starting_with_the_given_one(bench: Bench) -> None:
    bench.case("a")
    bench.write(
        {
            "test_one.py": f"import pytest\n@pytest.mark.jsbench(schema={NUMBER!r}, prompt='any', repeats=2, seed=70)\n"
            "def test_it(jsbench):\n    assert jsbench.generate().instance['n'] in (70, 71)\n",
        }
    )

    bench.run(
        "test_one.py",
        "--jsbench-engine-option=answers=answering:seeded",
        *("--jsbench-repeats=3", "--jsbench-seed=5", "--jsbench-output=out"),
    ).assert_outcomes(passed=4)

    found = {(one["id"], one["repeat"]): (one["params"]["seed"], one["generation"]["text"]) for one in bench.records()}
    assert found == {
        **{("a", number): (5 + number, f'{{"n": {5 + number}}}') for number in range(3)},
        **{("test_it", number): (70 + number, f'{{"n": {70 + number}}}') for number in range(2)},
    }
    assert bench.run_json()["run"]["params"]["seed"] == 5
