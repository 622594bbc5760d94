from __future__ import annotations

import pytest

from pytest_jsbench.lab.view import shelf


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages wait for their runs, also on a machine that is busy."""
    monkeypatch.setattr(shelf, "PATIENCE", 60)
