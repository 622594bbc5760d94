from __future__ import annotations

import pytest

from pytest_jsbench.lab.view import shelf


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages wait longer for their runs, so that tests pass on a busy machine."""
    monkeypatch.setattr(shelf, "PATIENCE", 60)
