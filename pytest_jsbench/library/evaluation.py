"""Evaluate a dataset from Python: run attempts concurrently, and return an EvaluatedRun."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec import structs

from pytest_jsbench.core.arguments import read_all
from pytest_jsbench.core.errors import DatasetError, EngineError
from pytest_jsbench.core.text import plain_value
from pytest_jsbench.library.dataset import Dataset
from pytest_jsbench.library.engine import EngineLike, OpenEngine, factory_of
from pytest_jsbench.library.evaluation_options import (
    EVALUATION_DEFAULTS,
    READERS,
    EvaluationOptions,
    argument_names_in_errors,
    read_options,
    with_argument_names,
)
from pytest_jsbench.library.run import EvaluatedRun
from pytest_jsbench.metrics.gates import Ending, decide
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.records import Attempt, check_variant
from pytest_jsbench.reports.expectations import Expectations
from pytest_jsbench.reports.run_files import check_page, problem_of, write_files
from pytest_jsbench.reports.run_files import find as find_exporter
from pytest_jsbench.run.plan import Cases, Plan
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.run.state import RunState
from pytest_jsbench.run.variants import Variant, errors_of, resolve_variant_values, with_rewritings
from pytest_jsbench.run.window import Window
from pytest_jsbench.settings.options import SETTABLE, CaseOptions
from pytest_jsbench.settings.spec import RunSpec

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine, EngineFactory
    from pytest_jsbench.settings.option import Values

F = TypeVar("F", bound=Callable[..., Any])
#: One engine; a mapping of variant names to engines, or to their options; or None for the engine in the options.
Engines = OpenEngine | EngineLike | Mapping[str, OpenEngine | EngineLike | Mapping[str, Any]] | None
#: Options that belong to open_engine, and conflict with an open engine.
_ENGINE_OPTIONS = (frozenset(SETTABLE) | {"timeout", "preset"}) - {
    "engine",
    "prompt",
    "shots",
    "concurrency",
    "context",
}
#: Options that belong to Dataset.load, and conflict with a loaded dataset.
_DATASET_OPTIONS = CaseOptions.options.keys() - {"dataset", "preset"} | {"invalid_schemas"}


class CaseEvaluation:
    """
    A run started from Python.

    The constructor, called by `evaluate`, rejects invalid arguments; `run` returns when the run has ended. Any other
    thread may call `stop`, even before `run`: no more attempts begin, and the run ends with the attempts that were made
    so far.
    """

    def __init__(self, engine: Engines, dataset: object, given: Mapping[str, Any]) -> None:
        # None means that an option is not given; only output=None has an effect, and keeps the run in memory
        given = {name: value for name, value in given.items() if value is not None or name == "output"}
        values = read_options(given, dataset, engine)
        self._progress = bool(values.get("progress"))
        #: Engines opened by the program, by variant name.
        self._engines: dict[str, Engine] = {}
        variants, engine_objects = self._variants(engine, values, given)
        spec = RunSpec.of(values, variants)
        plan = Plan.of(spec, own_engines=engine_objects, policy=values.get("policy"))
        if not isinstance(dataset, Dataset):
            dataset = Dataset.of(dataset, values)
        elif conflicting := next((name for name in given if name in _DATASET_OPTIONS), None):
            message = f"evaluate: {conflicting}: the dataset is already loaded; pass {conflicting} to Dataset.load(…)"
            raise DatasetError(message, found=conflicting, option=conflicting)
        if not dataset.keys():
            raise DatasetError(f"{dataset!r} has no cases to evaluate", found=0)
        source: Any = dataset.source
        labelled = None if spec.cases.instances is None else source
        strict = spec.judging.invalid_schemas == "strict"
        self._plan = plan.over(Cases(source=source, description=dataset.to_dict(), labelled=labelled, strict=strict))
        self._expectations = Expectations.of(self._plan)
        if self._plan.spec.outputs.report is not None:
            check_page(self._plan.spec.outputs.report)
        #: Exporters with their output paths; an unknown exporter raises an error before any paid call is made.
        self._exporters = [(find_exporter(name), Path(path)) for name, path in self._plan.spec.outputs.export]
        self._window = Window()

    def _variants(
        self, engine: Engines, values: Values, given: Mapping[str, Any]
    ) -> tuple[dict[str, Values], dict[str, Variant | EngineFactory]]:
        """Return the values of each variant by name, and the engines given as objects."""
        if engine is None:
            here = Path.cwd()
            folder = None if values.get("variants") is None else here
            return resolve_variant_values({**values, "engine": None}, {}, folder=folder, here=here)[0], {}
        if values.get("variants") is not None:
            message = "evaluate: both variants and an engine are given: pass only one of them"
            raise EngineError(message, found=values["variants"], option="variants")
        variants: dict[str, Values] = {}
        engine_objects: dict[str, Variant | EngineFactory] = {}
        for name, entry in (_check_names(engine) if isinstance(engine, Mapping) else {"": engine}).items():
            with errors_of(name):
                row, engine_objects[name] = self._read_entry(name, entry, given)
                variants[name] = {**values, **row}
        return self._with_rewritings(variants, engine_objects)

    def _with_rewritings(
        self, variants: Mapping[str, Values], engine_objects: Mapping[str, Variant | EngineFactory]
    ) -> tuple[dict[str, Values], dict[str, Variant | EngineFactory]]:
        """Return the variants together with those for rewritten schemas, which use the engines of the original ones."""
        complete = with_rewritings(variants)
        origins = {name: origin for name, (origin, _) in complete.items()}
        self._engines = {name: self._engines[of] for name, of in origins.items() if of in self._engines}
        objects = {name: engine_objects[of] for name, of in origins.items() if of in engine_objects}
        return {name: values for name, (_, values) in complete.items()}, objects

    def _read_entry(
        self, name: str, entry: Any, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Variant | EngineFactory]:
        """Return the options in a variant's entry, and its engine as an object."""
        row: dict[str, Any] = {}
        if isinstance(entry, Mapping):
            settable = {option: READERS[option] for option in SETTABLE if option != "engine"}
            own = {key: value for key, value in entry.items() if key != "engine" and value is not None}
            row = read_all(own, settable, of="evaluate")
            entry = entry.get("engine")
        if not isinstance(entry, OpenEngine):
            factory, row["engine"] = factory_of(entry)
            return row, factory
        entry.require_open()
        if conflicting := next((option for option in (*row, *given) if option in _ENGINE_OPTIONS), None):
            message = f"evaluate: {conflicting}: the engine is already open; pass {conflicting} to open_engine(…)"
            raise EngineError(message, found=conflicting, option=conflicting)
        self._engines[name] = entry.engine
        return {**row, "engine": entry.variant.engine.name}, entry.variant

    def stop(self) -> None:
        """Begin no more attempts, and end the run."""
        self._window.stop()

    def run(self) -> EvaluatedRun:
        """Make all attempts, and return the resulting run."""
        plan = self._plan
        with tempfile.TemporaryDirectory(prefix="jsbench-", ignore_cleanup_errors=True) as shared:
            session = RunSession.start(plan, Entry.LIBRARY, shared=Path(shared), engines=self._engines)
            state = RunState(plan.keys, variants=plan.variants)
            state.plan(
                Attempt(key, repeat, variant)
                for key in plan.keys
                for variant in plan.variants
                for repeat in range(plan.spec.execution.repeats)
            )
            state.warn(*(map(with_argument_names, session.resumption.warnings) if session.resumption else ()))
            state.warn(*map(with_argument_names, self._expectations.warnings))
            if not plan.spec.outputs.redact:
                state.warn(*plan.cases.notes)
            with closing(session):
                session.begin(state.planned)
                try:
                    if plan.spec.execution.batch is not None:
                        from pytest_jsbench.run.batches import RunBatches

                        RunBatches(session).make(state.planned, stopped=self._window.stopped)
                    session.open(cases=plan.variants)
                    with _bar(state.count, wanted=self._progress) as advance:
                        self._window.make_all(session, state, advance)
                except KeyboardInterrupt as error:
                    if (folder := session.handover.folder) is not None:
                        error.add_note(_resume_advice(folder))
                        self._finish(session, state)
                    raise
                return self._finish(session, state)

    def _finish(self, session: RunSession, state: RunState) -> EvaluatedRun:
        """Return the finished run; if it has a directory, merge its records into one file and write its other files."""
        session.leave()
        folder = session.handover.folder
        if not state.complete:
            state.add_from(session.handover.records)
        run = session.finish(state)
        if folder is None:
            records = zip(run.outcomes, run.records, strict=True)
            run = replace(run, outcomes=tuple(structs.replace(outcome, source=record) for outcome, record in records))
        evaluated = EvaluatedRun.of_run(replace(run, warnings=tuple(state.warnings)), folder)
        summary = evaluated.summary
        decision = self._expectations.decide(run, summary)
        if decision.gates:
            ending = Ending(failures=tuple(state.failures), quarantined=decision.quarantined)
            evaluated = replace(evaluated, verdict=decide(ending, (decision.deciding or summary).total, decision.gates))
        else:  # without gates, there is no verdict, and failures are warnings
            evaluated = replace(evaluated, warnings=(*evaluated.warnings, *state.failures))
        problems = [problem_of(partial(exporter.write, path, evaluated, summary)) for exporter, path in self._exporters]
        page = self._plan.spec.outputs.report
        problems += write_files(folder, evaluated, summary, decision, config_path=Entry.LIBRARY.value, page=page)
        return replace(evaluated, warnings=(*evaluated.warnings, *filter(None, problems)))


def _check_names(engines: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the engines by variant name; raise EngineError for a name that records cannot contain."""
    names: list[object] = list(engines)
    invalid = next((name for name in names if not isinstance(name, str) or not (name or len(names) == 1)), None)
    if invalid is not None or not names:
        problem = "without engines" if invalid is None else f"with the name {plain_value(invalid, 60)}"
        message = f"engine is a mapping {problem}: expected a name for each variant, such as {{'small': …, 'large': …}}"
        raise EngineError(message, found=invalid, where="engine")
    for name in engines:
        try:
            check_variant(name)
        except ValueError as error:
            raise EngineError(f"engine: {error}", found=name, where="engine") from None
    return engines


def _resume_advice(folder: Path) -> str:
    return f"the run is in {folder}; evaluate(…, resume={str(folder)!r}) continues it"


def _with_options(function: F) -> F:
    """Add each option with its default to the function's signature, for editors and `help`."""
    signature = inspect.signature(function)
    own = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=EVALUATION_DEFAULTS[name],
            annotation=kind.__forward_arg__,  # the type as in the source code
        )
        for name, kind in EvaluationOptions.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


@_with_options
def evaluate(
    engine: Engines, dataset: Dataset | str | Iterable[object] | None = None, **options: Unpack[EvaluationOptions]
) -> EvaluatedRun:
    """
    Evaluate an engine on the cases of a dataset: judge each answer, and write each record as soon as it exists.

    With several engines, by variant name, each gets the same cases. Ctrl-C ends the run early: its records stay in its
    directory, and `resume` continues it.
    """
    with argument_names_in_errors():
        return CaseEvaluation(engine, dataset, options).run()


@_with_options
async def aevaluate(
    engine: Engines, dataset: Dataset | str | Iterable[object] | None = None, **options: Unpack[EvaluationOptions]
) -> EvaluatedRun:
    """Evaluate like `evaluate` without blocking the event loop; cancellation ends the run as Ctrl-C does."""
    evaluation: list[CaseEvaluation] = []
    cancelled = threading.Event()

    def run() -> EvaluatedRun:
        with argument_names_in_errors():
            evaluation.append(CaseEvaluation(engine, dataset, options))
            if cancelled.is_set():
                evaluation[0].stop()
            return evaluation[0].run()

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError as error:
        cancelled.set()
        for started in evaluation:
            started.stop()
        await asyncio.wait([running])
        if running.exception() is None and (folder := running.result().folder) is not None:
            error.add_note(_resume_advice(folder))
        raise


@contextmanager
def _bar(count: int, *, wanted: bool) -> Iterator[Callable[[], object]]:
    """
    Yield a function that advances a progress bar; if none is wanted, or tqdm is missing, the
    function does nothing.
    """
    if not wanted or find_spec("tqdm") is None:
        yield lambda: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets, a notebook shows a text bar
        from tqdm.auto import tqdm

    with tqdm(total=count, unit="attempt", dynamic_ncols=True) as bar:
        yield bar.update
