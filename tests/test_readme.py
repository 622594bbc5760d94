"""Test that the README matches the code; its code blocks are run by `tests/docs`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pytest_jsbench.settings.options import OPTIONS

README = Path(__file__).parents[1] / "README.md"


def test_every_option_in_it_exists() -> None:
    assert set(re.findall(r"--jsbench-[a-z-]+", README.read_text("utf-8"))) <= {option.flag for option in OPTIONS}


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = README.parent / ".ci" / "run"
    if not script.exists():
        pytest.skip("needs a whole checkout")
    (finding,) = re.findall(r"^command=\$\((sed .*) README\.md", script.read_text("utf-8"), flags=re.MULTILINE)

    found = subprocess.run(["bash", "-c", f"{finding} {README}"], capture_output=True, text=True, check=True).stdout

    groups = tomllib.loads((README.parent / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    assert len(found.splitlines()) == 1
    assert set(re.findall(r"--group (\w+)", found)) <= set(groups)
    assert found.startswith("pip install --upgrade 'pip>=25.1' && "), "an older pip knows no groups"
    assert found.rstrip().endswith("&& pytest -n auto -m 'not slow'")


@pytest.mark.slow
def test_checkout_calls_a_model_without_test_requirements() -> None:
    declared = tomllib.loads((README.parent / "pyproject.toml").read_text("utf-8"))
    project = declared["project"]
    needed = {project["name"], *map(_name, project["dependencies"])}
    only_tests = {_name(line) for line in declared["dependency-groups"]["test"]} - needed
    hidden = [name for name, whose in packages_distributions().items() if only_tests & set(map(_name, whose))]
    assert "hypothesis" in hidden
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); import pytest; sys.exit(pytest.main())"
    arguments = ("-p", "pytest_jsbench.plugin", "-p", "no:cacheprovider", "--jsbench-engine=application", "--co", "-q")

    listed = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=README.parent,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "88 tests collected" in listed.stdout, listed.stdout + listed.stderr


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
