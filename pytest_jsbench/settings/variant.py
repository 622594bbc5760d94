"""A way to ask the cases: whom, in which words, with which sampling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.core.errors import BatchError, JSBenchError
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.presets import adaptation
from pytest_jsbench.engines.registry import find, require_acceptor, require_batches, sampled
from pytest_jsbench.prompts import template_of
from pytest_jsbench.settings.variants import holds_run

if TYPE_CHECKING:
    from pytest_jsbench.settings.variants import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFolder:
    """A folder in which every answer is recorded."""

    path: Path
    #: whether what is recorded there answers, and only what is missing is asked
    only_new: bool = False
    #: whether what answers must have been asked for with the same settings
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to ask the cases of a run; a run has one without a name, or several."""

    name: str = ""
    factory: EngineFactory
    engine: EngineConfig
    #: what the user said of engine and sampling, fit to be kept beside an answer
    said: Mapping[str, Any]
    template: Template
    #: examples before the question
    shots: int = 0
    #: the sampling as it is asked for
    params: GenerationParams
    #: `verbatim`, or mode and subset: `narrow:openai@2026-08`
    adapt: str = "verbatim"
    #: tokens; None: what the engine knows of itself
    context: int | None = None
    #: calls in flight in this process
    concurrency: int
    #: None: no answer is recorded
    recording: RecordingFolder | None = None

    @property
    def sampled(self) -> GenerationParams:
        """The sampling as far as the engine says that it is done so."""
        return sampled(self.factory, self.engine, self.params)

    @classmethod
    def of(cls, name: str, values: Values, *, factory: EngineFactory | None = None, workers: int = 1) -> Variant:
        """Find all that the options name; JSBenchError says what is wrong, or not there."""
        replay = values["replay"]
        engine = _engine(values) if replay is None else _replaying(replay, values, name)
        if factory is None or replay is not None:
            factory = find(engine.name)
        params = GenerationParams(
            max_tokens=values["max_tokens"] or factory.max_tokens,
            temperature=values["temperature"],
            seed=values["seed"],
            timeout=values["timeout"],
        )
        share = -(-factory.concurrency // workers) if factory.shared else factory.concurrency
        mode, subset = values["adapt"]
        return cls(
            factory=factory,
            engine=engine,
            said=_said(values),
            params=params,
            adapt=adaptation(mode, subset, engine=values["engine"] or "recorded"),
            context=values["context"],
            concurrency=values["concurrency"] or share,
            **_of_run(name, values),
        )

    def asking(self, name: str, values: Values) -> Variant:
        """Ask the same engine, which is open, in the words that the options say, and as many calls at once."""
        context, concurrency = values["context"] or self.context, values["concurrency"] or self.concurrency
        return replace(self, context=context, concurrency=concurrency, **_of_run(name, values))


def make_variants(
    ways: Mapping[str, Values], *, held: Mapping[str, Variant | EngineFactory] = MappingProxyType({}), workers: int = 1
) -> dict[str, Variant]:
    """
    Find all that the ways to ask name; JSBenchError says what is wrong or not there, and of which variant.

    A program may hold a variant's engine: open, or as what makes it.
    """
    variants = {}
    for name, values in ways.items():
        if values["batch"] is not None and len(ways) > 1:
            message = f"--jsbench-batch hands in one variant at a time, and these are {', '.join(ways)}: "
            raise BatchError(f"{message}run each by itself", found=tuple(ways), option="batch")
        if values["engine"] is None and values["replay"] is None:
            about = f"variant '{name}' names no engine" if name else "no engine is named"
            message = f"--jsbench-variants: {about}: say engine in its table, or --jsbench-engine=NAME for all"
            if values["record"] is not None:
                needs = "--jsbench-record needs an engine to record"
                message = f"{needs}: --jsbench-engine=NAME, or jsbench_engine in the ini file"
            raise JSBenchError(message, option="engine")
    for name, values in ways.items():
        engine = held.get(name)
        with errors_of(name):
            if isinstance(engine, Variant):
                variant = engine.asking(name, values)
            else:
                variant = Variant.of(name, values, factory=engine, workers=workers)
            if values["instances"] is not None:
                require_acceptor(variant.factory, variant.engine.name)
            if values["batch"] is not None:
                require_batches(variant.factory, variant.engine.name)
        variants[name] = variant
    return variants


@contextmanager
def errors_of(variant: str) -> Iterator[None]:
    """Inside, an error that a user can mend says which variant it is of, where there are several."""
    try:
        yield
    except JSBenchError as error:
        if variant:
            error.args = (f"variant '{variant}': {error.args[0] if error.args else ''}", *error.args[1:])
        raise


def _of_run(name: str, values: Values) -> dict[str, Any]:
    """Read what a run says of a way to ask beside its engine: the words, and where answers are recorded."""
    record, recording = values["record"], None
    if record is not None:
        recording = RecordingFolder(
            path=record / safe_name(name) if name else record,
            only_new=values["record_mode"] == "new",
            strict=values["replay_strict"] == "on",
        )
    template = template_of(values["prompt"], shots=values["shots"])
    return {"name": name, "template": template, "shots": values["shots"], "recording": recording}


def _engine(values: Values) -> EngineConfig:
    return EngineConfig(
        name=values["engine"],
        model=values["model"],
        base_url=values["base_url"],
        api_key_env=values["api_key_env"],
        response_format=values["response_format"],
        options=dict(values["engine_option"]),
    )


def _said(values: Values) -> dict[str, Any]:
    """Keep what is said of engine and sampling; that of the ini file too where answers are replayed."""
    engine = {} if values["engine"] is None else _engine(values).said()
    sampling = {name: values[name] for name in ("temperature", "max_tokens", "seed")}
    return {**engine, **{name: value for name, value in sampling.items() if value is not None}}


def _replaying(path: Path, values: Values, variant: str) -> EngineConfig:
    """The engine that says what a folder of recordings, or the records of a run, hold for a variant."""
    strict = values["replay_strict"] == "on"
    if holds_run(path):
        options = {"records": str(path), "strict": strict, **({"variant": variant} if variant else {})}
        return EngineConfig(name="replay", options=options)
    folder = path / safe_name(variant) if variant else path
    return EngineConfig(name="recorded", options={"folder": str(folder), "strict": strict})
