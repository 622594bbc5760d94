"""Make the attempts of a run concurrently, for callers that do not run tests: `evaluate` and the probe."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError
from pytest_jsbench.core.text import describe_error
from pytest_jsbench.records.records import Attempt, Missing, MissingReason
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.record_keeper import AttemptResult

if TYPE_CHECKING:
    from pytest_jsbench.run.session import RunSession
    from pytest_jsbench.run.state import RunState

#: Number of queued attempts for each attempt that may be in flight.
_AHEAD = 4


class Window:
    """
    Makes the attempts of a run, with the concurrency of each variant, and collects their results.

    One thread calls `make_all`, once; the threads of the calls in flight make the attempts and pass on the results. Any
    thread may call `stop`, even before `make_all`: then no more attempts begin, and `make_all` returns.
    """

    def __init__(self) -> None:
        #: Queue of finished attempts; None makes `make_all` return.
        self._done: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        #: Set when no more attempts may begin.
        self.stopped = threading.Event()

    def stop(self) -> None:
        """Begin no more attempts."""
        self.stopped.set()
        self._done.put(None)

    def make_all(self, session: RunSession, state: RunState, taken: Callable[[], object]) -> None:
        """Make the attempts that are planned in the state; call `taken` after each attempt."""
        calls: dict[str, CallsInFlight[AttemptResult]] = {}
        waiting: dict[str, Iterator[Attempt]] = {}
        try:
            for name, variant in session.plan.variants.items():
                attempts = [attempt for attempt in state.planned if attempt.variant == name]
                calls[name] = CallsInFlight(min(variant.concurrency, len(attempts)))
                waiting[name] = iter(attempts)
                for attempt in islice(waiting[name], 0 if self.stopped.is_set() else _AHEAD * variant.concurrency):
                    calls[name].add(attempt, self._call(session, attempt))
            for _ in state.planned:
                if (done := self._done.get()) is None or self.stopped.is_set():
                    break
                state.take(calls[done.variant].take(done))
                taken()
                for attempt in islice(waiting[done.variant], 1):
                    calls[done.variant].add(attempt, self._call(session, attempt))
        finally:
            session.stop()
            for of_variant in calls.values():
                of_variant.stop()

    def _call(self, session: RunSession, attempt: Attempt) -> Callable[[], AttemptResult]:
        planned_at = time.perf_counter()

        def make() -> AttemptResult:
            try:
                return session.attempt(attempt, planned_at)
            except THIRD_PARTY_ERRORS as error:
                # An error in a function of the calling program fails one case, not the run.
                message = str(error) if isinstance(error, JSBenchError) else describe_error(error)
                missing = Missing(**attempt._asdict(), reason=MissingReason.ERROR, message=message)
                return AttemptResult(result=missing)
            finally:
                self._done.put(attempt)

        return make
