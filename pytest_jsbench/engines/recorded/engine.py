"""
Replay recorded answers, without a key and without calls: recordings next to tests, and whole runs.

The engine `recorded` (`--jsbench-replay`) reads the directory named by its option `folder`, written by
`--jsbench-record`. The engine `replay` reads the run named by its option `records`: a records.jsonl, or its directory.
"""

from __future__ import annotations

import copy
import itertools
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
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
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.engines.base import FORWARDABLE_APIS, CachedAnswer, EngineFactory, TokenCounter
from pytest_jsbench.engines.engine_options import Options
from pytest_jsbench.engines.recorded.recordings import (
    Recording,
    Recordings,
    find_equal,
    settings_change,
    settings_of_repeat,
)
from pytest_jsbench.records import journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_jsbench.core.cases import CaseKey, Prompt
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata

_RECORD_AGAIN = "record it again with --jsbench-record"
#: Settings of a recorded attempt; empty, because a run's records do not contain the settings.
_UNKNOWN: Mapping[str, Mapping[str, Any]] = {"test": {}, "run": {}}
#: Seconds to wait before a retry: infinite, because a retry would replay the same fault.
_NO_RETRY = float("inf")


class RecordedEngine:
    """An engine that answers each request with the recorded answer; the engine keeps no file open."""

    def __init__(self, recordings: Recordings, info: EngineInfo, *, strict: bool) -> None:
        self._recordings = recordings
        self.info = info
        #: Whether to reject an answer that was recorded with other settings.
        self._strict = strict

    def generate(self, request: Request) -> Completion | Declined:
        """
        Return the recorded answer; raise CallError if there is no recording, or if the prompt or
        schema has changed.
        """
        try:
            recording = self._recordings.find(request)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, str(error)) from error
        if recording is None:
            path = self._recordings.path(request.key, request.repeat)
            raise CallError(FaultKind.ENGINE, f"no recorded answer: {path} does not exist; {_RECORD_AGAIN}")
        problem = recording.describe_changes(request)
        if self._strict and not problem and (settings := recording.describe_changed_settings(request)):
            problem = f"the settings differ from the recording: {settings}"
        if problem:
            raise CallError(FaultKind.ENGINE, f"{problem}; {_RECORD_AGAIN}")
        return recording.answer_to(request)

    def close(self) -> None:
        """Do nothing: no file is open."""


class ReplayEngine:
    """An engine that answers each request with the answer in a run's records."""

    def __init__(
        self, outcomes: Iterable[AttemptFacts], info: EngineInfo, run: RunMetadata, source: Path, *, strict: bool
    ) -> None:
        self.info = info
        #: Sampling parameters that the run requested; the run's engine may have ignored some of them.
        self._requested_params = run.asked_params or {}
        self._source = source
        self._strict = strict
        #: Outcomes of one variant of the run, by case and repeat.
        self._outcomes = {(outcome.key, outcome.repeat): outcome for outcome in outcomes}
        #: Attempt and number of each second try, by the key and repeat of its request.
        self._tries = {
            (outcome.key.continued(each.prompt_digest), outcome.repeat): (outcome, number)
            for outcome in self._outcomes.values()
            if outcome.repairs is not None
            for number, each in enumerate(outcome.repairs.tries)
        }
        self._by_task: dict[tuple[str, int], list[AttemptFacts]] = {}
        for outcome in self._outcomes.values():
            self._by_task.setdefault((outcome.key.task, outcome.repeat), []).append(outcome)

    def generate(self, request: Request) -> Completion | Declined:
        """Return the recorded answer; raise CallError if the recorded call failed, or no record matches the request."""
        outcome, number = self._tries.get((request.key, request.repeat), (None, None))
        if outcome is None:
            outcome = self._find(request)
        record = None if outcome is None else outcome.read()
        generation = None if record is None else record.generation
        if record is not None and record.repairs is not None and number is not None:
            generation = record.repairs.tries[number].generation
        if record is None or generation is None:
            message = f"no answer for {request.key} in {self._source}; select only cases of the recorded run"
            raise CallError(FaultKind.ENGINE, message)
        if record.schema_digest != request.schema_digest:
            message = f"{request.key} was recorded with another schema; use the dataset of the recorded run"
            raise CallError(FaultKind.ENGINE, message)
        if isinstance(generation, Failed):
            raise CallError(generation.kind, generation.message, status=generation.status, retry_after=_NO_RETRY)
        if isinstance(generation, Decided):
            message = f"{request.key} was recorded with --jsbench-instances: there is nothing to replay"
            raise CallError(FaultKind.ENGINE, message)
        answered_by = record.answered_by
        model = self.info.model if answered_by is None else answered_by.model
        used = {"model": model, "response_format": self.info.response_format.value}
        sampled = {} if record.params is None else to_json(record.params)
        sampling = settings_of_repeat(self._requested_params, request.repeat)
        params = {name: sampling.get(name) if value is None else value for name, value in sampled.items()}
        settings = settings_change(_UNKNOWN, {**used, **params}, request.origin.settings, repeat=request.repeat)
        if settings and self._strict:
            raise CallError(FaultKind.ENGINE, f"{request.key} was recorded with other settings: {settings}")
        if record.params is None and not settings:
            return generation
        sent = generation.sent or Sent(response_format=self.info.response_format)
        return structs.replace(
            generation, sent=structs.replace(sent, params=record.params, asked_otherwise=settings or None)
        )

    def _find(self, request: Request) -> AttemptFacts | None:
        """
        Find the recorded attempt for a request, by prompt, schema and test (or test function), or else by the request's
        key.
        """
        first = request.origin.first
        same_key = self._outcomes.get((request.key, request.repeat))
        if first is None:
            return same_key
        question = (request.prompt.digest, request.schema_digest, first.function)
        candidates = sorted(self._by_task.get((first.task, request.repeat), ()), key=lambda each: each.key.number)
        equal = [each for each in candidates if (each.prompt_digest, each.schema_digest, each.key.function) == question]
        equal = [each for each in equal if each.key.is_of_test(first)] or equal
        return equal[request.origin.equal_before] if request.origin.equal_before < len(equal) else same_key

    def close(self) -> None:
        """Do nothing: no file is open."""


class RecordedFactory(EngineFactory):
    """The factory for the `recorded` engine."""

    options = frozenset({"folder", "strict"})
    passes_on = FORWARDABLE_APIS

    def check(self, config: EngineConfig) -> None:
        """Check that the directory exists."""
        self._read(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that gave the recorded answers."""
        recordings, _ = self._read(config)
        with _errors_of(config):
            files = [recordings.read(path).file for path in recordings.paths()]
        if not files:
            raise EngineError(_describe_empty(recordings.folder) + "; fill it with --jsbench-record and an engine")
        models = sorted({file.model for file in files})
        return EngineInfo(
            engine=config.name,
            model=models[0] if len(models) == 1 else "several",
            response_format=files[0].response_format,
            streaming=all(file.streaming for file in files),
            details={"recorded_engine": ", ".join(sorted({file.engine for file in files}))},
            offers_tools=True,
        )

    def build(self, config: EngineConfig) -> RecordedEngine:
        """Build the engine; each recording is read when it is needed."""
        recordings, options = self._read(config)
        return RecordedEngine(recordings, self.describe(config), strict=options.flag("strict", default=False))

    def _read(self, config: EngineConfig) -> tuple[Recordings, Options]:
        options = Options(config, self.options)
        remedy = "--jsbench-engine-option folder=DIR"
        folder = Path(options.required_text("folder", "a directory written by --jsbench-record", remedy))
        if not folder.is_dir():
            message = f"no recorded answers: {folder} is not a directory; fill it with --jsbench-record and an engine"
            raise EngineError(message, found=str(folder), expected="a directory", option="replay")
        if runs := journal.find_runs(folder):
            message = (
                f"{_describe_empty(folder)}: name a directory written by --jsbench-record, or replay the run with "
                f"--jsbench-engine=replay --jsbench-engine-option=records={runs[-1]}"
            )
            raise EngineError(message, found=str(runs[-1]), expected="recorded answers", where=str(folder))
        return Recordings(folder), options


class ReplayFactory(EngineFactory):
    """The factory for the `replay` engine, which replays a run with the recorded timings."""

    options = frozenset({"records", "strict", "variant"})

    def check(self, config: EngineConfig) -> None:
        """Check that the records exist and contain answers."""
        path, run, _ = self._read(config)
        if run.redacted:
            raise EngineError(
                f"engine '{config.name}': {path} was written with --jsbench-redact and contains only digests of the "
                "answers, which cannot be replayed; repeat the run without --jsbench-redact"
            )

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that gave the recorded answers."""
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
            offers_tools=True,
        )

    def build(self, config: EngineConfig) -> ReplayEngine:
        """Build the engine, and read the records."""
        path, run, options = self._read(config)
        strict = options.flag("strict", default=False)
        with _errors_of(config):
            outcomes = journal.read_run(path).outcomes
        answers = [each for each in outcomes if each.variant == run.variant and not each.handed_in]
        return ReplayEngine(answers, self.describe(config), run, path, strict=strict)

    def _read(self, config: EngineConfig) -> tuple[Path, RunMetadata, Options]:
        """Return the path and the metadata of the run, or of the run's selected variant, and the options."""
        options = Options(config, self.options)
        remedy = "--jsbench-engine-option records=PATH, a run's records.jsonl or its directory"
        path = Path(options.required_text("records", "records", remedy))
        with _errors_of(config):
            run = journal.read_header(path)
        names = [each.variant for each in run.variants]
        name = options.text("variant", default="")
        if name in names:
            return path, run.of_variant(name), options
        if names or name:
            problem = f"no variant '{name}'" if name else "several variants"
            offered = ", ".join(names) or "none"
            message = f"engine '{config.name}': {path} has {problem}; set option 'variant' to one of: {offered}"
            raise EngineError(message, found=name, expected=names)
        return path, run, options


@contextmanager
def _errors_of(config: EngineConfig) -> Iterator[None]:
    """Name the engine in errors raised inside the block."""
    try:
        yield
    except (JSBenchError, ValueError) as error:
        raise EngineError(f"engine '{config.name}': {error}") from error


def _describe_empty(folder: Path) -> str:
    return f"no recorded answers in {folder}, which is {journal.describe_content(folder)}"


FACTORY = RecordedFactory()
REPLAY = ReplayFactory()


class RecordingEngine:
    """
    An engine that calls another engine and writes each answer to a directory before the runner gets the answer.

    With `--jsbench-record`, each worker wraps the run's engine in a RecordingEngine. `generate` is called from several
    threads; each answer gets its own file. A failed call writes nothing. `close`, at the end of the session, closes the
    wrapped engine. A new answer to a recorded request replaces the recording, whatever the order of the test's
    requests. If an answer cannot be written, it is still returned, because it has been paid for; the reason is
    passed to `lost`, and further calls are stopped.

    With `only_new` (`--jsbench-record-mode=new`), only requests without a recording are sent, and existing recordings
    are kept. The runner calls `remembered` before it waits for rate limits, because a recorded answer needs no call.
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
        #: Whether to reject an answer that was recorded with other settings.
        self._strict = strict
        #: Key of the recorded request for each file that this run has written, by the key and repeat in the file's
        #: name.
        self._written: dict[tuple[CaseKey, int], CaseKey] = {}
        #: Paths of recordings from earlier runs, without recordings that are written during this run.
        self._recorded_before = frozenset(self._recordings.paths())
        self._lock = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """The identity of the wrapped engine."""
        return self._engine.info

    def remembered(self, request: Request) -> CachedAnswer | None:
        """Return the recorded answer to the same prompt and schema; raise CallError if a recording cannot be read."""
        if not self._only_new:
            return None
        try:
            recording = self._recordings.find(request, among=self._recorded_before)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, f"{error}; no call was made: fix the file, or remove it") from error
        if recording is None or recording.describe_changes(request) or self._is_taken(recording.key, request):
            return None
        if self._strict and recording.describe_changed_settings(request):
            return None
        return CachedAnswer(answer=recording.answer_to(request), model=recording.file.model)

    def generate(self, request: Request) -> Completion | Declined:
        """Call the engine, and write the engine's answer to a file."""
        schema = copy.deepcopy(request.schema)  # the engine may change the schema
        answer = self._engine.generate(request)
        try:
            with self._lock:
                key = self._key_for(replace(request, schema=schema))
                recording = Recording.of(replace(request, key=key), schema, answer, self.info)
                self._recordings.write(recording)
                self._written[key, request.repeat] = request.key
        except JSBenchError as error:
            why = getattr(error.__cause__, "strerror", None) or error
            self._lost(f"cannot write recorded answers to {self._recordings.folder}: {why}; no more calls are made")
        return answer

    def _key_for(self, request: Request) -> CaseKey:
        """
        Return the key for the answer's file: the key of a recording of the same request, or else a key that this run
        has not used.
        """
        first = request.origin.first
        path = self._recordings.path
        recorded: list[Recording] = []
        with suppress(RecordError):  # a file that cannot be read is overwritten
            recorded = [] if first is None else self._recordings.read_of_test(first, request.repeat)
        equal, before = find_equal(
            request, [each for each in recorded if path(each.key, each.repeat) in self._recorded_before]
        )
        if before < len(equal):
            return equal[before].key
        is_there = self._only_new and path(request.key, request.repeat).exists()
        if first is None or not (is_there or self._is_taken(request.key, request)):
            return request.key
        names = {each.key for each in recorded} | {key for key, _ in self._written}
        return next(key for key in map(first.numbered, itertools.count(2)) if key not in names)

    def _is_taken(self, key: CaseKey, request: Request) -> bool:
        """Return whether this run has written the answer to another request under this key."""
        return self._written.get((key, request.repeat), request.key) != request.key

    def count_tokens(self, prompt: Prompt) -> int | None:
        """Return the number of tokens of the prompt; None if the engine cannot count tokens."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the wrapped engine."""
        self._engine.close()
