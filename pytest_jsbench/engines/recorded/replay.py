"""
The `replay` engine: what a run recorded, said again; no key, no call, and the timings of then.

`--jsbench-engine-option records=PATH` names a records.jsonl or the folder it is in.
"""

from __future__ import annotations

from contextlib import contextmanager
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
from pytest_jsbench.records import journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.records.outcomes import AttemptOutcome
    from pytest_jsbench.records.records import RunMetadata

OPTIONS = frozenset({"records", "strict", "variant"})
#: a run's records do not hold what was said of each attempt's settings
_UNKNOWN: Mapping[str, Mapping[str, Any]] = {"test": {}, "run": {}}
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
        """Find the recorded answer; CallError where the recorded call broke, or nothing fits the request."""
        outcome = self._find(request)
        record = None if outcome is None else outcome.read()
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
        settings = settings_change(_UNKNOWN, {**used, **params}, request.origin.said, repeat=request.repeat)
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
        question = (request.prompt.digest, digest(request.schema), first.function)
        of_task = sorted(self._of_task.get((first.task, request.repeat), ()), key=lambda each: each.key.number)
        equal = [each for each in of_task if (each.prompt_digest, each.schema_digest, each.key.function) == question]
        equal = [each for each in equal if each.key.is_of_test(first)] or equal
        return equal[request.origin.equal_before] if request.origin.equal_before < len(equal) else place

    def close(self) -> None:
        """Nothing is open."""


class ReplayFactory(UnsharedFactory):
    """Builds the `replay` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the records are there, and hold answers."""
        path, metadata = _read(config)
        if metadata.redacted:
            message = f"engine '{config.name}': {path} was written with --jsbench-redact: it holds digests of "
            raise EngineError(message + "the answers, which cannot be said again; record the run without it")

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who answered then."""
        _, metadata = _read(config)
        with _errors_of(config):
            response_format = ResponseFormat(metadata.response_format)
        return EngineInfo(
            engine=config.name,
            model=metadata.model,
            response_format=response_format,
            streaming=metadata.streaming is True,
            provider=metadata.provider,
            details={"replayed_engine": metadata.engine, "replayed_run": metadata.run_id},
        )

    def build(self, config: EngineConfig) -> ReplayEngine:
        """The engine, with the records read."""
        path, metadata = _read(config)
        strict = Options(config, OPTIONS).flag("strict", default=False)
        with _errors_of(config):
            outcomes = journal.read_run(path).outcomes
        answers = [each for each in outcomes if each.variant == metadata.variant and not each.handed_in]
        asked = metadata.asked_params or {}
        return ReplayEngine(answers, self.describe(config), path, asked=asked, strict=strict)


def _read(config: EngineConfig) -> tuple[Path, RunMetadata]:
    """Return the path of the run, and what produced it, or the variant of it that is to be said again."""
    options = Options(config, OPTIONS)
    records = options.text("records", default=None)
    if records is None:
        message = (
            f"engine '{config.name}' needs records: --jsbench-engine-option records=PATH, a run's records.jsonl or "
            "the folder it is in"
        )
        raise EngineError(message)
    path = Path(records)
    with _errors_of(config):
        metadata = journal.read_header(path)
    names = [each.variant for each in metadata.variants]
    name = options.text("variant", default="")
    if name in names:
        return path, metadata.of_variant(name)
    if names or name:
        problem, offered = (f"no variant '{name}'" if name else "several variants"), ", ".join(names) or "none"
        message = f"engine '{config.name}': {path} has {problem}; expected the option variant, one of: {offered}"
        raise EngineError(message, found=name, expected=names)
    return path, metadata


@contextmanager
def _errors_of(config: EngineConfig) -> Iterator[None]:
    """Name the engine in errors of what it reads."""
    try:
        yield
    except (JSBenchError, ValueError) as error:
        raise EngineError(f"engine '{config.name}': {error}") from error


FACTORY = ReplayFactory()
