"""Outcomes: what figures need of each attempt, held in memory; the records stay on disk, and are read there."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.core.files import FileReader, LinesByPlace, Unreadable, parse_json
from pytest_jsbench.core.generations import Decided, Failed, FaultKind, GenerationType, Timing, Usage, type_of
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.metadata import parse_line
from pytest_jsbench.records.records import LONGEST_LINE, AnsweredBy, AskedBy, Attempt, End, OwnOutcome, Record
from pytest_jsbench.records.settings import HANDED_IN, REMEMBERED
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import UNDESCRIBED, FailureType, Note

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import GrammarDecision
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Missing


#: characters of one reason of a run verdict, in which the node ids of several tests have room
_LONGEST_REASON = 2000


class Place(Struct, frozen=True, kw_only=True, tag="place", tag_field="type"):
    """Where the line of a record is: its file, and the bytes before it."""

    path: Path
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """Decisions of a grammar about the labelled answers of one case."""

    #: answers about which it was asked
    asked: int
    #: of those that it decided on
    valid: int
    valid_rejected: int
    invalid: int
    invalid_accepted: int

    @property
    def made(self) -> int:
        """Answers that it decided on."""
        return self.valid + self.invalid

    @property
    def wrong(self) -> int:
        """Answers that it decided on wrongly."""
        return self.valid_rejected + self.invalid_accepted

    @classmethod
    def of(cls, decisions: Iterable[GrammarDecision]) -> DecisionCounts:
        """The counts of those that were made."""
        labelled = list(decisions)
        made = [(decision.valid, decision.wrong) for decision in labelled if decision.accepted is not None]
        return cls(
            asked=len(labelled),
            valid=sum(valid for valid, _ in made),
            valid_rejected=made.count((True, True)),
            invalid=sum(not valid for valid, _ in made),
            invalid_accepted=made.count((False, True)),
        )


#: what an outcome has as its record, and as the verdict in that
_OF_RECORD = (
    *("key", "repeat", "codes", "queue_s", "retries", "schema_digest", "prompt_digest", "started_at", "asked_by"),
    *("answered_by", "called_again", "scores"),
)
_OF_VERDICT = ("failure_type", "reason", "valid", "disputed", "notes", "order_kept", "trivial")


class AttemptOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="outcome", tag_field="type"):
    """An attempt without its schema, prompt and answer."""

    key: CaseKey
    repeat: int
    #: where its record is; the record itself where no disk has it
    source: Place | Record
    #: None for an excluded case, for which nothing was asked
    generation: GenerationType | None
    failure_type: FailureType | None
    reason: str | None
    valid: bool | None
    disputed: bool
    #: keywords that the answer broke, or the invalid answers that were accepted, those of the first violation first
    broken: tuple[str, ...]
    notes: tuple[Note, ...]
    codes: tuple[str, ...]
    fault: FaultKind | None
    timing: Timing | None
    usage: Usage | None
    #: None where a model was asked
    decisions: DecisionCounts | None
    queue_s: float | None
    retries: int
    #: keywords of JSON Schema that its schema uses
    keywords: tuple[str, ...]
    #: of schema and prompt; None where there is none
    schema_digest: str | None
    prompt_digest: str | None
    started_at: str | None
    asked_by: AskedBy | None
    answered_by: AnsweredBy | None
    #: of a recorded answer: with which other settings it was asked for then
    asked_otherwise: str | None
    #: whether it was answered in a provider's batch
    batch: bool
    #: which of the run's variants asked; empty in a run without variants
    variant: str = ""
    #: whether a conforming answer keeps the order of the schema's properties; None where that means nothing
    order_kept: bool | None = None
    #: the constant answers that its schema takes; None where that is not known
    trivial: tuple[str, ...] | None = None
    #: how many values are right, without naming the others; None where none are expected, or the model said nothing
    match: Match | None = None
    #: how the project's test that asked ended, without its words; None where no test asked, or it has not ended
    test_outcome: OwnOutcome | None = None
    #: the id of the last call that its application made after it for the same; empty: it is the last one
    called_again: str = ""
    #: what the project's own metrics count of it, by their names: how many of how many
    scores: Mapping[str, tuple[int, int]] = {}

    def __post_init__(self) -> None:
        """Hold each name once, however many outcomes have it."""
        for name in ("broken", "codes", "keywords", "trivial"):
            if (names := getattr(self, name)) is not None:
                force_setattr(self, name, tuple(map(sys.intern, names)))

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run that it is of."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def identity(self) -> tuple[object, ...]:
        """The attempt and the question; equal for two records of the very same question."""
        return *self.attempt, self.schema_digest, self.prompt_digest

    @property
    def remembered(self) -> bool:
        """True where the answer is a recorded one, in a run that asked for others."""
        return self.answered_by is not None and self.answered_by.engine == REMEMBERED

    @property
    def handed_in(self) -> bool:
        """True where an application got its answer by itself."""
        return self.answered_by is not None and self.answered_by.engine == HANDED_IN

    @property
    def passed(self) -> bool:
        """True where nothing at all was wrong."""
        return self.failure_type is None

    @property
    def excluded(self) -> bool:
        """True where the case's own schema is broken, or it has none, so that no engine is to blame."""
        return self.failure_type is FailureType.INVALID_SCHEMA

    @property
    def counted(self) -> bool:
        """True where the figures count it: it has a schema, and is the last of its application's calls for the same."""
        return not (self.excluded or self.called_again)

    @property
    def failing(self) -> bool:
        """True where it counts as one that did not pass."""
        return self.counted and not self.passed

    @property
    def answered(self) -> bool:
        """True where the engine did what it was asked for."""
        return self.generation in {"completion", "decided"}

    @property
    def failed(self) -> bool:
        """True where the call broke."""
        return self.generation == "failed"

    @property
    def made(self) -> bool:
        """True where a model was called, or a grammar decided on labelled answers."""
        return self.prompt_digest is not None or self.generation in {"decided", "declined"}

    def read(self, lines: LinesByPlace | None = None) -> Record:
        """The record; from disk, so that whoever reads many asks `Records` for them, or keeps the files open."""
        if lines is not None:
            return record_at(self.source, self.attempt, lines)
        with open_lines() as opened:
            return record_at(self.source, self.attempt, opened)

    @classmethod
    def of(cls, record: Record, source: Place | None = None) -> AttemptOutcome:
        """The outcome of a record that is at this place; without one it is held with its outcome."""
        verdict, generation = record.verdict, record.generation
        sent = getattr(generation, "sent", None)
        decided = generation.decisions if isinstance(generation, Decided) else None
        broken = [
            *(violation.keyword for violation in verdict.violations),
            *(keyword for decision in decided or () for keyword in decision.keywords),
        ]
        return cls(
            **{name: getattr(record, name) for name in _OF_RECORD},
            **{name: getattr(verdict, name) for name in _OF_VERDICT},
            source=source or record,
            generation=None if generation is None else type_of(generation),
            broken=tuple(dict.fromkeys(broken)),
            fault=generation.kind if isinstance(generation, Failed) else None,
            timing=getattr(generation, "timing", None),
            usage=getattr(generation, "usage", None),
            decisions=None if decided is None else DecisionCounts.of(decided),
            keywords=tuple(sorted(used_keywords(record.schema))) if not record.redacted else record.redacted.keywords,
            asked_otherwise=None if sent is None else sent.asked_otherwise,
            batch=record.batch is not None,
            variant=sys.intern(record.variant),
            match=None if record.match is None else record.match.counts(),
            test_outcome=None if record.test_outcome is None else record.test_outcome.without_words(),
        )


def open_lines() -> LinesByPlace:
    """Make the reader of the lines of records files."""
    return LinesByPlace(FileReader(longest_line=LONGEST_LINE, error=JournalError))


def line_at(place: Place, lines: LinesByPlace) -> str:
    """The line of a record as it stands there, with an end; RecordError where no record can begin and end."""
    try:
        text = lines.read(place.path, place.start).decode("utf-8-sig").rstrip("\r\n")
    except ValueError as error:
        raise _changed(place) from error
    if not (text.startswith("{") and text.endswith("}")):
        raise _changed(place)
    return text + "\n"


def record_at(place: Place | Record, attempt: Attempt, lines: LinesByPlace) -> Record:
    """The record of the attempt; RecordError where somebody has written over it since its line was found."""
    if isinstance(place, Record):
        return place
    try:
        record = parse_line(parse_json(lines.read(place.path, place.start).rstrip(), largest=LONGEST_LINE))
    except (RecordError, Unreadable) as error:
        raise _changed(place) from error
    if not isinstance(record, Record) or (record.key, record.repeat) != (attempt.key, attempt.repeat):
        raise _changed(place)
    # an answer that was taken over may be of a variant that was called otherwise
    return record if record.variant == attempt.variant else structs.replace(record, variant=attempt.variant)


def _changed(place: Place) -> RecordError:
    message = f"{place.path}: no such record at byte {place.start:,}: the file was changed since it was found there"
    return RecordError(message, where=place.path)


class Records(Sequence[Record]):
    """
    The records of a run, in order, each read from disk when it is asked for.

    To go through all of them opens each file once, and holds no more than one record.
    """

    def __init__(self, outcomes: Sequence[AttemptOutcome]) -> None:
        self._outcomes = outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Record]:
        with open_lines() as lines:
            for outcome in self._outcomes:
                yield outcome.read(lines)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        if isinstance(index, slice):
            return Records(self._outcomes[index])
        return self._outcomes[index].read()


class RunStatus(StrEnum):
    """The end of a run."""

    PASSED = "passed"
    #: something was found to be wrong
    FAILED = "failed"
    #: nothing was, but too much is missing to say that all is right
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The decision on a run."""

    #: passed: the exit status is 0. failed: something was found to be wrong. incomplete: nothing was, but too much is
    #: missing to say that all is right
    status: RunStatus
    #: of pytest, or of the command that decided
    exit_status: int
    #: why, one line each, fit to be shown anywhere: the gates that are not met, the tests that failed of something else
    #: than an answer, what is missing
    because: tuple[str, ...]

    @classmethod
    def of(cls, status: RunStatus, exit_status: int, because: list[str]) -> RunVerdict:
        """The verdict for these reasons, whatever text they hold."""
        shown = tuple(printable(reason, _LONGEST_REASON) for reason in because)
        return cls(status=status, exit_status=exit_status, because=shown)

    def overruled(self, exit_status: int, reason: str) -> RunVerdict:
        """Return the verdict after another plugin changed the exit status, which never makes a failed run pass."""
        status = RunStatus.FAILED if self.passed and exit_status != 0 else self.status
        kept = () if self.passed else self.because
        return RunVerdict.of(status, exit_status, [*kept, reason])

    @property
    def passed(self) -> bool:
        """Whether the run passed; another plugin may have set an exit status that differs."""
        return self.status is RunStatus.PASSED

    @property
    def text(self) -> str:
        """The verdict as one line."""
        return f"{self.status.upper()}: {'; '.join(self.because)}"

    @classmethod
    def from_run_json(cls, data: Mapping[str, Any]) -> RunVerdict | None:
        """Read the run verdict of a run.json; None in one without a verdict, ValueError where it is none."""
        verdict: RunVerdict | None = from_json(cls | None, data.get("verdict"))
        return verdict and cls.of(verdict.status, verdict.exit_status, list(verdict.because))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    The outcomes of one session's attempts, and what was planned.

    A run of variants is several runs in one journal: `of_variant` gives each of them.
    """

    metadata: RunMetadata
    #: the case of each attempt that was to be made, in order: a case that is asked three times stands there thrice
    planned: tuple[CaseKey, ...]
    outcomes: tuple[AttemptOutcome, ...]
    #: planned attempts without a record, as far as it is known why
    missing: tuple[Missing, ...] = ()
    #: how many of the records were taken over from an earlier run
    resumed: int = 0
    #: what was decided of it; None where nobody has yet
    verdict: RunVerdict | None = None
    #: what could not be read of its files, one line each
    warnings: tuple[str, ...] = ()

    @property
    def records(self) -> Records:
        """The record of each outcome, read from disk."""
        return Records(self.outcomes)

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of its variants, in order; none where each case was asked in one way."""
        return tuple(variant.variant for variant in self.metadata.variants)

    def breaks(self, outcome: AttemptOutcome) -> bool:
        """
        Tell whether its broken schema counts against the run: the user's own, unless such cases are to be skipped.

        A project's own test is skipped then, as a case of the dataset is.
        """
        if not outcome.excluded or outcome.reason == UNDESCRIBED:
            return False
        if outcome.asked_by is not None:
            return outcome.test_outcome is None or outcome.test_outcome.end is not End.SKIPPED
        return self.metadata.dataset.get("invalid_schemas") in ("fail", "strict")

    def failed(self) -> list[AttemptOutcome]:
        """
        The attempts to be shown as failed: for their answer, their schema, or what their own test said.

        Of one that failed beside its answers, the last of them stands for all.
        """
        shown: dict[object, AttemptOutcome] = {}
        for outcome in self.outcomes:
            test, asked_by = outcome.test_outcome, outcome.asked_by
            if outcome.failing or self.breaks(outcome):
                shown[outcome.attempt] = outcome
            elif asked_by is not None and test is not None and test.passed is False:
                shown[asked_by.test, outcome.repeat, outcome.variant] = outcome
        return list(shown.values())

    def name_of(self, attempt: Attempt) -> str:
        """Name the attempt as its node id does: with its number where its case has several attempts."""
        return attempt.name(several=self.metadata.repeats > 1 or attempt.repeat > 0)

    def unrecorded(self) -> dict[Attempt, Missing | None]:
        """The planned attempts without a record, in order, each with why, as far as that is known."""
        reasons = {attempt.attempt: attempt for attempt in self.missing}
        made = {outcome.attempt for outcome in self.outcomes}
        unrecorded: dict[Attempt, Missing | None] = {}
        for variant, run in (self.each() or {self.metadata.variant: self}).items():
            answered = Counter(outcome.key for outcome in run.outcomes)
            for key, planned in Counter(run.planned).items():
                attempts = (Attempt(key, at, variant) for at in itertools.count())
                left = (attempt for attempt in attempts if attempt not in made)
                for attempt in itertools.islice(left, max(0, planned - answered[key])):
                    unrecorded[attempt] = reasons.get(attempt)
        return unrecorded

    def of_variant(self, name: str) -> Run:
        """The run that one variant alone would have been, without a verdict; KeyError where there is none."""
        return self.each()[name]

    def each(self) -> dict[str, Run]:
        """All its variants, as `of_variant` gives each, in one go through the outcomes."""
        outcomes: dict[str, list[AttemptOutcome]] = {name: [] for name in self.variants}
        missing: dict[str, list[Missing]] = {name: [] for name in self.variants}
        # a file of a stranger may name others
        for outcome in self.outcomes if outcomes else ():
            outcomes.get(outcome.variant, []).append(outcome)
        for entry in self.missing if missing else ():
            missing.get(entry.variant, []).append(entry)
        plans, runs = self.metadata.plans(), {}
        for name, made in outcomes.items():
            planned = plans[name]
            if planned is None:  # an old plan may not have been written down: what was recorded is what is known
                planned = tuple(outcome.key for outcome in made)
            metadata = self.metadata.of_variant(name)
            runs[name] = Run(metadata=metadata, planned=planned, outcomes=tuple(made), missing=tuple(missing[name]))
        return runs
