"""Check that the documented uses of the Python API work, are typed, and do not need pytest."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_jsbench
from tests.support.page_blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "library.md"
#: Names that need pydantic.
OF_MODELS = set(pytest_jsbench._HOMES["library.pydantic_models"])
SCRIPT = ROOT / "examples" / "library" / "to_parquet.py"
SLOW = "JSBENCH_SLOW_EXAMPLES" in os.environ

#: Imports all modules that the page shows, evaluates, and prints the imported modules of pytest.
WITHOUT_PYTEST = """
import sys
import pytest_jsbench
from pytest_jsbench import Dataset, evaluate, load_run
for name in pytest_jsbench.__all__:
    getattr(pytest_jsbench, name)
run = evaluate(lambda request: "{}", Dataset.load([{"type": "object"}]), output="runs")
assert load_run("runs").summary.total.pass_rate.value == 1
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("pytest", "_pytest", "xdist")))
"""


def test_notebook_compares_runs_by_case_instead_of_overlapping_intervals() -> None:
    text = (ROOT / "examples" / "library" / "constrained_or_free.ipynb").read_text("utf-8")

    assert ".compare(" in text
    assert "Overlapping intervals do not answer this" in text


def code() -> list[str]:
    return [block.text for block in blocks_of(PAGE) if block.language == "python"]


def test_each_public_name_has_an_example_and_names_are_few() -> None:
    shown = "\n".join(code())

    assert len(pytest_jsbench.__all__) <= 40
    assert [name for name in pytest_jsbench.__all__ if not re.search(rf"\b{name}\b", shown)] == []


def test_public_names_except_models_import_without_pydantic() -> None:
    without = "import sys; sys.modules['pydantic'] = None; from pytest_jsbench import *; print(*sorted(globals()))"

    names = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=True).stdout.split()

    assert OF_MODELS.isdisjoint(names)
    assert {"Dataset", "evaluate", "plot_runs"} <= set(names)


def test_lazy_names_agree_with_type_checking_imports() -> None:
    named = {name for names in pytest_jsbench._HOMES.values() for name in names}

    assert set(pytest_jsbench.__all__) <= named
    assert all(getattr(pytest_jsbench, name) is not None for name in named - OF_MODELS)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pytest_jsbench.nonsense  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_program_that_uses_the_library_never_imports_pytest(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (ended.stdout, ended.returncode) == ("[]\n", 0), ended.stderr


def test_the_script_filters_changes_evaluates_and_writes_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra frames")
    monkeypatch.chdir(tmp_path)

    exec(compile(SCRIPT.read_text("utf-8"), str(SCRIPT), "exec"), {"__name__": "__main__"})

    rows = parquet.read_table("attempts.parquet").to_pylist()
    assert len(rows) == 12
    assert {row["tags"] for row in rows} == {'["polite"]'}
    assert all("Please answer" in row["prompt"] for row in rows)
    assert "run of function answer: 12 attempts" in capsys.readouterr().out
    assert len(SCRIPT.read_text("utf-8").splitlines()) <= 25


@pytest.mark.skipif(not SLOW or importlib.util.find_spec("mypy") is None, reason="takes a minute: tox -e lint runs it")
def test_the_examples_are_typed(tmp_path: Path) -> None:
    for number, text in enumerate(code()):
        (tmp_path / f"block_{number}.py").write_text(text, "utf-8")
    options = ("--strict", "--config-file", str(ROOT / "pyproject.toml"))

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.glob("*.py"))), str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
