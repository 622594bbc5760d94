"""Records are kept: classified, redacted and written down, or taken over from who has made the attempt before."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import JournalError, JSBenchError, exhausted
from pytest_jsbench.core.files import private
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.records import journal
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.records.records import Attempt, Missing, MissingReason, Record
from pytest_jsbench.records.redaction import REDACTED
from pytest_jsbench.records.rejudging import judge_again, matched
from pytest_jsbench.run.limits import Refused

if TYPE_CHECKING:
    from pytest_jsbench.records.records import OwnOutcome
    from pytest_jsbench.records.resumption import Recorded
    from pytest_jsbench.run.handover import Handover
    from pytest_jsbench.settings.plan import Plan
    from pytest_jsbench.verdicts import Judge

#: the error of a classifier may quote the answer
CLASSIFIER_BROKE = "a classifier or metric broke; what it said is left out (--jsbench-redact)"
#: a file in the folder that all processes share: the names of those that have died, a line each
_DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The outcome of an attempt, or why there is none, and what went wrong beside it."""

    result: AttemptOutcome | Missing
    #: of one that did not pass, and was made in this process a moment ago: its record's, so that nobody reads that
    explanation: str = ""
    #: whether it was taken over from an earlier run
    resumed: bool = False
    #: why the record could not be written; empty if it was
    journal_error: str = ""
    #: one line for each classifier that broke
    classifier_errors: tuple[str, ...] = ()
    #: why answers can no longer be recorded beside the tests; empty while they can
    recording_error: str = ""


def missed(attempt: Attempt, refused: Refused) -> Missing:
    """An attempt that was refused, and so not made."""
    return Missing(**attempt._asdict(), reason=refused.reason, message=refused.message)


def note_death(shared: Path, process: str) -> None:
    """Write down that a process has died, before its attempts are given to others."""
    with private(shared / _DEAD).open("a", encoding="utf-8") as file:
        file.write(f"{process}\n")


class LeftBehind:
    """The records that dead processes have written: their attempts are of others now, which need not pay again."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self._dead = shared / _DEAD
        self._folder = folder
        self._lock = threading.Lock()
        self._read: set[str] = set()
        self._outcomes: dict[Attempt, AttemptOutcome] = {}

    def outcome(self, attempt: Attempt) -> AttemptOutcome | None:
        """Find the attempt, if a dead process wrote its record. Any thread may call it."""
        if not self._dead.exists():
            return None
        with self._lock:
            for process in self._dead.read_text(encoding="utf-8").split():
                if process not in self._read:
                    self._read.add(process)
                    # nothing was written, or nothing readable: who sums the run up says so
                    with contextlib.suppress(JSBenchError):
                        content = journal.read(self._folder / f"records.{process}.jsonl")
                        self._outcomes.update((outcome.attempt, outcome) for outcome in content.outcomes)
            return self._outcomes.get(attempt)


class RecordKeeper:
    """
    Keeps the records of the attempts that one process makes.

    A run's session makes one when attempts begin. The threads of the calls in flight enter `make_or_find`, a project's
    tests `write` and `take_over`. It holds no record, and ends with its journal.
    """

    def __init__(
        self,
        journal: journal.Journal,
        plan: Plan,
        handover: Handover,
        *,
        recorded: Recorded,
        judge: Callable[[], Judge],
        refuse: Callable[[Refused], None],
    ) -> None:
        self._journal = journal
        self._plan = plan
        self._redaction = handover.redaction
        self._recorded = recorded
        self.left_behind = LeftBehind(handover.shared, handover.records)
        self._judge = judge
        #: makes no more calls, for the reason that it is given
        self._refuse = refuse
        #: whether we ourselves have broken off the calls that are still under way
        self.stopped = False
        self._recording_error = ""

    def make_or_find(self, attempt: Attempt, make: Callable[[], Record]) -> AttemptResult:
        """
        Make an attempt and write its record, or find that of an earlier run or a dead process.

        Once the machine can no more, none is made any longer; a call that we ourselves have broken off is not written.
        """
        try:
            return self._make_or_find(attempt, make)
        except Exception as error:
            if not (why := exhausted(error)):
                raise
            refused = Refused(MissingReason.EXHAUSTED, why)
            self._refuse(refused)
            return AttemptResult(result=missed(attempt, refused))

    def _make_or_find(self, attempt: Attempt, make: Callable[[], Record]) -> AttemptResult:
        if (recorded := self._recorded.get(attempt)) is not None:
            return self.take_over(recorded, self._plan.cases.case(recorded.key))[0]
        left = self.left_behind.outcome(attempt)
        if left is not None and left.asked_by is None:
            return AttemptResult(result=left)
        try:
            record = make()
        except Refused as refused:
            return AttemptResult(result=missed(attempt, refused))
        if isinstance(record.generation, Failed) and self.stopped:
            record = self._redacted(record)
            return _result(AttemptOutcome.of(record), record)
        return self.write(record)[0]

    def stop_recording(self, problem: str) -> None:
        """Make no more calls, since their answers cannot be recorded; the results from now on say so."""
        self._recording_error = self._recording_error or problem
        self._refuse(Refused(MissingReason.DISK, problem))

    def write(self, record: Record) -> tuple[AttemptResult, Record]:
        """Classify and write a record; the result says what went wrong with either, the record is as classified."""
        record, errors = self._classified(record)
        result = self._write(self._redacted(record))
        return replace(result, classifier_errors=errors, recording_error=self._recording_error), record

    def take_over(self, recorded: Record, case: Case | BrokenCase) -> tuple[AttemptResult, Record]:
        """
        Take over the record of an attempt that an earlier run made, judged and classified by this run.

        Its values stand beside those that the case expects now. One whose verdict, values, codes or key are others
        than the earlier run's is written down anew.
        """
        place = self._recorded.place(recorded.attempt)
        errors: tuple[str, ...] = ()
        record = judge_again(structs.replace(recorded, task=case.key.task, id=case.key.id), self._judge())
        if record.redacted is None:
            if isinstance(case, Case):
                record = matched(record, case.expected, self._plan.comparers)
            record, errors = self._classified(record)
        if place is not None and record.kept == recorded:
            result = _result(AttemptOutcome.of(record, place), record)
        else:
            result = self._write(record)
        return replace(result, resumed=True, classifier_errors=errors), record

    def conclude(self, made: AttemptResult, ended: OwnOutcome, *, called_again: str) -> AttemptResult:
        """
        Add to an attempt how the test that asked ended, and write its record once more with that.

        A disk that takes no more keeps what it has: the figures of the run know the outcome all the same.
        """
        if isinstance(made.result, Missing):
            return replace(made, result=structs.replace(made.result, test_outcome=ended.without_words()))
        if self._redaction is not None:
            ended = ended.without_words(REDACTED)
        record = made.result.read()
        concluded = structs.replace(record, test_outcome=ended, called_again=called_again)
        if concluded == record:
            return made
        source = made.result.source
        with contextlib.suppress(JournalError):
            source = concluded if isinstance(source, Record) else self._journal.append(concluded)
        outcome = structs.replace(
            made.result, source=source, test_outcome=ended.without_words(), called_again=called_again
        )
        return replace(made, result=outcome)

    def _classified(self, record: Record) -> tuple[Record, tuple[str, ...]]:
        """Give a record its codes; the errors are of the classifiers."""
        if not (self._plan.classifiers or record.codes or record.scores):
            return record, ()
        from pytest_jsbench.settings.classifiers import classify

        classified, errors = classify(record, self._plan.classifiers)
        return classified, (CLASSIFIER_BROKE,) if errors and self._redaction is not None else errors

    def _redacted(self, record: Record) -> Record:
        """The record as it may be written and shown; where texts are redacted, digests stand for them."""
        return record if self._redaction is None else self._redaction.record(record)

    def _write(self, record: Record) -> AttemptResult:
        try:
            place = self._journal.append(record)
        except JournalError as error:
            # one that no JSON can hold says nothing of the others; and what nobody has asked to keep may be paid for
            if self._plan.output is not None and not isinstance(error.__cause__, ValueError):
                self._refuse(Refused(MissingReason.DISK, str(error)))
            outcome = AttemptOutcome.of(record)
            return replace(_result(outcome, record), journal_error=str(error.found or error))
        return _result(AttemptOutcome.of(record, place), record)


def _result(outcome: AttemptOutcome, record: Record) -> AttemptResult:
    return AttemptResult(result=outcome, explanation="" if outcome.passed else record.explanation)
