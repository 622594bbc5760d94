"""An evaluation: a dataset is put to an engine, and a run comes of it, as of the plugin."""

from __future__ import annotations

import asyncio
import inspect
import queue
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.core.generations import Origin
from pytest_jsbench.core.guarded_calls import guarded_calls
from pytest_jsbench.core.text import described
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.library.dataset import Dataset
from pytest_jsbench.library.engine import EngineLike, OpenEngine, open_engine
from pytest_jsbench.library.options import EvaluationOptions, checked, named, said_to_programs
from pytest_jsbench.library.run import EvaluatedRun, read_gates
from pytest_jsbench.metrics.gates import Ending, GateResult, decide
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.prompts import template_of
from pytest_jsbench.runner.attempts import Runner
from pytest_jsbench.runner.description import describe_cases, describe_shared, describe_variant
from pytest_jsbench.runner.in_flight import CallsInFlight
from pytest_jsbench.runner.limits import Admission, LimitsFile, Refused
from pytest_jsbench.runner.record_keeper import AttemptResult, RecordKeeper
from pytest_jsbench.runner.state import RunState
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.journal import LATE, Journal, new_folder
from pytest_jsbench.runs.records import Attempt, Entry, Missing, MissingReason, Record, RunMetadata
from pytest_jsbench.runs.redaction import Redaction
from pytest_jsbench.runs.resumption import Recorded, Resumption, resume
from pytest_jsbench.runs.variants import difference
from pytest_jsbench.settings.classifiers import Classifier
from pytest_jsbench.settings.classifiers import find as find_classifier
from pytest_jsbench.settings.plan import RateLimits
from pytest_jsbench.values import Comparer
from pytest_jsbench.values.comparers import comparer_of
from pytest_jsbench.verdicts import Judge, JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.core.prompts import Template
    from pytest_jsbench.engines.base import Engine

#: attempts that are queued for each that may be in flight
_AHEAD = 4
#: where runs are kept, unless the program says
RUNS = "jsbench-runs"
F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def opened(engine: OpenEngine | EngineLike) -> Iterator[OpenEngine]:
    """The engine, opened for the length of the block unless it is open."""
    if isinstance(engine, OpenEngine):
        engine.require_open()
        yield engine
    else:
        with open_engine(engine) as asked:
            yield asked


class CaseEvaluation:
    """
    Makes the attempts of one run, and writes its files.

    `evaluate` makes one before the engine is open, and calls `run`, which ends with the run. The threads of the calls
    in flight make the attempts and hand their results to the thread of `run`. Any other thread may call `stop`: no more
    attempts begin, and the run ends with what there is.
    """

    @checked
    def __init__(
        self,
        dataset: Dataset | str | Iterable[object],
        *,
        prompt: str | PathLike[str] | Template | Callable[[Case], object] = "schema",
        shots: int = 0,
        concurrency: int | None = None,
        repeats: int = 1,
        output: str | PathLike[str] | None = RUNS,
        resume: str | PathLike[str] | bool = False,
        limits: RateLimits | None = None,
        retries: int = 2,
        policy: JudgePolicy | None = None,
        classify: Iterable[str | Callable[[Record], str | None]] = (),
        comparers: Mapping[str, str | Callable[[Any, Any], object]] = MappingProxyType({}),
        gates: Iterable[str] = (),
        record: str | PathLike[str] | None = None,
        record_mode: Literal["all", "new"] = "all",
        redact: bool = False,
        progress: bool = False,
    ) -> None:
        if record is not None and redact:
            message = "redact writes no answer, and a recording is one: leave out record, or redact"
            raise JSBenchError(message, found=record, where="record")
        #: it is there as soon as `run` has begun
        self._engine: OpenEngine
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset.load(dataset)
        self._template = template_of(prompt, shots=shots)
        self._shots = shots
        self._calls_at_once = concurrency
        self._repeats = repeats
        self._output = None if output is None else Path(output)
        self._resume = resume
        self._limits = limits or RateLimits()
        self._retries = retries
        self._policy = policy or JudgePolicy()
        self._classifiers = tuple(map(_classifier, classify))
        self._comparers = {name: _comparer(name, said) for name, said in comparers.items()}
        self._gates = tuple(gates)
        self._record = None if record is None else Path(record)
        self._record_mode = record_mode
        self._redaction = Redaction.new() if redact else None
        self._progress = progress
        #: None: there is nothing more to wait for
        self._done: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._stopped = False

    def stop(self) -> None:
        """Begin no more attempts, and end the run."""
        self._stopped = True
        self._done.put(None)

    @property
    def _concurrency(self) -> int:
        return self._calls_at_once or self._engine.factory.concurrency

    def run(self, engine: OpenEngine) -> EvaluatedRun:
        """Make all attempts; the run that came of them."""
        self._engine = engine
        keys = self._dataset.keys()
        self._state = RunState(keys)
        if not keys:
            message = f"{self._dataset!r} holds no cases, so that there is nothing to evaluate"
            raise DatasetError(message, found=0)
        if self._gates:
            read_gates(self._gates, (key.task for key in keys))
        metadata = self._describe(keys)
        self._state.plan(Attempt(key, repeat) for key in keys for repeat in range(self._repeats))
        attempts = self._state.planned
        with tempfile.TemporaryDirectory(prefix="jsbench-", ignore_cleanup_errors=True) as temporary:
            shared = Path(temporary)
            # before anything is written
            price = None if self._limits.max_cost is None else price_of(metadata)
            if self._record is not None:
                from pytest_jsbench.engines.recorded.recordings import Recordings

                Recordings(self._record).require_writable()
            resumption = self._take_over(metadata, keys)
            folder = shared
            if self._output is not None:
                folder = new_folder(self._output, metadata.run_id)
                metadata = replace(metadata, run_id=folder.name)
            recorded = None
            if resumption is not None and resumption.metadata is not None:
                metadata = replace(metadata, resumed_from=resumption.metadata.run_id)
                recorded = resumption.write_to(folder, metadata, self._redaction)
            metadata = metadata.with_plan(attempts)
            who = metadata.engine_asked
            admission = Admission(
                LimitsFile(shared / "limits.db", self._limits),
                price=price,
                provider=f"{who.engine} {who.model}",
                concurrency=self._concurrency,
            )
            kept = Journal(folder / "records.jsonl", metadata)
            with closing(admission), closing(kept):
                kept.open()
                try:
                    self._ask(attempts, kept, Recorded(recorded), admission)
                except KeyboardInterrupt as error:
                    if self._output is not None:
                        error.add_note(_how_to_go_on(folder))
                        self._finish(metadata, kept, resumption)
                    raise
                return self._finish(metadata, kept, resumption)

    def _describe(self, keys: Sequence[CaseKey]) -> RunMetadata:
        """All that the answers of this run depend on."""
        now, said = datetime.now(UTC), self._dataset.to_dict()
        shared = describe_shared(
            now,
            entry=Entry.LIBRARY,
            dataset=describe_cases(said, keys, revision=revision_of(str(said["source"]))),
            repeats=self._repeats,
            policy=self._policy,
            classifiers=self._classifiers,
            comparers=self._comparers,
            redacted=self._redaction is not None,
        )
        return describe_variant(
            shared,
            now,
            self._engine.described,
            template=self._template,
            shots=self._shots,
            asked=self._engine.asked_params,
            sampled=self._engine.params,
            adapt=self._engine.adaptation,
            concurrency=self._concurrency,
        )

    def _take_over(self, metadata: RunMetadata, keys: Sequence[CaseKey]) -> Resumption | None:
        """The answers that the run which is to be gone on with has."""
        path = _newest_alike(self._output, metadata) if self._resume is True else self._resume or None
        if path is None:
            return None
        source, templates = self._dataset.source, {"": self._template.render}
        resumption = resume(Path(path), metadata, keys, load=source.case, templates=templates)
        self._state.warn(*map(named, resumption.warnings))
        return resumption

    def _runner(self, judge: Judge, admission: Admission, lost: Callable[[str], None]) -> Runner:
        engine = self._engine
        asked: Engine = engine.engine
        if self._record is not None:
            from pytest_jsbench.engines.recorded.engine import RecordingEngine

            asked = RecordingEngine(asked, self._record, lost=lost, only_new=self._record_mode == "new")
        return Runner(
            engine=asked,
            judge=judge,
            template=self._template.render,
            params=engine.params,
            retries=self._retries,
            adapter=engine.adapter,
            origin=Origin(run=engine.said),
            context=engine.info.context,
            comparers=self._comparers,
            admission=admission,
        )

    def _ask(self, attempts: Sequence[Attempt], kept: Journal, recorded: Recorded, admission: Admission) -> None:
        """Make all attempts, or find them among those of an earlier run."""
        keeper = RecordKeeper(
            kept,
            recorded=recorded,
            case=self._dataset.source.case,
            comparers=self._comparers,
            classifiers=self._classifiers,
            redaction=self._redaction,
            refuse=admission.stop,
            must_keep=self._output is not None,
        )
        with Judge(self._policy, calls=guarded_calls()) as judge:
            judge.start()
            self._make_all(attempts, keeper, self._runner(judge, admission, keeper.stop_recording), admission)

    def _make_all(
        self, attempts: Sequence[Attempt], keeper: RecordKeeper, runner: Runner, admission: Admission
    ) -> None:
        """Make the attempts, as many at once as may be in flight, and take their results as they come."""
        calls: CallsInFlight[AttemptResult] = CallsInFlight(min(self._concurrency, len(attempts)))
        waiting = iter(attempts)

        def call(attempt: Attempt) -> Callable[[], AttemptResult]:
            planned_at = time.perf_counter()

            def made() -> Record:
                case = self._dataset.source.case(attempt.key)
                return runner.attempt(case, repeat=attempt.repeat, planned_at=planned_at)

            def make() -> AttemptResult:
                try:
                    return keeper.make_or_find(attempt, made, lambda: runner.judge, stopped=lambda: calls.stopped)
                except Exception as error:  # noqa: BLE001  of a function of the program: it ends its case, not the run
                    said = named(str(error)) if isinstance(error, JSBenchError) else described(error)
                    missing = Missing(**attempt._asdict(), reason=MissingReason.ERROR, message=said)
                    return AttemptResult(result=missing)
                finally:
                    self._done.put(attempt)

            return make

        try:
            with _bar(len(attempts), wanted=self._progress) as advance:
                for attempt in islice(waiting, 0 if self._stopped else _AHEAD * self._concurrency):
                    calls.add(attempt, call(attempt))
                for _ in attempts:
                    if (done := self._done.get()) is None or self._stopped:
                        break
                    self._state.take(calls.take(done))
                    advance()
                    for attempt in islice(waiting, 1):
                        calls.add(attempt, call(attempt))
        finally:
            admission.stop(Refused(MissingReason.STOPPED, "the evaluation ended first"))
            calls.stop()

    def _finish(self, metadata: RunMetadata, kept: Journal, resumption: Resumption | None) -> EvaluatedRun:
        """The run; all its records are one file, and its other files are written, where it is kept."""
        folder, answered = kept.path.parent, kept.path
        # what a call that is still under way brings is not of this run
        kept.go_on_in(folder / LATE)
        if not self._state.complete:
            self._state.add_from(folder)
        run = replace(self._state.to_run(metadata), warnings=tuple(self._state.warnings))
        if self._output is None:
            records = zip(run.outcomes, run.records, strict=True)
            in_memory = tuple(replace(outcome, source=record) for outcome, record in records)
            return self._decided(EvaluatedRun.of_run(replace(run, outcomes=in_memory), None))[0]
        answers = () if resumption is None else resumption.answers
        try:
            run = journal.gather(answered, run)
        except JSBenchError as error:  # a disk that is full: the records are where they were first written
            run = replace(run, warnings=(*run.warnings, str(error)))
        else:
            if self._state.has_all(answer.attempt for answer in answers):
                (folder / journal.RESUMED).unlink(missing_ok=True)
        evaluated, gates = self._decided(EvaluatedRun.of_run(run, folder))
        from pytest_jsbench.reports.run_files import write_files

        # nobody asked for the page by name, so that what it needs is no problem of the run
        page = find_spec("jinja2") is not None
        problems = write_files(
            folder, evaluated, evaluated.summary, config_path=Entry.LIBRARY.value, gates=gates, page=page
        )
        return replace(evaluated, warnings=(*evaluated.warnings, *problems))

    def _decided(self, run: EvaluatedRun) -> tuple[EvaluatedRun, tuple[GateResult, ...]]:
        """The run with the verdict of its gates, where it has some."""
        if not self._gates:
            return run, ()
        gates = run.check(*self._gates)
        return replace(run, verdict=decide(Ending(), run.summary.total, gates)), gates


def _how_to_go_on(folder: Path) -> str:
    return f"the run is in {folder}; evaluate(…, resume={str(folder)!r}) goes on with it"


def _with_options(function: F) -> F:
    """The function, whose signature names each option and its default for whoever asks an editor or `help`."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [one for one in inspect.signature(CaseEvaluation).parameters.values() if one.kind is one.KEYWORD_ONLY]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


@_with_options
def evaluate(
    engine: OpenEngine | EngineLike, dataset: Dataset | str | Iterable[object], **options: Unpack[EvaluationOptions]
) -> EvaluatedRun:
    """
    Put each case of the dataset to the engine, judge the answers, and keep every record as soon as it exists.

    Ctrl-C ends it with what there is: the run is in its folder, and `resume` goes on with it.
    """
    with said_to_programs():
        evaluation = CaseEvaluation(dataset, **options)
        with opened(engine) as asked:
            return evaluation.run(asked)


@_with_options
async def aevaluate(
    engine: OpenEngine | EngineLike, dataset: Dataset | str | Iterable[object], **options: Unpack[EvaluationOptions]
) -> EvaluatedRun:
    """The same beside other coroutines; one that is cancelled ends as after Ctrl-C."""
    evaluation: list[CaseEvaluation] = []
    cancelled = threading.Event()

    def run() -> EvaluatedRun:
        with said_to_programs():
            evaluation.append(CaseEvaluation(dataset, **options))
            with opened(engine) as asked:
                if cancelled.is_set():
                    evaluation[0].stop()
                return evaluation[0].run(asked)

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError as error:
        cancelled.set()
        for one in evaluation:
            one.stop()
        await asyncio.wait([running])
        if running.exception() is None and (folder := running.result().folder) is not None:
            error.add_note(_how_to_go_on(folder))
        raise


def _comparer(field_name: str, said: str | Callable[[Any, Any], object]) -> Comparer:
    if not isinstance(said, str):
        how = f"function:{getattr(said, '__module__', '')}:{getattr(said, '__qualname__', type(said).__qualname__)}"
        return Comparer(function=said, how=how)
    try:
        return comparer_of(said)
    except ValueError as error:
        message = f"comparers: {field_name}: {error}"
        raise JSBenchError(message, found=said, where="comparers") from None


def _newest_alike(output: Path | None, ours: RunMetadata) -> Path | None:
    """The newest run in the folder that asks the same engine in the same way; None where there is none."""
    if output is None:
        message = "resume=True goes on with a run in output, which is None: name the run, or an output"
        raise JSBenchError(message, where="resume")
    for folder in reversed(journal.find_runs(output)) if output.is_dir() else ():
        with suppress(JSBenchError):  # one that was killed before it could write, or is not ours
            if not difference(journal.read_header(folder), ours):
                return folder
    return None


def _classifier(said: str | Callable[[Record], str | None]) -> Classifier:
    if isinstance(said, str):
        return find_classifier(said)
    name = getattr(said, "__name__", type(said).__name__)
    return Classifier(name=name, origin="a function of the program", function=said)


@contextmanager
def _bar(count: int, *, wanted: bool) -> Iterator[Callable[[], object]]:
    """What is to be called after each attempt; it moves a bar, in a notebook or a terminal, where one is wanted."""
    if not wanted or find_spec("tqdm") is None:
        yield lambda: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets the bar is one of text
        from tqdm.auto import tqdm

    with tqdm(total=count, unit="attempt", dynamic_ncols=True) as bar:
        yield bar.update
