"""Process the reports: collect the records, summarize the run, decide the exit status, and write the files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.files import make_private_folder
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.text import describe_error, format_count, list_names, printable
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import RunContext, key_of, write_selection
from pytest_jsbench.plugin.items import Collected, JSBenchCase, attempt_of, of_suite
from pytest_jsbench.plugin.progress import write_line
from pytest_jsbench.plugin.transport import WorkerInput, failure_type_of, take
from pytest_jsbench.records.records import Attempt, Missing, MissingReason
from pytest_jsbench.reports.expectations import Expectations, GateDecision
from pytest_jsbench.run.record_keeper import record_dead_worker
from pytest_jsbench.run.runners import prepare
from pytest_jsbench.run.variants import errors_of
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, Dialect, find_dialect
from pytest_jsbench.schemas.schema_warnings import schema_warnings
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.metrics.gates import Ending
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.progress import Progress
    from pytest_jsbench.plugin.worker import Worker
    from pytest_jsbench.records.runs import Run, RunVerdict
    from pytest_jsbench.reports.run_files import Exporter
    from pytest_jsbench.run.record_keeper import AttemptResult
    from pytest_jsbench.run.state import RunState

#: Maximum number of cases whose schemas are checked for likely mistakes before the first test.
_MOST_READ = 2000
#: Maximum number of attempts that one reason for the run verdict lists.
_MOST_LISTED = 5
#: Exit codes of a session that ran all its tests.
_ENDS = frozenset({pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED})


class Controller:
    """
    Collects the records of all processes, and ends the run.

    `activation` creates one object in the single process, or in xdist's controller, never in a worker. All hooks are
    called in the main thread: `pytest_configure_node` passes each worker its input, `pytest_runtest_logreport` collects
    the records from the reports, and `pytest_sessionfinish` summarizes the run, decides the exit status and writes the
    files. If another plugin changes the exit status later, `settle`, which `Terminal` also calls, corrects the run
    verdict.
    """

    def __init__(
        self,
        context: RunContext,
        worker: Worker,
        expectations: Expectations,
        *,
        state: RunState,
        progress: Progress,
    ) -> None:
        self._context = context
        self._config = context.config
        self._worker = worker
        self.state = state
        self._progress = progress
        if context.plan.spec.outputs.report is not None:
            from pytest_jsbench.reports.run_files import check_page

            check_page(context.plan.spec.outputs.report)
        #: The exporters, loaded early so that a wrong name is reported before any call costs money.
        self._exporters = _find_exporters(context)
        #: Whether this run has called an engine and got a result; before, imports could delay the first requests.
        self._has_answer = False
        self._preparation = _prepare_end(page=context.plan.spec.outputs.output or context.plan.spec.outputs.report)
        self._ending = SessionEnding()
        #: The tests that xdist's workers have collected; None if this process collects.
        self._collected: Collected | None = None
        #: The input for each worker; None until the first worker starts.
        self._input: WorkerInput | None = None
        self._resources = ExitStack()
        context.config.add_cleanup(self._resources.close)
        #: The session and its results, set when the run verdict is decided.
        self._session: pytest.Session | None = None
        self.run: Run | None = None
        self.summary: Summary | None = None
        self._expectations = expectations
        self.decision = GateDecision()
        #: Number of recordings that no test used; 0 unless the run included all tests.
        self.unasked = 0
        #: Labels and lines about the failures that were reduced.
        self.reductions: list[tuple[str, str]] = []
        #: Lines about content of the dataset without tests, and about likely mistakes in its schemas.
        self.schema_warnings = [*_source_notes(context), *_schema_warnings(context)]
        resumption = context.session.resumption
        self.state.warn(
            *(resumption.warnings if resumption else ()), *self._expectations.warnings, *self.schema_warnings
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Note which attempts the suite plans, if this process runs the tests."""
        if not self.state.planned:
            self.state.plan(item.attempt for item in session.items if isinstance(item, JSBenchCase))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note which attempts the suite plans, if xdist's workers run the tests."""
        if not self.state.planned:
            attempts = (attempt_of(nodeid, repeats=self._context.plan.spec.execution.repeats) for nodeid in ids)
            self.state.plan(attempt for attempt in attempts if attempt is not None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker its input; before the first worker, start the engines' services that all workers share."""
        if self._input is None:
            self._input = self._prepare(steals=node.config.getoption("dist") == "worksteal")
        self._input.send_to_worker(node)

    def _prepare(self, *, steals: bool) -> WorkerInput:
        plan = self._context.plan
        handover = self._context.handover
        prepared: dict[str, EngineConfig] = {}
        for name, variant in plan.variants.items():
            with self._context.secrecy.usage_errors(), errors_of(name):
                prepared[name] = self._resources.enter_context(prepare(plan, variant))
        selected: Mapping[str, Any] = {}
        # in a redacted run, no schemas are written to disk; the workers read the dataset
        if handover.redaction is None:
            folder = handover.shared / "selected"
            make_private_folder(folder)
            selected = write_selection(plan.cases, self._context.marks, folder)
        excuses = {str(key): excuse for key, excuse in self._context.excuses.items()}
        return WorkerInput(handover=handover, prepared=prepared, selected=selected, excuses=excuses, steals=steals)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """
        Read which tests the worker collected; if the worker died, record its death for the workers that take over its
        tests.
        """
        self._collected = Collected.from_worker_output(getattr(node, "workeroutput", {})) or self._collected
        if error:
            record_dead_worker(self._context.handover.shared, node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """
        Return a scheduler that sends each worker as many tests as the worker makes calls ahead; None if the user chose
        another scheduler.
        """
        from pytest_jsbench.plugin.xdist_scheduling import scheduler

        variants = self._context.plan.variants.values()
        # the tests of the variants alternate, so a queue contains about as many tests of each variant
        return scheduler(config, log, ahead=4 * len(variants) * max(variant.concurrency for variant in variants))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the results out of the report, because pytest keeps reports in memory for the whole session."""
        for result in take(report):
            self._take(result, from_project_test=not of_suite(report.nodeid))
        self.state.add_fault_reports(transport.take_faults(report))
        self._ending.add(report)
        if report.failed and not failure_type_of(report):
            died = report.nodeid in self._ending.crashed
            if (attempt := attempt_of(report.nodeid, repeats=self._context.plan.spec.execution.repeats)) is not None:
                self.state.add_missing(attempt, MissingReason.WORKER_DIED if died else MissingReason.ERROR)

    def _take(self, result: AttemptResult, *, from_project_test: bool) -> None:
        attempt = self.state.take(result, from_project_test=from_project_test)
        if attempt is None:
            return
        self._progress.count(attempt, resumed=result.resumed)
        self._has_answer = self._has_answer or (attempt.made and not result.resumed)
        if (hook := self._config.hook.pytest_jsbench_record).get_hookimpls():
            hook(config=self._config, record=attempt.read())

    def pytest_runtest_logfinish(self) -> None:
        """Prepare a part of the end after each of the first tests, once an answer shows that calls are in flight."""
        if self._has_answer:
            with suppress(Exception):  # an error is reported at the end, if the end meets it too
                next(self._preparation, None)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note collection errors; they fail the run even if the gates are met."""
        self._ending.add(report)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note why the session was stopped: Ctrl-C, `pytest.exit`, or -x in a worker of xdist."""
        self._ending.stop(str(excinfo.value) or "Ctrl-C")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Summarize the run, decide the exit status and write the files, before other plugins print or save results."""
        if not self._context.settings.only_looks and self._can_decide(session):
            self._finish(session)
        self._resources.close()
        try:
            result = yield
            if (overruled := self.settle()) is not None:  # the summary with the old verdict has already been printed
                write_line(self._config, f"jsbench: the verdict is {overruled.text}", red=True)
        finally:  # another plugin may raise an error here, as pytest-benchmark does after a comparison
            if self.run is not None and self.summary is not None and self._config.getoption("xmlpath", None):
                from pytest_jsbench.plugin.outputs import complete_junit

                complete_junit(self._context, self.run, self.summary, self.decision)
        return result

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_group_stats(self) -> Generator[None, list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Remove the plugin's rows from pytest-benchmark's table unless requested; its files still contain the rows."""
        from pytest_jsbench.plugin.benchmark import shown_groups

        groups = yield
        return shown_groups(self._config, groups)

    def settle(self, raised: Exception | None = None) -> RunVerdict | None:
        """
        Correct the run verdict if another plugin changed the exit status or raised an error, and return the new
        verdict; None otherwise.
        """
        if self.run is None or self.run.verdict is None or self._session is None:
            return None
        if raised is None and self._session.exitstatus == self.run.verdict.exit_status:
            return None
        status = int(self._session.exitstatus if raised is None else pytest.ExitCode.TESTS_FAILED)
        reason = f"another plugin has set the exit status to {status}"
        if raised is not None:
            reason = f"another plugin: {describe_error(raised)}"
        overruled = self.run.verdict.with_exit_status(status, reason)
        before, self.run = self.run.verdict, replace(self.run, verdict=overruled)
        self._write_files(instead_of=before)
        self._session.exitstatus = overruled.exit_status
        return overruled

    def _can_decide(self, session: pytest.Session) -> bool:
        """
        Return whether the session needs a run verdict: it has attempts, tests that failed before an attempt, injected
        faults, or gates although no attempt was made.
        """
        if self.state.count or self.state.has_ended_tests or self.state.has_faults:
            return True
        ends = {*_ENDS, pytest.ExitCode.NO_TESTS_COLLECTED}
        expected = self._context.settings.gates_typed or self._all_collected.any
        return bool(self._context.plan.gates) and session.exitstatus in ends and expected

    @property
    def _all_collected(self) -> Collected:
        return self._worker.collected or self._collected or Collected()

    def _finish(self, session: pytest.Session) -> None:
        from pytest_jsbench.metrics.gates import decide
        from pytest_jsbench.metrics.summary import summarize
        from pytest_jsbench.reports.run_files import problem_of

        self._worker.redirect_records()
        # after an interruption, the records may contain attempts that no test reported
        stopped = session.shouldstop or session.shouldfail or self._ending.crashed
        if stopped or session.exitstatus not in _ENDS or not self.state.complete:
            # xdist would stop its workers later, but they must stop before their files are read and removed
            if (xdist := self._config.pluginmanager.get_plugin("dsession")) is not None:
                xdist.pytest_sessionfinish()
            self.state.add_from(self._context.handover.records)
        self.state.add_missing_project_tests(self._silent_project_tests(session))
        # finish the records first: the summary and later hooks read them
        run = self._context.session.finish(self.state)
        self.summary = summary = summarize(run)
        self._config.hook.pytest_jsbench_summary(config=self._config, run=run, summary=summary)
        self.decision = self._expectations.decide(run, summary)
        failures = [*self.state.failures, *self._contradicted(run)]
        ending = self._ending.to_ending(session, self._all_collected.deselected, failures)
        not_judged = tuple(map(printable, run.tests_without_schema()))
        lacking = (*ending.lacking, *self._unreported(session))
        excused = self.decision.quarantined
        ending = replace(ending, lacking=lacking, not_judged=not_judged, quarantined=excused)
        verdict = decide(ending, (self.decision.deciding or summary).total, self.decision.gates)
        self._session = session
        session.exitstatus = verdict.exit_status
        self.run = run = replace(run, verdict=verdict)
        self._write_files()
        if (self._context.plan.spec.recordings.record or self._context.plan.spec.recordings.replay) is not None:
            from pytest_jsbench.plugin.unused_recordings import note_unused

            finished = None if self._ending.lacks_tests else self._ending.finished
            self.unasked, problem = note_unused(session, self._context, run, self._all_collected, finished)
            self.state.warn(problem)
        for exporter, path in self._exporters:
            self.state.warn(problem_of(partial(exporter.write, path, run, summary)))
        # replayed answers have the times of their recording, which must not be mixed with new measurements
        if self._context.plan.spec.recordings.replay is None and self._config.pluginmanager.has_plugin(
            "pytest-benchmark"
        ):
            from pytest_jsbench.plugin.benchmark import add_rows

            self.state.warn(add_rows(self._config, run, rows=self._context.plan.spec.outputs.benchmark_rows))
        # last, since it makes calls and can be interrupted
        if self._context.plan.spec.outputs.reduce is not None and session.exitstatus in _ENDS:
            from pytest_jsbench.plugin.failure_reductions import reduce_failures

            self.reductions += reduce_failures(self._context, run, self._context.plan.spec.outputs.reduce)

    def _contradicted(self, run: Run) -> Iterator[str]:
        """Yield a reason for failing the run if another plugin reported tests of failed attempts as passed."""
        repeats = self._context.plan.spec.execution.repeats
        passed = {attempt_of(nodeid, repeats=repeats) for nodeid in self._ending.reported_as_passed}
        failed = [outcome.attempt for outcome in run.outcomes if not outcome.passed and outcome.attempt in passed]
        if failed:
            yield f"another plugin reported failed attempts as passed: {_listed(failed, repeats)}"

    def _unreported(self, session: pytest.Session) -> Iterator[str]:
        """Yield a reason for failing the run if the session was not stopped, but planned attempts have no report."""
        stopped = session.shouldstop or session.shouldfail or self._ending.crashed or self._ending.is_stopped
        if stopped or session.exitstatus not in _ENDS:
            return
        repeats = self._context.plan.spec.execution.repeats
        reported = {attempt_of(nodeid, repeats=repeats) for nodeid in self._ending.ended}
        unreported = [attempt for attempt in self.state.planned if attempt not in reported]
        if unreported:
            yield f"no test result was reported for {_listed(unreported, repeats)}"

    def _silent_project_tests(self, session: pytest.Session) -> Iterator[Missing]:
        """
        Yield a missing attempt for each project test that did not end, because its process died or the session was
        stopped.
        """
        for nodeid, variant in self._all_collected.project_tests:
            if nodeid in self._ending.crashed:
                reason = MissingReason.WORKER_DIED
            elif nodeid not in self._ending.ended and session.exitstatus != pytest.ExitCode.OK:
                reason = MissingReason.STOPPED
            else:
                continue
            yield Missing(key=key_of(nodeid, variant), repeat=0, variant=variant, reason=reason)

    def _write_files(self, *, instead_of: RunVerdict | None = None) -> None:
        """
        Write run.json, and with --jsbench-output also the other files of the run; in a GitHub workflow, add the summary
        of the step.
        """
        from pytest_jsbench.reports.run_files import write_files

        assert self.run is not None
        assert self.summary is not None
        path = self._config.inipath
        problems = write_files(
            self._context.handover.folder,
            self.run,
            self.summary,
            self.decision,
            config_path="unknown" if path is None else path.name,
            everything=self._context.plan.spec.outputs.output is not None,
            page=self._context.plan.spec.outputs.report,
        )
        self.state.warn(*problems)
        if page := os.environ.get("GITHUB_STEP_SUMMARY"):
            from pytest_jsbench.reports.step_summary import append_step_summary

            before = None if instead_of is None else replace(self.run, verdict=instead_of)
            self.state.warn(append_step_summary(Path(page), self.run, self.summary, self.decision, instead_of=before))


def _listed(attempts: Sequence[Attempt], repeats: int) -> str:
    """Return a text with the number of attempts and the names of the first few."""
    names = [attempt.name(several=repeats > 1) for attempt in attempts]
    return f"{format_count(len(attempts), 'attempt')}: {list_names(names, _MOST_LISTED)}"


def _source_notes(context: RunContext) -> tuple[str, ...]:
    """Return messages about content of the dataset from which no tests were made; none if the run is redacted."""
    if not context.settings.targets.suite or context.plan.spec.outputs.redact:
        return ()
    return context.plan.cases.notes


def _schema_warnings(context: RunContext) -> Iterator[str]:
    """
    Yield a line for each likely mistake in the schemas, with the first case that contains the mistake.

    Of many cases, only the first are checked; none are checked if invalid schemas are skipped, which is the default for
    published datasets, or if the run is redacted.
    """
    settings = context.settings
    if not settings.targets.suite or settings.selection.skips_invalid or context.plan.spec.outputs.redact:
        return
    default = find_dialect(context.plan.policy.default_dialect) or DRAFT_2020_12
    places: dict[str, dict[CaseKey, str]] = {}
    of_tools: dict[str, Mapping[str, str]] = {}
    for key in context.plan.keys[:_MOST_READ]:
        case = context.plan.cases.case(key)
        for warning, place in _case_warnings(case, default, of_tools) if isinstance(case, Case) else ():
            places.setdefault(warning, {}).setdefault(key, place)
    for warning, having in places.items():
        first, place = next(iter(having.items()))
        named = f"{first} at {place}" if place else str(first)
        more = f" and {format_count(len(having) - 1, 'more case')}" if len(having) > 1 else ""
        yield f"{named}{more}: {warning}"


def _case_warnings(case: Case, default: Dialect, of_tools: dict[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """
    Yield the warnings about the schemas of a case, each with its place.

    `of_tools` keeps the warnings about the schemas of tools, because the cases of an application offer the same tools.
    """
    if case.offer is None or case.schema is not True:
        yield from schema_warnings(case.schema, default).items()
    for tool in () if case.offer is None else case.offer.tools:
        name = digest(tool.parameters)
        if name not in of_tools:
            of_tools[name] = schema_warnings(tool.parameters, default)
        yield from of_tools[name].items()


def _prepare_end(*, page: Path | None) -> Iterator[None]:
    """
    Import what only the end of the run needs, in parts: the user waits for the end, but these imports can be made while
    answers are awaited.
    """
    import pytest_jsbench.metrics.gates

    yield
    import pytest_jsbench.reports.run_json  # noqa: F401  only to be in memory later

    yield
    if page is not None:
        from pytest_jsbench.reports.html.report import compile_page

        yield
        compile_page()


def _find_exporters(context: RunContext) -> tuple[tuple[Exporter, Path], ...]:
    if not context.plan.spec.outputs.export:
        return ()
    from pytest_jsbench.reports.run_files import find

    return tuple((find(name), path) for name, path in context.plan.spec.outputs.export)


_PHASES = {
    "setup": "failed in its setup",
    "call": "failed",
    "teardown": "failed in its teardown",
    "collect": "could not be collected",
}


class SessionEnding:
    """
    Collects the failures of the session, and the reason if the session was stopped.

    The controller creates one object and adds each report to it in the main thread; at the end of the session,
    `to_ending` returns the input for the run verdict.
    """

    def __init__(self) -> None:
        #: Tests that failed because of an answer; gates may tolerate these failures.
        self._answers: dict[str, None] = {}
        self._broken_schemas: list[str] = []
        #: A line for each test or collection that failed for another reason, which gates never tolerate.
        self._failures: dict[str, None] = {}
        #: Number of failed reports, for comparison with pytest's own number of failures.
        self._failed = 0
        #: Number of failed subtests by test.
        self._subtests: Counter[str] = Counter()
        self._stopped = ""
        #: Node ids of tests that ran to their end.
        self.ended: set[str] = set()
        #: Node ids of tests whose last run was reported as passed; an expected failure (xfail) does not count.
        self.reported_as_passed: set[str] = set()
        #: Node ids of tests with a report that is not a success, such as failed, skipped or rerun.
        self._not_passed: set[str] = set()
        #: Whether tests of a module were not collected, because the module skipped itself or could not be imported.
        self.lacks_tests = False
        #: Node ids of tests whose worker process died while they ran.
        self.crashed: list[str] = []

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Add the outcome of a test phase or a collection."""
        # plugins that rerun tests report the earlier runs with special outcomes, such as "rerun"
        final = report.passed or report.failed or report.skipped
        if final and (report.when == "call" or (report.when == "setup" and not report.passed)):
            self.ended.add(report.nodeid)
        if report.when == "call":
            passed = report.passed and not hasattr(report, "wasxfail")
            (self.reported_as_passed.add if passed else self.reported_as_passed.discard)(report.nodeid)
        if not report.passed:
            self._not_passed.add(report.nodeid)
            self.lacks_tests = self.lacks_tests or report.when == "collect"
        if not report.failed:
            return
        self._failed += 1
        kind = transport.failure_type_of(report)
        # do not count a test again that failed only because of its subtests, which have been reported already
        subtests = self._subtests[report.nodeid]
        plural = "s" if subtests > 1 else ""
        of_subtests = subtests > 0 and report.longrepr == f"contains {subtests} failed subtest{plural}"
        if transport.is_subtest(report):
            self._subtests[report.nodeid] += 1
        if kind == FailureType.INVALID_SCHEMA:
            self._broken_schemas.append(report.nodeid)
        elif kind and kind not in NOT_THE_MODELS:
            self._answers[report.nodeid] = None
        elif not kind and not of_subtests:
            self._failures[f"{report.nodeid} {_PHASES.get(str(report.when), 'ended its process')}"] = None
        if not kind and str(report.when) not in _PHASES:  # xdist uses "???" as the phase here
            self.crashed.append(report.nodeid)

    @property
    def finished(self) -> set[str]:
        """Node ids of the tests that passed."""
        return self.ended - self._not_passed

    @property
    def is_stopped(self) -> bool:
        """Whether the session was stopped before its end."""
        return bool(self._stopped)

    def stop(self, reason: str) -> None:
        """Note that the session was stopped before its end."""
        self._stopped = f"the session was stopped: {reason}"

    def to_ending(self, session: pytest.Session, deselected: int, others: Sequence[str]) -> Ending:
        """Return the input for the run verdict: failures because of answers, and all other failures."""
        from pytest_jsbench.metrics.gates import Ending

        failures = [*self._failures, *others]
        if (more := session.testsfailed - self._failed) > 0:
            failures.append(
                f"{format_count(more, 'failure')} in addition to failed tests, for example because of --cov-fail-under"
            )
        if not self._stopped and (reason := session.shouldfail or session.shouldstop):
            self.stop(str(reason))
        return Ending(
            exit_status=int(session.exitstatus),
            answers=tuple(self._answers),
            broken_schemas=tuple(self._broken_schemas),
            failures=tuple(failures),
            lacking=(self._stopped,) if self._stopped else (),
            deselected=deselected,
        )
