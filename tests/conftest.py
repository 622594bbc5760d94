from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.warm_python import CHILD, can_be_warm, warm_python


@pytest.fixture(scope="session")
def _warm_python() -> Iterator[str]:
    with warm_python(CHILD) as program:
        yield program


@pytest.fixture(autouse=True)
def _starts_fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this one starts need not import anew what all of them do."""
    if can_be_warm():
        monkeypatch.setattr(sys, "executable", request.getfixturevalue("_warm_python"))
