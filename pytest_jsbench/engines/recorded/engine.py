"""
Answers of before, said again with no key and no call: those beside the tests, and whole runs.

The engine `recorded` (`--jsbench-replay`) reads what `--jsbench-record` put into the folder that the option `folder`
names; `replay` reads the run whose records.jsonl, or its folder, the option `records` names.
"""

from __future__ import annotations

import copy
import itertools
import threading
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.errors import EngineError, JSBenchError, RecordError
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
from pytest_jsbench.engines.base import FORWARDABLE_APIS, Remembered, TokenCounter, UnsharedFactory
from pytest_jsbench.engines.engine_options import Options
from pytest_jsbench.engines.recorded.recordings import Recording, Recordings, equal_to, of_repeat, settings_change
from pytest_jsbench.records import journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_jsbench.core.cases import CaseKey, Prompt
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.outcomes import AttemptOutcome

_AGAIN = "record it again with --jsbench-record"
#: a run's records do not hold what was said of each attempt's settings
_UNKNOWN: Mapping[str, Mapping[str, Any]] = {"test": {}, "run": {}}
#: the same would come again, so that another try is not worth its wait
_NEVER = float("inf")


class RecordedEngine:
    """Answers each request with the recording of the same request; built once in each worker, it keeps no file open."""

    def __init__(self, recordings: Recordings, info: EngineInfo, *, strict: bool) -> None:
        self._recordings = recordings
        self.info = info
        #: whether an answer that was asked for with other settings is none
        self._strict = strict

    def generate(self, request: Request) -> Completion | Declined:
        """Find the recorded answer; CallError where there is none, or it was one to another prompt or schema."""
        try:
            recording = self._recordings.find(request)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, str(error)) from error
        if recording is None:
            path = self._recordings.path(request.key, request.repeat)
            raise CallError(FaultKind.ENGINE, f"no recorded answer: {path} is not there; {_AGAIN}")
        problem = recording.changed(request)
        if self._strict and not problem and (settings := recording.asked_otherwise(request)):
            problem = f"the settings are not the recorded ones: {settings}"
        if problem:
            raise CallError(FaultKind.ENGINE, f"{problem}; {_AGAIN}")
        return recording.answer_to(request)

    def close(self) -> None:
        """Nothing is open."""


class ReplayEngine:
    """Answers each request with what a run recorded."""

    def __init__(
        self, outcomes: Iterable[AttemptOutcome], info: EngineInfo, run: RunMetadata, source: Path, *, strict: bool
    ) -> None:
        self.info = info
        #: the sampling that the run asked for, of which its engine may have taken less
        self._asked = run.asked_params or {}
        self._source = source
        self._strict = strict
        #: by case and repeat, of one variant
        self._outcomes = {(outcome.key, outcome.repeat): outcome for outcome in outcomes}
        self._of_task: dict[tuple[str, int], list[AttemptOutcome]] = {}
        for outcome in self._outcomes.values():
            self._of_task.setdefault((outcome.key.task, outcome.repeat), []).append(outcome)

    def generate(self, request: Request) -> Completion | Declined:
        """Find the recorded answer; CallError where the recorded call broke, or nothing fits the request."""
        outcome = self._find(request)
        record = None if outcome is None else outcome.read()
        generation = None if record is None else record.generation
        if record is None or generation is None:
            message = f"no answer for {request.key} in {self._source}; ask the cases of that run alone"
            raise CallError(FaultKind.ENGINE, message)
        if record.schema_digest != digest(request.schema):
            message = f"{request.key} was recorded with another schema; give the dataset of that run"
            raise CallError(FaultKind.ENGINE, message)
        if isinstance(generation, Failed):
            raise CallError(generation.kind, generation.message, status=generation.status, retry_after=_NEVER)
        if isinstance(generation, Decided):
            message = f"{request.key} was recorded with --jsbench-instances: there is no answer to say again"
            raise CallError(FaultKind.ENGINE, message)
        who = record.answered_by
        model, response_format = self.info.model if who is None else who.model, self.info.response_format
        used = {"model": model, "response_format": response_format.value}
        sampled = {} if record.params is None else asdict(record.params)
        sampling = of_repeat(self._asked, request.repeat)
        params = {name: sampling.get(name) if value is None else value for name, value in sampled.items()}
        settings = settings_change(_UNKNOWN, {**used, **params}, request.origin.said, repeat=request.repeat)
        if settings and self._strict:
            raise CallError(FaultKind.ENGINE, f"{request.key} was recorded with other settings: {settings}")
        if record.params is None and not settings:
            return generation
        sent = generation.sent or Sent(response_format=self.info.response_format)
        return structs.replace(
            generation, sent=structs.replace(sent, params=record.params, asked_otherwise=settings or None)
        )

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


class RecordedFactory(UnsharedFactory):
    """Builds the `recorded` engine."""

    options = frozenset({"folder", "strict"})
    passes_on = FORWARDABLE_APIS

    def check(self, config: EngineConfig) -> None:
        """See that the folder is there."""
        self._read(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Say who answered then."""
        recordings, _ = self._read(config)
        with _errors_of(config):
            files = [recordings.read(path).file for path in recordings.paths()]
        if not files:
            raise EngineError(_nothing_in(recordings.folder) + "; fill it with --jsbench-record and an engine")
        models = sorted({file.model for file in files})
        return EngineInfo(
            engine=config.name,
            model=models[0] if len(models) == 1 else "several",
            response_format=files[0].response_format,
            streaming=all(file.streaming for file in files),
            details={"recorded_engine": ", ".join(sorted({file.engine for file in files}))},
        )

    def build(self, config: EngineConfig) -> RecordedEngine:
        """The engine; each recording is read when it is asked for."""
        recordings, options = self._read(config)
        return RecordedEngine(recordings, self.describe(config), strict=options.flag("strict", default=False))

    def _read(self, config: EngineConfig) -> tuple[Recordings, Options]:
        options = Options(config, self.options)
        folder = Path(options.required("folder", "what --jsbench-record filled", "--jsbench-engine-option folder=DIR"))
        if not folder.is_dir():
            message = f"no recorded answers: {folder} is no folder; fill it with --jsbench-record and an engine"
            raise EngineError(message, found=str(folder), expected="a folder", option="replay")
        if runs := journal.find_runs(folder):
            message = (
                f"{_nothing_in(folder)}: name what --jsbench-record filled, or say the run again with "
                f"--jsbench-engine=replay --jsbench-engine-option=records={runs[-1]}"
            )
            raise EngineError(message, found=str(runs[-1]), expected="recorded answers", where=str(folder))
        return Recordings(folder), options


class ReplayFactory(UnsharedFactory):
    """Builds the `replay` engine: a run said again, with the timings of then."""

    options = frozenset({"records", "strict", "variant"})

    def check(self, config: EngineConfig) -> None:
        """See that the records are there, and hold answers."""
        path, run, _ = self._read(config)
        if run.redacted:
            message = f"engine '{config.name}': {path} was written with --jsbench-redact: it holds digests of "
            raise EngineError(message + "the answers, which cannot be said again; record the run without it")

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Say who answered then."""
        _, run, _ = self._read(config)
        with _errors_of(config):
            response_format = ResponseFormat(run.response_format)
        return EngineInfo(
            engine=config.name,
            model=run.model,
            response_format=response_format,
            streaming=run.streaming is True,
            provider=run.provider,
            details={"replayed_engine": run.engine, "replayed_run": run.run_id},
        )

    def build(self, config: EngineConfig) -> ReplayEngine:
        """The engine, with the records read."""
        path, run, options = self._read(config)
        strict = options.flag("strict", default=False)
        with _errors_of(config):
            outcomes = journal.read_run(path).outcomes
        answers = [each for each in outcomes if each.variant == run.variant and not each.handed_in]
        return ReplayEngine(answers, self.describe(config), run, path, strict=strict)

    def _read(self, config: EngineConfig) -> tuple[Path, RunMetadata, Options]:
        """Return the path of the run, and what produced it, or the variant of it that is to be said again."""
        options = Options(config, self.options)
        ways = "--jsbench-engine-option records=PATH, a run's records.jsonl or the folder it is in"
        path = Path(options.required("records", "records", ways))
        with _errors_of(config):
            run = journal.read_header(path)
        names = [each.variant for each in run.variants]
        name = options.text("variant", default="")
        if name in names:
            return path, run.of_variant(name), options
        if names or name:
            problem, offered = (f"no variant '{name}'" if name else "several variants"), ", ".join(names) or "none"
            message = f"engine '{config.name}': {path} has {problem}; expected the option variant, one of: {offered}"
            raise EngineError(message, found=name, expected=names)
        return path, run, options


@contextmanager
def _errors_of(config: EngineConfig) -> Iterator[None]:
    """Name the engine in errors of what it reads."""
    try:
        yield
    except (JSBenchError, ValueError) as error:
        raise EngineError(f"engine '{config.name}': {error}") from error


def _nothing_in(folder: Path) -> str:
    return f"no recorded answers in {folder}, which is {journal.what_is_in(folder)}"


FACTORY = RecordedFactory()
REPLAY = ReplayFactory()


class RecordingEngine:
    """
    Asks an engine and writes each answer into a folder, before the runner sees it. A call that broke leaves nothing.

    With `--jsbench-record`, each worker puts one around the run's engine. The threads of the calls in flight enter
    `generate`; each answer goes into a file of its own. `close`, at the end of the session, closes the engine.
    The answer to a question that is recorded goes into the file that has it, in whatever order a test now asks. One
    that cannot be written stands all the same, for it is paid for; `lost` is told why, and lets no more calls begin.

    With `only_new` (`--jsbench-record-mode=new`), only what is not recorded is asked, and what is recorded stays. The
    runner enters `remembered` before it waits for any limit, since nobody is called for what is there.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        lost: Callable[[str], None],
        only_new: bool = False,
        strict: bool = False,
    ) -> None:
        self._engine = engine
        self._recordings = Recordings(folder)
        self._lost = lost
        self._only_new = only_new
        #: whether an answer that was asked for with other settings is none
        self._strict = strict
        #: by the file's key and repeat, the question that it was written for
        self._written: dict[tuple[CaseKey, int], CaseKey] = {}
        #: the recordings of earlier runs; calls at once write theirs
        self._before = frozenset(self._recordings.paths())
        self._lock = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """The identity of the engine that is asked."""
        return self._engine.info

    def remembered(self, request: Request) -> Remembered | None:
        """The recorded answer to the same prompt and schema; CallError where a recording cannot be read."""
        if not self._only_new:
            return None
        try:
            recording = self._recordings.find(request, among=self._before)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, f"{error}; nothing was asked: mend the file, or remove it") from error
        if recording is None or recording.changed(request) or self._is_taken(recording.key, request):
            return None
        if self._strict and recording.asked_otherwise(request):
            return None
        return Remembered(answer=recording.answer_to(request), model=recording.file.model)

    def generate(self, request: Request) -> Completion | Declined:
        """Ask the engine, and write its answer down."""
        schema = copy.deepcopy(request.schema)  # which an engine may change
        answer = self._engine.generate(request)
        try:
            with self._lock:
                place = self._place(replace(request, schema=schema))
                recording = Recording.of(replace(request, key=place), schema, answer, self.info)
                self._recordings.write(recording)
                self._written[place, request.repeat] = request.key
        except JSBenchError as error:
            why = getattr(error.__cause__, "strerror", None) or error
            self._lost(f"{self._recordings.folder} takes no more recorded answers: {why}; no more calls are made")
        return answer

    def _place(self, request: Request) -> CaseKey:
        """The key that names the answer's file: of the same question, or else one that this run has not written."""
        first, path = request.origin.first, self._recordings.path
        recorded: list[Recording] = []
        with suppress(RecordError):  # a file that cannot be read is written anew
            recorded = [] if first is None else self._recordings.of_test(first, request.repeat)
        equal, before = equal_to(request, [each for each in recorded if path(each.key, each.repeat) in self._before])
        if before < len(equal):
            return equal[before].key
        is_there = self._only_new and path(request.key, request.repeat).exists()
        if first is None or not (is_there or self._is_taken(request.key, request)):
            return request.key
        names = {each.key for each in recorded} | {key for key, _ in self._written}
        return next(key for key in map(first.numbered, itertools.count(2)) if key not in names)

    def _is_taken(self, key: CaseKey, request: Request) -> bool:
        """True where the file of that key has the answer to another question of this run."""
        return self._written.get((key, request.repeat), request.key) != request.key

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
