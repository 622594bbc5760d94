"""Test that the outcome of a project's own test is recorded with its attempts, next to the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from tests.support.bench import NUMBER, Bench, both_ways, with_workers
from tests.support.project_tests import arguments, run_one
from tests.support.report_pages import unpacked

SAYING = "pytestmark = pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
ENDS = (
    SAYING
    + """
def answer(jsbench, number=1, **options):
    return jsbench.generate(text='{"n": %d}' % number, **options).instance["n"]

@pytest.fixture
def number(jsbench): return answer(jsbench)

@pytest.fixture
def broken(jsbench): raise RuntimeError(answer(jsbench))

def test_passes(jsbench): assert answer(jsbench) == 1
def test_asserts(jsbench): assert answer(jsbench) == 99, "the total"
def test_is_failed(jsbench): answer(jsbench); pytest.fail("no")
def test_answers_wrongly(jsbench): answer(jsbench, -1)
def test_raises(jsbench): answer(jsbench); answer(jsbench, 2); 1 / 0
def test_times_out(jsbench): answer(jsbench); raise TimeoutError("slow")
def test_is_ended(jsbench): answer(jsbench); pytest.fail("Timeout (>1.0s) from pytest-timeout.")
def test_is_skipped(jsbench): answer(jsbench); pytest.skip("later")
def test_asks_in_a_fixture(number): assert number == 2
def test_breaks_in_a_fixture(broken): pass
def test_looks_on(jsbench): assert answer(jsbench, -1, check=False) == -1
def test_asks_in_a_group(jsbench):
    raise ExceptionGroup("several", [ValueError(answer(jsbench))])

@pytest.mark.xfail(reason="known")
def test_is_to_fail(jsbench): assert answer(jsbench) == 2

@pytest.mark.xfail
def test_is_not_to_pass(jsbench): assert answer(jsbench) == 1

@pytest.mark.xfail(strict=True)
def test_may_not_pass(jsbench): assert answer(jsbench) == 1

@pytest.mark.jsbench(repeats=3, min_pass=1, prompt="count")
def test_repeats(jsbench): assert jsbench.generate(check=False).record.repeat == 1
"""
)


def outcomes(bench: Bench, folder: str = "out") -> dict[str, Any]:
    """Return the outcome of the test in each record: the end, with the cause and the message of a failure."""
    found = {}
    for one in bench.records(folder):
        name = one["id"] + (f"[{one['repeat']}]" if one["repeat"] else "")
        said = one.get("test_outcome")
        found[name] = said and tuple(value for value in (said["end"], said["cause"], said["message"]) if value)
    return found


@with_workers
def test_every_test_outcome_is_in_its_record_and_all_outputs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    conditions = ("tests_passed>=0.9", "test_one.pass_rate>=0.5", "test_two.pass_rate>=0")
    gates = [f"--jsbench-gate={condition}" for condition in conditions]

    result = run_one(bench, ENDS, "--jsbench-output=out", *gates)

    result.assert_outcomes(passed=3, failed=9, errors=1, skipped=1, xfailed=1, xpassed=1)
    assert outcomes(bench) == {
        "test_passes": ("passed",),
        "test_asserts": ("failed", "assertion", "the total assert 1 == 99"),
        "test_is_failed": ("failed", "assertion", "no"),
        "test_answers_wrongly": ("failed", "answer", "schema_violation: $.n: -1 is less than the minimum of 0"),
        "test_raises": ("failed", "error", "ZeroDivisionError: division by zero"),
        "test_raises@2": ("failed", "error", "ZeroDivisionError: division by zero"),
        "test_times_out": ("failed", "timeout", "slow"),
        "test_is_ended": ("failed", "timeout", "Timeout (>1.0s) from pytest-timeout."),
        "test_is_skipped": ("skipped", "later"),
        "test_asks_in_a_fixture": ("failed", "assertion", "assert 1 == 2"),
        "test_breaks_in_a_fixture": ("failed", "error", "RuntimeError: 1"),
        "test_looks_on": ("passed",),
        "test_asks_in_a_group": ("failed", "error", "ValueError: 1"),
        "test_is_to_fail": ("xfailed", "known"),
        "test_is_not_to_pass": ("passed",),
        "test_may_not_pass": ("failed", "assertion", "[XPASS(strict)]"),
        "test_repeats": ("failed", "assertion", "assert 0 == 1"),
        "test_repeats[1]": ("passed",),
        "test_repeats[2]": ("failed", "assertion", "assert 2 == 1"),
    }
    verdicts = {one["id"]: one["verdict"]["failure_type"] for one in bench.records()}
    assert verdicts["test_asserts"] is None
    metrics = bench.run_json()["metrics"]
    assert metrics["tests_passed"] == 4 / 16  # one of the tests has made two calls
    assert metrics["test_failures"] == {"answer": 1, "type_refused": 0, "assertion": 6, "timeout": 2, "error": 3}
    result.stdout.fnmatch_lines_random(
        [
            "tests      4/16 = 0.250 passed; *",
            "failures   schema_violation 4, assertion 6, timeout 2, error 3",
            "failed     test_one::test_raises@2: error: ZeroDivisionError: division by zero",
            "gate       tests_passed 4/16 = 0.25, gate >= 0.9: NOT MET",
            "gate       test_one.pass_rate 1*, gate >= 0.5: met",
            "gate       test_two.pass_rate *, gate >= 0: NOT MET*",  # no attempt belongs to that task
            "::error file=test_one.py,line=*,title=*::assertion: the total assert 1 == 99",
        ]
    )
    folder = bench.run_in()
    row = "| `test_one::test_raises@2` | `error` | `ZeroDivisionError: division by zero` |"
    assert row in (folder / "summary.md").read_text()
    page = unpacked((folder / "report.html").read_text(), "index")
    ends = {(case["outcome"], case["message"]) for case in page["cases"]}
    assert ("assertion", "assertion: the total assert 1 == 99") in ends


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="needs pytest's own subtests")
def test_a_failed_subtest_fails_the_test_that_it_is_of(bench: Bench) -> None:
    code = SAYING + (
        "def test_it(jsbench, subtests):\n"
        "    for n in range(3):\n"
        "        with subtests.test(n=n):\n"
        "            assert jsbench.generate(text='{\"n\": %d}' % n).instance['n'] == 0\n"
    )

    run_one(bench, code, "--jsbench-output=out")

    failed = ("failed", "assertion", "assert 1 == 0")
    assert outcomes(bench) == {"test_it": failed, "test_it@2": failed, "test_it@3": failed}


def test_a_hostile_message_is_short_and_harmless_and_holds_no_secret(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-somebody-0123456789")
    code = SAYING + (
        "import os\n"
        "def test_it(jsbench):\n"
        "    jsbench.generate(text='{\"n\": 1}')\n"
        "    pytest.fail('\\x1b[31m::error::' + os.environ['OPENAI_API_KEY'] + '\\n##[x]' + 'x' * 100_000)\n"
        "class Unspeakable(Exception):\n"
        "    def __str__(self): raise ValueError\n"
        "def test_other(jsbench):\n"
        "    jsbench.generate(text='{\"n\": 1}')\n"
        "    raise Unspeakable\n"
    )

    run_one(bench, code, "--jsbench-output=out", "-p", "no:logging")

    first, other = (one["test_outcome"]["message"] for one in bench.records())
    assert first.startswith("\\x1b[31m::error::[key] #\\x23[x]xxx")
    assert len(first) <= 300
    assert other == "Unspeakable"


def test_a_crash_costs_the_outcome_and_no_answer(bench: Bench) -> None:
    code = SAYING + "import os\ndef test_it(jsbench): jsbench.generate(text='{\"n\": 1}'); os._exit(3)\n"
    bench.write({"test_one.py": f"import pytest\nNUMBER = {NUMBER!r}\n{code}"})
    bench.pytester.runpytest_subprocess(*arguments(bench, "test_one.py", "--jsbench-output=out"))

    lines = [line for path in bench.run_in().glob("records*.jsonl") for line in path.read_text().splitlines()]
    assert sum('"id":"test_it"' in line for line in lines) >= 1
    assert not any("test_outcome" in line for line in lines)


def test_one_that_is_run_again_has_its_last_outcome(bench: Bench) -> None:
    pytest.importorskip("pytest_rerunfailures")
    bench.plugins = ("rerunfailures",)
    code = SAYING + (
        "tries = []\n"
        "def test_it(jsbench):\n"
        "    tries.append(jsbench.generate(text='{\"n\": 1}'))\n"
        "    assert len(tries) == 2\n"
    )

    run_one(bench, code, "--jsbench-output=out", "--reruns=1").assert_outcomes(passed=1)

    assert outcomes(bench) == {"test_it": ("passed",)}


def test_a_run_that_goes_on_has_the_outcome_of_its_own_tests(bench: Bench) -> None:
    def code(total: int) -> str:
        return SAYING + f"def test_it(jsbench): assert jsbench.generate(text='{{\"n\": 1}}').instance['n'] == {total}\n"

    run_one(bench, code(2), "--jsbench-output=out").assert_outcomes(failed=1)
    run_one(bench, code(1), "--jsbench-output=again", "--jsbench-resume=out").assert_outcomes(passed=1)

    assert outcomes(bench) == {"test_it": ("failed", "assertion", "assert 1 == 2")}
    assert outcomes(bench, "again") == {"test_it": ("passed",)}
    assert len(bench.calls()) == 1


@both_ways
def test_summary_counts_tests_that_ended_before_a_call(bench: Bench) -> None:
    pytest.importorskip("pytest_timeout", reason="needs pytest-timeout")
    bench.plugins = ("timeout",)
    code = SAYING + (
        "import time\n"
        "runs = []\n"
        "def answer(jsbench): return jsbench.generate(text='{\"n\": 1}')\n"
        "def test_passes(jsbench): answer(jsbench)\n"
        "def test_breaks_the_contract(jsbench): jsbench.generate(txt='a')\n"
        "@pytest.mark.timeout(0.2)\n"
        "def test_ends_late(jsbench): time.sleep(30)\n"
        "@pytest.fixture\n"
        "def broken(jsbench): raise OSError('no file')\n"
        "def test_breaks_in_its_setup(broken): answer(broken)\n"
        "@pytest.fixture\n"
        "def absent(): raise OSError('no file')\n"
        "def test_breaks_before_jsbench_is_set_up(absent, jsbench): answer(jsbench)\n"
        "@pytest.fixture\n"
        "def skipping(): pytest.skip('later')\n"
        "def test_is_skipped_in_its_setup(skipping, jsbench): answer(jsbench)\n"
        "def test_is_skipped(jsbench): pytest.skip('later')\n"
        "@pytest.mark.jsbench(repeats=2, min_pass=1)\n"
        "def test_repeats(jsbench): runs.append(1); assert len(runs) == 2\n"
    )

    result = run_one(bench, code, "--jsbench-output=out")

    run = bench.run_in()
    live = bench.run_json()["metrics"]
    assert (live["tests_passed"], live["planned"], live["pass_rate"]) == (1 / 6, 1, 1.0)
    assert live["test_failures"] == {"answer": 0, "type_refused": 0, "assertion": 1, "timeout": 1, "error": 3}
    result.stdout.fnmatch_lines(["tests      1/6 = 0.167*passed; error 3, *"])
    judged = summarize(journal.read_run(run).run(run)).total
    assert judged.to_dict()["test_failures"] == live["test_failures"]
    assert judged.tests_passed.value == live["tests_passed"]


@both_ways
def test_a_run_without_any_call_has_a_summary_that_names_its_failed_tests(bench: Bench) -> None:
    code = SAYING + (
        "@pytest.fixture\n"
        "def absent(): raise OSError('no file')\n"
        "def test_breaks_the_contract(jsbench): jsbench.generate(txt='a')\n"
        "def test_breaks_in_its_setup(absent, jsbench): pass\n"
        "@pytest.mark.jsbench(repeats=2)\n"
        "def test_repeats(jsbench): assert False\n"
        "@pytest.mark.xfail\n"
        "def test_is_to_fail(jsbench): assert False\n"
    )

    result = run_one(bench, code, "--jsbench-output=out", "-p", "no:randomly")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = " ".join(" ".join(result.outlines).split())
    assert "tests 0/4 = 0.000 passed; assertion 2, error 2 failed without a call of the engine: " in said
    names = {"breaks_the_contract[1] (error)", "breaks_in_its_setup[1] (error)"}
    names |= {"repeats[1] (assertion)", "repeats[2] (assertion)"}
    assert set(said.partition("of the engine: ")[2].partition(" failures ")[0].split(", ")) == {
        f"test_one::test_{name}" for name in names
    }
    run = bench.run_json()
    assert run["verdict"]["status"] == "failed"
    assert len(run["verdict"]["because"]) == 3
    assert summarize(journal.read_run(bench.run_in()).run(bench.run_in())).total.tests_passed.n == 4


def test_a_run_without_any_call_or_failed_test_has_no_summary(bench: Bench) -> None:
    result = run_one(bench, SAYING + "def test_asks_nothing(jsbench): pass\n")

    assert result.ret == pytest.ExitCode.OK
    assert "verdict" not in result.stdout.str()


def test_summary_counts_a_test_run_again_by_its_recorded_call(bench: Bench) -> None:
    pytest.importorskip("pytest_rerunfailures")
    bench.plugins = ("rerunfailures",)
    code = SAYING + (
        "tries = []\n"
        "def test_it(jsbench):\n"
        "    tries.append(1)\n"
        "    assert len(tries) == 2\n"
        "    jsbench.generate(text='{\"n\": 1}')\n"
    )

    run_one(bench, code, "--jsbench-output=out", "--reruns=1").assert_outcomes(passed=1)

    assert bench.run_json()["metrics"]["tests_passed"] == 1.0
