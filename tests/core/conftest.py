from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """Override the fixture: these tests check how a process starts, so each needs a new interpreter."""
