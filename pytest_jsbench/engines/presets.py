"""Presets of providers that speak OpenAI's API: data (`presets.toml`), dated, with sources, read by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta, Struct, field

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError
from pytest_jsbench.core.extensions import installed, load, origin
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.text import described

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
#: of engines that are no presets: the variables of which the first that is set holds the key
KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
#: engines of this package that are no presets, for which no other package is looked at
_ENGINES = frozenset({*_SUBSETS, "application", "local", "recorded", "replay", "scripted"})


#: response formats of one API
_Formats = tuple[ResponseFormat, ...]
#: what a finish reason means
_Ending = Literal["stop", "length", "content_filter", "rejected", "unknown", "refusal"]
_Fault = Literal["auth", "quota", "rate_limited", "timeout", "server", "bad_request", "bad_response"]
_Meaning = _Ending | _Fault
#: a parameter is not taken: `false`
_Off = Annotated[bool, Meta(extra_json_schema={"const": False})]


class ProviderPreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider, as its sources described it at its date."""

    #: by which `--jsbench-engine` takes it
    name: str
    #: the provider's own name
    title: str
    #: where it is
    base_url: Annotated[str, Meta(pattern="^https?://", extra_json_schema={"format": "uri"})]
    #: the month in which the sources were read
    date: Annotated[str, Meta(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$")]
    #: where it is known from
    sources: Annotated[tuple[Annotated[str, Meta(pattern="^https://")], ...], Meta(min_length=1)]
    #: of each API that it speaks, `chat` (Chat Completions) or `responses`, its response formats, the strongest first;
    #: the first API is called unless said
    formats: Annotated[Mapping[Annotated[str, Meta(pattern="^(chat|responses)$")], _Formats], Meta(min_length=1)]
    #: the variable that holds the key; None: it wants none
    key: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")] | None = None
    #: response formats in which it does not stream
    unstreamed: _Formats = ()
    #: whether it takes `stream_options`; one that does not sends its usage without being asked
    stream_options: bool = True
    #: whether it takes `parallel_tool_calls`, so that a forced tool is asked for one call
    single_call: bool = False
    #: whether it is asked to hold to the schema; or with which models (patterns with `*`)
    strict: bool | Annotated[tuple[str, ...], Meta(min_length=1)] = True
    #: the parameter of the limit
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: the parameter of the seed; False: it takes no seed
    seed_field: str | _Off = "seed"
    #: the parameter of the effort of reasoning in chat, inner ones by dots; False: it is not known to take one
    effort_field: str | _Off = "reasoning_effort"
    #: the parameter of the most tokens of reasoning in chat; False: it is not known to take one
    budget_field: str | _Off = False
    #: finish reasons that mean something else here than in the table of Chat Completions, or are not in it: what each
    #: means, a finish reason of the records, `refusal`, or a kind of fault
    finish_reasons: Mapping[str, _Meaning] = field(default_factory=dict)
    #: what else is sent with each call
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    #: the subset of JSON Schema that it takes
    subset: str | None = None
    #: its name in the package genai-prices
    prices: str | None = None
    #: what else to know
    traps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """ValueError where a parameter is only said to be there."""
        for name in ("seed_field", "effort_field", "budget_field"):
            if getattr(self, name) is True:
                raise ValueError(f"{name} is true: expected the name of a parameter, or false")

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


def is_preset(engine: str) -> bool:
    """Tell a preset, of this package or of another, from any other engine, and from one that has no name yet."""
    return engine in PRESET_NAMES or (engine not in {*_ENGINES, ""} and engine in _installed())


def preset_of(engine: str) -> ProviderPreset | None:
    """The preset of that name; None for any other engine, for which nothing is read."""
    if engine in PRESET_NAMES:
        return _presets()[engine]
    if not is_preset(engine):
        return None
    point = _installed()[engine]
    entry = load(point, kind="preset", error=EngineError)
    try:
        return _read(engine, dict(cast("Mapping[str, Any]", entry)))
    except THIRD_PARTY_ERRORS as error:
        message = f"preset '{engine}': {origin(point)} is no table as in presets.toml: {described(error)}"
        raise EngineError(message, found=point.value, where=engine) from error


def presets() -> tuple[ProviderPreset, ...]:
    """Return the presets that can be read, by name, with those of other packages."""
    return readable_presets()[0]


def readable_presets() -> tuple[tuple[ProviderPreset, ...], dict[str, str]]:
    """Return the presets that can be read, and for each other one the reason."""
    readable = []
    problems = {}
    for name in preset_names():
        try:
            preset = preset_of(name)
        except JSBenchError as error:
            problems[name] = str(error)
        else:
            readable += [] if preset is None else [preset]
    return tuple(readable), problems


def preset_names() -> tuple[str, ...]:
    """The names of all presets, for which nothing is read."""
    return tuple(sorted({*PRESET_NAMES, *_installed()}))


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


def _installed() -> Mapping[str, EntryPoint]:
    """The presets of other packages; an engine of this package keeps its name."""
    return _installed_at(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _installed_at(_: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    # whoever is asked of a name that is no preset's looks here, and each look reads all packages
    points = installed("preset", error=EngineError)
    return {name: point for name, point in points.items() if name not in _ENGINES}


@functools.cache
def _presets() -> Mapping[str, ProviderPreset]:
    # most runs name none of them
    import tomllib
    from importlib.resources import files

    text = files(__package__).joinpath("presets.toml").read_text("utf-8")
    return {name: _read(name, entry) for name, entry in sorted(tomllib.loads(text).items())}


def _read(name: str, entry: Mapping[str, Any]) -> ProviderPreset:
    return from_json(ProviderPreset, to_json({"name": name, **entry}))
