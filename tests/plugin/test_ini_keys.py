"""Misspelt ini keys and gates are errors, whether or not an engine is named."""

from __future__ import annotations

import pytest

from tests.support.bench import Bench

FILES = {
    "pytest.ini": "[pytest]\n{line}\n",
    "tox.ini": "[pytest]\n{line}\n",
    "setup.cfg": "[tool:pytest]\n{line}\n",
    "pyproject.toml": "[tool.pytest.ini_options]\n{toml}\n",
}


@pytest.mark.parametrize("file", FILES)
def test_unknown_ini_key_is_a_usage_error_naming_the_nearest(bench: Bench, file: str) -> None:
    bench.write({file: FILES[file].format(line="jsbench_min_pass_rat = 0.99", toml='jsbench_min_pass_rat = "0.99"')})
    bench.write({"test_one.py": "def test_it(): pass\n"})

    result = bench.run_only("test_one.py")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: unknown key jsbench_min_pass_rat in *: did you mean jsbench_min_pass_rate?"])


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest reads [tool.pytest] from 9.0 on")
def test_unknown_key_in_pytests_own_toml_is_a_usage_error(bench: Bench) -> None:
    bench.write({"pyproject.toml": '[tool.pytest]\njsbench-gate = ["n>=1"]\n', "test_one.py": "def test_it(): pass\n"})

    result = bench.run_only("test_one.py")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: unknown key jsbench-gate in *: did you mean jsbench_gate?"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jsbench_gate = pas_rate>=0.5", "*no metric 'pas_rate': did you mean 'pass_rate'?*"),
        ("jsbench_min_pass_rate = most", "*expected a number from 0 to 1*"),
    ],
)
def test_unreadable_gate_is_a_usage_error_without_an_engine(bench: Bench, line: str, message: str) -> None:
    bench.write({"pytest.ini": f"[pytest]\n{line}\n", "test_one.py": "def test_it(): pass\n"})

    result = bench.run_only("test_one.py")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_readable_gate_without_an_engine_changes_nothing(bench: Bench) -> None:
    bench.write({"pytest.ini": "[pytest]\njsbench_gate = a.pass_rate>=0.5\n", "test_one.py": "def test_it(): pass\n"})

    bench.run_only("test_one.py").assert_outcomes(passed=1)


def test_a_key_that_another_plugin_declares_is_no_error(bench: Bench) -> None:
    declaring = "def pytest_addoption(parser): parser.addini('jsbench_colour', 'of a third party')\n"
    bench.write({"conftest.py": declaring, "pytest.ini": "[pytest]\njsbench_colour = red\n"})
    bench.write({"test_one.py": "def test_it(): pass\n"})

    bench.run_only("test_one.py").assert_outcomes(passed=1)
