"""What a probe will ask: which ways of asking there are, how many questions, and with which keywords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pytest_jsbench.adaptation.changes import Adapted
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import Subset, find_subset
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.presets import PRESET_NAMES, subset_of
from pytest_jsbench.engines.secrets import describe
from pytest_jsbench.metrics.enforcement import ProbeMode
from pytest_jsbench.runner.probing.questions import KEYWORDS, Words, keyword_question

#: the formats that promise something, the strongest promise first
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.JSON_OBJECT)
#: those that are given a schema
WITH_SCHEMA = frozenset({ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL})
#: questions for each keyword
PER_KEYWORD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWay:
    """A way of asking, and the engine's configuration that asks so."""

    mode: ProbeMode
    config: EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """All that a probe will ask, unless what it finds makes the rest needless."""

    ways: tuple[ProbeWay, ...]
    #: calls in flight, rising
    levels: tuple[int, ...]
    keywords: tuple[str, ...]
    #: questions at each level, or as many as are in flight there
    calls: int
    #: asks without a response format; None where the engine cannot
    control: EngineConfig | None

    def at_level(self, in_flight: int) -> int:
        """How many questions are asked at that level."""
        return max(self.calls, in_flight)

    @property
    def most_calls(self) -> int:
        """The most calls that it comes to, apart from retries."""
        modes = len(self.ways) * sum(map(self.at_level, self.levels))
        formats = {way.mode.response_format for way in self.ways} & WITH_SCHEMA
        keywords = len(formats) * len(self.keywords) * min(PER_KEYWORD, self.calls)
        return modes + keywords + (self.calls if self.control is not None else 0)


def ways_of(
    factory: EngineFactory,
    config: EngineConfig,
    formats: Iterable[ResponseFormat] | None = None,
    *,
    reasoning: Mapping[str, Any] | None = None,
    no_reasoning: Mapping[str, Any] | None = None,
) -> tuple[ProbeWay, ...]:
    """
    The ways in which the engine can be asked, in one of these formats or in any that it knows.

    Streaming and not, unless the configuration says which; with and without the fields that ask for reasoning, if there
    are any. EngineError where the engine cannot be asked at all, or not in a format that was named.
    """
    describe(factory, config)
    configs = [(asked, _with_body(config, fields)) for asked, fields in _reasonings(reasoning, no_reasoning)]
    for _, each in configs:
        describe(factory, each)
    found: dict[ProbeMode, ProbeWay] = {}
    for response_format in FORMATS if formats is None else formats:
        for asked, each in configs:
            try:
                ways = list(_streamed_or_not(factory, replace(each, response_format=response_format), asked))
            except EngineError:
                if formats is not None:
                    raise
                continue
            found.update((way.mode, way) for way in ways if way.mode.response_format is response_format)
    return tuple(found.values())


def control_of(factory: EngineFactory, config: EngineConfig) -> EngineConfig | None:
    """The configuration that asks for text; None where the engine always holds to a schema."""
    plain = replace(config, response_format=ResponseFormat.TEXT)
    try:
        info = describe(factory, plain)
    except EngineError:
        return None
    return plain if info.response_format is ResponseFormat.TEXT else None


def documented_subset(info: EngineInfo) -> str | None:
    """The subset of a preset, or of a provider at its own address; None where nothing is known of the server."""
    return subset_of(info.engine) if info.provider is not None or info.engine in PRESET_NAMES else None


def keywords_within(subset: str | None) -> tuple[str, ...]:
    """The keywords whose questions the provider's subset takes as they are; all, where no subset is known."""
    known = find_subset(subset or "")
    return tuple(keyword for keyword in KEYWORDS if known is None or _fits(keyword, known))


def _fits(keyword: str, subset: Subset) -> bool:
    schema = keyword_question(keyword, Words(Random(0))).schema  # noqa: S311  no secret
    adapted = adapt(schema, subset, "narrow")
    return isinstance(adapted, Adapted) and adapted.schema == schema


def _reasonings(
    on: Mapping[str, Any] | None, off: Mapping[str, Any] | None
) -> Iterator[tuple[bool | None, Mapping[str, Any]]]:
    if on is None and off is None:
        yield None, {}
        return
    yield False, off or {}
    if on is not None:
        yield True, on


def _with_body(config: EngineConfig, fields: Mapping[str, Any]) -> EngineConfig:
    """The configuration that sends these fields too."""
    if not fields:
        return config
    body = {**config.options.get("extra_body", {}), **fields}
    return replace(config, options={**config.options, "extra_body": body})


def _streamed_or_not(factory: EngineFactory, config: EngineConfig, reasoning: bool | None) -> Iterator[ProbeWay]:
    configs = [config]
    if "stream" not in config.options:
        both = [replace(config, options={**config.options, "stream": stream}) for stream in (True, False)]
        configs = both if _takes(factory, both[0]) else configs
    for each in configs:
        info = describe(factory, each)
        mode = ProbeMode(response_format=info.response_format, streaming=info.streaming, reasoning=reasoning)
        yield ProbeWay(mode=mode, config=each)


def _takes(factory: EngineFactory, config: EngineConfig) -> bool:
    try:
        describe(factory, config)
    except EngineError:
        return False
    return True
