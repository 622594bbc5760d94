"""Where reports land: collects the records, summarises, decides the exit status, writes files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench import journal
from pytest_jsbench.cases import CaseKey
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import EngineError, JournalError, JSBenchError
from pytest_jsbench.journal import Journal
from pytest_jsbench.missing import Missing, MissingReason
from pytest_jsbench.plugin import files, transport
from pytest_jsbench.plugin.activation import Active, prepare
from pytest_jsbench.plugin.arguments import ROOT
from pytest_jsbench.plugin.benchmark import add_rows
from pytest_jsbench.plugin.collection import JSBenchCase
from pytest_jsbench.plugin.decision import Decision, Expectations
from pytest_jsbench.plugin.handover import is_remote
from pytest_jsbench.plugin.leftbehind import note_death
from pytest_jsbench.plugin.outcomes import Outcome
from pytest_jsbench.plugin.scheduling import scheduler
from pytest_jsbench.records import Attempt, Record, Run
from pytest_jsbench.summaries import Summary, summarize

if TYPE_CHECKING:
    from contextlib import ExitStack


class Controller:
    """The run as it is known in the only process, or in xdist's controller."""

    def __init__(self, config: pytest.Config, active: Active) -> None:
        self._config = config
        self._active = active
        #: of the suite
        self._planned: tuple[Attempt, ...] = ()
        #: what a project's own tests have asked for, which is planned by being asked
        self._own: set[Attempt] = set()
        self._records: dict[Attempt, Record] = {}
        self._missing: dict[Attempt, Missing] = {}
        self._resumed = 0
        #: writes what workers on other machines send, who cannot
        self._remote: Journal | None = None
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

    @property
    def planned(self) -> tuple[Attempt, ...]:
        """The suite's attempts, in the dataset's order; empty until they are collected."""
        return self._planned

    @property
    def planned_attempts(self) -> int:
        """How many there are to be, as far as that is known."""
        return len(self._planned) + len(self._own)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Know the plan, where this process runs it itself."""
        if not self._planned:
            self._planned = self._in_order(
                (item.key, item.repeat) for item in session.items if isinstance(item, JSBenchCase)
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Know the plan, where workers run it."""
        if not self._planned:
            self._planned = self._in_order(attempt for nodeid in ids if (attempt := _attempt(nodeid)) is not None)

    def _in_order(self, attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
        """The dataset's order, in whichever they run."""
        position = {key: number for number, key in enumerate(self._active.keys)}
        return tuple(sorted(attempts, key=lambda attempt: (position[attempt[0]], attempt[1])))

    @property
    def _plan(self) -> tuple[Attempt, ...]:
        """The suite's attempts, and those of a project's own tests."""
        return (*self._planned, *sorted(self._own))

    @property
    def _planned_keys(self) -> tuple[CaseKey, ...]:
        """The case of each planned attempt."""
        return tuple(key for key, _ in self._plan)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Start what the workers share, once, and tell each how to reach it."""
        if self._prepared is None:
            try:
                self._prepared = self._resources.enter_context(prepare(self._active))
            except EngineError as error:
                raise pytest.UsageError(str(error)) from None
            folder = self._active.run.shared / "selected"
            folder.mkdir(exist_ok=True)
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
        if config.getoption("dist") == "load" and config.getoption("maxschedchunk", None) is None:
            return scheduler(config, log, ahead=4 * self._active.concurrency)
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record off the report, which pytest keeps for the whole session."""
        outcome = transport.take(report)
        if outcome is not None:
            self._take(outcome, node=getattr(report, "node", None))
        for own in transport.take_own(report):
            self._own.add((own.result.key, own.result.repeat))
            self._take(own, node=getattr(report, "node", None))
        if report.failed and not transport.failure_type_of(report):
            self._other_failures += 1
            died = report.when not in {"setup", "call", "teardown"}  # xdist's word for it is "???"
            self._died |= died
            if (attempt := _attempt(report.nodeid)) is not None:
                reason = MissingReason.WORKER_DIED if died else MissingReason.ERROR
                self._missing[attempt] = Missing(key=attempt[0], repeat=attempt[1], reason=reason)

    def _take(self, outcome: Outcome, *, node: Any) -> None:
        result = outcome.result
        if isinstance(result, Missing):
            self._missing[result.key, result.repeat] = result
            return
        self._records[result.attempt] = result
        self._resumed += outcome.resumed
        self._warn(outcome.journal_error)
        for error in outcome.classifier_errors:
            self._misclassified = True
            self._warn(error)
        if node is not None and not outcome.resumed and is_remote(node):
            self._write_down(result)
        self._config.hook.pytest_jsbench_record(config=self._config, record=result)

    def _write_down(self, record: Record) -> None:
        if self._active.folder is None:
            return
        if self._remote is None:
            metadata = self._active.metadata.with_plan(self._planned_keys)
            self._remote = Journal(self._active.folder / "records.remote.jsonl", metadata)
        try:
            self._remote.append(record)
        except JournalError as error:
            self._warn(str(error))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A project whose tests cannot be collected has failed, whatever the gate says."""
        self._other_failures += report.failed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Summarise, decide, and write, before any other plugin shows or saves anything."""
        if not session.config.option.collectonly and self._plan:
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
        if self._may_lack_records(session):
            self._add_journals()
        run = Run(
            metadata=self._active.metadata.with_plan(self._planned_keys),
            planned=self._planned_keys,
            records=tuple(sorted(self._records.values(), key=self._order())),
            missing=tuple(self._find_missing()),
            resumed=self._resumed,
        )
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

    def _find_missing(self) -> Iterator[Missing]:
        """Each planned attempt without a record; what nobody has spoken of was cut off by the session's end."""
        for attempt in self._plan:
            if attempt not in self._records:
                stopped = Missing(key=attempt[0], repeat=attempt[1], reason=MissingReason.STOPPED)
                yield self._missing.get(attempt, stopped)

    def _order(self) -> Any:
        position = {key: number for number, key in enumerate(self._planned_keys)}
        return lambda record: (position.get(record.key, len(position)), record.key, record.repeat)

    def _may_lack_records(self, session: pytest.Session) -> bool:
        """Whether there may be attempts that were made, and that nobody has reported."""
        stopped = session.shouldstop or session.shouldfail or self._died
        ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        return bool(stopped) or not ended or any(attempt not in self._records for attempt in self._planned)

    def _add_journals(self) -> None:
        """Records that are on disk and were not reported: their worker died, or the session was stopped."""
        if self._active.folder is None:
            return
        planned = frozenset(self._planned)
        for path in sorted(self._active.folder.glob("records*.jsonl")):
            if path.name == journal.RESUMED:  # not judged by this run where it was not reported
                continue
            try:
                content = journal.read(path)
            except JSBenchError as error:
                self._warn(str(error))
                continue
            for warning in content.warnings:
                self._warn(warning)
            for record in content.records:
                if record.asked_by is not None:
                    self._own.add(record.attempt)
                if record.asked_by is not None or record.attempt in planned:
                    self._records.setdefault(record.attempt, record)

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
                if path.name != journal.RESUMED or self._has_resumed_all():
                    path.unlink()
        except (JSBenchError, OSError) as error:
            self._warn(str(error))
            return
        everything = self._active.settings.output is not None
        config_path, decision = self._config_path(), self.decision or Decision()
        for problem in files.write(folder, run, summary, decision, config_path=config_path, everything=everything):
            self._warn(problem)

    def _has_resumed_all(self) -> bool:
        """Whether all that was taken over is among this run's records, so that it need not be kept apart."""
        resumption = self._active.resumption
        if resumption is None:
            return True
        return all(record.attempt in self._records for record in (*resumption.records, *resumption.own))

    def _config_path(self) -> str:
        path = self._config.inipath
        return "unknown" if path is None else path.name

    def _warn(self, message: str) -> None:
        if message and message not in self.warnings:
            self.warnings.append(message)


def _attempt(nodeid: str) -> Attempt | None:
    """The attempt of one of the suite's node ids; None for any other."""
    prefix = f"{ROOT}::"
    if not nodeid.startswith(prefix):
        return None
    name, _, number = nodeid.removeprefix(prefix).removesuffix("]").partition("[")
    return CaseKey.parse(name), int(number or 1) - 1
