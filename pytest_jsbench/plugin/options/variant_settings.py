"""The settings of one variant: whom it asks, in which words, with which sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.plugin.options.variants import holds_run

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import ResponseFormat
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.plugin.options.variants import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """Where answers are kept, or come from, for all variants; one of the two at most."""

    #: where every answer is recorded
    record: Path | None
    #: whether what is recorded there answers, and only what is missing is asked
    only_new: bool
    #: the recordings, or the run, that answer instead of an engine
    replay: Path | None
    #: whether a replayed answer must have been asked for with the same settings
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSettings:
    """What the user said of one way to ask the cases."""

    #: empty where there is one way only
    name: str
    engine: EngineConfig
    #: of engine and sampling, fit to be kept beside an answer; that of the ini file too where answers are replayed
    said: Mapping[str, Any]
    #: where its answers are recorded
    record: Path | None
    #: whether what is recorded there answers, and only what is missing is asked
    only_new: bool
    #: whether a recorded answer must have been asked for with the same settings
    strict: bool
    prompt: str
    shots: int
    #: tokens; None: what the engine knows of itself
    context: int | None
    #: `verbatim`, or mode and subset: `narrow:openai@2026-08`
    adapt: str
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    concurrency: int | None

    @classmethod
    def of(cls, variant: Variant, recording: RecordingSettings) -> VariantSettings:
        """The settings of a variant; pytest.UsageError says what is wrong with them."""
        values, name = variant.values, variant.name
        if values["engine"] is None and recording.replay is None:
            raise pytest.UsageError(_no_engine(name, recording))
        record = recording.record
        return cls(
            name=name,
            engine=_engine(values) if recording.replay is None else _replaying(recording.replay, recording, name),
            said=_said(values),
            record=record / safe_name(name) if record is not None and name else record,
            only_new=recording.only_new,
            strict=recording.strict,
            prompt=values["prompt"] or "schema",
            shots=values["shots"] or 0,
            context=values["context"],
            adapt=_adapt(values["adapt"], engine=values["engine"] or "recorded"),
            max_tokens=values["max-tokens"],
            temperature=values["temperature"],
            seed=values["seed"],
            concurrency=values["concurrency"],
        )


def _no_engine(name: str, recording: RecordingSettings) -> str:
    if recording.record is not None:
        return "--jsbench-record needs an engine to record: --jsbench-engine=NAME, or jsbench_engine in the ini file"
    about = f"variant '{name}' names no engine" if name else "no engine is named"
    return f"--jsbench-variants: {about}: say engine in its table, or --jsbench-engine=NAME for all"


def _engine(values: Mapping[str, Any]) -> EngineConfig:
    from pytest_jsbench.engines.base import EngineConfig

    return EngineConfig(
        name=values["engine"],
        model=values["model"],
        base_url=values["base-url"],
        api_key_env=values["api-key-env"],
        response_format=_response_format(values["response-format"]),
        options=dict(values["engine-option"] or ()),
    )


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    said = {name.replace("-", "_"): values[name] for name in ("temperature", "max-tokens", "seed")}
    engine = {} if values["engine"] is None else _engine(values).said()
    return {**engine, **{name: value for name, value in said.items() if value is not None}}


def _replaying(path: Path, recording: RecordingSettings, variant: str) -> EngineConfig:
    """The engine that says what a folder of recordings, or the records of a run, hold for a variant."""
    from pytest_jsbench.engines.base import EngineConfig

    if holds_run(path):
        options = {"records": str(path), "strict": recording.strict}
        return EngineConfig(name="replay", options={**options, **({"variant": variant} if variant else {})})
    folder = path / safe_name(variant) if variant else path
    return EngineConfig(name="recorded", options={"folder": str(folder), "strict": recording.strict})


def _adapt(given: tuple[str, str] | None, *, engine: str) -> str:
    from pytest_jsbench.engines.presets import adaptation

    return adaptation(*(given or ("verbatim", "")), engine=engine)


def _response_format(text: str | None) -> ResponseFormat | None:
    from pytest_jsbench.core.generations import ResponseFormat

    return None if text is None else ResponseFormat(text)
