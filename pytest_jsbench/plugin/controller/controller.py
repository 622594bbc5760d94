"""Takes the reports: collects the records, summarises, decides the exit status, writes files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import make_private_folder
from pytest_jsbench.core.text import described
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.plugin.controller import outputs
from pytest_jsbench.plugin.controller.benchmark import add_rows, shown_groups
from pytest_jsbench.plugin.controller.ending import Expectations, GateDecision, SessionEnding
from pytest_jsbench.plugin.controller.outputs import find_unasked
from pytest_jsbench.plugin.controller.progress import write_line
from pytest_jsbench.plugin.controller.xdist_scheduling import scheduler
from pytest_jsbench.plugin.options import ROOT
from pytest_jsbench.plugin.session import transport
from pytest_jsbench.plugin.session.cases import hand_over
from pytest_jsbench.plugin.session.context import RunContext, WorkerInput, key_of
from pytest_jsbench.plugin.session.secrecy import usage_errors
from pytest_jsbench.plugin.worker.items import Collected, JSBenchCase, attempt_of
from pytest_jsbench.records.records import Missing, MissingReason
from pytest_jsbench.run.record_keeper import note_death
from pytest_jsbench.run.session import prepare
from pytest_jsbench.schemas.keywords import misspelt
from pytest_jsbench.settings.variant import errors_of

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.controller.progress import Progress
    from pytest_jsbench.plugin.worker.worker import Worker
    from pytest_jsbench.records.outcomes import Run, RunVerdict
    from pytest_jsbench.reports.registry import Exporter
    from pytest_jsbench.run.record_keeper import AttemptResult
    from pytest_jsbench.run.state import RunState

#: cases of the user's own that are looked at before the first test
_MOST_READ = 2000


class Controller:
    """
    Collects the records of all processes, and ends the run.

    The activation makes one in the only process, or in xdist's controller, never in a worker. All its hooks are called
    in the main thread: `pytest_configure_node` hands each worker its input, `pytest_runtest_logreport` takes the record
    off each report, and `pytest_sessionfinish` summarises the run, decides its exit status and writes its files.
    `settle`, which `Terminal` calls too, corrects the verdict if another plugin then changed the exit status.
    """

    def __init__(
        self, config: pytest.Config, context: RunContext, worker: Worker, *, state: RunState, progress: Progress
    ) -> None:
        self._config = config
        self._context = context
        self._worker = worker
        #: found before anything is paid for
        self._exporters = _find_exporters(context)
        self.state = state
        self._progress = progress
        #: None until the verdict is decided
        self._session: pytest.Session | None = None
        self._ending = SessionEnding()
        #: what one of xdist's workers has collected
        self._collected: Collected | None = None
        #: by the variant's name
        self._prepared: dict[str, EngineConfig] = {}
        self._handed: Mapping[str, Any] = {}
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)
        self.run: Run | None = None
        self.summary: Summary | None = None
        self._expectations = Expectations.of(context)
        self.decision = GateDecision()
        #: recorded answers that no test of a whole run has asked for
        self.unasked: list[Path] = []
        resumption = context.session.resumption
        self.state.warn(*(resumption.warnings if resumption else ()), *self._expectations.warnings)
        #: words in the user's own schemas that are near to a keyword, by case
        self.misspelt = list(_misspelt(context))
        self.state.warn(*self.misspelt)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Note the attempts of the suite, where this process runs the tests."""
        if not self.state.planned:
            self.state.plan(item.attempt for item in session.items if isinstance(item, JSBenchCase))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note the attempts of the suite, where xdist's workers run the tests."""
        if not self.state.planned:
            repeats = self._context.plan.repeats
            self.state.plan(one for nodeid in ids if (one := attempt_of(nodeid, repeats=repeats)) is not None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Start what the workers share, once, and tell each how to reach it."""
        if not self._prepared:
            for name, variant in self._context.plan.variants.items():
                with usage_errors(self._config), errors_of(name):
                    self._prepared[name] = self._resources.enter_context(prepare(self._context.plan, variant))
            if self._context.handover.redaction is None:  # else the workers read the dataset themselves
                folder = self._context.handover.shared / "selected"
                make_private_folder(folder)
                self._handed = hand_over(self._context.plan.cases, self._context.marks, folder)
        WorkerInput(
            handover=self._context.handover,
            prepared=self._prepared,
            selected=self._handed,
            steals=node.config.getoption("dist") == "worksteal",
        ).hand_to(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what the worker collected; if it died, write that down for those who will run its tests."""
        self._collected = Collected.from_worker_output(getattr(node, "workeroutput", {})) or self._collected
        if error:
            note_death(self._context.handover.shared, node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep as many tests queued at each worker as it looks ahead; step aside where the user chose otherwise."""
        variants = self._context.plan.variants.values()
        # their tests stand side by side, so that each variant has its share of any number of them
        return scheduler(config, log, ahead=4 * len(variants) * max(variant.concurrency for variant in variants))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record off the report, which pytest keeps for the whole session."""
        for result in transport.take(report):
            self._take(result, of_project=not report.nodeid.startswith(f"{ROOT}::"))
        self._ending.add(report)
        if report.failed and not transport.failure_type_of(report):
            died = report.nodeid in self._ending.crashed
            if (attempt := attempt_of(report.nodeid, repeats=self._context.plan.repeats)) is not None:
                self.state.miss(attempt, MissingReason.WORKER_DIED if died else MissingReason.ERROR)

    def _take(self, outcome: AttemptResult, *, of_project: bool = False) -> None:
        errors = [error for error in outcome.classifier_errors if error not in self.state.warnings]
        attempt = self.state.take(outcome, of_project=of_project)
        if attempt is None:
            return
        for error in errors:
            self._ending.fail(error)
        self._progress.count(attempt, resumed=outcome.resumed)
        if (hook := self._config.hook.pytest_jsbench_record).get_hookimpls():
            hook(config=self._config, record=attempt.read())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note an error of the collection, which fails the run whatever its gates say."""
        self._ending.add(report)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note why the session was stopped: Ctrl-C, `pytest.exit`, or -x in one of xdist's workers."""
        self._ending.stop(str(excinfo.value) or "Ctrl-C")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Summarise, decide, and write, before any other plugin shows or saves anything."""
        if not self._context.settings.only_looks and self._can_decide(session):
            self._finish(session)
        self._resources.close()
        try:
            result = yield
            if (overruled := self.settle()) is not None:  # the summary has been shown by now
                write_line(self._config, f"jsbench: the verdict is {overruled.text}", red=True)
        finally:  # another plugin may end the run by raising, as pytest-benchmark's comparison does
            if self.run is not None and self.summary is not None:
                folder = self._context.handover.folder
                outputs.complete_junit(self._config, self.run, self.summary, self.decision, folder)
        return result

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_group_stats(self) -> Generator[None, list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Leave our rows out of pytest-benchmark's table unless they are asked for; they stay in its data."""
        groups = yield
        return shown_groups(self._config, groups)

    def settle(self, raised: Exception | None = None) -> RunVerdict | None:
        """Correct the verdict where another plugin changed the exit status; None where none did."""
        verdict = None if self.run is None else self.run.verdict
        if self.run is None or self.summary is None or self._session is None or verdict is None:
            return None
        status = pytest.ExitCode.TESTS_FAILED if raised is not None else int(self._session.exitstatus)
        if raised is None and status == verdict.exit_status:
            return None
        reason = f"another plugin has set the exit status to {int(status)}"
        overruled = verdict.overruled(int(status), reason if raised is None else f"another plugin: {described(raised)}")
        before, self.run = self.run, replace(self.run, verdict=overruled)
        self._write_files(self.run, self.summary)
        self.state.warn(outputs.append_step_summary(self.run, self.summary, self.decision, instead_of=before))
        self._session.exitstatus = overruled.exit_status
        return overruled

    def _can_decide(self, session: pytest.Session) -> bool:
        """Whether there are attempts, or gates for which there should have been some."""
        if self.state.count:
            return True
        ends = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
        asked = self._context.settings.gates_typed or self._known.any
        return bool(self._context.plan.gates) and session.exitstatus in ends and asked

    @property
    def _known(self) -> Collected:
        return self._worker.collected or self._collected or Collected()

    def _finish(self, session: pytest.Session) -> None:
        from pytest_jsbench.metrics.gates import decide
        from pytest_jsbench.metrics.summary import summarize
        from pytest_jsbench.reports.run_files import problem_of

        self._worker.leave_records()
        if self._may_lack_records(session):
            # xdist ends its workers before their files are read and removed, and not only after
            if (xdist := self._config.pluginmanager.get_plugin("dsession")) is not None:
                xdist.pytest_sessionfinish()
            self.state.add_from(self._context.handover.records)
        self.state.miss_project_tests(self._silent_project_tests(session))
        # first, so that whoever keeps the run can read its records for as long as it likes
        run = self._context.session.finish(self.state)
        self.summary = summarize(run)
        self._config.hook.pytest_jsbench_summary(config=self._config, run=run, summary=self.summary)
        self.decision = self._expectations.decide(run.metadata, self.summary)
        ending = self._ending.to_ending(session, self._known)
        verdict = decide(ending, self.summary.total, self.decision.gates)
        self._session, session.exitstatus = session, verdict.exit_status
        self.run = run = replace(run, verdict=verdict)
        self._write_files(run, self.summary)
        self._find_unasked(session, run)
        for exporter, exported in self._exporters:
            self.state.warn(problem_of(partial(exporter.write, exported, run, self.summary)))
        self.state.warn(outputs.append_step_summary(run, self.summary, self.decision))
        settings = self._context.settings
        # recorded times are no news, and would stand among those that are
        if self._context.plan.replay is None and (problem := add_rows(self._config, run, rows=settings.benchmark_rows)):
            self.state.warn(problem)

    def _find_unasked(self, session: pytest.Session, run: Run) -> None:
        """Note the recordings that no test has asked for, where all tests have run to the end of the session."""
        ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not ended or session.shouldstop or session.shouldfail or self._ending.lacks_tests:
            return
        finished, context = self._ending.finished, self._context
        found = find_unasked(self._config, context, run, self._known, finished=finished)
        folder = context.plan.record or context.plan.replay
        if found is None or folder is None:
            return
        self.unasked = found
        if context.handover.folder is not None:
            from pytest_jsbench.engines.recorded import unasked

            try:
                unasked.write(self._context.handover.records, folder, found)
            except JSBenchError as error:
                self.state.warn(str(error))

    def _may_lack_records(self, session: pytest.Session) -> bool:
        """Whether there may be attempts that were made and not reported."""
        stopped = session.shouldstop or session.shouldfail or self._ending.crashed
        ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        return bool(stopped) or not ended or not self.state.complete

    def _silent_project_tests(self, session: pytest.Session) -> Iterator[Missing]:
        """The first attempts of the project's tests during or before which their process or the session ended."""
        for nodeid, variant in self._known.project_tests:
            if nodeid in self._ending.crashed:
                reason = MissingReason.WORKER_DIED
            elif nodeid not in self._ending.ended and session.exitstatus != pytest.ExitCode.OK:
                reason = MissingReason.STOPPED
            else:
                continue
            yield Missing(key=key_of(nodeid, variant), repeat=0, variant=variant, reason=reason)

    def _write_files(self, run: Run, summary: Summary) -> None:
        """Write run.json and, where the user keeps the run, all else."""
        from pytest_jsbench.reports.run_files import write_files

        if self._context.handover.folder is None:
            return
        path = self._config.inipath
        problems = write_files(
            self._context.handover.folder,
            run,
            summary,
            config_path="unknown" if path is None else path.name,
            gates=self.decision.gates,
            comparisons=self.decision.comparisons,
            baselines=self.decision.comparisons_to_dict(),
            everything=self._context.plan.output is not None,
            page=find_spec("jinja2") is not None,  # without it the summary's line `page` says how to get it
        )
        self.state.warn(*problems)


def _misspelt(context: RunContext) -> Iterator[str]:
    """A line for each word in the user's own schemas that is near to a keyword; of many cases the first are read."""
    settings = context.settings
    if settings.targets.suite and not (settings.selection.skips_invalid or context.plan.redact):
        for key in context.plan.keys[:_MOST_READ]:
            case = context.plan.cases.case(key)
            yield from (f"{key}: {said}" for said in (misspelt(case.schema) if isinstance(case, Case) else ()))


def _find_exporters(context: RunContext) -> tuple[tuple[Exporter, Path], ...]:
    if not context.plan.exports:
        return ()
    from pytest_jsbench.reports import registry

    return tuple((registry.find(name), path) for name, path in context.plan.exports)
