"""`.ci/lines.py`: the lines of each package beside its budget."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.reference import ROOT

SCRIPT = ROOT / ".ci" / "lines.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs a whole checkout")


@pytest.mark.parametrize(
    ("lines", "enforce", "status", "row"),
    [
        (11, "true", 0, "core                11      10"),
        (12, "true", 1, "core                12      10  over"),
        (12, "false", 0, "core                12      10  over"),
        (13, "false", 1, "core                13      10  over  grown"),
    ],
)
def test_a_package_that_has_grown_fails_and_one_a_tenth_over_its_budget_where_that_is_enforced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, enforce: str, status: int, row: str
) -> None:
    budgets = f"[tool.lines]\npackage = 'ours'\nenforce = {enforce}\nbudgets = {{ core = 10 }}\n"
    budgets += "most = { core = 12 }\n"
    (tmp_path / "pyproject.toml").write_text(budgets)
    (tmp_path / "ours" / "core").mkdir(parents=True)
    (tmp_path / "ours" / "core" / "it.py").write_text("x = 1\n" * lines)
    (tmp_path / "ours" / "top.py").write_text("y = 2\n")
    main: Callable[[Path], int] = runpy.run_path(str(SCRIPT))["main"]

    assert main(tmp_path) == status

    printed = capsys.readouterr().out.splitlines()
    assert row in printed
    assert "(top)                1       -" in printed
    assert f"(all)         {lines + 1:>8}       -" in printed
