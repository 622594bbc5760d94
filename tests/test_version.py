"""Test that the version is defined in one place and used everywhere."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

import pytest_jsbench
from pytest_jsbench import __version__
from pytest_jsbench.cli.main import main

ROOT = Path(__file__).parents[1]


def test_version_is_read_from_the_package_by_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", __version__)
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "pytest_jsbench/core/version.py"


def test_installed_version_is_this_one() -> None:
    installed = distribution("pytest-jsbench")

    assert installed.version == __version__
    assert Path(pytest_jsbench.__file__).with_name("py.typed").is_file()


def test_command_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-jsbench {__version__}\n"
