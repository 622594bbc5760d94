"""Where reports land: collects the records, summarises, decides the exit status, writes files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.files import make_private_folder
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import EngineError
from pytest_jsbench.missing import MissingReason
from pytest_jsbench.plugin import files, transport
from pytest_jsbench.plugin.activation import Active, prepare
from pytest_jsbench.plugin.benchmark import add_rows
from pytest_jsbench.plugin.collection import JSBenchCase
from pytest_jsbench.plugin.decision import Decision, Expectations
from pytest_jsbench.plugin.handover import is_remote
from pytest_jsbench.plugin.leftbehind import note_death
from pytest_jsbench.plugin.reported import Reported, attempt_of
from pytest_jsbench.plugin.runfolder import RunFolder
from pytest_jsbench.plugin.scheduling import scheduler
from pytest_jsbench.records import Run
from pytest_jsbench.summaries import Summary, summarize

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_jsbench.plugin.outcomes import Outcome
    from pytest_jsbench.plugin.worker import Worker


class Controller:
    """The run as it is known in the only process, or in xdist's controller."""

    def __init__(self, config: pytest.Config, active: Active, worker: Worker) -> None:
        self._config = config
        self._active = active
        self._worker = worker
        self.reported = Reported(active.keys)
        self._folder = None if active.folder is None else RunFolder(active.folder)
        #: failures that are not an answer's: a project's own tests, errors, crashed workers
        self._other_failures = 0
        #: whether one of xdist's workers has
        self._died = False
        #: whether a classifier broke, so that codes are lacking
        self._misclassified = False
        self._prepared: EngineConfig | None = None
        self._handed: Mapping[str, Any] = {}
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)
        self.run: Run | None = None
        self.summary: Summary | None = None
        self._expectations = Expectations.of(active)
        self.decision: Decision | None = None
        #: as this run's cases and gates have it
        self.exitstatus: int = pytest.ExitCode.OK
        #: one line each: what could not be written or read
        self.warnings: list[str] = list(active.resumption.warnings) if active.resumption else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Know the plan, where this process runs it itself."""
        if not self.reported.planned:
            self.reported.plan((item.key, item.repeat) for item in session.items if isinstance(item, JSBenchCase))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Know the plan, where workers run it."""
        if not self.reported.planned:
            self.reported.plan(attempt for nodeid in ids if (attempt := attempt_of(nodeid)) is not None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Start what the workers share, once, and tell each how to reach it."""
        if self._prepared is None:
            try:
                self._prepared = self._resources.enter_context(prepare(self._active))
            except EngineError as error:
                raise pytest.UsageError(str(error)) from None
            if self._active.run.redaction is None:  # else the workers read the dataset themselves
                folder = self._active.run.shared / "selected"
                make_private_folder(folder)
                self._handed = self._active.selected.hand_over(folder)
        self._active.run.hand_to(node, self._prepared, self._handed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Let the others know whose tests they will be given, if any of them."""
        if error and not is_remote(node):
            note_death(self._active.run.shared, node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep as many tests queued at each worker as it looks ahead; step aside where the user chose otherwise."""
        return scheduler(config, log, ahead=4 * self._active.concurrency)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record off the report, which pytest keeps for the whole session."""
        node = getattr(report, "node", None)
        outcome = transport.take(report)
        if outcome is not None:
            self._take(outcome, node=node)
        for own in transport.take_own(report):
            self._take(own, node=node, own=True)
        if report.failed and not transport.failure_type_of(report):
            self._other_failures += 1
            died = report.when not in {"setup", "call", "teardown"}  # xdist's word for it is "???"
            self._died |= died
            self.reported.miss(report.nodeid, MissingReason.WORKER_DIED if died else MissingReason.ERROR)

    def _take(self, outcome: Outcome, *, node: Any, own: bool = False) -> None:
        record = self.reported.take(outcome, own=own)
        if record is None:
            return
        self._warn(outcome.journal_error)
        for error in outcome.classifier_errors:
            self._misclassified = True
            self._warn(error)
        if self._folder is not None and node is not None and not outcome.resumed and is_remote(node):
            metadata = self._active.metadata.with_plan(self.reported.keys)
            self._warn(self._folder.append_remote(record, metadata))
        self._config.hook.pytest_jsbench_record(config=self._config, record=record)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A project whose tests cannot be collected has failed, whatever the gate says."""
        self._other_failures += report.failed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Summarise, decide, and write, before any other plugin shows or saves anything."""
        if not session.config.option.collectonly and self.reported.count:
            self._finish(session)
        self._resources.close()
        passed = False
        try:
            result = yield
            passed = session.exitstatus == pytest.ExitCode.OK
        finally:  # another plugin may end the run by raising, as pytest-benchmark's comparison does
            if self.run is not None and self.summary is not None:
                files.complete_junit(self._config, self.run, self.summary, self.decision or Decision(), passed=passed)
        return result

    def _finish(self, session: pytest.Session) -> None:
        self._worker.leave_records()
        if self._may_lack_records(session):
            self._end_workers()
            if self._folder is not None:
                for problem in self._folder.add_to(self.reported):
                    self._warn(problem)
        run = self.reported.to_run(self._active.metadata)
        self.run, self.summary = run, summarize(run)
        self._config.hook.pytest_jsbench_summary(config=self._config, run=run, summary=self.summary)
        self.decision = self._expectations.decide(self.summary)
        if self.decision.gates:
            self._decide(session, met=self.decision.met)
        elif session.exitstatus == pytest.ExitCode.OK:
            if self.summary.total.planned == 0:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            elif self.summary.total.missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._misclassified and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.exitstatus = session.exitstatus
        self._write(run, self.summary)
        for problem in files.export(self._active.exporters, run, self.summary):
            self._warn(problem)
        self._warn(files.append_step_summary(run, self.summary, self.decision))
        settings = self._active.settings
        # recorded times are no news, and would stand among those that are
        if settings.replay is None and (problem := add_rows(self._config, run, rows=settings.benchmark_rows)):
            self._warn(problem)

    def _may_lack_records(self, session: pytest.Session) -> bool:
        """Whether there may be attempts that were made, and that nobody has reported."""
        stopped = session.shouldstop or session.shouldfail or self._died
        ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        return bool(stopped) or not ended or not self.reported.complete

    def _end_workers(self) -> None:
        """Let xdist end its workers before their files are read and removed, and not only after."""
        xdist = self._config.pluginmanager.get_plugin("dsession")
        if xdist is not None:
            xdist.pytest_sessionfinish()

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
        if self._folder is None:
            return
        resumption = self._active.resumption
        resumed = () if resumption is None else (*resumption.records, *resumption.own)
        for problem in self._folder.write(
            run,
            summary,
            self.decision or Decision(),
            config_path=self._config_path(),
            # what was taken over need not be kept apart
            resumed_all=self.reported.has_all(resumed),
            everything=self._active.settings.output is not None,
        ):
            self._warn(problem)

    def _config_path(self) -> str:
        path = self._config.inipath
        return "unknown" if path is None else path.name

    def _warn(self, message: str) -> None:
        if message and message not in self.warnings:
            self.warnings.append(message)
