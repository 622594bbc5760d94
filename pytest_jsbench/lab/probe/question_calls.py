"""Send the questions of a probe, and read which answers conform and which belong to another question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from pytest_jsbench.core.generations import Completion, Decided, Declined, DeclineReason, Failed, FaultKind, Generation
from pytest_jsbench.core.text import sentence
from pytest_jsbench.lab.probe.calls import ProbeCall, ProbeCalls
from pytest_jsbench.lab.probe.enforcement import Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.questions import KEYWORDS, ProbeQuestion, Shown, words_of
from pytest_jsbench.records.records import Missing, Record
from pytest_jsbench.verdicts import FailureType
from pytest_jsbench.verdicts.verdicts import SyntaxReason

#: HTTP statuses with which servers reject an unsupported request.
_REFUSING = frozenset({400, 422, 501})
MIXED_UP = "it contains words of another request"
CUT_OFF = "the answer was cut off at the token limit; raise the limit with --max-tokens"


def is_refusal(generation: Generation | None) -> bool:
    """Return whether the server or the engine rejected the request as unsupported."""
    match generation:
        case Declined(reason=reason):
            return reason in (DeclineReason.UNSUPPORTED_SCHEMA, DeclineReason.UNSUPPORTED_TOOLS)
        case Failed(kind=FaultKind.BAD_REQUEST, status=status):
            return status in _REFUSING
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionCall:
    """A question, and how it is sent."""

    #: Name of the run's variant that makes the call.
    variant: str
    question: ProbeQuestion
    #: Where a control question shows the schema; None for a question that is not a control question.
    shown: Shown | None = None


class QuestionCalls:
    """
    Sends questions and reads the replies.

    The command creates one object for each probe; the main thread calls its methods. The words of all questions are
    kept, to recognize answers that belong to another question.
    """

    def __init__(self, calls: ProbeCalls) -> None:
        self._calls = calls
        #: Number of the question to which each word belongs.
        self._owners: dict[str, int] = {}

    def ask(self, asked: Sequence[QuestionCall], *, in_flight: int) -> Replies:
        """Send the questions, at most `in_flight` at a time; after Ctrl-C, return the replies so far."""
        numbers = [self._calls.new_number() for _ in asked]
        for number, each in zip(numbers, asked, strict=True):
            self._owners.update(dict.fromkeys(each.question.words, number))
        calls = [
            ProbeCall(variant=each.variant, case=each.question.case(number, shown=each.shown))
            for number, each in zip(numbers, asked, strict=True)
        ]
        records = self._calls.make(calls, in_flight=in_flight)
        replies = [
            self.read(record, each.question, number)
            for record, each, number in zip(records, asked, numbers, strict=False)
        ]
        return Replies(planned=len(asked), replies=tuple(replies))

    def read(self, record: Record | Missing, question: ProbeQuestion, number: int) -> Reply:
        """Convert the record into the reply to the question."""
        if isinstance(record, Missing):
            return Reply(kind=ReplyKind.UNDECIDED, wanted=question.wanted, message=record.message)
        match record.generation:
            case Completion(text=text):
                reply = self._read_answer(record, question, number, text)
            case Declined(message=message) | Failed(message=message):
                kind = ReplyKind.REFUSED if is_refusal(record.generation) else ReplyKind.UNDECIDED
                reply = Reply(kind=kind, message=message)
            case Decided() | None:
                reply = Reply(kind=ReplyKind.UNDECIDED, message=record.verdict.message)
            case never:
                assert_never(never)
        return replace(reply, wanted=question.wanted, message=sentence(reply.message))

    def _read_answer(self, record: Record, question: ProbeQuestion, number: int, text: str) -> Reply:
        verdict, words = record.verdict, words_of(text)
        foreign = any(self._owners.get(word, number) != number for word in words)
        cut_off = verdict.failure_type is FailureType.TRUNCATED and question.may_begin(text)
        kind = ReplyKind.VIOLATES
        message = CUT_OFF if cut_off else verdict.message
        if foreign:
            kind = ReplyKind.MIXED_UP
            message = MIXED_UP
        elif verdict.passed:
            kind = ReplyKind.CONFORMS
        elif cut_off or verdict.failure_type in (FailureType.UNJUDGED, FailureType.REFUSAL):
            kind = ReplyKind.UNDECIDED
        places = [(violation.keyword, *violation.schema_path.split("/")) for violation in verdict.violations]
        violated = {part for place in places for part in place if part in KEYWORDS}
        violated |= {"$ref" for place in places if "$defs" in place}
        # if the schema contains no random words, a duplicate key shows that the answer was constrained to JSON
        constrained_to_json = not question.marks and verdict.reason == SyntaxReason.DUPLICATE_KEYS
        traced = constrained_to_json or bool(words & question.marks)
        return Reply(kind=kind, traced=traced, violated=frozenset(violated), text=text, message=message)
