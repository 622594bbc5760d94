"""Keep in memory the facts about each attempt that metrics need; complete records are read from disk when needed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.core.files import FileReader, LinesByPlace, Unreadable, parse_json
from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    Failed,
    FaultKind,
    GenerationType,
    ServedBy,
    Usage,
    type_of,
)
from pytest_jsbench.core.json_values import from_known_json
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.records.call_load import LoadFacts
from pytest_jsbench.records.metadata import parse_line
from pytest_jsbench.records.records import LONGEST_LINE, AnsweredBy, AskedBy, Attempt, ProjectTestOutcome, Record
from pytest_jsbench.records.repairs import RepairFacts
from pytest_jsbench.records.setting_differences import HANDED_IN, REMEMBERED
from pytest_jsbench.schemas.schema_comparison import Relation
from pytest_jsbench.values import Match
from pytest_jsbench.values.value_digests import ValueDigestFacts
from pytest_jsbench.verdicts import NOT_REWRITTEN, FailureType, Note, Verdict

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import GrammarDecision


class Place(Struct, frozen=True, kw_only=True, tag="place", tag_field="type", gc=False):
    """Place of a record's line: its file, and the number of bytes before the line."""

    path: Path
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """Counts of a grammar's decisions about the labelled answers of one case."""

    #: Number of labelled answers that the grammar was given.
    asked: int
    #: Number of valid answers about which the grammar decided.
    valid: int
    valid_rejected: int
    invalid: int
    invalid_accepted: int

    @property
    def made(self) -> int:
        """Number of labelled answers about which the grammar decided."""
        return self.valid + self.invalid

    @property
    def wrong(self) -> int:
        """Number of wrong decisions."""
        return self.valid_rejected + self.invalid_accepted

    @classmethod
    def of(cls, decisions: Iterable[GrammarDecision]) -> DecisionCounts:
        """Return the counts of the decisions that were made."""
        labelled = list(decisions)
        made = [(decision.valid, decision.wrong) for decision in labelled if decision.accepted is not None]
        return cls(
            asked=len(labelled),
            valid=sum(valid for valid, _ in made),
            valid_rejected=made.count((True, True)),
            invalid=sum(not valid for valid, _ in made),
            invalid_accepted=made.count((False, True)),
        )


class ToolCalls(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Names of the tools that an answer calls, and of those that it should call."""

    #: Names of the called tools, in order.
    called: tuple[str, ...]
    #: Number of calls of offered tools with conforming arguments.
    conforming: int
    #: Names of the tools of the expected calls, as far as the tool choice allows them; None if any call is right.
    expected: tuple[str, ...] | None
    #: Whether the model decided if it calls a tool.
    decided: bool
    #: Whether the case expects a call; None if the case does not say.
    expects_call: bool | None
    #: Whether the answer has neither text nor calls, but reasoning.
    only_reasoning: bool

    def __post_init__(self) -> None:
        """Intern the names, because many answers have the same."""
        force_setattr(self, "called", tuple(map(sys.intern, self.called)))
        if self.expected is not None:
            force_setattr(self, "expected", tuple(map(sys.intern, self.expected)))

    @classmethod
    def of(cls, record: Record) -> ToolCalls | None:
        """Return the calls of the record's answer; None without an answer, or if the case offers no tools."""
        offer = record.offered
        generation = record.generation
        if offer is None or not isinstance(generation, Completion):
            return None
        demanded = offer.demanded
        return cls(
            called=tuple(call.name for call in generation.calls),
            conforming=record.verdict.conforming_calls or 0,
            expected=None if demanded is None else tuple(call.name for call in demanded),
            decided=offer.mode is ToolMode.AUTO,
            expects_call=offer.expects_call,
            only_reasoning=bool(generation.reasoning) and not (generation.text.strip() or generation.calls),
        )


class RecordedVerdict(Struct, frozen=True, kw_only=True):
    """Part of a record: how the attempt ended, with all messages, without its question and its answer."""

    task: str
    id: str
    repeat: int
    verdict: Verdict
    match: Match | None = None
    test_outcome: ProjectTestOutcome | None = None

    @classmethod
    def of(cls, record: Record) -> RecordedVerdict:
        """Return this part of a record."""
        return cls(**{name: getattr(record, name) for name in cls.__struct_fields__})


@functools.lru_cache(maxsize=1024)
def _shared_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same tuple for equal names, which attempts at similar cases have."""
    return tuple(map(sys.intern, names))


#: Returns the same text for equal digests, which attempts at one case have.
_shared_text = functools.lru_cache(maxsize=1024)(str)


# Nothing in a frozen value refers back to it, so the garbage collector need not visit one for each attempt.
class AttemptFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="facts", tag_field="type", gc=False):
    """
    What became of an attempt, in numbers and names; the schema, the prompt, the answer and all messages stay on disk.

    A field that the record or its verdict also has is the same value, without the texts in it.
    """

    key: CaseKey
    repeat: int
    #: Place of the attempt's record; the record itself if it is not on disk.
    source: Place | Record
    #: Type of the engine's result; None for an excluded case, for which no call was made.
    generation_type: GenerationType | None
    failure_type: FailureType | None
    reason: str | None
    valid: bool | None
    disputed: bool
    #: Keywords that the answer violates, in the order of the violations; for a grammar, the keywords violated by
    #: labelled answers that it wrongly accepted.
    broken: tuple[str, ...]
    notes: tuple[Note, ...]
    codes: tuple[str, ...]
    fault: FaultKind | None
    timing: Timing | None
    usage: Usage | None
    #: Counts of a grammar's decisions; None if a model was called.
    decisions: DecisionCounts | None
    queue_s: float | None
    retries: int
    #: JSON Schema keywords in the schema of the case.
    keywords: tuple[str, ...]
    #: Digest of the schema; None without a schema.
    schema_digest: str | None
    prompt_digest: str | None
    started_at: str | None
    asked_by: AskedBy | None
    answered_by: AnsweredBy | None
    #: For an answer from recordings, the settings that were different when the answer was recorded.
    asked_otherwise: str | None
    #: Id of the provider's batch that contained the call; None for a single call.
    batch: str | None
    #: Variant of the run; empty in a run without variants.
    variant: str = ""
    #: Whether properties in a conforming answer are in the schema's order; None if not applicable.
    order_kept: bool | None = None
    #: Constant answers, such as `{}`, that would pass in place of the attempt's answer; None if unknown.
    trivial: tuple[str, ...] | None = None
    #: Counts from the comparison with the expected values; None if no values are expected or there is no answer.
    match: Match | None = None
    #: Outcome of the project's own test that made the call, without messages; None without a test or before it ends.
    test_outcome: ProjectTestOutcome | None = None
    #: Id of the last call with which the application repeated or continued this call; empty if there is none.
    called_again: str = ""
    #: What the server says about itself in its answer; None if it says nothing.
    served_by: ServedBy | None = None
    #: Share of the answer's characters in its longest run of white space or repetition, if one of them is noted.
    runaway_share: float | None = None
    #: What became of the second tries of a wrong answer; None if it was not asked for again.
    repairs: RepairFacts | None = None
    #: Worst relation of the schemas in an application's request to the declared ones; None if none was compared.
    transit: Relation | None = None
    #: For each of the project's own metrics, its numerator and denominator.
    scores: Mapping[str, tuple[int, int]] = {}
    #: The tool calls of an answer to a case that offers tools; None without an answer, or if it offers none.
    tool_calls: ToolCalls | None = None
    #: Whether the server broke while this was the only call in flight.
    broke_server: bool = False
    #: Digests of the value of a conforming answer to a case with several attempts; None for any other attempt.
    value_digest: ValueDigestFacts | None = None
    #: When the call began and ended, and its plain calls; None without a load and a service level.
    load: LoadFacts | None = None

    def __post_init__(self) -> None:
        """Share equal names and digests, so that they take memory only once in many facts."""
        for name in ("broken", "codes", "keywords", "trivial"):
            if (names := getattr(self, name)) is not None:
                force_setattr(self, name, _shared_names(tuple(names)))
        for name in ("schema_digest", "prompt_digest"):
            if (text := getattr(self, name)) is not None:
                force_setattr(self, name, _shared_text(text))
        if self.variant:
            force_setattr(self, "variant", sys.intern(self.variant))
        if self.batch is not None:
            force_setattr(self, "batch", sys.intern(self.batch))

    @property
    def attempt(self) -> Attempt:
        """Case, repeat and variant, which identify the outcome in its run."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def identity(self) -> tuple[object, ...]:
        """Attempt with the digests of its question; equal for two records of the same question."""
        return *self.attempt, self.schema_digest, self.prompt_digest

    @property
    def remembered(self) -> bool:
        """Whether the answer was taken from recordings, in a run that made other calls."""
        return self.answered_by is not None and self.answered_by.engine == REMEMBERED

    @property
    def handed_in(self) -> bool:
        """Whether the application got the answer by itself, without the run's engine."""
        return self.answered_by is not None and self.answered_by.engine == HANDED_IN

    @property
    def passed(self) -> bool:
        """Whether the attempt has no failure."""
        return self.failure_type is None

    @property
    def excluded(self) -> bool:
        """Whether the schema of the case is invalid or missing, so that no engine is to blame."""
        return self.failure_type is FailureType.INVALID_SCHEMA

    @property
    def not_rewritten(self) -> bool:
        """Whether the attempt was not made because its schema cannot be rewritten as the variant demands."""
        return self.excluded and self.reason == NOT_REWRITTEN

    @property
    def counted(self) -> bool:
        """Whether metrics count the attempt: its schema is valid, and the application did not repeat the call later."""
        return not (self.excluded or self.called_again)

    @property
    def failing(self) -> bool:
        """Whether the attempt is counted and did not pass."""
        return self.counted and not self.passed

    @property
    def answered(self) -> bool:
        """Whether the engine gave an answer, or decided about labelled answers."""
        return self.generation_type in {"completion", "decided"}

    @property
    def failed(self) -> bool:
        """Whether the call failed."""
        return self.generation_type == "failed"

    @property
    def made(self) -> bool:
        """Whether the engine was called: a model for an answer, or a grammar for decisions about labelled answers."""
        return self.prompt_digest is not None or self.generation_type in {"decided", "declined"}

    def read(self, lines: LinesByPlace | None = None) -> Record:
        """Read the record from disk; to read many records, use `Records`, or pass open `lines`."""
        if lines is not None:
            return record_at(self.source, self.attempt, lines)
        with open_lines() as opened:
            return record_at(self.source, self.attempt, opened)

    def read_verdict(self, lines: LinesByPlace) -> RecordedVerdict:
        """Read only how the attempt ended, which takes a small part of the time of `read`."""
        if isinstance(self.source, Place):
            found = from_known_json(RecordedVerdict, lines.read(self.source.path, self.source.start))
            if found is not None and (found.task, found.id, found.repeat) == (self.key.task, self.key.id, self.repeat):
                return found
        return RecordedVerdict.of(self.read(lines))

    @classmethod
    def of(cls, record: Record, source: Place | None = None) -> AttemptFacts:
        """Return the facts in a record; without the record's place on disk, the facts keep the record itself."""
        generation = record.generation
        decisions = generation.decisions if isinstance(generation, Decided) else None
        broken = [
            *(violation.keyword for violation in record.verdict.violations),
            *(keyword for decision in decisions or () for keyword in decision.keywords),
        ]
        values = {name: getattr(record, name) for name in _OF_RECORD}
        values |= {name: getattr(record.verdict, name) for name in _OF_VERDICT}
        # the only parts with texts
        values["match"] = None if record.match is None else record.match.counts()
        values["test_outcome"] = None if record.test_outcome is None else record.test_outcome.without_messages()
        values["repairs"] = None if record.repairs is None else record.repairs.facts()
        values["value_digest"] = None if record.value_digest is None else record.value_digest.facts()
        values["transit"] = None if record.transit is None else record.transit.relation
        values["load"] = None if record.load is None else record.load.facts()
        return cls(
            **values,
            source=source or record,
            generation_type=None if generation is None else type_of(generation),
            broken=tuple(dict.fromkeys(broken)),
            fault=generation.kind if isinstance(generation, Failed) else None,
            decisions=None if decisions is None else DecisionCounts.of(decisions),
            keywords=record.used_keywords,
            asked_otherwise=None if record.sent is None else record.sent.asked_otherwise,
            tool_calls=ToolCalls.of(record),
            broke_server=isinstance(generation, Failed) and generation.broke_server,
        )


#: Fields of the facts that a record has, and those that its verdict has.
_OF_RECORD = tuple(name for name in AttemptFacts.__struct_fields__ if hasattr(Record, name))
_OF_VERDICT = tuple(name for name in AttemptFacts.__struct_fields__ if hasattr(Verdict, name))


def open_lines() -> LinesByPlace:
    """Return a reader of the lines of records files."""
    return LinesByPlace(FileReader(longest_line=LONGEST_LINE, error=JournalError))


def line_at(place: Place, lines: LinesByPlace) -> str:
    """Return the line that begins at this place, with its line feed; raise RecordError if it is not a record."""
    try:
        text = lines.read(place.path, place.start).decode("utf-8-sig").rstrip("\r\n")
    except ValueError as error:
        raise _changed_file_error(place) from error
    if not (text.startswith("{") and text.endswith("}")):
        raise _changed_file_error(place)
    return text + "\n"


def record_at(place: Place | Record, attempt: Attempt, lines: LinesByPlace) -> Record:
    """Return the attempt's record; raise RecordError if the file was overwritten after the attempt."""
    if isinstance(place, Record):
        return place
    line = lines.read(place.path, place.start).rstrip()
    try:
        # the line was checked when it was written or first read; it has changed if it is of no record of the attempt
        record = from_known_json(Record, line) or parse_line(parse_json(line, largest=LONGEST_LINE))
    except (RecordError, Unreadable) as error:
        raise _changed_file_error(place) from error
    if not isinstance(record, Record) or (record.key, record.repeat) != (attempt.key, attempt.repeat):
        raise _changed_file_error(place)
    # a reused answer may come from a variant that had another name
    return record if record.variant == attempt.variant else structs.replace(record, variant=attempt.variant)


def _changed_file_error(place: Place) -> RecordError:
    message = f"{place.path}: no such record at byte {place.start:,}: the file was changed after the record was written"
    return RecordError(message, where=place.path)
