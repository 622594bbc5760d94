from __future__ import annotations

import pytest

_PROVIDERS_OWN = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GOOGLE_GEMINI")
_CLOUDS_OWN = (
    *("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_VERSION"),
    *("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"),
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"),
)


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """Speed up model servers and grammar processes: each is a new interpreter with many imports."""


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in _PROVIDERS_OWN:
        for suffix in ("API_KEY", "AUTH_TOKEN", "BASE_URL"):
            monkeypatch.delenv(f"{provider}_{suffix}", raising=False)
    for variable in _CLOUDS_OWN:
        monkeypatch.delenv(variable, raising=False)
