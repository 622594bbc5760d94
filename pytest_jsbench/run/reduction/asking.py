"""
Ask about candidates: an engine through a run's session, a grammar about a labelled answer, or an adaptation.

Each call is recorded as in a run, under a key made of the candidate's digest, so that an interrupted reduction makes
no call twice. A candidate that is not a valid JSON Schema is never sent.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pytest_jsbench.adaptation import Inexpressible
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.generations import Declined, Failed, FaultKind
from pytest_jsbench.core.messages import Message, check_calls
from pytest_jsbench.datasets.base import Instance, ListedCase
from pytest_jsbench.prompts.named import schema_prompt
from pytest_jsbench.records.records import Attempt, Missing, Record
from pytest_jsbench.run.attempts import inexpressible, name_tool_in_refusal
from pytest_jsbench.run.question import Question
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.same_failure import FailurePattern
from pytest_jsbench.run.reduction.tool_parts import default_request
from pytest_jsbench.verdicts import FailureType, Judge, Verdict, decide
from pytest_jsbench.verdicts.verdicts import SecondOpinion

if TYPE_CHECKING:
    from pytest_jsbench.adaptation import Adapted
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Generation
    from pytest_jsbench.run.session import RunSession

#: Task of the candidates' keys in the records of a reduction.
TASK = "reduce"
#: Name of the labelled answer of a candidate.
ANSWER = "answer"
_DIGITS = 24
#: Number of calls that are kept for the confirmation of the result and its neutral form.
RESERVED_CALLS = 12
#: Reason if only the reserved calls are left.
CALLS_SPENT = "the maximum number of calls is reached (--max-calls)"
#: Faults after which no further call can succeed.
_FINAL = frozenset({FaultKind.AUTH, FaultKind.QUOTA})
#: Schema of the calls that check whether a server still works.
_CONTROL = Candidate(schema={"type": "object"}, is_prompt_default=True)
#: Seconds between checks of a server that does not answer.
_PAUSE = 2.0


class ReductionStopped(Exception):
    """Raised when no more calls can or may be made; the smallest candidate found so far is the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateReply:
    """The result of asking once about a candidate."""

    #: Whether the candidate fails in the same way; None if the call shows neither, as after a fault of the network.
    fails: bool | None
    #: Message of the failure, or the reason why nothing was decided.
    message: str = ""


class Asker(Protocol):
    """Asks about candidates; `ask` is called from several threads."""

    #: Whether the same candidate always has the same result, so that one result decides.
    deterministic: bool

    def ask(self, candidate: Candidate, number: int) -> CandidateReply:
        """Ask about a candidate for the time with this number, from 0; raise ReductionStopped if this is impossible."""

    @property
    def calls(self) -> int:
        """Number of calls that were made, without those found in records."""

    def release_reserve(self) -> None:
        """Allow the calls that are reserved for the confirmation of the result."""


class AdaptationAsker:
    """Decides which candidates an adaptation to a provider's subset refuses; no call is made."""

    deterministic = True
    calls = 0

    def __init__(
        self,
        adapt: Callable[[Schema], Adapted | Inexpressible],
        judge: Judge,
        pattern: FailurePattern,
        hidden: Collection[str],
    ) -> None:
        self._adapt = adapt
        self._judge = judge
        self._pattern = pattern
        self._hidden = hidden

    def release_reserve(self) -> None:
        """Do nothing: no call is made."""

    def ask(self, candidate: Candidate, number: int) -> CandidateReply:  # noqa: ARG002  each time has the same result
        """Adapt the candidate's schema, and compare the refusal."""
        problem = find_invalid_schema(candidate, self._judge)
        if problem is not None:
            return CandidateReply(fails=False, message=problem.message)
        refused = first_refused(candidate, self._adapt)
        if refused is None:
            return CandidateReply(fails=False)
        record = refusal_record(refused, candidate.schema, self._judge)
        return CandidateReply(fails=self._pattern.matches(record, self._hidden), message=record.verdict.message)


def find_invalid_schema(candidate: Candidate, judge: Judge) -> Verdict | None:
    """Return the problem of the first schema that is invalid; None if all are valid."""
    schemas = map(candidate.document_at, candidate.schema_places)
    return next((problem for schema in schemas if (problem := judge.inspect(schema)) is not None), None)


def first_refused(candidate: Candidate, adapt: Callable[[Schema], Adapted | Inexpressible]) -> Declined | None:
    """Return the refusal of the first schema that cannot be adapted, as an attempt has it; None if there is none."""
    for place in candidate.schema_places:
        adapted = adapt(candidate.document_at(place))
        if isinstance(adapted, Inexpressible):
            refusal = inexpressible(adapted)
            return name_tool_in_refusal(refusal, place.tool) if place.tool else refusal
    return None


def refusal_record(generation: Generation, schema: Schema, judge: Judge) -> Record:
    """Return a record of a refusal, as an attempt would have it."""
    key = CaseKey(task=TASK, id="refusal")
    verdict: Verdict = decide(generation, schema, judge)
    return Record.of(key=key, repeat=0, schema=schema, prompt=None, generation=generation, verdict=verdict)


class SessionAsker:
    """
    Makes the calls about candidates through the session of a run.

    The session's dataset is the mapping `entries`, to which each candidate is added before it is asked about.
    """

    def __init__(
        self,
        session: RunSession,
        entries: dict[CaseKey, ListedCase],
        pattern: FailurePattern,
        hidden: Collection[str],
        *,
        original: Case,
        max_calls: int,
        patience: float,
        deterministic: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.deterministic = deterministic
        self._session = session
        self._entries = entries
        self._pattern = pattern
        self._hidden = hidden
        self._original = original
        self._left = max_calls
        self._reserved = min(RESERVED_CALLS, max_calls // 3)
        self._patience = patience
        self._sleep = sleep
        self._lock = threading.Lock()
        self._controls = 0
        self._calls = 0

    @property
    def calls(self) -> int:
        """Number of calls that were made, without those found in records."""
        return self._calls

    def release_reserve(self) -> None:
        """Allow the calls that are reserved for the confirmation of the result."""
        with self._lock:
            self._reserved = 0

    def ask(self, candidate: Candidate, number: int) -> CandidateReply:
        """Ask about the candidate; if a server may have died of it, check that the server still works."""
        problem = find_invalid_schema(candidate, self._session.judge())
        if problem is not None:
            return CandidateReply(fails=False, message=problem.message)
        key = CaseKey(task=TASK, id=candidate.digest.removeprefix("sha256:")[:_DIGITS])
        if not self._are_messages_valid(candidate):
            return CandidateReply(fails=False, message="a tool's result does not follow its call")
        if not self._register(key, candidate):
            return CandidateReply(fails=False, message="the validators do not agree whether the answer is valid")
        record = self._make(Attempt(key, number))
        reply = self._read(record, candidate)
        if reply.fails and self._pattern.is_death:
            self._check_server()
        return reply

    def _register(self, key: CaseKey, candidate: Candidate) -> bool:
        """Add the candidate to the dataset; return False if it is not clear whether its labelled answer is valid."""
        instances = []
        if candidate.answer is not None:
            text = json.dumps(candidate.answer.value, ensure_ascii=False)
            verdict = self._session.judge().judge(candidate.schema, text)
            if verdict.valid is None or verdict.second_opinion is SecondOpinion.DISAGREES:
                return False
            instances = [Instance(id=ANSWER, valid=verdict.valid, text=text)]
        case = Case(key=key, schema=candidate.schema, messages=self._messages(candidate), offer=candidate.offer)
        with self._lock:
            self._entries[key] = ListedCase(
                task=TASK, name=key.id, where=str(key), read=partial(_return_case, case), instances=instances
            )
        return True

    def _messages(self, candidate: Candidate) -> tuple[Message, ...]:
        """Return the messages to send verbatim; empty if the run's prompt renders the schema."""
        if candidate.is_prompt_default and candidate.offer is not None:
            return (Message(role="user", content=default_request(candidate)),)
        if candidate.is_prompt_default:
            return schema_prompt(replace(self._original, schema=candidate.schema, about="")).messages
        return tuple(
            _with_other_schema(self._original.messages[at], self._original.schema, candidate.schema)
            for at in candidate.messages
        )

    def _are_messages_valid(self, candidate: Candidate) -> bool:
        """Return whether the messages that are left are a conversation."""
        try:
            check_calls([self._original.messages[at] for at in candidate.messages])
        except ValueError:
            return False
        return True

    def _make(self, attempt: Attempt) -> Record:
        """Make the attempt, or return its record from an earlier reduction; raise ReductionStopped if this fails."""
        if attempt not in self._session.recorded:
            with self._lock:
                if self._left <= self._reserved:
                    raise ReductionStopped(CALLS_SPENT)
                self._left -= 1
                self._calls += 1
        answered = self._session.ask(Question(attempt=attempt))
        outcome = answered.result.result
        if isinstance(outcome, Missing):
            raise ReductionStopped(outcome.message or outcome.reason.value)
        record = answered.record or outcome.read()
        if isinstance(record.generation, Failed) and record.generation.kind in _FINAL:
            raise ReductionStopped(f"{record.generation.kind.value}: {record.generation.message}")
        return record

    def _read(self, record: Record, candidate: Candidate) -> CandidateReply:
        message = record.verdict.message
        if self._pattern.matches(record, self._hidden, tool=candidate.tool):
            return CandidateReply(fails=True, message=message)
        undecided = isinstance(record.generation, Failed) or record.verdict.failure_type is FailureType.UNJUDGED
        undecided = undecided and not self.deterministic
        return CandidateReply(fails=None if undecided else False, message=message)

    def _check_server(self) -> None:
        """Wait until the server answers a harmless request; raise ReductionStopped if its time is over."""
        waited = 0.0
        while True:
            with self._lock:
                key = CaseKey(task=TASK, id="control")
                while Attempt(key, self._controls) in self._session.recorded:
                    self._controls += 1
                attempt = Attempt(key, self._controls)
                self._controls += 1
            self._register(key, _CONTROL)
            if not isinstance(self._make(attempt).generation, Failed):
                return
            if waited >= self._patience:
                raise ReductionStopped(
                    "the server no longer answers: start it again, and repeat the command to continue"
                )
            self._sleep(_PAUSE)
            waited += _PAUSE


def _return_case(case: Case, _: CaseKey) -> Case:
    return case


def _with_other_schema(message: Message, before: Schema, after: Schema) -> Message:
    """Return a message in which the text of the schema, if any, is replaced by that of another schema."""
    content = message.content
    for style in ({}, {"indent": 2}, {"indent": 4}, {"separators": (",", ":")}):
        content = content.replace(json.dumps(before, **style), json.dumps(after, **style))
    return replace(message, content=content)
