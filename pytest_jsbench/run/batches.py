"""
Submit a run's attempts as batches, wait for the results, and write the answers to a file from which the run's engine
returns them.

The run's secrets are removed from errors and results.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import BatchError
from pytest_jsbench.core.generations import (
    CallError,
    Failed,
    FaultKind,
    Request,
    Usage,
)
from pytest_jsbench.core.text import format_count
from pytest_jsbench.engines.base import BatchState
from pytest_jsbench.engines.engine_secrets import errors_without_secrets, mask_fault, mask_generation
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.records.journal import BATCHES as FILE
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.batch_answers import BatchAnswers, name_of
from pytest_jsbench.run.batch_file import BatchFile, BatchPart, doubt
from pytest_jsbench.run.call_layers import maximum_usage

if TYPE_CHECKING:
    from pytest_jsbench.core.secret_masking import Secrets
    from pytest_jsbench.engines.base import Batches, BatchLimits, EngineConfig, EngineFactory, Result
    from pytest_jsbench.metrics.prices import Price
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.run.session import RunSession

#: Permanent faults, after which a batch's state is not queried again.
_PERMANENT = frozenset({FaultKind.AUTH, FaultKind.BAD_REQUEST, FaultKind.QUOTA, FaultKind.ENGINE})


def build_batches(factory: EngineFactory, config: EngineConfig) -> Batches:
    """Build the client of the provider's batch API, with a wrapper that redacts the run's secrets."""
    with errors_without_secrets(config) as secrets:
        return RedactingBatches(factory.build_batches(config), secrets)


class RedactingBatches:
    """A wrapper for the client of a provider's batch API that redacts the run's secrets in responses."""

    def __init__(self, batches: Batches, secrets: Secrets) -> None:
        self._batches = batches
        self._secrets = secrets

    @property
    def limits(self) -> BatchLimits:
        """Maximum size of one batch."""
        return self._batches.limits

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as an item of a batch."""
        return self._batches.line(name, request)

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the requests; return a function that creates the batch and returns the batch's id."""
        with _faults_without_secrets(self._secrets):
            create = self._batches.upload(lines)

        def create_batch() -> str:
            with _faults_without_secrets(self._secrets):
                batch = create()
            if self._secrets.mask_message(batch) != batch:
                raise CallError(
                    FaultKind.BAD_RESPONSE, "the batch's id contains a secret of this run and is not recorded"
                )
            return batch

        return create_batch

    def state(self, batch: str) -> BatchState:
        """Query the state of a batch."""
        with _faults_without_secrets(self._secrets):
            state = self._batches.state(batch)
        left = state.unanswered
        return state if left is None else replace(state, unanswered=mask_generation(left, self._secrets))

    def results(self, batch: str) -> Iterator[Result]:
        """Yield the name and the result of each request in a batch."""
        with _faults_without_secrets(self._secrets):
            for name, result in self._batches.results(batch):
                yield self._secrets.mask_message(name), mask_generation(result, self._secrets)

    def close(self) -> None:
        """Close the provider's client."""
        self._batches.close()


@contextlib.contextmanager
def _faults_without_secrets(secrets: Secrets) -> Iterator[None]:
    try:
        yield
    except CallError as error:
        raise mask_fault(error, secrets) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """Delays between queries of a batch's state, in seconds."""

    first: float = 5.0
    #: Factor by which the delay grows after each query.
    growth: float = 1.3
    longest: float = 60.0
    #: Maximum number of consecutive failed queries before waiting ends.
    patience: int = 30

    def pauses(self) -> Iterator[float]:
        """Yield the delays without end."""
        pause = self.first
        while True:
            yield min(pause, self.longest)
            pause = min(pause * self.growth, self.longest)


@dataclass(slots=True, kw_only=True)
class Submission:
    """
    The submission of one run's requests in batches.

    The controller creates the submission after collection, before any test runs, and calls `hand_in` and then `wait`
    once, from one thread. Answers are written to the file that `BatchedEngine` reads. At the end of the session,
    `waiting` returns the batches that have not ended.
    """

    batches: Batches
    file: BatchFile
    answers: BatchAnswers
    #: Function that returns the price of a call's tokens in a batch; None without a cost limit.
    price: Price | None = None
    #: Cost limit, in US dollars.
    most: float | None = None
    polling: Polling = field(default_factory=Polling)
    #: Set by another thread to stop submitting and waiting.
    stopped: threading.Event = field(default_factory=threading.Event)
    sleep: Callable[[float], object] = time.sleep
    #: Callback for each submitted batch.
    handed_in: Callable[[BatchPart], None] = lambda _: None
    #: Cost so far in US dollars: the actual cost of ended batches plus the maximum cost of batches that have not ended.
    spent: float = 0.0
    #: Maximum cost in US dollars of each request, by the request's name; 0 once `spent` contains the actual cost.
    _costs: dict[str, float] = field(default_factory=dict)
    #: Names of requests that were answered in an ended batch of an earlier run.
    _answered_earlier: set[str] = field(default_factory=set)
    _fetched: set[str] = field(default_factory=set)
    #: Whether the cost limit was reached.
    _limit_reached: bool = False
    _states: dict[str, BatchState] = field(default_factory=dict)

    def hand_in(self, requests: Iterable[Request]) -> None:
        """Submit the requests that no earlier batch contains; raise BatchError if the provider rejects a batch."""
        names: list[str] = []
        lines: list[bytes] = []
        size = 0
        limits = self.batches.limits
        earlier = {name: part for part in self.file for name in part.requests}
        for request in requests:
            if self.stopped.is_set():
                return
            name = name_of(request)
            self._costs[name] = 0.0
            if self._is_in_earlier(earlier.get(name), name) or (line := self._line(name, request)) is None:
                continue
            if len(lines) == limits.requests or (lines and size + len(line) + 1 > limits.size):
                self._submit(names, lines)
                names = []
                lines = []
                size = 0
            names.append(name)
            lines.append(line)
            size += len(line) + 1
        if lines:
            self._submit(names, lines)

    def wait(self, progress: Callable[[BatchState], None] = lambda _: None, *, leave: bool = False) -> None:
        """
        Query the batches until all have ended, and read their results; query them only once if `leave`
        is set.
        """
        pauses = self.polling.pauses()
        failures = 0
        while waiting := self.waiting():
            leave = leave or self.stopped.is_set()
            for part in waiting:
                try:
                    state = self._states[str(part.id)] = self.batches.state(str(part.id))
                    if state.ended:
                        self._read(part, state)
                    failures = 0
                except CallError as error:
                    failures += 1
                    if leave or error.kind in _PERMANENT or failures > self.polling.patience:
                        message = f"batch {part.id} cannot be queried: {error.message}"
                        raise BatchError(message, found=error.kind, where=part.id) from error
            if leave:
                for part in self.waiting():
                    for name in part.requests:
                        self.answers.refuse(name, MissingReason.BATCH, f"batch {part.id} has not ended")
                return
            if self.waiting():
                states = self._states.values()
                answered = sum(state.answered for state in states)
                failed = sum(state.failed for state in states)
                total = sum(state.total for state in states)
                progress(BatchState(ended=False, answered=answered, failed=failed, total=total))
                self.sleep(next(pauses))

    def waiting(self) -> list[BatchPart]:
        """Return the batches that contain a request of this run and have not ended."""
        return [part for part in self.file if not (part.ended or self._costs.keys().isdisjoint(part.requests))]

    def _is_in_earlier(self, part: BatchPart | None, name: str) -> bool:
        """
        Return whether an earlier batch answered the request or has not ended yet; a request that failed in an ended
        batch must be sent again.
        """
        if part is None or not part.ended:
            return part is not None
        if (batch := str(part.id)) not in self._fetched:
            self._fetched.add(batch)
            self._take_again(batch)
        return name in self._answered_earlier

    def _take_again(self, batch: str) -> None:
        try:
            for name, generation in self.batches.results(batch):
                if not isinstance(generation, Failed):
                    self.answers.write((name, generation))
                    self._answered_earlier.add(name)
        except CallError as error:
            message = f"the results of batch {batch} cannot be read: {error.message}"
            raise BatchError(message, found=error.kind, where=batch) from error

    def _line(self, name: str, request: Request) -> bytes | None:
        """Return a request as an item of a batch; None if an error or the cost limit prevents the request."""
        most = maximum_usage(request)
        worst = Usage(input_tokens=most.input_tokens, output_tokens=most.output_tokens)
        cost = (self.price(worst) or 0.0) if self.price is not None else 0.0
        if self.most is not None and (self._limit_reached or self.spent + cost > self.most):
            self._limit_reached = True
            self.answers.refuse(name, MissingReason.LIMIT, f"the call could exceed --jsbench-max-cost={self.most:g}")
            return None
        try:
            line = self.batches.line(name, request)
        except CallError as error:
            self.answers.write((name, Failed(kind=error.kind, message=error.message)))
            return None
        self._costs[name] = cost
        self.spent += cost
        return line

    def _submit(self, names: list[str], lines: list[bytes]) -> None:
        part = BatchPart(id=None, handed_in_at=datetime.now(UTC).isoformat(timespec="seconds"), requests=tuple(names))
        try:
            create = self.batches.upload(lines)
        except CallError as error:
            raise BatchError(_rejection(part, error)) from error
        self.file.begin(part)
        try:
            batch = create()
        except CallError as error:
            if error.status is None or not 400 <= error.status < 500:
                raise BatchError(f"{error.message}: {doubt(self.file.path, part)}") from error
            self.file.drop(part)
            raise BatchError(_rejection(part, error)) from error
        self.handed_in(self.file.change(part, batch=batch))

    def _read(self, part: BatchPart, state: BatchState) -> None:
        left = set(part.requests)
        for name, generation in self.batches.results(str(part.id)):
            if name not in left:
                continue
            left.discard(name)
            self.answers.write((name, generation))
            usage = None if isinstance(generation, Failed) else generation.usage
            self._settle(name, usage)
        for name in sorted(left):
            assert state.unanswered is not None
            self.answers.write((name, state.unanswered))
            self._settle(name, None)
        self.file.change(part, ended=True)

    def _settle(self, name: str, usage: Usage | None) -> None:
        """Replace a request's maximum cost in `spent` by the actual cost, which is zero without an answer."""
        worst = self._costs.get(name, 0.0)
        if not worst or self.price is None:
            return
        cost = 0.0 if usage is None else self.price(usage)
        self._costs[name] = 0.0
        self.spent += (worst if cost is None else cost) - worst


def _rejection(part: BatchPart, error: CallError) -> str:
    return f"a batch of {format_count(len(part.requests), 'request')} was not accepted: {error.message}"


#: Delays between queries of a batch's state.
POLLING = Polling()


class RunBatches:
    """
    The batches of a session's attempts, with the answers in a file that `BatchedEngine` reads in each process.

    The caller calls `make` once, before the first attempt. The ids of the batches are in `batch.json` in the run's
    directory. At the end, `waiting` returns the batches that have not ended.
    """

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._submission: Submission | None = None
        if session.handover.folder is None:
            message = "--jsbench-batch needs a run directory for the batch's id: add --jsbench-output=DIR"
            raise BatchError(message, option="batch")
        self._folder = session.handover.folder

    def make(
        self,
        attempts: Iterable[Attempt],
        *,
        handed_in: Callable[[BatchPart], None] = lambda _: None,
        progress: Callable[[BatchState], None] = lambda _: None,
        stopped: threading.Event | None = None,
    ) -> None:
        """Submit the attempts as batches, then wait for the batches; with --jsbench-batch=leave, query them once."""
        stopped = stopped or threading.Event()
        session = self._session
        plan = session.plan
        # other variants differ only in how they rewrite schemas
        variant = next(iter(plan.variants.values()))
        limit = plan.limits.max_cost
        metadata = session.handover.metadata
        with contextlib.ExitStack() as resources:
            batches = build_batches(variant.factory, variant.engine)
            resources.callback(batches.close)
            submission = self._submission = Submission(
                batches=batches,
                file=BatchFile(self._folder / FILE, metadata, session.earlier_batches),
                answers=resources.enter_context(BatchAnswers(session.handover.answers)),
                price=None if limit is None else price_of(metadata, batch=True),
                most=limit,
                polling=POLLING,
                stopped=stopped,
                sleep=stopped.wait,
                handed_in=handed_in,
            )
            resources.callback(self._spend, submission)
            requests = (session.request(attempt) for attempt in attempts if attempt not in session.recorded)
            submission.hand_in(request for request in requests if request is not None)
            submission.wait(progress, leave=plan.spec.execution.batch == "leave")

    def waiting(self) -> list[BatchPart]:
        """Return the batches that contain a request of this run and have not ended."""
        return [] if self._submission is None else [part for part in self._submission.waiting() if part.id is not None]

    def doubts(self, folder: Path) -> list[str]:
        """Return a message for each batch whose id is unknown; the messages show `folder` as the run's directory."""
        parts = () if self._submission is None else self._submission.file
        return [doubt(folder / FILE, part) for part in parts if part.id is None]

    def _spend(self, submission: Submission) -> None:
        """Add the cost of the batches to the run's cost, to which the cost limit applies."""
        if submission.spent:
            with contextlib.closing(self._session.runners.limits_file()) as limits:
                limits.spend(submission.spent)
