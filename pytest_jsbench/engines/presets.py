"""Look up presets by name. A preset describes a provider with an OpenAI-compatible API; `presets.toml` has the data."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta, Struct, field

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError
from pytest_jsbench.core.extensions import find_entry_points, load, origin
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.text import describe_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Names of the presets in presets.toml; the file is read only when one of these presets is used.
PRESET_NAMES = frozenset(
    {"deepseek", "fireworks", "gemini-openai", "groq", "llamacpp", "lmstudio", "mistral", "ollama", "openrouter"}
    | {"sglang", "together", "vllm", "xai"}
)
#: Engine that each preset configures.
PRESET_ENGINE = "openai"
#: JSON Schema subset of each engine that is not a preset; Azure still documents the first version of OpenAI's subset.
_SUBSETS = {
    "openai": "openai",
    "azure": "openai@2024-08",
    "anthropic": "anthropic",
    "anthropic-bedrock": "bedrock",
    "anthropic-vertex": "anthropic",
    "gemini": "gemini",
}
#: Environment variables with the keys of engines that are not presets; the first variable that is set is used.
KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
#: Names of this package's engines that are not presets; a preset of another package cannot replace these engines.
_ENGINES = frozenset({*_SUBSETS, "application", "local", "recorded", "replay", "scripted"})


#: Response formats of one API.
_Formats = tuple[ResponseFormat, ...]
#: Meanings of a finish reason.
_Ending = Literal["stop", "length", "content_filter", "rejected", "unknown", "refusal"]
_Fault = Literal["auth", "quota", "rate_limited", "timeout", "server", "bad_request", "bad_response"]
_Meaning = _Ending | _Fault
#: The value `false`, for a parameter that the provider does not support.
_Off = Annotated[bool, Meta(extra_json_schema={"const": False})]


class ProviderPreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a provider, according to the sources at the date of the preset."""

    #: Name for `--jsbench-engine`.
    name: str
    #: The provider's name, for display.
    title: str
    #: Base URL of the API.
    base_url: Annotated[str, Meta(pattern="^https?://", extra_json_schema={"format": "uri"})]
    #: Month in which the sources were read.
    date: Annotated[str, Meta(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$")]
    #: URLs of the provider's documentation.
    sources: Annotated[tuple[Annotated[str, Meta(pattern="^https://")], ...], Meta(min_length=1)]
    #: Response formats by API, `chat` (Chat Completions) or `responses`, strongest first; the first API is the default.
    formats: Annotated[Mapping[Annotated[str, Meta(pattern="^(chat|responses)$")], _Formats], Meta(min_length=1)]
    #: Environment variable with the key; None if no key is needed.
    key: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")] | None = None
    #: Response formats without streaming.
    unstreamed: _Formats = ()
    #: Whether the provider accepts `stream_options`; a provider that does not accept this parameter reports usage
    #: anyway.
    stream_options: bool = True
    #: Whether the provider accepts `parallel_tool_calls`, which limits a forced tool to one call.
    single_call: bool = False
    #: Whether to request enforcement of the schema, or the models for which to request it (patterns with `*`).
    strict: bool | Annotated[tuple[str, ...], Meta(min_length=1)] = True
    #: Parameter for the maximum number of tokens.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: Parameter for the seed; False if the provider accepts no seed.
    seed_field: str | _Off = "seed"
    #: Parameter for the reasoning effort in chat, as a path separated by dots; False if unknown.
    effort_field: str | _Off = "reasoning_effort"
    #: Parameter for the maximum number of reasoning tokens in chat, as a path separated by dots; False if unknown.
    budget_field: str | _Off = False
    #: Meanings of the finish reasons that are not in the table of Chat Completions, or that this provider sends with
    #: another meaning. Each meaning is a finish reason as in records, `refusal`, or a kind of fault.
    finish_reasons: Mapping[str, _Meaning] = field(default_factory=dict)
    #: Additional fields for the body of each request.
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    #: Name of the JSON Schema subset that the provider supports; None if unknown.
    subset: str | None = None
    #: The provider's name in the package genai-prices.
    prices: str | None = None
    #: Known pitfalls.
    traps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is `true` instead of a name."""
        for name in ("seed_field", "effort_field", "budget_field"):
            if getattr(self, name) is True:
                raise ValueError(f"{name} must be the name of a parameter, or false; found true")

    @property
    def version(self) -> str:
        """Name and date of the preset, for comparing the versions that two runs used."""
        return f"{self.name}@{self.date}"

    @property
    def source(self) -> str:
        """First source of the preset and the date, for messages."""
        return f"{self.sources[0]}, {self.date}"

    @property
    def apis(self) -> tuple[str, ...]:
        """The supported APIs; the first one is the default."""
        return tuple(self.formats)


def is_preset(engine: str) -> bool:
    """Return whether the engine is a preset in this package or in another installed package."""
    return engine in PRESET_NAMES or (engine not in {*_ENGINES, ""} and engine in _find_installed())


def preset_of(engine: str) -> ProviderPreset | None:
    """Return the preset with this name; None for any other engine, without reading presets.toml."""
    if engine in PRESET_NAMES:
        return _presets()[engine]
    if not is_preset(engine):
        return None
    point = _find_installed()[engine]
    entry = load(point, kind="preset", error=EngineError)
    try:
        return _read(engine, dict(cast("Mapping[str, Any]", entry)))
    except THIRD_PARTY_ERRORS as error:
        message = (
            f"preset '{engine}': {origin(point)} is not a table in the form of presets.toml: {describe_error(error)}"
        )
        raise EngineError(message, found=point.value, where=engine) from error


def presets() -> tuple[ProviderPreset, ...]:
    """Return the readable presets of this and other packages, sorted by name."""
    return readable_presets()[0]


def readable_presets() -> tuple[tuple[ProviderPreset, ...], dict[str, str]]:
    """Return the readable presets, and the error message for each unreadable preset, by name."""
    readable = []
    problems = {}
    for name in preset_names():
        try:
            preset = preset_of(name)
        except JSBenchError as error:
            problems[name] = str(error)
        else:
            if preset is not None:
                readable.append(preset)
    return tuple(readable), problems


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, without reading them."""
    return tuple(sorted({*PRESET_NAMES, *_find_installed()}))


def subset_of(engine: str) -> str | None:
    """Return the subset of JSON Schema that the engine's provider supports; None if unknown."""
    if (subset := _SUBSETS.get(engine)) is not None:
        return subset
    preset = preset_of(engine)
    return None if preset is None else preset.subset


def adaptation(mode: str, subset: str, *, engine: str) -> str:
    """
    Return the name of a schema adaptation, such as `narrow:openai@2026-08`; if `subset` is empty, the engine's subset
    is used.
    """
    if mode == "verbatim":
        return mode
    subset = subset or subset_of(engine) or ""
    if not subset:
        message = (
            f"--jsbench-adapt={mode}: engine '{engine}' has no default subset; specify a subset, as in {mode}:openai"
        )
        raise EngineError(message, found=engine, option="adapt")
    from pytest_jsbench.adaptation.subsets import find_subset

    profile = find_subset(subset)
    return f"{mode}:{subset if profile is None else profile.version}"


def _find_installed() -> Mapping[str, EntryPoint]:
    """Return the presets of other packages; they cannot replace an engine of this package."""
    return _find_entry_points(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _find_entry_points(_: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    # Cached, because each lookup of an engine that is not a preset would read the metadata of all installed packages.
    points = find_entry_points("preset", error=EngineError)
    return {name: point for name, point in points.items() if name not in _ENGINES}


@functools.cache
def _presets() -> Mapping[str, ProviderPreset]:
    # Imported late, because most runs use no preset.
    import tomllib
    from importlib.resources import files

    text = files(__package__).joinpath("presets.toml").read_text("utf-8")
    return {name: _read(name, entry) for name, entry in sorted(tomllib.loads(text).items())}


def _read(name: str, entry: Mapping[str, Any]) -> ProviderPreset:
    return from_json(ProviderPreset, to_json({"name": name, **entry}))
