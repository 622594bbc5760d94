from __future__ import annotations

import pytest

from pytest_jsbench import JSBench


@pytest.fixture(autouse=True)
def address(jsbench: JSBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clients call the test's own endpoint; what they have for a key goes nowhere."""
    monkeypatch.setenv("OPENAI_BASE_URL", jsbench.endpoint.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
