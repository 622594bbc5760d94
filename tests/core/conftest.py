from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """How a process starts is what is tested here: each is a new interpreter."""
