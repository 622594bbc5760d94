"""How an Azure resource is asked; it answers in OpenAI's words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import EngineConfig
    from tests.engines.provider import Provider

from tests.engines import openai_wire

VERSION = "2025-04-01-preview"


def configured(provider: Provider, *, options: dict[str, Any] | None = None, **changes: Any) -> EngineConfig:
    config = openai_wire.configured(provider, **{"name": "azure", "base_url": provider.url, **changes})
    return replace(config, options={"api_version": VERSION, **(options or {})})
