"""Classify, redact and write the records of attempts, or reuse a record from an earlier run or a dead process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import JournalError, JSBenchError
from pytest_jsbench.core.files import private
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.records import journal
from pytest_jsbench.records.answer_digests import add_digest
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Attempt, Missing, MissingReason, Record
from pytest_jsbench.records.redaction import REDACTED
from pytest_jsbench.records.rejudging import compare_values, judge_again
from pytest_jsbench.run.limits import Refused

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.records.records import ProjectTestOutcome
    from pytest_jsbench.records.resumption import Recorded
    from pytest_jsbench.run.handover import Handover
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.verdicts import Judge

#: Text that replaces the error of a classifier, since the error may quote the answer.
CLASSIFIER_ERROR_REDACTED = "a classifier or metric failed; its error is redacted (--jsbench-redact)"
#: File in the shared directory with the names of the processes that died, one name per line.
_DEAD_WORKERS = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """
    The outcome of an attempt, or the reason why it is missing, with errors in classifying the attempt and writing its
    record.
    """

    result: AttemptFacts | Missing
    #: Explanation of a failure if this process has just made the attempt, so that the record need not be read again.
    explanation: str = ""
    #: True if the record comes from an earlier run.
    resumed: bool = False
    #: Reason why the record could not be written; empty if it was written.
    journal_error: str = ""
    #: One line for each classifier that raised an error.
    classifier_errors: tuple[str, ...] = ()
    #: Reason why the answers of the project's tests can no longer be recorded; empty if there is no problem.
    recording_error: str = ""


class Answered(NamedTuple):
    """The answer to a question: the result of its attempt as it is written, and the record before its redaction."""

    result: AttemptResult
    #: The record, redacted only if an earlier run has redacted it; None if the attempt is missing, or if its record was
    #: not read.
    record: Record | None = None


def missing_attempt(attempt: Attempt, refused: Refused) -> Missing:
    """Return the entry for an attempt that was not made."""
    return Missing(**attempt._asdict(), reason=refused.reason, message=refused.message)


def record_dead_worker(shared: Path, process: str) -> None:
    """Add a process to the file of dead processes, before its attempts are assigned to other processes."""
    with private(shared / _DEAD_WORKERS).open("a", encoding="utf-8") as file:
        file.write(f"{process}\n")


class DeadWorkerRecords:
    """Records written by processes that died, so that attempts reassigned to other processes are not paid for twice."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self._dead = shared / _DEAD_WORKERS
        self._folder = folder
        self._lock = threading.Lock()
        self._read: set[str] = set()
        self._outcomes: dict[Attempt, AttemptFacts] = {}

    def outcome(self, attempt: Attempt) -> AttemptFacts | None:
        """Return the outcome of the attempt if a dead process wrote its record; any thread may call this method."""
        if not self._dead.exists():
            return None
        with self._lock:
            for process in self._dead.read_text(encoding="utf-8").split():
                if process not in self._read:
                    self._read.add(process)
                    # if the file is absent or unreadable, the process that creates the summary reports the problem
                    with contextlib.suppress(JSBenchError):
                        content = journal.read(self._folder / f"records.{process}.jsonl")
                        self._outcomes.update((outcome.attempt, outcome) for outcome in content.outcomes)
            return self._outcomes.get(attempt)


class RecordKeeper:
    """
    Writes the records of the attempts that one process makes, and finds records that already exist.

    A run's session creates one object when attempts begin, and calls `find` and `keep` in the threads that ask. The
    object keeps no record in memory, and need not be closed.
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
        self._dead_worker_records = DeadWorkerRecords(handover.shared, handover.records)
        self._judge = judge
        #: Function that prevents further calls; its argument is the reason.
        self._refuse = refuse
        #: True once this process itself has aborted the calls in flight.
        self.stopped = False
        self._recording_error = ""

    def find(self, attempt: Attempt) -> Answered | None:
        """Return the answer of an attempt in the records of an earlier run or of a dead process, if any."""
        if (recorded := self._recorded.get(attempt)) is not None:
            return self._take_over(recorded, self._plan.cases.case(recorded.key))
        left = self._dead_worker_records.outcome(attempt)
        return Answered(AttemptResult(result=left)) if left is not None and left.asked_by is None else None

    def find_same(
        self,
        attempt: Attempt,
        case: Case,
        *,
        first: CaseKey,
        equal_before: int,
        is_same: Callable[[Record, Case], bool],
    ) -> Answered | None:
        """
        Return the answer of an earlier run or of a dead process to the same question of a project's test.

        Tests ask without a dataset's keys, so their records are found by the key of the test's first question, and each
        record is used once.
        """
        records = self._recorded.of_test(attempt._replace(key=first))
        equal = [record for record in records if is_same(record, case)]
        if equal_before < len(equal):
            return self._take_over(equal[equal_before], case)
        if self._redaction is not None:  # a redacted record contains no text for the test
            return None
        left = self._dead_worker_records.outcome(attempt)
        if left is None or left.failed or not is_same(record := left.read(), case):
            return None
        return Answered(AttemptResult(result=left), judge_again(record, self._judge()))

    def stop_recording(self, problem: str) -> None:
        """Make no more calls because their answers cannot be recorded; all further results report the reason."""
        self._recording_error = self._recording_error or problem
        self._refuse(Refused(MissingReason.DISK, problem))

    def keep(self, record: Record, *, is_repeated: bool = False) -> Answered:
        """
        Classify, redact and write the record of an attempt that was just made; `is_repeated` states whether its test
        makes several attempts.

        If the end of the session may have aborted a failed call, its record is redacted, but not classified or written.
        """
        if isinstance(record.generation, Failed) and self.stopped:
            redacted = self._redact(record)
            return Answered(_attempt_result(AttemptFacts.of(redacted), redacted), record)
        classified, errors = self._classify(self._add_digest(record, is_repeated=is_repeated))
        redacted = self._redact(classified)
        result = self._write(redacted)
        return Answered(replace(result, classifier_errors=errors, recording_error=self._recording_error), classified)

    def add_tries(self, made: Answered, record: Record) -> Answered:
        """
        Write the record of an attempt again with another second try of its answer.

        If the end of the session may have aborted the call of the last try, this try is not written.
        """
        repairs = record.repairs
        if self.stopped and repairs is not None and repairs.tries and repairs.tries[-1].failed:
            return made
        written = self._write(self._redact(record))
        earlier = made.result
        result = replace(
            written,
            resumed=earlier.resumed,
            journal_error=written.journal_error or earlier.journal_error,
            classifier_errors=earlier.classifier_errors,
            recording_error=self._recording_error,
        )
        return Answered(result, record)

    def _take_over(self, recorded: Record, case: Case | BrokenCase) -> Answered:
        """
        Reuse the record of an attempt from an earlier run, judged and classified again by this run.

        The values of the answer are compared with the values that the case expects in this run. The record is written
        again if its verdict, values, codes or key differ from those of the earlier run.
        """
        place = self._recorded.place(recorded.attempt)
        errors: tuple[str, ...] = ()
        record = judge_again(structs.replace(recorded, task=case.key.task, id=case.key.id), self._judge())
        if record.redacted is None:
            if isinstance(case, Case):
                record = compare_values(record, case.expected, self._plan.comparers)
            record = self._add_digest(record, is_repeated=record.repeat > 0 or record.value_digest is not None)
            record, errors = self._classify(record)
        if place is not None and record.kept == recorded:
            result = _attempt_result(AttemptFacts.of(record, place), record)
        else:
            result = self._write(record)
        return Answered(replace(result, resumed=True, classifier_errors=errors), record)

    def add_test_outcome(self, made: AttemptResult, ended: ProjectTestOutcome, *, called_again: str) -> AttemptResult:
        """
        Add the outcome of the calling test to an attempt, and write the record again with this outcome.

        If the disk is full, the earlier record remains; the metrics of the run nevertheless include the outcome.
        """
        if isinstance(made.result, Missing):
            return replace(made, result=structs.replace(made.result, test_outcome=ended.without_messages()))
        if self._redaction is not None:
            ended = ended.without_messages(REDACTED)
        record = made.result.read()
        concluded = structs.replace(record, test_outcome=ended, called_again=called_again)
        if concluded == record:
            return made
        source = made.result.source
        with contextlib.suppress(JournalError):
            source = concluded if isinstance(source, Record) else self._journal.append(concluded)
        outcome = structs.replace(
            made.result, source=source, test_outcome=ended.without_messages(), called_again=called_again
        )
        return replace(made, result=outcome)

    def _add_digest(self, record: Record, *, is_repeated: bool) -> Record:
        return add_digest(record, is_repeated=is_repeated or self._plan.spec.execution.repeats > 1)

    def _classify(self, record: Record) -> tuple[Record, tuple[str, ...]]:
        """Return the record with the codes from the classifiers, and the errors of the classifiers."""
        if not (self._plan.classifiers or record.codes or record.scores):
            return record, ()
        from pytest_jsbench.run.classifiers import classify

        classified, errors = classify(record, self._plan.classifiers)
        return classified, (CLASSIFIER_ERROR_REDACTED,) if errors and self._redaction is not None else errors

    def _redact(self, record: Record) -> Record:
        """Return the record as it is written and shown; if texts are redacted, they are replaced by digests."""
        return record if self._redaction is None else self._redaction.record(record)

    def _write(self, record: Record) -> AttemptResult:
        try:
            place = self._journal.append(record)
        except JournalError as error:
            # A record that JSON cannot represent does not affect later records. Without --jsbench-output, the user did
            # not ask to keep records, so calls continue.
            if self._plan.spec.outputs.output is not None and not isinstance(error.__cause__, ValueError):
                self._refuse(Refused(MissingReason.DISK, str(error)))
            outcome = AttemptFacts.of(record)
            return replace(_attempt_result(outcome, record), journal_error=str(error.found or error))
        return _attempt_result(AttemptFacts.of(record, place), record)


def _attempt_result(outcome: AttemptFacts, record: Record) -> AttemptResult:
    return AttemptResult(result=outcome, explanation="" if outcome.passed else record.explanation)
