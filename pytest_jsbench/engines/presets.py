"""Presets of providers that speak OpenAI's API: data (`presets.toml`), dated, with sources, read by name."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import ResponseFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

#: known without the file, which is read only when one of them is asked for
PRESET_NAMES = frozenset(
    {"deepseek", "fireworks", "gemini-openai", "groq", "llamacpp", "lmstudio", "mistral", "ollama", "openrouter"}
    | {"sglang", "together", "vllm", "xai"}
)
#: the engine of which each preset is a configuration
PRESET_ENGINE = "openai"
#: of engines that are no presets; Azure documents the first limits
_SUBSETS = {
    "openai": "openai",
    "azure": "openai@2024-08",
    "anthropic": "anthropic",
    "anthropic-bedrock": "bedrock",
    "anthropic-vertex": "anthropic",
    "gemini": "gemini",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPreset:
    """A provider, as its sources described it at its date."""

    name: str
    title: str
    base_url: str
    #: month in which the sources were read
    date: str
    sources: tuple[str, ...]
    #: of each API that it speaks, its response formats, the strongest first; the first API is called unless said
    formats: Mapping[str, tuple[ResponseFormat, ...]]
    #: variable that holds the key; None: it wants none
    key: str | None = None
    #: response formats in which it does not stream
    unstreamed: tuple[ResponseFormat, ...] = ()
    #: whether it takes `stream_options`; one that does not sends its usage without being asked
    stream_options: bool = True
    #: whether it takes `parallel_tool_calls`
    single_call: bool = False
    #: whether it is asked to hold to the schema; or with which models
    strict: bool | tuple[str, ...] = True
    max_tokens_field: str = "max_tokens"
    #: False: it takes no seed
    seed_field: str | bool = "seed"
    #: of chat, inner ones by dots; False: it is not known to take one
    effort_field: str | bool = "reasoning_effort"
    budget_field: str | bool = False
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    #: of JSON Schema
    subset: str | None = None
    #: its name in genai-prices
    prices: str | None = None
    #: what else to know
    traps: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Its name and date, by which two runs are told apart."""
        return f"{self.name}@{self.date}"

    @property
    def source(self) -> str:
        """The first of its sources and its date, for a message."""
        return f"{self.sources[0]}, {self.date}"

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that it speaks, the one that is called unless said first."""
        return tuple(self.formats)


def preset_of(engine: str) -> ProviderPreset | None:
    """The preset of that name; None for any other engine, for which nothing is read."""
    return _presets()[engine] if engine in PRESET_NAMES else None


def presets() -> tuple[ProviderPreset, ...]:
    """All presets, by name."""
    return tuple(_presets().values())


def subset_of(engine: str) -> str | None:
    """The subset of JSON Schema that the engine's provider takes; None where it is not known."""
    if (subset := _SUBSETS.get(engine)) is not None:
        return subset
    preset = preset_of(engine)
    return None if preset is None else preset.subset


def adaptation(mode: str, subset: str, *, engine: str) -> str:
    """Name the adaptation of schemas, to the engine's own subset unless one is named: `narrow:openai@2026-08`."""
    if mode == "verbatim":
        return mode
    subset = subset or subset_of(engine) or ""
    if not subset:
        message = f"--jsbench-adapt={mode}: engine '{engine}' has no subset of its own; say one: {mode}:openai"
        raise EngineError(message, found=engine, option="adapt")
    from pytest_jsbench.adaptation.subsets import find_subset

    profile = find_subset(subset)
    return f"{mode}:{subset if profile is None else profile.version}"


@functools.cache
def _presets() -> Mapping[str, ProviderPreset]:
    # most runs name none of them
    import tomllib
    from importlib.resources import files

    text = files(__package__).joinpath("presets.toml").read_text("utf-8")
    presets = {}
    for name, entry in sorted(tomllib.loads(text).items()):
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        fields["formats"] = {api: tuple(map(ResponseFormat, listed)) for api, listed in entry["formats"].items()}
        fields["unstreamed"] = tuple(map(ResponseFormat, entry.get("unstreamed", ())))
        presets[name] = ProviderPreset(name=name, **fields)
    return presets
