"""Where items run: the only process, or each of xdist's workers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.errors import EngineError, JournalError
from pytest_jsbench.core.generations import Failed, Origin
from pytest_jsbench.engines.base import Acceptor, Engine, EngineConfig
from pytest_jsbench.engines.recorded.engine import RecordingEngine
from pytest_jsbench.engines.registry import require_acceptor, sampled
from pytest_jsbench.engines.secrets import build, describe
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.plugin.options.reading import only_looks
from pytest_jsbench.plugin.session.context import RunContext, asks, prepare
from pytest_jsbench.plugin.session.redaction import CLASSIFIER_BROKE
from pytest_jsbench.plugin.session.transport import AttemptResult
from pytest_jsbench.plugin.worker.collected import Collected, would_ask
from pytest_jsbench.plugin.worker.dead_workers import LeftBehind
from pytest_jsbench.plugin.worker.items import JSBenchCase
from pytest_jsbench.plugin.worker.lookahead import LookAhead
from pytest_jsbench.runner.attempts import Runner
from pytest_jsbench.runner.classifiers import classify
from pytest_jsbench.runner.labelled import AcceptanceRunner
from pytest_jsbench.runner.rate_limits import Admission, Refused
from pytest_jsbench.runs.journal import LATE, Journal
from pytest_jsbench.runs.records import AnsweredBy, Attempt, MissingReason, Record
from pytest_jsbench.runs.rejudging import judge_again
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from contextlib import ExitStack

T = TypeVar("T", Engine, Acceptor)


class Worker:
    """Builds the engine when there is something to run, makes the attempts, and writes each down."""

    def __init__(self, config: pytest.Config, active: RunContext) -> None:
        self._config = config
        self._active = active
        #: None where no model is called
        self._runner: Runner | None = None
        self._batch_runner: Runner | None = None
        #: makes the record of a case, given when it was queued
        self._make: Callable[[JSBenchCase, float], Record] | None = None
        self._journal: Journal | None = None
        self._lookahead: LookAhead[AttemptResult] | None = None
        #: answers that did not pass: their tests may be run again by a plugin, which is no reason to ask again
        self._answered: dict[Attempt, AttemptResult] = {}
        self.left_behind = LeftBehind(active.run.shared, active.folder)
        #: None before the collection, and where xdist's workers collect
        self.collected: Collected | None = None
        self._lock = threading.RLock()
        #: by whose prices they reckon
        self._admissions: dict[AnsweredBy, Admission] = {}
        #: why no call is let through any more; None: they are
        self._refusal: Refused | None = None
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Find out what would ask, and what of it is left to run."""
        before = sum(map(would_ask, items))
        yield
        self.collected = Collected.of(items, before=before)
        self.collected.hand_back(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Get ready, if this process is going to run any case."""
        cases = [item for item in session.items if isinstance(item, JSBenchCase)]
        own = any(asks(item) for item in session.items)
        active = self._active
        if active.folder is not None:
            name = "records.jsonl" if active.worker is None else f"records.{active.worker}.jsonl"
            self._journal = Journal(active.folder / name, active.metadata.with_plan([item.key for item in cases]))
        if only_looks(self._config) or not (cases or own):
            return
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return
        if active.selected.labelled is None:
            if active.settings.batch is None or not cases:
                self.runner()
            self._make = self._generated
        elif cases:
            self._make = self._acceptance()
        if cases:
            self._lookahead = LookAhead(
                session, self._attempt, concurrency=active.concurrency, steals=active.run.steals
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts that will be needed next."""
        if self._lookahead is not None:
            self._lookahead.advance(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Start nothing more, and let go of the engine and the judge."""
        self._stop()
        self._resources.close()
        for admission in self._admissions.values():
            admission.close()
        if self._journal is not None:
            self._journal.close()

    def leave_records(self) -> None:
        """Start nothing more; what calls in flight still bring is written apart: the records are summed up."""
        self._stop()
        if self._journal is not None:
            self._journal.go_on_in(self._journal.path.with_name(LATE))

    def _stop(self) -> None:
        self._refuse(Refused(MissingReason.STOPPED, "the session ended first"))
        if self._lookahead is not None:
            self._lookahead.stop()

    def outcome(self, item: JSBenchCase) -> AttemptResult:
        """What became of the item's attempt; waits for it."""
        if self._lookahead is None:
            message = f"{item.nodeid} runs outside pytest's own loop"
            raise RuntimeError(message)
        return self._lookahead.result(item)

    def runner(self) -> Runner:
        """What makes the run's attempts, built when it is first needed."""
        with self._lock:
            if self._runner is None:
                self._runner = self._build_runner()
            return self._runner

    def suite_runner(self) -> Runner:
        """What makes the suite's attempts: the run's, or one that asks what the provider's batches have brought."""
        if self._active.settings.batch is None:
            return self.runner()
        with self._lock:
            if self._batch_runner is None:
                from pytest_jsbench.runner.batches.requests import BatchedEngine

                info = describe(self._active.factory, self._active.settings.engine)
                engine = BatchedEngine(self._active.run.answers, replace(info, streaming=False))
                runner = self._new_runner(self.recorded(engine))
                self._batch_runner = replace(runner, retries=0, admission=None)
            return self._batch_runner

    def admission(self, who: AnsweredBy) -> Admission:
        """What lets calls of an engine through; PriceError where they have no price, and there is a limit in money."""
        limits = self._active.run.limits
        with self._lock:
            if who not in self._admissions:
                price = None if limits.max_cost is None else price_of(self._active.metadata, who)
                path = self._active.run.shared / "limits.db"
                self._admissions[who] = Admission(path, limits, price=price)
                if self._refusal is not None:
                    self._admissions[who].stop(self._refusal)
            return self._admissions[who]

    def recorded(self, engine: Engine) -> Engine:
        """The engine, which writes down what it says where the run is recorded."""
        folder = self._active.settings.record
        return engine if folder is None else RecordingEngine(engine, folder)

    def write(self, record: Record) -> AttemptResult:
        """Let it be classified, write it down, and say what went wrong with either."""
        classified = classify(record, self._active.classifiers)
        errors = classified.errors
        if errors and self._active.run.redaction is not None:
            errors = (CLASSIFIER_BROKE,)
        outcome = self._write(self._redacted(classified.record))
        return replace(outcome, classifier_errors=errors)

    def resumed(self, record: Record) -> AttemptResult:
        """A record that was taken over, classified as this run classifies, as far as there is anything to classify."""
        if record.redacted is not None:
            return AttemptResult(result=record, resumed=True)
        classified = classify(record, self._active.classifiers)
        return AttemptResult(result=classified.record, resumed=True, classifier_errors=classified.errors)

    def _redacted(self, record: Record) -> Record:
        """The record as it may be written and shown."""
        redaction = self._active.run.redaction
        return record if redaction is None else redaction.record(record)

    def _write(self, record: Record) -> AttemptResult:
        if self._journal is None:
            return AttemptResult(result=record)
        try:
            self._journal.append(record)
        except JournalError as error:
            if self._active.settings.output is not None:  # what cannot be kept is not paid for
                self._refuse(Refused(MissingReason.DISK, str(error)))
            return AttemptResult(result=record, journal_error=str(error))
        return AttemptResult(result=record)

    def _refuse(self, refusal: Refused) -> None:
        """Let no call through any more."""
        with self._lock:
            self._refusal = self._refusal or refusal
            for admission in self._admissions.values():
                admission.stop(refusal)

    def _build_runner(self) -> Runner:
        return self._new_runner(self.recorded(self._build(partial(build, self._active.factory))))

    def _new_runner(self, engine: Engine) -> Runner:
        active = self._active
        return Runner(
            engine=engine,
            judge=self._resources.enter_context(Judge(active.settings.policy)),
            template=active.template.render,
            params=sampled(active.factory, active.settings.engine, active.params),
            retries=active.settings.retries,
            adapter=adapter(active.settings.adapt),
            origin=Origin(run=active.settings.said),
            context=active.settings.context or engine.info.context,
            admission=self.admission(active.metadata.engine_asked),
        )

    def _generated(self, item: JSBenchCase, planned_at: float) -> Record:
        """A case is an attempt of the engine."""
        case = self._active.selected.dataset.case(item.key)
        if self._active.settings.batch is not None:  # it was waited for by all together
            return self.suite_runner().attempt(case, repeat=item.repeat)
        return self.runner().attempt(case, repeat=item.repeat, planned_at=planned_at)

    def _acceptance(self) -> Callable[[JSBenchCase, float], Record]:
        """Each case is a number of labelled answers about which the engine's grammar is asked."""
        labelled = self._active.selected.labelled
        assert labelled is not None
        judge = self._resources.enter_context(Judge(self._active.settings.policy))
        factory = require_acceptor(self._active.factory, self._active.settings.engine.name)
        acceptor: Acceptor = self._build(factory.build_acceptor)
        runner = AcceptanceRunner(acceptor=acceptor, judge=judge)
        return lambda item, planned_at: runner.attempt(
            labelled.case(item.key), labelled.instances(item.key), planned_at=planned_at
        )

    def _build(self, build: Callable[[EngineConfig], T]) -> T:
        try:
            config = self._active.run.prepared or self._resources.enter_context(prepare(self._active))
            built = build(config)
        except EngineError as error:
            raise pytest.UsageError(str(error)) from None
        self._resources.callback(built.close)
        return built

    def _attempt(self, item: JSBenchCase, planned_at: float) -> AttemptResult:
        """One attempt, in a thread of its own, written down by the thread that paid for it."""
        assert self._make is not None
        assert self._lookahead is not None
        if (answered := self._answered.get((item.key, item.repeat))) is not None:
            return answered
        if (recorded := self._active.recorded.get((item.key, item.repeat))) is not None:
            return self.resumed(judge_again(recorded, self.suite_runner().judge))
        left = self.left_behind.record((item.key, item.repeat))
        if left is not None and left.asked_by is None:
            return AttemptResult(result=left)
        try:
            record = self._make(item, planned_at)
        except Refused as refused:
            return AttemptResult.of_refused(item.key, item.repeat, refused)
        broken = isinstance(record.generation, Failed)
        if broken and self._lookahead.stopped:  # by us
            return AttemptResult(result=self._redacted(record))
        outcome = self.write(record)
        if not (broken or record.verdict.passed):
            self._answered[record.attempt] = outcome
        return outcome
