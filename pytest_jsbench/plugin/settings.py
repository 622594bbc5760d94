"""What the user said, on the command line or in the ini file, read once into frozen `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_jsbench.plugin.options import OPTIONS, value_of
from pytest_jsbench.plugin.recording import read_recording

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.gates import Gate
    from pytest_jsbench.generations import ResponseFormat
    from pytest_jsbench.verdicts import JudgePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user said, read once."""

    engine: EngineConfig
    #: where every answer is recorded
    record: Path | None
    #: whose recorded answers are asked
    replay: Path | None
    selection: Selection
    prompt: str
    #: `verbatim`, or mode and subset: `narrow:openai`
    adapt: str
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    timeout: float
    retries: int
    concurrency: int | None
    policy: JudgePolicy
    gate: Gate | None
    output: Path | None
    benchmark_rows: Literal["task", "case"]

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; pytest.UsageError says what is wrong with a value."""
        from pytest_jsbench.datasets.base import Selection
        from pytest_jsbench.errors import JSBenchError
        from pytest_jsbench.gates import Gate

        values = {option.name: value_of(config, option.name) for option in OPTIONS}
        selection = {name: values[name] for name in ("tasks", "split", "limit") if values[name] is not None}
        try:
            gate = None if values["min-pass-rate"] is None else Gate.parse(values["min-pass-rate"])
        except JSBenchError as error:
            message = f"--jsbench-min-pass-rate: {error}"
            raise pytest.UsageError(message) from None
        record, replay = read_recording(config)
        return cls(
            engine=_engine(values) if replay is None else _replaying(replay),
            record=record,
            replay=replay,
            selection=Selection(source=values["dataset"] or "builtin", **selection),
            prompt=values["prompt"] or "schema",
            adapt=_adapt(values["adapt"], engine=values["engine"] or "recorded"),
            max_tokens=values["max-tokens"],
            temperature=values["temperature"],
            seed=values["seed"],
            timeout=values["timeout"] or 120.0,
            retries=2 if values["retries"] is None else values["retries"],
            concurrency=values["concurrency"],
            policy=_policy(values),
            gate=gate,
            output=None if values["output"] is None else config.invocation_params.dir / values["output"],
            benchmark_rows=values["benchmark-rows"] or "task",
        )


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


def _replaying(path: Path) -> EngineConfig:
    """The engine that says what a folder of recordings, or the records of a run, hold."""
    from pytest_jsbench.engines.base import EngineConfig

    if path.is_file() or (path / "records.jsonl").is_file():
        return EngineConfig(name="replay", options={"records": str(path)})
    return EngineConfig(name="recorded", options={"folder": str(path)})


def _adapt(given: tuple[str, str] | None, *, engine: str) -> str:
    mode, subset = given or ("verbatim", "")
    if mode == "verbatim":
        return mode
    subset = subset or (engine if engine in {"openai", "anthropic"} else "")
    if not subset:
        message = f"--jsbench-adapt={mode}: engine '{engine}' has no subset of its own; say one: {mode}:openai"
        raise pytest.UsageError(message)
    return f"{mode}:{subset}"


def _response_format(text: str | None) -> ResponseFormat | None:
    from pytest_jsbench.generations import ResponseFormat

    return None if text is None else ResponseFormat(text)


def _policy(values: Mapping[str, Any]) -> JudgePolicy:
    from pytest_jsbench.verdicts import JudgePolicy
    from pytest_jsbench.verdicts.dialects import NAMES

    chosen: dict[str, Any] = {
        name.replace("-", "_"): values[name]
        for name in ("duplicate-keys", "fences", "reasoning", "formats", "validator")
        if values[name]
    }
    if values["judge-timeout"] is not None:
        chosen["timeout"] = values["judge-timeout"]
    if values["default-dialect"] is not None:
        chosen["default_dialect"] = NAMES[values["default-dialect"]]
    extra_fields = values["extra-fields"]
    if extra_fields in {"fail", "allow"}:
        chosen["extra_fields"] = extra_fields
    elif extra_fields is not None:
        chosen["ignored_fields"] = extra_fields
    return JudgePolicy(**chosen)
