"""Submit batches, wait for them and read them; no request is sent twice, and all that costs money is on disk first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import BatchError
from pytest_jsbench.core.generations import CallError, Failed, FaultKind, Usage
from pytest_jsbench.runner.attempts import most_of
from pytest_jsbench.runner.batches.ledger import BatchPart, doubt
from pytest_jsbench.runner.batches.requests import name_of
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.batch_api import Batches, BatchState
    from pytest_jsbench.metrics.prices import Price
    from pytest_jsbench.runner.batches.ledger import BatchFile
    from pytest_jsbench.runner.batches.requests import BatchAnswers

#: faults of a query for a batch's state that do not go away with time
_LASTING = frozenset({FaultKind.AUTH, FaultKind.BAD_REQUEST, FaultKind.QUOTA, FaultKind.ENGINE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How often the state of a batch is asked for, in seconds."""

    first: float = 5.0
    #: the factor from one pause to the next
    growth: float = 1.3
    longest: float = 60.0
    #: failed queries in a row after which waiting ends
    patience: int = 30

    def pauses(self) -> Iterator[float]:
        """The pauses, without end."""
        pause = self.first
        while True:
            yield min(pause, self.longest)
            pause = min(pause * self.growth, self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The progress of all batches of a run together."""

    answered: int = 0
    failed: int = 0
    total: int = 0


@dataclass(slots=True, kw_only=True)
class Submission:
    """
    The batches of one run.

    The controller makes one after collection, before any test runs, and calls `hand_in` and then `wait` in its own
    thread, once each. The answers go to the file that `BatchedEngine` reads. At the end of the session the controller
    asks it for the batches that are still `waiting`.
    """

    batches: Batches
    file: BatchFile
    answers: BatchAnswers
    #: of calls in a batch; None: there is no limit of cost
    price: Price | None = None
    #: the limit of cost, in US dollars
    most: float | None = None
    polling: Polling = field(default_factory=Polling)
    sleep: Callable[[float], None] = time.sleep
    #: called with each batch that was submitted
    told: Callable[[BatchPart], None] = lambda _: None
    #: US dollars: what ended batches cost, and the most that the others may cost
    spent: float = 0.0
    #: the requests of this run, and the most that each may cost
    _asked: dict[str, float] = field(default_factory=dict)
    #: requests that an ended batch of an earlier run has answered
    _taken: set[str] = field(default_factory=set)
    _fetched: set[str] = field(default_factory=set)
    #: whether the limit of cost was reached
    _full: bool = False
    _states: dict[str, BatchState] = field(default_factory=dict)

    def hand_in(self, requests: Iterable[Request]) -> None:
        """Submit the requests that no earlier batch holds; BatchError where the provider does not accept them."""
        names: list[str] = []
        lines: list[bytes] = []
        size = 0
        limits = self.batches.limits
        earlier = {name: part for part in self.file for name in part.requests}
        for request in requests:
            name = name_of(request)
            self._asked[name] = 0.0
            if self._is_in(earlier.get(name), name) or (line := self._line(name, request)) is None:
                continue
            if len(lines) == limits.requests or (lines and size + len(line) + 1 > limits.size):
                self._submit(names, lines)
                names, lines, size = [], [], 0
            names.append(name)
            lines.append(line)
            size += len(line) + 1
        if lines:
            self._submit(names, lines)

    def wait(self, progress: Callable[[Standing], None] = lambda _: None, *, leave: bool = False) -> None:
        """Query the batches until all have ended, or once with `leave`; read those that have ended."""
        pauses, broken = self.polling.pauses(), 0
        while waiting := self.waiting():
            for part in waiting:
                try:
                    self._look(part)
                    broken = 0
                except CallError as error:
                    broken += 1
                    if leave or error.kind in _LASTING or broken > self.polling.patience:
                        message = f"batch {part.id} cannot be looked at: {error.message}"
                        raise BatchError(message, found=error.kind, where=part.id) from error
            if leave:
                self._leave()
                return
            if self.waiting():
                progress(self._standing())
                self.sleep(next(pauses))

    def waiting(self) -> list[BatchPart]:
        """The batches that hold a request of this run and have not ended."""
        return [part for part in self.file if not (part.ended or self._asked.keys().isdisjoint(part.requests))]

    def _is_in(self, part: BatchPart | None, name: str) -> bool:
        """Whether a batch of an earlier run holds the request; one that failed in an ended batch is sent again."""
        if part is None or not part.ended:
            return part is not None
        if (batch := str(part.id)) not in self._fetched:
            self._fetched.add(batch)
            self._take_again(batch)
        return name in self._taken

    def _take_again(self, batch: str) -> None:
        try:
            for name, generation in self.batches.results(batch):
                if not isinstance(generation, Failed):
                    self.answers.write((name, generation))
                    self._taken.add(name)
        except CallError as error:
            message = f"the results of batch {batch} cannot be read: {error.message}"
            raise BatchError(message, found=error.kind, where=batch) from error

    def _line(self, name: str, request: Request) -> bytes | None:
        """The line of a request in a batch; None where it may not be sent."""
        most = most_of(request)
        worst = Usage(input_tokens=most.input_tokens, output_tokens=most.output_tokens)
        cost = (self.price(worst) or 0.0) if self.price is not None else 0.0
        if self.most is not None and (self._full or self.spent + cost > self.most):
            self._full = True
            self.answers.refuse(name, MissingReason.LIMIT, f"--jsbench-max-cost={self.most:g} could be passed")
            return None
        try:
            line = self.batches.line(name, request)
        except CallError as error:
            self.answers.write((name, Failed(kind=error.kind, message=error.message)))
            return None
        self._asked[name] = cost
        self.spent += cost
        return line

    def _submit(self, names: list[str], lines: list[bytes]) -> None:
        part = BatchPart(id=None, handed_in_at=datetime.now(UTC).isoformat(timespec="seconds"), requests=tuple(names))
        try:
            make = self.batches.upload(lines)
        except CallError as error:
            raise BatchError(_not_taken(part, error)) from error
        self.file.begin(part)
        try:
            batch = make()
        except CallError as error:
            if error.status is None or not 400 <= error.status < 500:
                raise BatchError(f"{error.message}: {doubt(self.file.path, part)}") from error
            self.file.drop(part)
            raise BatchError(_not_taken(part, error)) from error
        self.told(self.file.change(part, batch=batch))

    def _look(self, part: BatchPart) -> None:
        state = self._states[str(part.id)] = self.batches.state(str(part.id))
        if state.ended:
            self._read(part, state)

    def _standing(self) -> Standing:
        states = self._states.values()
        return Standing(
            answered=sum(state.answered for state in states),
            failed=sum(state.failed for state in states),
            total=sum(state.total for state in states),
        )

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
        """Replace the most that a request may cost by what it cost: nothing where there was no answer."""
        worst = self._asked.get(name, 0.0)
        if not worst or self.price is None:
            return
        cost = 0.0 if usage is None else self.price(usage)
        self._asked[name] = 0.0
        self.spent += (worst if cost is None else cost) - worst

    def _leave(self) -> None:
        for part in self.waiting():
            for name in part.requests:
                self.answers.refuse(name, MissingReason.BATCH, f"batch {part.id} has not ended")


def _not_taken(part: BatchPart, error: CallError) -> str:
    return f"a batch of {len(part.requests):,} requests was not taken: {error.message}"
