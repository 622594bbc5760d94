"""
The `replay` engine: what a run recorded, said again; no key, no call, and the timings of then.

`--jsbench-engine-option records=PATH` names a records.jsonl or the folder it is in.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Decided,
    Declined,
    EngineInfo,
    Failed,
    FaultKind,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.recorded.recordings import of_repeat, settings_change
from pytest_jsbench.runs import journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.runs.outcomes import AttemptOutcome
    from pytest_jsbench.runs.records import RunMetadata

OPTIONS = frozenset({"records", "strict", "variant"})
#: the same would come again, so that another try is not worth its wait
_NEVER = float("inf")


class ReplayEngine:
    """Says what was recorded."""

    def __init__(
        self,
        outcomes: Iterable[AttemptOutcome],
        info: EngineInfo,
        source: Path,
        *,
        asked: Mapping[str, Any],
        strict: bool,
    ) -> None:
        #: the sampling that the run asked for, of which its engine may have taken less
        self._asked = asked
        #: whether an answer that was asked for with other settings is none
        self._strict = strict
        #: by case and repeat, of one variant
        self._outcomes = {(outcome.key, outcome.repeat): outcome for outcome in outcomes}
        self._of_task: dict[tuple[str, int], list[AttemptOutcome]] = {}
        for outcome in self._outcomes.values():
            self._of_task.setdefault((outcome.key.task, outcome.repeat), []).append(outcome)
        self.info = info
        self._source = source

    def generate(self, request: Request) -> Completion | Declined:
        """The recorded answer; CallError where the recorded call broke, or nothing fits the request."""
        found = self._find(request)
        record = None if found is None else found.read()
        generation = None if record is None else record.generation
        if record is None or generation is None:
            raise CallError(FaultKind.ENGINE, f"no answer for {request.key} in {self._source}")
        if record.schema_digest != digest(request.schema):
            message = f"{request.key} was recorded with another schema; give the dataset of that run"
            raise CallError(FaultKind.ENGINE, message)
        if isinstance(generation, Failed):
            raise CallError(generation.kind, generation.message, status=generation.status, retry_after=_NEVER)
        if isinstance(generation, Decided):
            message = f"{request.key} was recorded with --jsbench-instances: there is no answer to say again"
            raise CallError(FaultKind.ENGINE, message)
        who = record.answered_by
        used = {"model": self.info.model if who is None else who.model, "response_format": self.info.response_format}
        sampled = {} if record.params is None else asdict(record.params)
        asked = of_repeat(self._asked, request.repeat)
        params = {name: asked.get(name) if value is None else value for name, value in sampled.items()}
        settings = settings_change(None, {**used, **params}, request.origin.said, repeat=request.repeat)
        if settings and self._strict:
            raise CallError(FaultKind.ENGINE, f"{request.key} was recorded with other settings: {settings}")
        if record.params is None and not settings:
            return generation
        sent = generation.sent or Sent(response_format=self.info.response_format)
        return replace(generation, sent=replace(sent, params=record.params, asked_otherwise=settings or None))

    def _find(self, request: Request) -> AttemptOutcome | None:
        """The attempt of the same question of the same test, or else test function; or else of the same place."""
        first, place = request.origin.first, self._outcomes.get((request.key, request.repeat))
        if first is None:
            return place
        asked = (request.prompt.digest, digest(request.schema), first.function)
        equal = [
            one
            for one in sorted(self._of_task.get((first.task, request.repeat), ()), key=lambda one: one.key.number)
            if (one.prompt_digest, one.schema_digest, one.key.function) == asked
        ]
        equal = [one for one in equal if one.key.is_of_test(first)] or equal
        return equal[request.origin.equal_before] if request.origin.equal_before < len(equal) else place

    def close(self) -> None:
        """Nothing is open."""


class ReplayFactory(UnsharedFactory):
    """Builds the `replay` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the records are there, and hold answers."""
        if _metadata(config).redacted:
            message = f"engine '{config.name}': {_path(config)} was written with --jsbench-redact: it holds digests of "
            raise EngineError(message + "the answers, which cannot be said again; record the run without it")

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who answered then."""
        return _describe(config, _metadata(config))

    def build(self, config: EngineConfig) -> ReplayEngine:
        """The engine, with the records read."""
        path = _path(config)
        strict = Options(config, OPTIONS).flag("strict", default=False)
        metadata = _metadata(config)
        try:
            content = journal.read_run(path)
        except JSBenchError as error:
            raise _unreadable(config, error) from error
        of_variant = (outcome for outcome in content.outcomes if outcome.variant == metadata.variant)
        outcomes = (outcome for outcome in of_variant if not outcome.handed_in)
        info, asked = _describe(config, metadata), metadata.asked_params or {}
        return ReplayEngine(outcomes, info, path, asked=asked, strict=strict)


def _path(config: EngineConfig) -> Path:
    options = Options(config, OPTIONS)
    if "records" not in config.options:
        message = (
            f"engine '{config.name}' needs records: --jsbench-engine-option records=PATH, a run's records.jsonl or "
            "the folder it is in"
        )
        raise EngineError(message)
    return Path(options.text("records", default=""))


def _metadata(config: EngineConfig) -> RunMetadata:
    """What produced the run, or the variant of it that is to be said again."""
    try:
        metadata = journal.read_header(_path(config))
    except EngineError:
        raise
    except JSBenchError as error:
        raise _unreadable(config, error) from error
    names = [one.variant for one in metadata.variants]
    name = Options(config, OPTIONS).text("variant", default="") if "variant" in config.options else ""
    if name in names:
        return metadata.of_variant(name)
    if names or name:
        found, offered = (f"no variant '{name}'" if name else "several variants"), ", ".join(names) or "none"
        message = f"engine '{config.name}': {_path(config)} has {found}; expected the option variant, one of: {offered}"
        raise EngineError(message, found=name, expected=names)
    return metadata


def _unreadable(config: EngineConfig, error: JSBenchError) -> EngineError:
    return EngineError(f"engine '{config.name}': {error}")


def _describe(config: EngineConfig, metadata: RunMetadata) -> EngineInfo:
    try:
        response_format = ResponseFormat(metadata.response_format)
    except ValueError as error:
        raise EngineError(f"engine '{config.name}': {error}") from error
    return EngineInfo(
        engine=config.name,
        model=metadata.model,
        response_format=response_format,
        streaming=metadata.streaming is True,
        provider=metadata.provider,
        details={"replayed_engine": metadata.engine, "replayed_run": metadata.run_id},
    )


FACTORY = ReplayFactory()
