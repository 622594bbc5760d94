from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import judge_versions


@pytest.mark.slow
def test_two_versions_are_measured_in_turn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def write(path: Path) -> None:
        answers = [['{"type": "integer"}', text] for text in ("1", '"x"')]
        path.write_text(json.dumps({"answers": answers, "schemas": ["true"]}))

    monkeypatch.setattr(judge_versions, "_write", write)
    same = Path(sys.executable)
    monkeypatch.setattr(sys, "argv", ["judge_versions", f"{same.parent}/./{same.name}", "--rounds=1"])

    judge_versions.main()

    assert "| building, cpu s" in capsys.readouterr().out
