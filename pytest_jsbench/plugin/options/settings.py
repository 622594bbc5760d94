"""Whether a run calls its engine, records what it says, or replays what was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_jsbench.plugin.options.declared import OPTIONS
from pytest_jsbench.plugin.options.reading import from_here, is_typed, path_of, start_of, value_of

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import ResponseFormat
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.datasets.selection import Shard
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.metrics.gates import Gate
    from pytest_jsbench.runner.rate_limits import RateLimits
    from pytest_jsbench.verdicts import JudgePolicy


def read_recording(config: pytest.Config) -> tuple[Path | None, Path | None]:
    """
    Where answers are recorded, and where they are replayed from, one of them at most; pytest.UsageError for both.

    A replay in the ini file is what a run does unless an engine, or a recording, is asked for on the command line.
    """
    typed = {name for name in ("engine", "record", "replay") if config.getoption(f"jsbench_{name}") is not None}
    if "replay" in typed and len(typed) > 1:
        other = sorted(typed - {"replay"})[0]
        message = f"--jsbench-replay asks recorded answers and --jsbench-{other} an engine; leave one of them out"
        raise pytest.UsageError(message)
    replay = path_of(config, "replay")
    if replay is not None and not typed & {"engine", "record"}:
        return None, replay
    if value_of(config, "engine") is None:
        message = "--jsbench-record needs an engine to record: --jsbench-engine=NAME, or jsbench_engine in the ini file"
        raise pytest.UsageError(message)
    return path_of(config, "record"), None


#: the options that set a gate
_GATES = ("min-pass-rate", "gate", "max-regression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user said, read once."""

    engine: EngineConfig
    #: of engine and sampling, fit to be kept beside an answer; that of the ini file too where answers are replayed
    said: Mapping[str, Any]
    #: where every answer is recorded
    record: Path | None
    #: whose recorded answers are asked
    replay: Path | None
    selection: Selection
    prompt: str
    shots: int
    #: tokens; None: what the engine knows of itself
    context: int | None
    #: `verbatim`, or mode and subset: `narrow:openai`
    adapt: str
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    timeout: float
    retries: int
    concurrency: int | None
    limits: RateLimits
    #: whether the cases are handed in as a provider's batch, and whether it is waited for
    batch: Literal["wait", "leave"] | None
    #: an earlier run to go on with
    resume: Path | None
    shard: Shard | None
    policy: JudgePolicy
    gates: tuple[Gate, ...]
    #: whether one of them was asked of this very run, on its command line
    gates_typed: bool
    #: an evaluation file or a run's folder
    baseline: Path | None
    #: attempts per case
    repeats: int
    output: Path | None
    #: whether digests stand for prompts, schemas and answers in all that is written and shown
    redact: bool
    #: by name, what gives failed attempts codes of the project's own
    classify: tuple[str, ...]
    #: by an exporter's name, where it is to write
    exports: tuple[tuple[str, Path], ...]
    benchmark_rows: Literal["task", "case"]

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; pytest.UsageError says what is wrong with a value."""
        from pytest_jsbench.runner.rate_limits import RateLimits

        values = {option.name: value_of(config, option.name) for option in OPTIONS}
        _place(config, values)
        record, replay = read_recording(config)
        _refuse_beside_instances({**values, "record": record, "replay": replay})
        _refuse_beside_redact({**values, "record": record})
        policy = _policy(values)
        return cls(
            engine=_engine(values) if replay is None else _replaying(replay, strict=values["replay-strict"] == "on"),
            said=_said(values),
            record=record,
            replay=replay,
            selection=_selection(values, policy),
            prompt=values["prompt"] or "schema",
            shots=values["shots"] or 0,
            context=values["context"],
            adapt=_adapt(values["adapt"], engine=values["engine"] or "recorded"),
            max_tokens=values["max-tokens"],
            temperature=values["temperature"],
            seed=values["seed"],
            timeout=values["timeout"] or 120.0,
            retries=2 if values["retries"] is None else values["retries"],
            concurrency=values["concurrency"],
            # recorded answers cost nothing, and keep nobody waiting
            limits=_limits(values) if replay is None else RateLimits(),
            batch=values["batch"] if replay is None else None,
            resume=path_of(config, "resume"),
            shard=values["shard"],
            policy=policy,
            gates=_gates(values),
            gates_typed=is_typed(config, [f"--jsbench-{name}" for name in _GATES]),
            baseline=path_of(config, "baseline"),
            repeats=values["repeats"] or 1,
            output=path_of(config, "output"),
            redact=values["redact"] == "on",
            classify=tuple(values["classify"] or ()),
            exports=tuple((name, start_of(config, "export") / path) for name, path in values["export"] or ()),
            benchmark_rows=values["benchmark-rows"] or "task",
        )


def _place(config: pytest.Config, values: dict[str, Any]) -> None:
    """Name what may be a file, and was named in the ini file, from where pytest was started."""
    for name in ("dataset", "instances", "prompt", "model"):
        values[name] = None if values[name] is None else from_here(config, name, values[name])
    values["engine-option"] = [
        (key, from_here(config, "engine-option", value) if isinstance(value, str) else value)
        for key, value in values["engine-option"] or ()
    ]


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


def _replaying(path: Path, *, strict: bool) -> EngineConfig:
    """The engine that says what a folder of recordings, or the records of a run, hold."""
    from pytest_jsbench.engines.base import EngineConfig

    if path.is_file() or (path / "records.jsonl").is_file():
        return EngineConfig(name="replay", options={"records": str(path), "strict": strict})
    return EngineConfig(name="recorded", options={"folder": str(path), "strict": strict})


def _limits(values: Mapping[str, Any]) -> RateLimits:
    from pytest_jsbench.runner.rate_limits import RateLimits

    return RateLimits(requests_per_minute=values["rpm"], tokens_per_minute=values["tpm"], max_cost=values["max-cost"])


def _refuse_beside_instances(values: Mapping[str, Any]) -> None:
    """What asking a grammar about labelled answers leaves no room for."""
    if values["instances"] is None:
        return
    reasons = {
        "dataset": "brings schemas of its own",
        "resume": "calls no model, so there is nothing to go on with",
        "repeats": "calls no model, and a grammar decides alike each time",
        "record": "calls no model, so there is nothing to record",
        "batch": "calls no model, so there is nothing to hand in",
        "replay": "calls no model, so there is nothing to replay",
    }
    for name, reason in reasons.items():
        if values[name] is not None:
            message = f"--jsbench-instances {reason}: leave out --jsbench-{name}"
            raise pytest.UsageError(message)


def _refuse_beside_redact(values: Mapping[str, Any]) -> None:
    """What keeps answers as they are."""
    reasons = {
        "record": "writes no answer, and a recording is one",
        "batch": "writes no answer, and those of a batch lie in a file until their tests run",
    }
    for name, reason in reasons.items():
        if values["redact"] == "on" and values[name] is not None:
            message = f"--jsbench-redact {reason}: leave out --jsbench-{name}"
            raise pytest.UsageError(message)


def _selection(values: Mapping[str, Any], policy: JudgePolicy) -> Selection:
    from pytest_jsbench.datasets.base import Sample, Selection

    chosen = {name: values[name] for name in ("tasks", "split", "limit") if values[name] is not None}
    if values["sample"] is not None:
        size, seed = values["sample"]
        chosen["sample"] = Sample(size=size, seed=seed)
    return Selection(
        source=values["instances"] or values["dataset"] or "builtin",
        labelled=values["instances"] is not None,
        where=tuple(values["where"] or ()),
        default_dialect=policy.default_dialect,
        **chosen,
    )


def _gates(values: Mapping[str, Any]) -> tuple[Gate, ...]:
    from pytest_jsbench.core.errors import JSBenchError
    from pytest_jsbench.metrics.gates import Gate

    readers = zip(_GATES, (Gate.least_pass_rate, Gate.parse, Gate.most_regression), strict=True)
    gates: list[Gate] = []
    for option, read in readers:
        given = values[option]
        for text in given if isinstance(given, list) else [] if given is None else [given]:
            try:
                gates.append(read(text))
            except JSBenchError as error:
                message = f"--jsbench-{option}: {error}"
                raise pytest.UsageError(message) from None
            if gates[-1].name.baseline and values["baseline"] is None:
                message = f"--jsbench-{option} {text}: there is nothing to compare with; add --jsbench-baseline=RUN"
                raise pytest.UsageError(message)
    return tuple(gates)


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
    from pytest_jsbench.core.generations import ResponseFormat

    return None if text is None else ResponseFormat(text)


def _policy(values: Mapping[str, Any]) -> JudgePolicy:
    from pytest_jsbench.schemas.dialects import NAMES
    from pytest_jsbench.verdicts import JudgePolicy

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
