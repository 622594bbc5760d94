from __future__ import annotations

import pytest

from pytest_jsbench import JSBench


@pytest.fixture(autouse=True)
def address(jsbench: JSBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the clients call the test's endpoint; the key is not used."""
    monkeypatch.setenv("OPENAI_BASE_URL", jsbench.endpoint.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
