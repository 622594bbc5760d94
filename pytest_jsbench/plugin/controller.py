"""Where reports land: collects the records, summarises, decides the exit status, writes files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench import journal
from pytest_jsbench.cases import CaseKey
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import EngineError, JSBenchError
from pytest_jsbench.exports.runjson import write_run
from pytest_jsbench.gates import GateResult, check
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.activation import Active, worker_input
from pytest_jsbench.plugin.arguments import ROOT
from pytest_jsbench.plugin.benchmark import add_rows
from pytest_jsbench.plugin.collection import JSBenchCase
from pytest_jsbench.plugin.scheduling import scheduler
from pytest_jsbench.records import Record, Run
from pytest_jsbench.summaries import Summary, summarize

if TYPE_CHECKING:
    from contextlib import ExitStack


class Controller:
    """The run as it is known in the only process, or in xdist's controller."""

    def __init__(self, config: pytest.Config, active: Active) -> None:
        self._config = config
        self._active = active
        self._planned: tuple[CaseKey, ...] = ()
        self._records: dict[tuple[CaseKey, int], Record] = {}
        #: failures that are not an answer's: a project's own tests, errors, crashed workers
        self._other_failures = 0
        self._prepared: EngineConfig | None = None
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)
        self.run: Run | None = None
        self.summary: Summary | None = None
        self.gate: GateResult | None = None
        #: one line each: what could not be written or read
        self.warnings: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Know the plan, where this process runs it itself."""
        if not self._planned:
            self._planned = tuple(item.key for item in session.items if isinstance(item, JSBenchCase))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Know the plan, where workers run it."""
        if not self._planned:
            prefix = f"{ROOT}::"
            self._planned = tuple(CaseKey.parse(i.removeprefix(prefix)) for i in ids if i.startswith(prefix))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Start what the workers share, once, and tell each how to reach it."""
        if self._prepared is None:
            factory = self._active.factory
            try:
                self._prepared = self._resources.enter_context(factory.prepare(self._active.settings.engine))
            except EngineError as error:
                raise pytest.UsageError(str(error)) from None
        node.workerinput["jsbench"] = worker_input(self._active, self._prepared)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep as many tests queued at each worker as it looks ahead; step aside where the user chose otherwise."""
        if config.getoption("dist") == "load" and config.getoption("maxschedchunk", None) is None:
            return scheduler(config, log, ahead=4 * self._active.concurrency)
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record off the report, which pytest keeps for the whole session."""
        taken = transport.take(report)
        if taken is not None:
            record, journal_error = taken
            self._records[record.key, record.repeat] = record
            self._warn(journal_error)
            self._config.hook.pytest_jsbench_record(config=self._config, record=record)
        self._take_own(report)
        if report.failed and not transport.failure_type_of(report):
            self._other_failures += 1

    def _take_own(self, report: pytest.TestReport) -> None:
        records, journal_error = transport.take_own(report)
        self._warn(journal_error)
        for record in records:
            self._records[record.key, record.repeat] = record
            self._config.hook.pytest_jsbench_record(config=self._config, record=record)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A project whose tests cannot be collected has failed, whatever the gate says."""
        self._other_failures += report.failed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Summarise, decide, and write, before any other plugin shows or saves anything."""
        if not session.config.option.collectonly and (self._planned or self._records):
            self._finish(session)
        self._resources.close()
        return (yield)

    def _finish(self, session: pytest.Session) -> None:
        self._add_journals()
        run = Run(
            metadata=self._active.metadata,
            planned=self._planned,
            records=tuple(sorted(self._records.values(), key=self._order())),
        )
        self.run, self.summary = run, summarize(run)
        self._config.hook.pytest_jsbench_summary(config=self._config, run=run, summary=self.summary)
        if (gate := self._active.settings.gate) is not None:
            self.gate = check(gate, self.summary)
            self._decide(session, met=self.gate.met)
        elif self.summary.total.planned == 0 and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        self._write(run, self.summary)
        settings = self._active.settings
        # recorded times are no news, and would stand among those that are
        if settings.replay is None and (problem := add_rows(self._config, run, rows=settings.benchmark_rows)):
            self._warn(problem)

    def _order(self) -> Any:
        position = {key: number for number, key in enumerate(self._planned)}
        return lambda record: (position.get(record.key, len(position)), record.key, record.repeat)

    def _add_journals(self) -> None:
        """Records of workers that died before they could report."""
        if self._active.folder is None:
            return
        for path in sorted(self._active.folder.glob("records*.jsonl")):
            try:
                content = journal.read(path)
            except JSBenchError as error:
                self._warn(str(error))
                continue
            for warning in content.warnings:
                self._warn(warning)
            for record in content.records:
                self._records.setdefault((record.key, record.repeat), record)

    def _decide(self, session: pytest.Session, *, met: bool) -> None:
        """The gate decides about answers, and about nothing else: any other failure, and -x, keep their say."""
        if not met and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif (
            met
            and session.exitstatus == pytest.ExitCode.TESTS_FAILED
            and not self._other_failures
            and not session.shouldfail
        ):
            session.exitstatus = pytest.ExitCode.OK

    def _write(self, run: Run, summary: Summary) -> None:
        folder = self._active.folder
        if folder is None:
            return
        try:
            journal.write(folder / "records.jsonl", run.metadata, run.records)
            for path in folder.glob("records.*.jsonl"):
                path.unlink()
            write_run(folder / "run.json", run, summary, config_path=self._config_path(), gate=self.gate)
        except (JSBenchError, OSError) as error:
            self._warn(str(error))

    def _config_path(self) -> str:
        path = self._config.inipath
        return "unknown" if path is None else path.name

    def _warn(self, message: str) -> None:
        if message and message not in self.warnings:
            self.warnings.append(message)
