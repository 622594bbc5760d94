"""What is known of a run where reports land: what was planned, what became of it, and what nobody has spoken of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.plugin.options.reading import ROOT
from pytest_jsbench.runs.records import Attempt, Missing, MissingReason, Record, Run, RunMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_jsbench.plugin.session.transport import AttemptResult


class RunState:
    """A run as far as it has been reported; used by one thread."""

    def __init__(self, keys: Sequence[CaseKey]) -> None:
        #: of the dataset, in its order
        self._keys = keys
        #: the suite's attempts, in the dataset's order; empty until they are collected
        self.planned: tuple[Attempt, ...] = ()
        #: what a project's own tests have asked for, which is planned by being asked
        self._own: set[Attempt] = set()
        self._records: dict[Attempt, Record] = {}
        self._missing: dict[Attempt, Missing] = {}
        self._resumed: set[Attempt] = set()

    def plan(self, attempts: Iterable[Attempt]) -> None:
        """These are to be made of the suite, in whichever order they run."""
        position = {key: number for number, key in enumerate(self._keys)}
        self.planned = tuple(sorted(attempts, key=lambda attempt: (position[attempt[0]], attempt[1])))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The suite's attempts, and those of a project's own tests."""
        return (*self.planned, *sorted(self._own))

    @property
    def count(self) -> int:
        """How many attempts there are to be, as far as that is known."""
        return len(self.planned) + len(self._own)

    @property
    def keys(self) -> tuple[CaseKey, ...]:
        """The case of each attempt."""
        return tuple(key for key, _ in self.attempts)

    @property
    def complete(self) -> bool:
        """Whether each of the suite's attempts has its record."""
        return all(attempt in self._records for attempt in self.planned)

    def take(self, outcome: AttemptResult, *, own: bool = False) -> Record | None:
        """What became of an attempt; its record where that is news."""
        result = outcome.result
        attempt = result.key, result.repeat
        if own:
            self._own.add(attempt)
        if isinstance(result, Missing):
            self._missing[attempt] = result
            return None
        known = self._records.get(attempt)
        if known is not None and (known == result or not isinstance(known.generation, Failed)):
            return None  # a test was run again: the first answer stands, and only a broken call does not
        self._records[attempt] = result
        (self._resumed.add if outcome.resumed else self._resumed.discard)(attempt)
        return result

    def miss_own(self, key: CaseKey, reason: MissingReason) -> None:
        """A project's own test was to ask, and came to no answer."""
        if not any(known == key for known, _ in self._own):
            self._own.add((key, 0))
            self._missing[key, 0] = Missing(key=key, repeat=0, reason=reason)

    def miss(self, nodeid: str, reason: MissingReason) -> None:
        """A test broke; where it is one of the suite's, that is why its attempt is missing."""
        if (attempt := attempt_of(nodeid)) is not None:
            self._missing[attempt] = Missing(key=attempt[0], repeat=attempt[1], reason=reason)

    def add(self, records: Iterable[Record]) -> None:
        """Records that are on disk, of which some may not have been reported."""
        planned = frozenset(self.planned)
        for record in records:
            if record.asked_by is not None:
                self._own.add(record.attempt)
            if record.asked_by is not None or record.attempt in planned:
                self._records.setdefault(record.attempt, record)

    def has_all(self, records: Iterable[Record]) -> bool:
        """Whether all these attempts have records."""
        return all(record.attempt in self._records for record in records)

    def to_run(self, metadata: RunMetadata) -> Run:
        """The run as it is known."""
        return Run(
            metadata=metadata.with_plan(self.keys),
            planned=self.keys,
            records=tuple(sorted(self._records.values(), key=self._order())),
            missing=tuple(self._find_missing()),
            resumed=len(self._resumed),
        )

    def _find_missing(self) -> Iterator[Missing]:
        """Each planned attempt without a record; what nobody has spoken of was cut off by the session's end."""
        for attempt in self.attempts:
            if attempt not in self._records:
                stopped = Missing(key=attempt[0], repeat=attempt[1], reason=MissingReason.STOPPED)
                yield self._missing.get(attempt, stopped)

    def _order(self) -> Callable[[Record], tuple[int, CaseKey, int]]:
        position = {key: number for number, key in enumerate(self.keys)}
        return lambda record: (position.get(record.key, len(position)), record.key, record.repeat)


def attempt_of(nodeid: str) -> Attempt | None:
    """The attempt of one of the suite's node ids; None for any other."""
    prefix = f"{ROOT}::"
    if not nodeid.startswith(prefix):
        return None
    name, _, number = nodeid.removeprefix(prefix).removesuffix("]").partition("[")
    return CaseKey.parse(name), int(number or 1) - 1
