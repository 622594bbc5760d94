from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.run_files import find
from tests.support import examples
from tests.support.examples import record
from tests.support.packages import install

OWN = """
from pathlib import Path


def names(path, run, summary):
    path.write_text("\\n".join(f"{record.key} {record.verdict.passed}" for record in run.records))


def leaves(path, run, summary):
    raise SystemExit(3)


def elsewhere(path, run, summary):
    return Path(path, "inner.txt")


def broken(path, run, summary):
    raise ValueError("no\\nroom \\x1b[31m")


format = 3
"""
PROJECT = """
[project]
name = "exporting"
version = "2.1"
[project.entry-points."pytest_jsbench.exporters"]
names = "jsbench_own_exporter:names"
elsewhere = "jsbench_own_exporter:elsewhere"
broken = "jsbench_own_exporter:broken"
format = "jsbench_own_exporter:format"
"""
RUN = examples.run(record("a"), record("b", verdict=examples.VIOLATED))


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jsbench_own_exporter", raising=False)
    install(tmp_path / "site", {"jsbench_own_exporter.py": OWN, "pyproject.toml": PROJECT}, monkeypatch)


def test_the_built_in_format_has_a_name(tmp_path: Path) -> None:
    written = find("every_eval_ever").write(tmp_path / "out", RUN, summarize(RUN))

    assert json.loads(written.read_text())["model_info"]["id"]


@pytest.mark.parametrize("name", ["names", "jsbench_own_exporter:names"])
def test_an_installed_package_or_a_function_brings_a_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "names.txt"

    assert find(name).write(path, RUN, summarize(RUN)) == path

    assert path.read_text() == "simple::a True\nsimple::b False"


def test_exporter_may_return_the_written_path(tmp_path: Path) -> None:
    assert find("elsewhere").write(tmp_path, RUN, summarize(RUN)) == tmp_path / "inner.txt"


def test_an_exporter_that_exits_does_not_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"^exporter .* could not write .*: SystemExit: 3$"):
        find("jsbench_own_exporter:leaves").write(tmp_path / "x", RUN, summarize(RUN))


def test_failing_exporter_is_one_line_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        find("broken").write(tmp_path / "x", RUN, summarize(RUN))

    message = "exporter 'broken', jsbench_own_exporter:broken (package exporting 2.1), could not write"
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("ValueError: no room \\x1b[31m")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("format", "exporter 'format', jsbench_own_exporter:format (package exporting 2.1), is an int; expected"),
        (
            "namse",
            "unknown exporter 'namse': did you mean 'names'? (one of broken, csv, elsewhere, every_eval_ever, format",
        ),
    ],
)
def test_invalid_exporter_is_one_line(name: str, message: str) -> None:
    with pytest.raises(ExportError, match=f"^{re.escape(message)}"):
        find(name)
