from __future__ import annotations

import pytest

from tests.plugin.conftest import Bench


@pytest.fixture
def three_of_four(bench: Bench) -> Bench:
    for name in ("a", "b", "c"):
        bench.case(name)
    bench.case("d", '{"n": -1}')
    return bench


def test_without_a_gate_a_failing_case_fails_the_run(three_of_four: Bench) -> None:
    assert three_of_four.run().ret == pytest.ExitCode.TESTS_FAILED


def test_a_gate_that_is_met_passes_the_run_and_leaves_the_failure_visible(three_of_four: Bench) -> None:
    result = three_of_four.run("--jsbench-min-pass-rate=0.75")

    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "gate       pass_rate 3/4 = 0.75, gate >= 0.75: met",
            "verdict    PASSED: the gate is met",
        ]
    )


def test_a_gate_that_is_not_met_fails_the_run(three_of_four: Bench) -> None:
    result = three_of_four.run("--jsbench-min-pass-rate=0.8")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "gate       pass_rate 3/4 = 0.75, gate >= 0.8: NOT MET",
            "verdict    FAILED: the gate is not met: pass_rate>=0.8",
        ]
    )


def test_a_projects_own_failure_keeps_its_say(three_of_four: Bench) -> None:
    three_of_four.write({"test_own.py": "def test_own(): assert 0"})

    assert three_of_four.run("--jsbench-min-pass-rate=0.5", ".").ret == pytest.ExitCode.TESTS_FAILED


def test_a_collection_error_keeps_its_say(three_of_four: Bench) -> None:
    three_of_four.write({"test_own.py": "import nothing_of_this_name"})

    result = three_of_four.run("--jsbench-min-pass-rate=0.5", ".", "--continue-on-collection-errors")

    assert result.ret != pytest.ExitCode.OK


def test_a_gate_over_nothing_is_not_met(bench: Bench) -> None:
    bench.case("a", schema={"type": "intger"})

    result = bench.run("--jsbench-min-pass-rate=0")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate       pass_rate n/a, gate >= 0: NOT MET, nothing judged"])


def test_a_gate_over_broken_calls_only_is_not_met(bench: Bench) -> None:
    bench.case("a", {"fault": "server", "message": "down"})

    assert bench.run("--jsbench-min-pass-rate=0", "--jsbench-retries=0").ret == pytest.ExitCode.TESTS_FAILED


def test_a_run_of_nothing_but_broken_schemas_is_not_green(bench: Bench) -> None:
    bench.case("a", schema={"type": "intger"})

    assert bench.run().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_gate_that_is_met_does_not_hide_that_the_run_was_stopped(three_of_four: Bench) -> None:
    result = three_of_four.run("--jsbench-min-pass-rate=0.1", "--maxfail=1")

    assert result.ret != pytest.ExitCode.OK


@pytest.mark.parametrize("plugin", ["terminal", "terminalreporter", "cacheprovider", "capture", "logging", "warnings"])
def test_without_one_of_pytests_own_plugins_the_run_ends_as_it_does_with_it(bench: Bench, plugin: str) -> None:
    bench.case("a", '{"n": -1}')
    bench.write({"conftest.py": "def pytest_sessionfinish(session): session.exitstatus = 7\n"})

    result = bench.run("-p", f"no:{plugin}", "--jsbench-output=out", "--junitxml=junit.xml", ".")

    assert result.ret == bench.run_json()["verdict"]["exit_status"] == 7
    assert 'name="jsbench.verdict" value="failed"' in (bench.path / "junit.xml").read_text()
