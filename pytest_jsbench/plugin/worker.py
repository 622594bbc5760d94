"""Make the attempts of the run, in the single process or in each of xdist's workers."""

from __future__ import annotations

import atexit
import gc
import itertools
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.guarded_calls import end_idle_children
from pytest_jsbench.core.heaps import limit_heaps, trim_heaps
from pytest_jsbench.plugin.context import RunContext, variant_of
from pytest_jsbench.plugin.items import Collected, JSBenchCase, makes_attempts
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.question import Question
from pytest_jsbench.run.record_keeper import AttemptResult, missing_attempt

#: Number of tests after which the heaps are trimmed, because texts of answers and schemas leave gaps.
_TRIM_EVERY = 500


class Worker:
    """
    Makes the attempts of this process, called by pytest's hooks.

    `activation` creates one object in every process; under xdist, the object in the controller makes no attempts.
    `pytest_runtestloop` opens the session and starts the look-ahead; `pytest_runtest_protocol` queues the attempts of
    the next tests. The threads of the look-ahead call `_attempt`, which calls the session. `pytest_sessionfinish`
    prevents new calls and closes the session.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._run = context.session
        self._lookahead: LookAhead[AttemptResult] | None = None
        #: Reason if no calls can be made at all. Each test reports the reason, since xdist would treat an early end of
        #: the worker as a crash.
        self._cannot: Refused | None = None
        #: Collected tests that make calls; None before collection, and in xdist's controller.
        self.collected: Collected | None = None
        context.config.add_cleanup(self._run.close)
        #: Whether all selected tests are cases, and none is a test of the project.
        self._only_cases = False
        #: Number of tests that were begun.
        self._begun = 0
        # Unfreeze after pytest's cleanup, which collects garbage five times, among unfrozen objects only.
        context.config.add_cleanup(gc.unfreeze)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Count the selected and the deselected tests that make calls, and send the counts to the controller."""
        before = sum(map(makes_attempts, items))
        yield
        self.collected = Collected.of(items, before=before)
        self.collected.send_to_controller(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Open the records file and, if tests of this process make calls, the engines and the look-ahead."""
        cases = [item for item in session.items if isinstance(item, JSBenchCase)]
        self._only_cases = len(cases) == len(session.items)
        needs_engine = any(map(makes_attempts, session.items))
        self._run.begin(item.attempt for item in cases)
        if self._context.settings.only_looks or not needs_engine:
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
        """Open the engines that the tests call, and start the look-ahead for the cases."""
        of_cases = {item.attempt.variant for item in cases}
        of_tests = {
            variant_of(item) for item in session.items if makes_attempts(item) and not isinstance(item, JSBenchCase)
        }
        with self._context.secrecy.usage_errors():
            self._run.open(cases=of_cases, tests=of_tests)
        if cases:
            concurrency = {name: self._run.plan.variants[name].concurrency for name in of_cases}
            limit_heaps()
            self._lookahead = LookAhead(session, self._attempt, concurrency=concurrency, steals=self._context.steals)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts of the next tests."""
        if self._lookahead is not None:
            self._lookahead.advance(item, nextitem)
            self._begun += 1
            if self._begun % _TRIM_EVERY == 0:
                trim_heaps()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Prevent new attempts; close the engines, the judge and the records file."""
        self._stop()
        self._run.close()

    def redirect_records(self) -> None:
        """Prevent new attempts; calls in flight write to another file, because the run is now summarized."""
        self._stop()
        self._run.leave()
        end_idle_children()  # the reports need memory, and no child
        trim_heaps()  # the calls have left 15 MB of free blocks
        self._freeze()

    def _freeze(self) -> None:
        """
        Exclude all present objects from garbage collection, also at the interpreter's exit: a large suite has hundreds
        of thousands, and each collection would take long.
        """
        if self._only_cases:
            gc.freeze()
            atexit.unregister(gc.freeze)
            atexit.register(gc.freeze)

    def _stop(self) -> None:
        self._run.stop()
        if self._lookahead is not None:
            self._lookahead.stop()

    def result(self, item: JSBenchCase) -> AttemptResult:
        """Return the result of the item's attempt; wait until the attempt has ended."""
        if self._cannot is not None:
            return AttemptResult(result=missing_attempt(item.attempt, self._cannot))
        if self._lookahead is None:
            raise RuntimeError(f"{item.nodeid} was run outside pytest's test loop")
        return self._lookahead.result(item)

    def _attempt(self, item: JSBenchCase, planned_at: float) -> AttemptResult:
        """Make the item's attempt, or return the result from an earlier run of the test; called in other threads."""
        if item.answered is not None:
            return item.answered
        made = self._run.ask(Question(attempt=item.attempt, planned_at=planned_at)).result
        outcome = made.result
        if isinstance(outcome, AttemptFacts) and not (made.resumed or outcome.failed or outcome.passed):
            item.answered = replace(made, explanation="")
        return made


class Interruption:
    """
    Prevents new calls after Ctrl-C or SIGTERM, and lets SIGTERM end the session like Ctrl-C.

    `activation` creates one object in every process; a cleanup of pytest's configuration restores the previous
    handlers. A second SIGTERM has its original effect. The handler acquires no lock, because the interrupted main
    thread may hold the lock: it creates a file, and each `Admission` of the run checks for that file before a call.
    """

    def __init__(self, context: RunContext) -> None:
        self._file = context.handover.interrupted
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():  # signal handlers cannot be set in other threads
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before) or (number == signal.SIGTERM and before is signal.SIG_DFL):
                self._before[number] = before
                signal.signal(number, self._interrupt)
        context.config.add_cleanup(self._put_back)

    def _interrupt(self, number: int, frame: object) -> None:
        __tracebackhide__ = True  # hide this frame, so that the traceback ends where the session was interrupted
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
        """Prevent new calls in all processes at once; pytest then takes a second to print the interruption."""
        with suppress(OSError):
            self._file.touch()

    def _put_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)


T = TypeVar("T")


class LookAhead(Generic[T]):
    """
    Makes the attempts for the next items ahead of pytest, in pytest's order, with a separate queue for each variant.

    A queue contains more attempts than may be in flight, so that calls continue while pytest waits for a slow attempt.
    With `--maxfail`, a queue contains only as many attempts as may be in flight, so that few calls are wasted on tests
    that will not run. A slow variant delays another variant only when the other variant's queue is full of results.

    The worker creates the object when the test loop begins, if there are cases to run. Its methods are called in the
    main thread: `advance` before each test, `result` from the test; the calls run in the threads of `CallsInFlight`.
    The worker calls `stop` at the end of the session.
    """

    def __init__(
        self,
        session: pytest.Session,
        call: Callable[[JSBenchCase, float], T],
        *,
        concurrency: Mapping[str, int],
        steals: bool = False,
    ) -> None:
        self._session = session
        self._call = call
        #: Calls by variant; the key of a call is the id of the item object, since building a node id would take time.
        self._calls: dict[str, CallsInFlight[T]] = {name: CallsInFlight(count) for name, count in concurrency.items()}
        times = 1 if session.config.option.maxfail else 4
        self._depths = {name: times * count for name, count in concurrency.items()}
        #: Items that have not been queued yet, by variant, in the order of the session.
        self._upcoming = {name: self._cases_of(name) for name in concurrency}
        #: The item for which `advance` was last called.
        self._latest: pytest.Item | None = None
        self._worker_queue = None if steals else _worker_queue(session.config)

    def advance(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts of `item` and of the following items, until the queue of each variant is full."""
        # Drop the result of the previous item if its test was skipped or failed before using the result.
        if isinstance(self._latest, JSBenchCase):
            self._calls[self._latest.attempt.variant].drop(id(self._latest))
        self._latest = item
        if hasattr(self._session.config, "workerinput"):
            self._queue_sent([item] if nextitem is None else [item, nextitem])
            return
        for name, upcoming in self._upcoming.items():
            while self._has_room(name) and (case := next(upcoming, None)) is not None:
                self._queue(case)

    def result(self, item: JSBenchCase) -> T:
        """
        Return the result of the item; wait for its attempt, and make the attempt now if it was not queued, for example
        in a rerun.
        """
        self._queue(item)
        return self._calls[item.attempt.variant].take(id(item))

    def stop(self) -> None:
        """Prevent new attempts, without waiting for attempts in flight."""
        for calls in self._calls.values():
            calls.stop()

    def _cases_of(self, variant: str) -> Iterator[JSBenchCase]:
        for item in self._session.items:
            if isinstance(item, JSBenchCase) and item.attempt.variant == variant and not item.has_run:
                yield item

    def _has_room(self, variant: str) -> bool:
        return len(self._calls[variant]) < self._depths[variant]

    def _queue(self, item: JSBenchCase) -> None:
        calls = self._calls[item.attempt.variant]
        if id(item) not in calls:
            planned_at = time.perf_counter()
            calls.add(id(item), lambda: self._call(item, planned_at))

    def _queue_sent(self, items: list[pytest.Item]) -> None:
        """Queue the attempts of these items, and of the next items that xdist has sent to this worker."""
        waiting = set(filter(self._has_room, self._calls))
        for item in itertools.chain(items, self._queued_by_xdist() if waiting else ()):
            if isinstance(item, JSBenchCase) and not item.has_run and item.attempt.variant in waiting:
                self._queue(item)
                if not self._has_room(item.attempt.variant):
                    waiting.remove(item.attempt.variant)
            if not waiting:
                break

    def _queued_by_xdist(self) -> list[pytest.Item]:
        """
        Return the items that xdist has sent to this worker after `nextitem`; none if the private attributes of xdist
        that this needs have changed.
        """
        if self._worker_queue is None:
            return []
        try:
            with self._worker_queue.lock() as indices:
                return [self._session.items[index] for index in indices if isinstance(index, int)]
        except Exception:  # noqa: BLE001  another xdist: look one test ahead, as its public hooks allow
            self._worker_queue = None
            return []


def _worker_queue(config: pytest.Config) -> Any:
    """Return the queue of tests in xdist's `WorkerInteractor`, found by its attributes; None outside a worker."""
    for plugin in config.pluginmanager.get_plugins():
        candidate = getattr(plugin, "torun", None)
        if hasattr(candidate, "lock"):
            return candidate
    return None
