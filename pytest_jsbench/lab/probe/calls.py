"""Make the calls of a probe in threads, also with request bodies that no engine would send."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from pytest_jsbench.core.cases import Case
from pytest_jsbench.fixture.application_call import ApplicationCall, HeldReply
from pytest_jsbench.records.records import Attempt, Missing, Record
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.question import CallSettings, ProjectCall, Question
from pytest_jsbench.run.session import RunSession


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBody:
    """A request body that the probe writes itself, and that the engine's client sends unchanged."""

    #: Path of the API, relative to the server's base URL.
    path: str
    body: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCall:
    """One call of a probe."""

    #: Name of the run's variant that makes the call.
    variant: str
    case: Case
    #: Number that is added to the variant's seed.
    repeat: int = 0
    #: Body to send; None if the engine writes the body.
    own: OwnBody | None = None


class ProbeCalls:
    """
    Makes the calls of a probe, and returns their results in the order of the calls.

    The command creates one object for each probe, with the session of a run that has the variants. The main thread
    calls `make`; the calls run in the threads of `CallsInFlight`. After Ctrl-C, `interrupted` is true, and no call
    begins.
    """

    def __init__(self, session: RunSession, threads: int) -> None:
        self._session = session
        self._in_flight: CallsInFlight[Record | Missing] = CallsInFlight(threads)
        self._numbers = count()
        self._counting = threading.Lock()
        #: Number of calls, without retries.
        self.made = 0
        self.interrupted = False

    def new_number(self) -> int:
        """Return a number that no other case of the probe has."""
        return next(self._numbers)

    def make(self, calls: Sequence[ProbeCall], *, in_flight: int) -> list[Record | Missing]:
        """
        Make the calls, at most `in_flight` at a time; after Ctrl-C, return the results so far.

        A result is Missing if a limit or the end of the session forbade the call.
        """
        records: list[Record | Missing] = []
        if self.interrupted:
            return records
        keys = [object() for _ in calls]
        waiting: Iterator[tuple[object, Callable[[], Record | Missing]]] = zip(
            keys, map(self._function, calls), strict=True
        )
        try:
            for key, call in islice(waiting, in_flight):
                self._in_flight.add(key, call)
            for key in keys:
                records.append(self._in_flight.take(key))
                for later, call in islice(waiting, 1):
                    self._in_flight.add(later, call)
        except KeyboardInterrupt:
            self.interrupted = True
        return records

    def restart_peak(self, variant: str) -> Callable[[], int]:
        """Forget the variant's highest number of concurrent calls; return a function that returns the new one."""
        admission = self._session.runners.for_variant(variant).admission
        assert admission is not None
        admission.peak = 0
        return lambda: admission.peak

    def stop(self) -> None:
        """Begin no more calls."""
        self._in_flight.stop()
        self._session.stop()

    def _function(self, call: ProbeCall) -> Callable[[], Record | Missing]:
        def make() -> Record | Missing:
            self._count(1)
            record = self._make(call)
            if isinstance(record, Missing):
                self._count(-1)
            return record

        return make

    def _make(self, call: ProbeCall) -> Record | Missing:
        attempt = Attempt(call.case.key, call.repeat, call.variant)
        asking = None if call.own is None else _as_application(call, call.own)
        answered = self._session.ask(Question(attempt=attempt, case=call.case, call=asking))
        if isinstance(missing := answered.result.result, Missing):
            return missing
        assert answered.record is not None
        return answered.record

    def _count(self, change: int) -> None:
        """Change the number of calls; after an interruption, calls count even if their answers are not read."""
        with self._counting:
            self.made += change


def _as_application(call: ProbeCall, own: OwnBody) -> ProjectCall:
    """Return the call with a body of the probe's own, in the form in which an application's call is made."""
    exchange = ApplicationCall(own.path, own.body, {}, HeldReply(), contract=None)
    return ProjectCall(
        test="probe", line=None, prompt=None, settings=CallSettings(), first=call.case.key, exchange=exchange
    )
