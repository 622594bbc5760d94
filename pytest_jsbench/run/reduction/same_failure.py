"""Decide whether a candidate fails in the same way as the case: by its failure type, and by keyword or reason."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import Decided, Declined, Failed, FaultKind, GrammarDecision
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.reduction.vocabulary import VOCABULARY
from pytest_jsbench.verdicts import FailureType

#: Failure types whose message states the reason.
_EXPLAINED = frozenset({FailureType.UNSUPPORTED_SCHEMA, FailureType.REFUSAL, FailureType.API_ERROR})
#: Faults that may be the end of a server, whose messages differ from call to call.
DEATHS = frozenset(
    {FaultKind.CONNECTION, FaultKind.SERVER, FaultKind.TIMEOUT, FaultKind.CRASH, FaultKind.HANG, FaultKind.BAD_RESPONSE}
)
#: Faults that no schema causes.
_NO_SCHEMA = frozenset({FaultKind.AUTH, FaultKind.QUOTA, FaultKind.RATE_LIMITED})
#: Suffix of the id of a labelled answer whose names are written with escapes.
ESCAPED = "/escaped"
_MASK = "…"
_PATH = re.compile(r"(?<![\w/])[#$]?(?:/[\w~%.$*-]*)+")
_QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`")
#: An excerpt of the schema that a message quotes, possibly cut.
_EXCERPT = re.compile(r"\{.*(?:\}|$)", re.DOTALL)
#: A quoted text whose end was cut.
_OPEN_QUOTE = re.compile(r'"[^"]*$')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LISTED = re.compile(rf"[\[({{]*{_MASK}(?:[\s,:;\[\](){{}}'\"`]*(?:{_MASK}|(?:and|or)\s+{_MASK}))*[\])}}]*")


class ReductionError(JSBenchError):
    """The case cannot be reduced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePattern:
    """What a failure must have in common with the case's failure to count as the same."""

    failure_type: FailureType
    #: Reason in the verdict, such as the kind of a failed call; None if the type has no reasons.
    reason: str | None = None
    #: Keyword of the first violation; None if no keyword is violated.
    keyword: str | None = None
    #: Whether the wrong decision is about the answer with escaped names.
    is_escaped: bool = False
    #: Message of a refusal or a failed call, in which names are masked when messages are compared.
    message: str = ""
    #: Name of the offered tool to which the failure belongs; None if it belongs to no tool or the case offers none.
    tool: str | None = None

    @classmethod
    def of(cls, record: Record) -> FailurePattern:
        """Return the pattern of the failure in a record; raise ReductionError if no schema can be its cause."""
        verdict = record.verdict
        kind = verdict.failure_type
        problem = ""
        if kind is None:
            problem = "passed"
        elif kind is FailureType.INVALID_SCHEMA:
            problem = f"has an invalid schema ({verdict.message}), which no engine got"
        elif kind is FailureType.UNJUDGED:
            problem = f"was not judged ({verdict.message})"
        elif isinstance(record.generation, Failed) and record.generation.kind in _NO_SCHEMA:
            problem = f"failed by {record.generation.kind}, which no schema causes"
        if kind is None or problem:
            raise ReductionError(f"{record.key} {problem}; expected an attempt with another failure", where="case")
        is_death = isinstance(record.generation, Failed) and record.generation.kind in DEATHS
        wrong = wrong_decision(record)
        if wrong is not None:
            keyword = next(iter(wrong.keywords), None)
            is_escaped = wrong.id.endswith(ESCAPED)
            return cls(failure_type=kind, reason=_reason_of(wrong), keyword=keyword, is_escaped=is_escaped)
        return cls(
            failure_type=kind,
            reason=verdict.reason,
            keyword=next((violation.keyword for violation in verdict.violations), None),
            message=_message_of(record) if kind in _EXPLAINED and not is_death else "",
            tool=None if record.offer is None or record.offer.find(verdict.tool or "") is None else verdict.tool,
        )

    @property
    def is_death(self) -> bool:
        """Whether the failure may be the end of the server, so that it must be checked that the server still works."""
        return self.failure_type is FailureType.API_ERROR and self.reason in DEATHS

    @property
    def text(self) -> str:
        """Failure type, with keyword or reason, for display."""
        parts = [part for part in (self.keyword, self.reason) if part]
        return f"{self.failure_type.value} ({', '.join(parts)})" if parts else self.failure_type.value

    @property
    def identity(self) -> tuple[object, ...]:
        """What distinguishes this failure from others: two failures of different schemas may have the same identity."""
        return self.failure_type, self.reason, self.keyword, self.is_escaped, mask_names(self.message, ())

    def matches(self, record: Record, hidden: Collection[str], *, tool: str | None = None) -> bool:
        """
        Return whether the record has the same failure; the hidden names make no difference in messages.

        `tool` is the name that the failing tool has in the record, if the failure belongs to one.
        """
        verdict = record.verdict
        if verdict.failure_type is not self.failure_type:
            return False
        if isinstance(record.generation, Decided):
            decisions = [each for each in record.generation.decisions if each.id.endswith(ESCAPED) is self.is_escaped]
            return any(
                each.wrong and _reason_of(each) == self.reason and self.keyword in (None, *each.keywords)
                for each in decisions
            )
        if verdict.reason != self.reason or (self.tool is not None and verdict.tool != (tool or self.tool)):
            return False
        if self.keyword is not None and self.keyword not in {violation.keyword for violation in verdict.violations}:
            return False
        return not self.message or mask_names(self.message, hidden) == mask_names(_message_of(record), hidden)


def wrong_decision(record: Record) -> GrammarDecision | None:
    """Return the first wrong decision of a grammar, preferably not about an answer with escaped names."""
    if not isinstance(record.generation, Decided):
        return None
    wrong = [decision for decision in record.generation.decisions if decision.wrong]
    return min(wrong, key=lambda decision: decision.id.endswith(ESCAPED), default=None)


def _message_of(record: Record) -> str:
    """Return the message of a refusal or a failed call as it was received; the verdict's message may be cut."""
    generation = record.generation
    return generation.message if isinstance(generation, Declined | Failed) else record.verdict.message


def _reason_of(decision: GrammarDecision) -> str:
    return "over_constraint" if decision.valid else "under_constraint"


def mask_names(message: str, hidden: Collection[str]) -> str:
    """Return a message without excerpts, paths, numbers, quoted texts and hidden names; words of JSON Schema stay."""
    text = _PATH.sub(_MASK, _EXCERPT.sub(_MASK, message))
    text = _QUOTED.sub(lambda found: found[0] if (found[1] or found[2] or found[3]) in VOCABULARY else _MASK, text)
    text = _OPEN_QUOTE.sub(_MASK, text)
    words = sorted((re.escape(name) for name in hidden if name.strip()), key=len, reverse=True)
    if words:
        text = re.sub(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", _MASK, text)
    return _LISTED.sub(_MASK, _NUMBER.sub(_MASK, text))
