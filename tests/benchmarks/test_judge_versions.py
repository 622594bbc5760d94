from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import judge_versions


@pytest.mark.slow
def test_two_versions_are_measured_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    def write(path: Path) -> None:
        answers = [['{"type": "integer"}', text] for text in ("1", '"x"')]
        path.write_text(json.dumps({"answers": answers, "schemas": ["true"]}))

    same = Path(sys.executable)

    judge_versions.main([f"{same.parent}/./{same.name}", "--rounds=1"], write=write)

    assert "| building, cpu s" in capsys.readouterr().out
