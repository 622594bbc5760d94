"""Where items run: the only process, or each of xdist's workers."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.adaptation.choosing import adapter
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.recorder import RecordingEngine
from pytest_jsbench.errors import EngineError, JournalError
from pytest_jsbench.generations import Failed
from pytest_jsbench.journal import Journal
from pytest_jsbench.plugin.activation import Active
from pytest_jsbench.plugin.collection import JSBenchCase
from pytest_jsbench.plugin.lookahead import LookAhead
from pytest_jsbench.plugin.owntests import asks
from pytest_jsbench.prompts import template
from pytest_jsbench.records import Record
from pytest_jsbench.runner import Runner
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from contextlib import ExitStack

#: a record, and what went wrong with writing it down
Outcome = tuple[Record, str]


class Worker:
    """Builds the engine when there is something to run, makes the attempts, and writes each down."""

    def __init__(self, config: pytest.Config, active: Active) -> None:
        self._config = config
        self._active = active
        self._runner: Runner | None = None
        self._journal: Journal | None = None
        self._lookahead: LookAhead[Outcome] | None = None
        self._lock = threading.Lock()
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Get ready, if this process is going to run any case."""
        suite = any(isinstance(item, JSBenchCase) for item in session.items)
        if self._config.option.collectonly or not (suite or any(asks(item) for item in session.items)):
            return
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return
        self.runner()
        if suite:
            self._lookahead = LookAhead(session, self._attempt, concurrency=self._active.concurrency)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts that will be needed next."""
        if self._lookahead is not None:
            self._lookahead.advance(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Start nothing more, and let go of the engine and the judge."""
        if self._lookahead is not None:
            self._lookahead.stop()
        self._resources.close()
        if self._journal is not None:
            self._journal.close()

    def record(self, item: JSBenchCase) -> Outcome:
        """The item's record; waits for it."""
        if self._lookahead is None:
            message = f"{item.nodeid} runs outside pytest's own loop"
            raise RuntimeError(message)
        return self._lookahead.result(item)

    def runner(self) -> Runner:
        """What makes the attempts, built when it is first needed."""
        with self._lock:
            if self._runner is None:
                self._runner = self._get_ready()
            return self._runner

    def _get_ready(self) -> Runner:
        active = self._active
        engine = self._build()
        judge = self._resources.enter_context(Judge(active.settings.policy))
        if active.folder is not None:
            name = "records.jsonl" if active.worker is None else f"records.{active.worker}.jsonl"
            self._journal = Journal(active.folder / name, active.metadata)
        return Runner(
            engine=engine,
            judge=judge,
            template=template(active.settings.prompt),
            params=active.params,
            retries=active.settings.retries,
            adapter=adapter(active.settings.adapt),
        )

    def _build(self) -> Engine:
        config = self._active.prepared or self._prepare()
        try:
            engine = self.recorded(self._active.factory.build(config))
        except EngineError as error:
            raise pytest.UsageError(str(error)) from None
        self._resources.callback(engine.close)
        return engine

    def recorded(self, engine: Engine) -> Engine:
        """The engine, which writes down what it says where the run is recorded."""
        folder = self._active.settings.record
        return engine if folder is None else RecordingEngine(engine, folder)

    def _prepare(self) -> EngineConfig:
        try:
            return self._resources.enter_context(self._active.factory.prepare(self._active.settings.engine))
        except EngineError as error:
            raise pytest.UsageError(str(error)) from None

    def _attempt(self, item: JSBenchCase, planned_at: float) -> Outcome:
        """One attempt, in a thread of its own, written down by the thread that paid for it."""
        assert self._lookahead is not None
        record = self.runner().attempt(self._active.dataset.case(item.key), planned_at=planned_at)
        broken_by_us = self._lookahead.stopped and isinstance(record.generation, Failed)
        return record, "" if broken_by_us else self.write(record)

    def write(self, record: Record) -> str:
        """Write the record down; what went wrong with that, as one line."""
        if self._journal is not None:
            try:
                self._journal.append(record)
            except JournalError as error:
                return str(error)
        return ""
