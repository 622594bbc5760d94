"""Makes the attempts of the run, in the only process or in each of xdist's workers."""

from __future__ import annotations

import atexit
import gc
import itertools
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.plugin.context import RunContext, variant_of
from pytest_jsbench.plugin.items import Collected, JSBenchCase, would_ask
from pytest_jsbench.plugin.secrecy import usage_errors
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.in_flight import CallsInFlight
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


T = TypeVar("T")


class LookAhead(Generic[T]):
    """
    Keeps attempts going for the items that pytest will run next, in its order, for each variant apart.

    More attempts are queued than may be in flight, so that a slow one at the head does not idle the rest; under
    `--maxfail` none beyond those in flight, so that little is paid for tests that will not run. A variant that is slow
    holds up no other until that one's queue is full of results.

    The worker makes it when the test loop begins, if there are cases to run. Its methods are called in the main thread:
    `advance` before each test, `result` from the test; the calls run in the threads of `CallsInFlight`. It ends with
    the session, when the worker calls `stop`.
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
        times = 1 if session.config.option.maxfail else 4
        self._lanes: dict[str, _Lane[T]] = {name: _Lane(calls, times * calls) for name, calls in concurrency.items()}
        self._position = {id(item): position for position, item in enumerate(session.items)}
        for position, item in enumerate(session.items):
            if isinstance(item, JSBenchCase):
                self._lanes[item.attempt.variant].places.append(position)
        #: the item for which `advance` was last called
        self._latest: pytest.Item | None = None
        self._worker_queue = None if steals else _worker_queue(session.config)

    def advance(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts of `item` and of the tests after it, as far as there is room."""
        if isinstance(self._latest, JSBenchCase):  # its test may have been skipped, or broken, before it asked
            self._lanes[self._latest.attempt.variant].calls.drop(id(self._latest))
        self._latest = item
        waiting = {name: lane for name, lane in self._lanes.items() if lane.room > 0}
        if hasattr(self._session.config, "workerinput"):
            known = [item] if nextitem is None else [item, nextitem]
            self._fill(waiting, itertools.chain(known, self._queued_by_xdist()) if waiting else ())
        elif (position := self._position.get(id(item))) is None:
            self._fill(waiting, [item])
        else:
            for name, lane in waiting.items():
                self._fill({name: lane}, lane.not_looked_at(self._session.items, position))

    def result(self, item: JSBenchCase) -> T:
        """Wait for the item's result; its attempt is made now if it was not queued, such as for a rerun."""
        lane = self._lanes[item.attempt.variant]
        self._queue(item, lane)
        return lane.calls.take(id(item))

    def stop(self) -> None:
        """Begin no more attempts; those in flight are left to themselves."""
        for lane in self._lanes.values():
            lane.calls.stop()

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return all(lane.calls.stopped for lane in self._lanes.values())

    def _fill(self, lanes: dict[str, _Lane[T]], upcoming: Iterable[pytest.Item]) -> None:
        """Queue the attempts of these items, in their order, until there is no room in any of the lanes."""
        for item in upcoming:
            if (
                isinstance(item, JSBenchCase)
                and not item.has_run
                and (lane := lanes.get(item.attempt.variant)) is not None
            ):
                self._queue(item, lane)
                if lane.room <= 0:
                    del lanes[item.attempt.variant]
            if not lanes:
                break

    def _queue(self, item: JSBenchCase, lane: _Lane[T]) -> None:
        if id(item) not in lane.calls:
            planned_at = time.perf_counter()
            lane.calls.add(id(item), lambda: self._call(item, planned_at))

    def _queued_by_xdist(self) -> list[pytest.Item]:
        """Read what xdist has sent this worker beyond `nextitem`: private, so anything unexpected means nothing."""
        if self._worker_queue is None:
            return []
        try:
            with self._worker_queue.lock() as indices:
                return [self._session.items[index] for index in indices if isinstance(index, int)]
        except Exception:  # noqa: BLE001  another xdist: look one test ahead, as its public hooks allow
            self._worker_queue = None
            return []


class _Lane(Generic[T]):
    """The calls of one variant, and how far its items have been looked at."""

    def __init__(self, concurrency: int, depth: int) -> None:
        self._depth = depth
        #: by the id of the item as an object, because it takes time to write a node id
        self.calls: CallsInFlight[T] = CallsInFlight(concurrency)
        #: where its items stand among the session's
        self.places: list[int] = []
        self._next = 0

    @property
    def room(self) -> int:
        """The number of attempts that may yet be queued."""
        return self._depth - len(self.calls)

    def not_looked_at(self, items: list[pytest.Item], position: int) -> Iterator[pytest.Item]:
        """Its items from a place of the session on; each is given only once."""
        if self._next < len(self.places) and self.places[self._next] < position:
            self._next = bisect_left(self.places, position, lo=self._next)
        while self._next < len(self.places):
            self._next += 1
            yield items[self.places[self._next - 1]]


def _worker_queue(config: pytest.Config) -> Any:
    """The queue of xdist's `WorkerInteractor`, known by its shape; None where there is none."""
    for plugin in config.pluginmanager.get_plugins():
        candidate = getattr(plugin, "torun", None)
        if hasattr(candidate, "lock"):
            return candidate
    return None
