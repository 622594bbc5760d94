"""An evaluation: a dataset is put to an engine, and a run comes of it, as of the plugin."""

from __future__ import annotations

import asyncio
import inspect
import queue
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.core.text import described
from pytest_jsbench.library.dataset import Dataset
from pytest_jsbench.library.engine import EngineLike, OpenEngine, open_engine
from pytest_jsbench.library.options import EvaluationOptions, checked, named, said_to_programs
from pytest_jsbench.library.run import EvaluatedRun, read_gates
from pytest_jsbench.metrics.gates import Ending, GateResult, decide
from pytest_jsbench.prompts import template_of
from pytest_jsbench.records import journal
from pytest_jsbench.records.journal import new_folder
from pytest_jsbench.records.records import Attempt, Entry, Missing, MissingReason, Record, RunMetadata
from pytest_jsbench.records.variants import difference
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.record_keeper import AttemptResult
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.run.state import RunState
from pytest_jsbench.settings.classifiers import Classifier
from pytest_jsbench.settings.classifiers import find as find_classifier
from pytest_jsbench.settings.plan import Cases, Plan, RateLimits, refuse_together
from pytest_jsbench.settings.variant import RecordingFolder
from pytest_jsbench.values import Comparer
from pytest_jsbench.values.comparers import comparer_of
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.core.prompts import Template

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
        with open_engine(engine) as started:
            yield started


class CaseEvaluation:
    """
    Drives a run's session with a window of attempts in flight.

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
        refuse_together({"record": record, "redact": "on" if redact else None})
        loaded = dataset if isinstance(dataset, Dataset) else Dataset.load(dataset)
        keys = loaded.keys()
        if not keys:
            raise DatasetError(f"{loaded!r} holds no cases, so that there is nothing to evaluate", found=0)
        self._gates = tuple(gates)
        if self._gates:
            read_gates(self._gates, (key.task for key in keys))
        self._template = template_of(prompt, shots=shots)
        self._shots = shots
        self._concurrency = concurrency
        self._recording = None if record is None else RecordingFolder(path=Path(record), only_new=record_mode == "new")
        self._resume = resume
        self._progress = progress
        #: without its one variant, which is of the engine
        self._plan = Plan(
            variants={},
            cases=Cases(source=loaded.source, said=loaded.to_dict()),
            keys=keys,
            repeats=repeats,
            policy=policy or JudgePolicy(),
            limits=limits or RateLimits(),
            retries=retries,
            classifiers=tuple(map(_classifier, classify)),
            comparers={name: _comparer(name, how) for name, how in comparers.items()},
            output=None if output is None else Path(output),
            redact=redact,
        )
        #: None: there is nothing more to wait for
        self._done: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._stopped = False

    def stop(self) -> None:
        """Begin no more attempts, and end the run."""
        self._stopped = True
        self._done.put(None)

    def run(self, engine: OpenEngine) -> EvaluatedRun:
        """Make all attempts; the run that came of them."""
        variant = replace(
            engine.variant,
            template=self._template,
            shots=self._shots,
            concurrency=self._concurrency or engine.variant.concurrency,
            recording=self._recording,
        )
        plan = replace(self._plan, variants={variant.name: variant})
        metadata = describe_run(plan, Entry.LIBRARY)
        earlier = _newest_alike(plan.output, metadata) if self._resume is True else self._resume or None
        plan = replace(plan, resume=None if earlier is None else Path(earlier))
        with tempfile.TemporaryDirectory(prefix="jsbench-", ignore_cleanup_errors=True) as shared:
            session = RunSession.start(
                plan,
                metadata,
                shared=Path(shared),
                new_folder=lambda name: None if plan.output is None else new_folder(plan.output, name),
                engines={variant.name: engine.engine},
            )
            state = RunState(plan.keys)
            state.plan(Attempt(key, repeat) for key in plan.keys for repeat in range(plan.repeats))
            state.warn(*(map(named, session.resumption.warnings) if session.resumption else ()))
            with closing(session):
                session.begin(state.planned)
                session.open(cases=plan.variants)
                try:
                    self._make_all(session, state)
                except KeyboardInterrupt as error:
                    if (folder := session.handover.folder) is not None:
                        error.add_note(_how_to_go_on(folder))
                        self._finish(session, state)
                    raise
                return self._finish(session, state)

    def _make_all(self, session: RunSession, state: RunState) -> None:
        """Make the attempts, as many at once as may be in flight, and take their results as they come."""
        concurrency = session.plan.concurrency
        calls: CallsInFlight[AttemptResult] = CallsInFlight(min(concurrency, state.count))
        waiting = iter(state.planned)

        def call(attempt: Attempt) -> Callable[[], AttemptResult]:
            planned_at = time.perf_counter()

            def make() -> AttemptResult:
                try:
                    return session.attempt(attempt, planned_at)
                except Exception as error:  # noqa: BLE001  of a function of the program: it ends its case, not the run
                    message = named(str(error)) if isinstance(error, JSBenchError) else described(error)
                    missing = Missing(**attempt._asdict(), reason=MissingReason.ERROR, message=message)
                    return AttemptResult(result=missing)
                finally:
                    self._done.put(attempt)

            return make

        try:
            with _bar(state.count, wanted=self._progress) as advance:
                for attempt in islice(waiting, 0 if self._stopped else _AHEAD * concurrency):
                    calls.add(attempt, call(attempt))
                for _ in state.planned:
                    if (done := self._done.get()) is None or self._stopped:
                        break
                    state.take(calls.take(done))
                    advance()
                    for attempt in islice(waiting, 1):
                        calls.add(attempt, call(attempt))
        finally:
            session.stop()
            calls.stop()

    def _finish(self, session: RunSession, state: RunState) -> EvaluatedRun:
        """The run; all its records are one file, and its other files are written, where it is kept."""
        session.leave()
        folder = session.handover.folder
        if not state.complete:
            state.add_from(session.handover.records)
        run = session.finish(state)
        run = replace(run, warnings=tuple(state.warnings))
        if folder is None:
            records = zip(run.outcomes, run.records, strict=True)
            in_memory = tuple(replace(outcome, source=record) for outcome, record in records)
            return self._decided(EvaluatedRun.of_run(replace(run, outcomes=in_memory), None))[0]
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
    own = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
    named_only = inspect.signature(CaseEvaluation).parameters.values()
    options = [part for part in named_only if part.kind is part.KEYWORD_ONLY]
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
        with opened(engine) as started:
            return evaluation.run(started)


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
            with opened(engine) as started:
                if cancelled.is_set():
                    evaluation[0].stop()
                return evaluation[0].run(started)

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError as error:
        cancelled.set()
        for begun in evaluation:
            begun.stop()
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
        raise JSBenchError(f"comparers: {field_name}: {error}", found=said, where="comparers") from None


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
    """Give a function that moves a bar, in a notebook or a terminal, where one is wanted."""
    if not wanted or find_spec("tqdm") is None:
        yield lambda: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets the bar is one of text
        from tqdm.auto import tqdm

    with tqdm(total=count, unit="attempt", dynamic_ncols=True) as bar:
        yield bar.update
