"""Batches handed in, waited for and read: never twice the same request, and nothing paid for that is not on disk."""

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

#: faults of a look at a batch that will not mend by waiting
_LASTING = frozenset({FaultKind.AUTH, FaultKind.BAD_REQUEST, FaultKind.QUOTA, FaultKind.ENGINE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How often a batch is looked at, in seconds."""

    first: float = 5.0
    #: each pause is so many times the one before
    growth: float = 1.3
    longest: float = 60.0
    #: looks in a row that may break before the waiting is given up
    patience: int = 30

    def pauses(self) -> Iterator[float]:
        """The pauses, without end."""
        pause = self.first
        while True:
            yield min(pause, self.longest)
            pause = min(pause * self.growth, self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the batches of a run are, taken together."""

    answered: int = 0
    failed: int = 0
    total: int = 0


@dataclass(slots=True, kw_only=True)
class Submission:
    """The batches of one run; used by one thread, once."""

    batches: Batches
    file: BatchFile
    answers: BatchAnswers
    #: of a batch; None: there is no limit in money
    price: Price | None = None
    #: US dollars
    most: float | None = None
    polling: Polling = field(default_factory=Polling)
    sleep: Callable[[float], None] = time.sleep
    #: told of each batch that is handed in
    told: Callable[[BatchPart], None] = lambda _: None
    #: US dollars that this run's batches have cost, or may cost where they have not ended
    spent: float = 0.0
    #: requests of this run, and what each may cost at most
    _asked: dict[str, float] = field(default_factory=dict)
    #: answered in a batch of an earlier run that had ended
    _taken: set[str] = field(default_factory=set)
    _fetched: set[str] = field(default_factory=set)
    #: whether the limit in money was reached
    _full: bool = False
    _states: dict[str, BatchState] = field(default_factory=dict)

    def hand_in(self, requests: Iterable[Request]) -> None:
        """Hand in what no earlier batch holds; BatchError where the provider will not take it."""
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
        """Look at the batches until all have ended, or once; what has ended is read."""
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
                        raise BatchError(message) from error
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
        """Whether a batch of an earlier run answers it; what broke in one that had ended is asked again."""
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
            raise BatchError(message) from error

    def _line(self, name: str, request: Request) -> bytes | None:
        """The request for a batch; None where it is not to be made."""
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
        """What it has cost in the place of what it might have; nothing where there was no answer."""
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
