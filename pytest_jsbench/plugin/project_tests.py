"""Run the project's tests that call an engine through the fixture `jsbench`."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.errors import ContractError, JSBenchError
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.fixture.case_failed import CaseFailed
from pytest_jsbench.fixture.jsbench import Answer, Attempts, FixtureQuestion, JSBench, SharedJSBench
from pytest_jsbench.fixture.marker import MarkerArguments
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import FIXTURE, SHARED, RunContext, add_markers, key_of, uses, variant_of
from pytest_jsbench.plugin.fault_parameters import injecting_of, set_fault_properties
from pytest_jsbench.plugin.items import set_properties
from pytest_jsbench.plugin.project_outcomes import of_error, of_report, redact_report
from pytest_jsbench.plugin.repeat_rules import RepeatsRefused, check_is_argument, check_subtests, read_terms
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Attempt, End, Missing, MissingReason, ProjectTestOutcome, Record
from pytest_jsbench.records.setting_differences import HANDED_IN
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.project_answers import TestAnswers
from pytest_jsbench.run.record_keeper import Answered, AttemptResult, missing_attempt

if TYPE_CHECKING:
    from pytest_jsbench.fixture.endpoint import Endpoint, EndpointServer, Injecting
    from pytest_jsbench.records.fault_reports import FaultReport
    from pytest_jsbench.records.records import ProjectTestOutcome


class ProjectTest:
    """One run of a project's test: the arguments of its marker, its repeats, and its attempts."""

    def __init__(
        self,
        terms: MarkerArguments,
        answers: TestAnswers,
        tests: ProjectTests,
        serve: Callable[[Endpoint[Answer]], tuple[str, str]],
        rerun: str,
        injecting: Callable[[], Injecting] | None = None,
    ) -> None:
        self.terms = terms
        self._tests = tests
        self._clean = tests.secrecy.mask
        self.attempts = Attempts(answers.key, self._answer_question, serve=serve, hide=self._clean, injecting=injecting)
        #: Whether the repeats of the test are running.
        self.repeating = False
        #: Whether the test function is running; a report that arrives meanwhile belongs to a subtest.
        self.running = False
        #: Outcomes of the finished repeats, by number of the repeat.
        self._ended: dict[int, ProjectTestOutcome] = {}
        #: Outcome of the test function; None until the function has ended.
        self._function_end: ProjectTestOutcome | None = None
        #: Outcomes of the failed subtests in the current repeat.
        self._subtests: list[ProjectTestOutcome] = []
        #: Errors of the failed repeats.
        self._failures: list[BaseException] = []
        self._answers = answers
        self._rerun = rerun
        answers.begin()
        #: Answers that this run of the test has received since the last check.
        self._received: list[tuple[FixtureQuestion, Record]] = []
        #: Answered calls of the test's application, and calls that the application later repeated with the same schema.
        self._calls: list[Record] = []
        self._called_again: dict[Attempt, str] = {}
        #: Results of the test's attempts, and the number of these results that are already in a report.
        self.outcomes: list[AttemptResult] = []
        #: Faults that the endpoints injected; empty before the test function has ended.
        self.faults: list[FaultReport] = []
        self._taken = 0

    @contextmanager
    def repeat(self, number: int) -> Iterator[None]:
        """
        Return a context that runs one repeat of the test, counted from 0, and collects its failure; a skip, an xfail or
        RepeatsRefused ends the test.
        """
        __tracebackhide__ = True
        if number == 0:
            self._failures.clear()
        self.attempts.begin(number)
        self._subtests.clear()
        try:
            yield
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            self._ended[number] = of_error(error, self._clean)
            if isinstance(error, pytest.skip.Exception | pytest.xfail.Exception | RepeatsRefused):
                raise
            self._failures.append(error)
            return
        self._ended[number] = next(iter(self._subtests), of_error(None, self._clean))

    @contextmanager
    def recording_outcome(self) -> Iterator[None]:
        """Record the outcome of the test function: some plugins run the function again without a report."""
        __tracebackhide__ = True
        try:
            yield
        except BaseException as error:
            self._function_end = of_error(error, self._clean)
            if not self.repeating:
                self.forget()
            raise
        self._function_end = of_error(None, self._clean)

    def __enter__(self) -> None:
        """Note that the test function is running; at its end, `__exit__` checks the received answers."""
        self.running = True

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        __tracebackhide__ = True
        try:
            if error is None:
                self.check()
                for endpoint in self.attempts.endpoints:
                    endpoint.require_faults()
            elif isinstance(error, Exception | pytest.fail.Exception):
                for endpoint in self.attempts.endpoints:
                    # if a limit forbade a call of the application, skip the test, whatever error resulted
                    if isinstance(endpoint.refusal, pytest.skip.Exception):
                        raise endpoint.refusal from None
        finally:
            self.running = False

    def failure(self) -> BaseException | None:
        """
        Return the error with which the repeats fail, preferably an assertion in the test; None if enough repeats
        passed.
        """
        repeats = self.terms.repeats
        passed = repeats - len(self._failures)
        needed = repeats if self.terms.min_pass is None else self.terms.min_pass
        if passed >= needed:
            return None
        # prefer an assertion, because it explains the failure better than an answer that did not pass
        failure = next((error for error in self._failures if not isinstance(error, CaseFailed)), self._failures[0])
        count = f"{passed} of {repeats} repeats passed, {needed} needed"
        failure.add_note(count)
        if isinstance(failure, CaseFailed):
            failure.headline += f" ({count})"
        return failure

    def check(self) -> None:
        """
        Fail the test if an answer since the last check did not pass.

        A failed answer is ignored if a later call continued or repeated its conversation with the same schema. If a
        call could not be made, the test is skipped or fails, with the reason.
        """
        __tracebackhide__ = True
        self.attempts.settle()
        exchanges = self._received
        self._received = []
        for endpoint in self.attempts.endpoints:
            if endpoint.refusal is not None:
                raise endpoint.refusal.with_traceback(None) from None
        for position, (question, record) in enumerate(exchanges, 1):
            if not question.terms.check or not _is_failed(record):
                continue
            if not any(_continues(later, record) for _, later in exchanges[position:]):
                if question.exchange:
                    receiver = "the application received this answer"
                else:
                    receiver = "the test caught this failure"
                text = (
                    f"{record.explanation}\n  note:   {receiver}; set check=False in the marker to let the test decide"
                )
                raise CaseFailed(record, explanation=text, rerun=self._rerun)

    def forget(self) -> None:
        """Discard the received answers without a check, because the test was skipped or has already failed."""
        self._received.clear()
        for endpoint in self.attempts.endpoints:
            endpoint.refusal = None

    def add_test_outcome(self, report: pytest.TestReport, error: BaseException | None) -> list[AttemptResult]:
        """Return the results that are in no report yet, with the outcome of the test if it is known."""
        if self.running or (report.when == "setup" and report.passed):
            if report.failed:
                self._subtests.append(of_report(report, error, self._clean))
            return []
        if report.when != "teardown":
            ended = of_report(report, error, self._clean)
            self._ended = {0: next(iter(self._subtests), ended) if report.passed else ended, **self._ended}
        elif not self._ended and self._function_end is not None:
            # pytest-retry runs the function again without a report of the call phase
            self._ended = {0: self._function_end}
        results = self.outcomes[self._taken :]
        self._taken += len(results)
        return [*map(self._with_test_outcome, results), *self._ended_without_calls()]

    def fault_reports(self) -> list[FaultReport]:
        """Return how the application coped with the faults that the test's endpoints injected."""
        return [
            report
            for endpoint in self.attempts.endpoints
            for report in endpoint.fault_reports(self._ended, self._answers.variant)
        ]

    def _ended_without_calls(self) -> Iterator[AttemptResult]:
        """Yield a result for each finished repeat that made no call, with the outcome of the repeat."""
        called = {result.result.repeat for result in self.outcomes}
        for repeat, ended in self._ended.items():
            if repeat not in called:
                yield _without_call(self._answers.key, repeat, self._answers.variant, ended)

    def _with_test_outcome(self, result: AttemptResult) -> AttemptResult:
        ended = self._ended.get(result.result.repeat)
        if ended is None:
            return result
        called_again = self._called_again.get(result.result.attempt, "")
        return self._tests.session.keeper.add_test_outcome(result, ended, called_again=called_again)

    def _answer_question(self, question: FixtureQuestion) -> Record:
        __tracebackhide__ = True
        before = self._calls[:]
        try:
            result, record = self._tests.answer(question, self._answers)
        except JSBenchError:
            raise
        except BaseException as ended:  # interrupted during the call, for example by pytest-timeout or Ctrl-C
            stopped = isinstance(ended, KeyboardInterrupt | pytest.exit.Exception)
            refused = Refused(MissingReason.STOPPED if stopped else MissingReason.ERROR, describe_error(ended))
            attempt = Attempt(question.case.key, question.repeat, self._answers.variant)
            self.outcomes.append(AttemptResult(result=missing_attempt(attempt, refused)))
            if isinstance(ended, pytest.fail.Exception):  # show the test's line, not the place within the call
                raise ended.with_traceback(None) from None
            raise
        self.outcomes.append(result)
        if isinstance(missing := result.result, Missing):
            raise pytest.skip.Exception(f"not run: {missing.message}", _use_item_location=True)
        assert record is not None
        self._received.append((question, record))
        if question.exchange is not None:
            self._calls.append(record)
            for call in before:
                # if an application repeats a call whose answer passed, the repetition is another sample
                again = _is_failed(call) or record.prompt != call.prompt
                if call.repeat == record.repeat and again and _continues(record, call):
                    self._called_again[call.attempt] = record.key.id
        return record


def _is_failed(record: Record) -> bool:
    """Return whether the attempt has a schema and did not pass."""
    return record.schema is not None and not record.verdict.passed


def _continues(later: Record, record: Record) -> bool:
    """
    Return whether a later call continues or repeats the conversation of `record`, either with the same schema or after
    a failed call.
    """
    same = later.schema_digest == record.schema_digest or isinstance(record.generation, Failed)
    if record.prompt is None or later.prompt is None or not same:
        return False
    return later.prompt.messages[: len(record.prompt.messages)] == record.prompt.messages


_TEST = pytest.StashKey[ProjectTest]()
_ANSWERS = pytest.StashKey[TestAnswers]()


class ProjectTests:
    """
    Reads the markers of the project's tests, runs repeated tests, and adds the results to the reports.

    `activation` creates one object in every process. The fixture `jsbench` calls `fixture`; pytest calls the hooks in
    the main thread, during collection, around each test function, and for each report. The object is discarded at the
    end of the session, when the endpoint server is closed.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.session = context.session
        self.secrecy = context.secrecy
        self._lock = threading.Lock()
        self._resources = ExitStack()
        context.config.add_cleanup(self._resources.close)
        self._server: EndpointServer | None = None
        #: Node ids of tests that have requested the fixture `jsbench`.
        self._requesting: set[str] = set()
        #: Answers that several tests share, by variant and name; and the results of their calls that are in no report
        #: yet.
        self._answers: dict[tuple[str, str], TestAnswers] = {}
        self._shared_results: list[AttemptResult] = []

    def fixture(self, item: pytest.Item) -> JSBench:
        """Return the `jsbench` object with which this test calls the engine."""
        __tracebackhide__ = True
        self._requesting.add(item.nodeid)
        terms = read_terms(item)
        check_subtests(item, terms)
        check_is_argument(item, terms)
        variant = variant_of(item)
        self._require(
            variant, f"{item.nodeid} requests the fixture jsbench at run time, so the test cannot run for each"
        )
        line = None if item.location[1] is None else item.location[1] + 1
        answers = TestAnswers(key_of(item.nodeid, variant), variant, test=item.nodeid, line=line)
        answers = item.stash.setdefault(_ANSWERS, answers)
        injecting = partial(self._injecting, item, variant)
        test = ProjectTest(terms, answers, self, partial(self._serve, variant), self._rerun(item), injecting)
        item.stash[_TEST] = test
        return JSBench(test.terms, test.attempts, folder=item.path.parent, rerun=self._rerun(item))

    def shared(self, variant: str) -> SharedJSBench:
        """Return the `jsbench_shared` object with which fixtures call the engine for several tests."""
        self._require(variant, "jsbench_shared is requested at run time, so it cannot be used for each")
        return SharedJSBench(partial(self._open_shared, variant))

    def _require(self, variant: str, problem: str) -> None:
        variants = self._context.plan.variants
        if variant not in variants:
            pytest.fail(
                f"{problem} variant ({', '.join(variants)}): make the fixture an argument of the test",
                pytrace=False,
            )

    def _open_shared(self, variant: str, name: str, terms: MarkerArguments) -> JSBench:
        key = CaseKey(task=SHARED, id=safe_name(name))
        if key.number != 1:  # a number would make the key look like a further question under another name
            key = CaseKey(task=SHARED, id=safe_name(f"{name}/"))
        answers = TestAnswers(key, variant, test=f"{SHARED}::{name}", shared=True)
        with self._lock:
            answers = self._answers.setdefault((variant, name), answers)
        test = ProjectTest(terms, answers, self, _reject_endpoint, rerun="")
        test.outcomes = self._shared_results
        return JSBench(terms, test.attempts, folder=self._context.config.rootpath, rerun="")

    def answer(self, question: FixtureQuestion, answers: TestAnswers) -> Answered:
        """Make an attempt of a test, or use an earlier answer to the same question, without showing any secrets."""
        given = question.given
        if given is None:
            run = self._context.plan.variants[answers.variant].engine
            self.secrecy.add(question.terms.engine_config(run))
        else:
            masked = replace(given, generation=self.secrecy.mask_answer(given.generation))
            question = replace(question, given=masked)
        return answers.ask(self.session, question.for_run(answers.variant, test=answers.test, line=answers.line))

    def close(self, item: pytest.Item) -> None:
        """Close the endpoints of a finished test, and check answers that arrived after the end of the test function."""
        __tracebackhide__ = True
        test = item.stash[_TEST]
        for endpoint in test.attempts.endpoints:
            endpoint.close()
        test.check()

    def _serve(self, variant: str, endpoint: Endpoint[Answer]) -> tuple[str, str]:
        """
        Open an endpoint for an application, and return its base URL and the name of the model; start the server if it
        is not running.
        """
        from pytest_jsbench.fixture.endpoint import EndpointServer

        with self._lock:
            if self._server is None:
                self._server = EndpointServer()
                self._resources.callback(self._server.close)
        return self._server.open(endpoint), self.session.runners.for_variant(variant).engine.info.model

    def _injecting(self, item: pytest.Item, variant: str) -> Injecting:
        """Return what the endpoint of a test needs to inject faults."""
        return injecting_of(
            item,
            key=key_of(item.nodeid, variant),
            judge=self.session.judge,
            stands_in=self._context.plan.variants[variant].engine.name == HANDED_IN,
        )

    def _rerun(self, item: pytest.Item) -> str:
        """Return the command that reruns this test from the directory in which pytest was started."""
        path, *names = item.nodeid.split("::")
        here = os.path.relpath(item.config.rootpath / path, item.config.invocation_params.dir)
        return f"{self._context.settings.rerun} {shlex.quote('::'.join([Path(here).as_posix(), *names]))}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """With --jsbench-redact, remove captured output from reports, including those of subtests."""
        if self._context.handover.redaction is not None and report.nodeid in self._requesting:
            report.sections.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Report an invalid marker as a collection error of the test's module, before any call is made."""
        report = yield
        problems = list(_problems(report.result or ()))
        if not problems:
            return report
        return pytest.CollectReport(report.nodeid, "failed", "\n".join(problems), [])

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Run a repeated test as often as its marker requires, and fail it if too few repeats passed."""
        __tracebackhide__ = True
        test = pyfuncitem.stash.get(_TEST, None)
        if test is None:
            return (yield)
        if test.repeating or test.terms.repeats == 1:
            with test.recording_outcome(), test, self._skipping_broken_schemas():
                return (yield)
        last = test.terms.repeats - 1
        test.repeating = True
        try:
            for repeat in range(last):
                with test.repeat(repeat), test, self._skipping_broken_schemas():
                    # call the hook again, since other plugins run coroutines in it
                    pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)
            with test.repeat(last), test, self._skipping_broken_schemas():
                yield
        finally:
            test.repeating = False
        failure = test.failure()
        if failure is not None:
            test.forget()
            raise failure
        return True

    @contextmanager
    def _skipping_broken_schemas(self) -> Iterator[None]:
        """Return a context that skips a test with an invalid schema if --jsbench-invalid-schemas=skip is set."""
        __tracebackhide__ = True
        try:
            yield
        except CaseFailed as failed:
            if not failed.record.excluded or self._context.plan.spec.judging.invalid_schemas != "skip":
                raise
            reason = f"invalid_schema: {printable(failed.record.verdict.message)}"
            raise pytest.skip.Exception(reason, _use_item_location=True) from None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the results of the attempts in a test phase to the report of the phase."""
        test = item.stash.get(_TEST, None)
        requests = uses(item, FIXTURE) or item.nodeid in self._requesting
        if test is None and not requests and not uses(item, SHARED):
            return (yield)
        if test is not None:
            test.attempts.settle()
            set_properties(item, test.outcomes)
            set_fault_properties(item, test.faults)
            if call.excinfo is not None:
                test.forget()
        failed = call.excinfo.value if call.excinfo is not None else None
        if isinstance(failed, CaseFailed) and failed.record.verdict.failure_type is not None:
            add_markers(item, AttemptFacts.of(failed.record))
        report = yield
        shared = self._shared_results[:]
        del self._shared_results[: len(shared)]  # keep results that another thread has added meanwhile
        if test is not None:
            own = test.add_test_outcome(report, failed)
        else:
            own = [*self._ended_early(item, report, failed)] if requests else []
        if report.failed and len(own) > 1:
            report.sections.append(("calls", "\n".join(map(_attempt_line, own))))
        redaction = self._context.handover.redaction
        if redaction is not None:
            redact_report(report, item, call, redaction, rerun=self._rerun(item))
        blamed = None
        if isinstance(failed, CaseFailed):
            if redaction is None:
                _show_failure_type_first(report.longrepr, failed)
            if not failed.record.excluded:  # an invalid schema is a mistake in the project, not a failure of the engine
                blamed = failed.record.verdict.failure_type
        transport.attach(report, [*shared, *own], blamed)
        if test is not None and report.when == "call" and not test.running:
            test.faults = test.fault_reports()
            transport.attach_faults(report, test.faults)
        return report

    def _ended_early(
        self, item: pytest.Item, report: pytest.TestReport, error: BaseException | None
    ) -> Iterator[AttemptResult]:
        """Yield a result with the outcome of a test that failed before it received the fixture `jsbench`."""
        if report.passed or report.when == "teardown":
            return
        ended = of_report(report, error, self.secrecy.mask)
        if ended.end is not End.SKIPPED:
            variant = variant_of(item)
            yield _without_call(key_of(item.nodeid, variant), 0, variant, ended)


def _without_call(key: CaseKey, repeat: int, variant: str, ended: ProjectTestOutcome) -> AttemptResult:
    """Return the result for a test or a repeat that ended without a call, with its outcome."""
    return AttemptResult(
        result=Missing(
            key=key,
            repeat=repeat,
            variant=variant,
            reason=MissingReason.ERROR,
            test_outcome=ended.without_messages(),
            is_planned=False,
        )
    )


def _reject_endpoint(_: object) -> NoReturn:
    raise ContractError(
        "jsbench_shared has no endpoint, since an endpoint serves a single test; use the fixture jsbench"
    )


#: Stash key under which the fixtures find the ProjectTests object.
PROJECT_TESTS = pytest.StashKey[ProjectTests]()


def _problems(collected: Iterable[pytest.Item | pytest.Collector]) -> Iterator[str]:
    for item in collected:
        if isinstance(item, pytest.Item) and uses(item, FIXTURE):
            try:
                check_subtests(item, read_terms(item))
            except JSBenchError as error:
                yield f"{item.nodeid}: {error}"


def _attempt_line(result: AttemptResult) -> str:
    """Return a line about an attempt of a test: case, failure, and tokens."""
    attempt = result.result
    if isinstance(attempt, Missing):
        return f"{attempt.key}: not run ({attempt.reason})"
    facts = [result.explanation.partition("\n")[0] or "passed"]
    if attempt.usage is not None and attempt.usage.total_tokens:
        facts.append(f"{attempt.usage.total_tokens:,} tokens")
    if attempt.called_again:
        facts.append("called again")
    return f"{attempt.key}: {', '.join(facts)}"


def _show_failure_type_first(longrepr: Any, failed: CaseFailed) -> None:
    """Begin the failure with its type in the short summary, the JUnit message and the traceback."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = failed.headline
    name = f"{CaseFailed.__module__}.{CaseFailed.__qualname__}: "
    traceback = getattr(longrepr, "reprtraceback", None)
    # remove pytest's remark that all frames are hidden, which follows an error at the end of the test
    if traceback is not None:
        traceback.extraline = None
    for entry in getattr(traceback, "reprentries", ()):
        lines = getattr(entry, "lines", None)
        if lines is not None:
            entry.lines[:] = [line.replace(name, "", 1) if line.startswith("E ") else line for line in lines]
