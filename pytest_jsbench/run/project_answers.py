"""Keep the answers that a project's own tests have received, so that no question is sent twice."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.files import append_whole, json_line, open_locked, parse_json
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.json_values import digest, from_json, to_json
from pytest_jsbench.records.outcomes import AttemptOutcome, Place
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.records.rejudging import judge_again
from pytest_jsbench.run.record_keeper import Answered, AttemptResult
from pytest_jsbench.run.runners import dump_settings

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.run.question import ProjectCall, Question
    from pytest_jsbench.run.session import RunSession


class TestAnswers:
    """
    The answers that one test has received, for reuse if a plugin runs the test again; or answers that tests share.

    The plugin creates the object when the test first requests the fixture, and keeps it across all runs of the test,
    until the session ends. The object is thread-safe. It prevents repeated calls: each run of the test uses each answer
    once, and all tests use the same answer to a `shared` question.
    """

    def __init__(self, key: CaseKey, variant: str, *, test: str, line: int | None = None, shared: bool = False) -> None:
        #: Key of the first question.
        self.key = key
        self.variant = variant
        #: Node id of the test, or a name for shared answers.
        self.test = test
        #: Line in the test's file, counted from 1; None if unknown.
        self.line = line
        #: Whether several tests, in all processes of the run, share the answers.
        self.shared = shared
        #: Lock that a thread holds while it requests a shared answer, so that no other thread makes the same call.
        self._calling = threading.Lock()
        self._seen: dict[Attempt, Answered] = {}
        #: Attempts that the current run of the test has used or is making, each with a digest of the question if
        #: answers are shared.
        self._taken: dict[Attempt, str] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin a run of the test: its earlier answers may be used again. Nothing changes for shared answers."""
        with self._lock:
            if not self.shared:
                self._taken.clear()

    def ask(self, session: RunSession, question: Question) -> Answered:
        """Return the answer to the same question that an earlier run of the test received, or make the attempt."""
        assert question.call is not None
        if not question.call.is_reusable:
            return session.ask(self._number(question))
        with self._sharing(session) as share:
            seen = self._take(session, question, question.call)
            if seen is None:
                seen = session.ask(self._number(question))
                self._keep(seen)
                share(seen.result)
        return seen

    def _take(self, session: RunSession, question: Question, call: ProjectCall) -> Answered | None:
        """Return the answer to this question that an earlier run of the test received, if any."""
        if not self._seen:
            return None
        first = question.attempt
        case = question.case
        assert case is not None
        runner = session.runners.for_call(question, call)
        with self._lock:
            for attempt in dict.fromkeys([first, *self._seen]):
                seen = self._seen.get(attempt)
                if seen is None or attempt.repeat != first.repeat or (attempt in self._taken and not self.shared):
                    continue
                if seen.record is not None and runner.is_same(seen.record, case):
                    self._taken.setdefault(attempt, "")
                    return seen
        return None

    def _number(self, question: Question) -> Question:
        """
        Return the question with a case key that is unique in the test, so that no record replaces another.

        A shared question that was sent before without an answer keeps its key.
        """
        call = question.call
        case = question.case
        assert call is not None
        assert case is not None
        wording = ""
        if self.shared and call.given is None:
            prompt = None if call.prompt is None else call.prompt.to_messages()
            wording = digest([case.schema, prompt, dump_settings(call.settings.recorded_settings())])
        key = self.key if self.shared else case.key
        with self._lock:
            numbers = (self.key.numbered(number) for number in itertools.count(2))
            for name in itertools.chain([key], numbers):
                attempt = question.attempt._replace(key=name)
                before = self._taken.get(attempt)
                if attempt not in self._seen and (before is None or (wording and before == wording)):
                    self._taken[attempt] = wording
                    break
        return replace(question, attempt=attempt, case=replace(case, key=attempt.key))

    def _keep(self, seen: Answered) -> None:
        """Keep an answer for the next run of the test; the result of a failed call is not kept."""
        record = seen.record
        if record is not None and record.prompt is not None and not isinstance(record.generation, Failed):
            with self._lock:
                self._seen[record.attempt] = seen

    def _has(self, attempt: Attempt) -> bool:
        with self._lock:
            return attempt in self._seen

    @contextlib.contextmanager
    def _sharing(self, session: RunSession) -> Iterator[Callable[[AttemptResult], None]]:
        """
        Lock a shared answer against other processes, and read the answers that they have shared; yield a function that
        shares a new answer.
        """
        if not self.shared:
            yield lambda _: None
            return
        with self._calling:
            # With --jsbench-redact, answers are not written to disk, so other processes cannot use them.
            if session.handover.redaction is not None:
                yield lambda _: None
                return
            name = digest([self.variant, self.test]).rpartition(":")[2]
            with open_locked(session.handover.shared / f"answers.{name}.jsonl") as file:
                file.seek(0)
                text = file.read()
                size = text.rfind(b"\n") + 1
                file.truncate(size)  # remove an incomplete line, left by a process that died
                for line in text[:size].splitlines():
                    outcome = from_json(AttemptOutcome, parse_json(line))
                    if not self._has(outcome.attempt):
                        record = judge_again(outcome.read(), session.judge())
                        self._keep(Answered(AttemptResult(result=outcome), record))

                def share(result: AttemptResult) -> None:
                    outcome = result.result
                    if isinstance(outcome, AttemptOutcome) and isinstance(outcome.source, Place) and not outcome.failed:
                        with contextlib.suppress(OSError):  # other processes will make the call again
                            append_whole(file, json_line(to_json(outcome)), size)

                yield share
