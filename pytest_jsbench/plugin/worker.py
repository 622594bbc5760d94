"""Makes the attempts of the run, in the only process or in each of xdist's workers."""

from __future__ import annotations

import atexit
import gc
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.plugin.context import RunContext, variant_of
from pytest_jsbench.plugin.items import Collected, JSBenchCase, would_ask
from pytest_jsbench.plugin.lookahead import LookAhead
from pytest_jsbench.plugin.secrecy import usage_errors
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.record_keeper import AttemptResult, missed

if TYPE_CHECKING:
    from pathlib import Path


class Worker:
    """
    Drives this process's part in the run from pytest's hooks.

    The activation makes one in every process; under xdist the controller's makes no attempts. `pytest_runtestloop`
    opens the session and starts the look-ahead; `pytest_runtest_protocol` queues the attempts of the next tests. The
    threads of the look-ahead enter `_attempt`, and through it the session. `pytest_sessionfinish` stops new calls and
    closes the session.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._run = context.session
        self._lookahead: LookAhead[AttemptResult] | None = None
        #: why no calls can be made at all; each test says so, since xdist would take another end for a crash
        self._cannot: Refused | None = None
        #: None before the collection, and where xdist's workers collect
        self.collected: Collected | None = None
        config.add_cleanup(self._run.close)
        #: whether no test of the project's own runs, which may look at what is collected
        self._only_cases = False
        # after pytest's own cleanup, which goes through all that is not frozen five times
        config.add_cleanup(gc.unfreeze)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Count the tests that would ask an engine, and those of them that remain selected."""
        before = sum(map(would_ask, items))
        yield
        self.collected = Collected.of(items, before=before)
        self.collected.hand_back(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Open the records' file, and build what this process needs for the tests that it will run."""
        cases = [item for item in session.items if isinstance(item, JSBenchCase)]
        self._only_cases = len(cases) == len(session.items)
        asking = any(map(would_ask, session.items))
        self._run.begin(item.attempt for item in cases)
        if self._context.settings.only_looks or not asking:
            return
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return
        try:
            self._open(session, cases)
        except EngineError as error:
            self._cannot = Refused(MissingReason.EXHAUSTED, str(error))
        except pytest.UsageError as error:
            if self._context.worker is None:
                raise
            self._cannot = Refused(MissingReason.ERROR, str(error))
        self._freeze()

    def _open(self, session: pytest.Session, cases: list[JSBenchCase]) -> None:
        """Build the engines that the tests ask, and what calls them ahead of the cases."""
        of_cases = {item.attempt.variant for item in cases}
        of_tests = {variant_of(item) for item in session.items if would_ask(item) and not isinstance(item, JSBenchCase)}
        with usage_errors(self._config):
            self._run.open(cases=of_cases, tests=of_tests)
        if cases:
            concurrency = {name: self._run.plan.variants[name].concurrency for name in of_cases}
            self._lookahead = LookAhead(session, self._attempt, concurrency=concurrency, steals=self._context.steals)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts that will be needed next."""
        if self._lookahead is not None:
            self._lookahead.advance(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Begin no more attempts; close the engine, the judge and the records' file."""
        self._stop()
        self._run.close()

    def leave_records(self) -> None:
        """Begin no more attempts; calls still in flight write to another file, because the run is summed up."""
        self._stop()
        self._run.leave()
        self._freeze()

    def _freeze(self) -> None:
        """Have the collector pass by the hundreds of thousands of objects that stay, also when the interpreter ends."""
        if self._only_cases:
            gc.freeze()
            atexit.unregister(gc.freeze)
            atexit.register(gc.freeze)

    def _stop(self) -> None:
        self._run.stop()
        if self._lookahead is not None:
            self._lookahead.stop()

    def result(self, item: JSBenchCase) -> AttemptResult:
        """Wait for the result of the item's attempt."""
        if self._cannot is not None:
            return AttemptResult(result=missed(item.attempt, self._cannot))
        if self._lookahead is None:
            message = f"{item.nodeid} runs outside pytest's own loop"
            raise RuntimeError(message)
        return self._lookahead.result(item)

    def _attempt(self, item: JSBenchCase, planned_at: float) -> AttemptResult:
        """Make an attempt, in a thread of the look-ahead, or find the answer of an earlier run of its test."""
        if item.answered is not None:
            return item.answered
        made = self._run.attempt(item.attempt, planned_at)
        outcome = made.result
        if isinstance(outcome, AttemptOutcome) and not (made.resumed or outcome.failed or outcome.passed):
            item.answered = replace(made, explanation="")
        return made


class Interruption:
    """
    Lets no call begin after Ctrl-C or SIGTERM, and has SIGTERM end the session as Ctrl-C does.

    The activation makes one in every process; a cleanup of pytest's configuration puts the handlers of before back.
    A second SIGTERM does what it would have done without us. The handler takes no lock, which the main thread may hold
    where it is interrupted: it makes a file, for which each `Admission` of the run looks before a call.
    """

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._file = file
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():  # where no handler can be set
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) or (number == signal.SIGTERM and before is signal.SIG_DFL):
                self._before[number] = before
                signal.signal(number, self._interrupt)
        config.add_cleanup(self._put_back)

    def _interrupt(self, number: int, frame: object) -> None:
        __tracebackhide__ = True  # what is shown is where the session was
        before = self._before[number]
        try:
            if not callable(before):
                signal.signal(number, before)
                raise KeyboardInterrupt(signal.Signals(number).name)
            before(number, frame)
        except BaseException:
            self.pytest_keyboard_interrupt()
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Have all processes stop calling before anybody describes where the session was, which takes a second."""
        with suppress(OSError):
            self._file.touch()

    def _put_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)
