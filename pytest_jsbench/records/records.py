"""Define the records of a run: attempts with question, answer and verdict, and planned attempts without a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import msgspec
from msgspec import Struct, structs

from pytest_jsbench.adaptation import Change
from pytest_jsbench.core.cases import CaseKey, Expected, Prompt, PromptLength, Schema
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.files import json_line
from pytest_jsbench.core.generations import Completion, Generation, GenerationParams, Sent, ServedBy, Usage
from pytest_jsbench.core.json_values import Count, Digest, Seconds, Times, from_json, to_json, write_always
from pytest_jsbench.core.messages import Message, Role
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.core.tool_offers import ToolMode, ToolOffer, question_digest
from pytest_jsbench.records.call_load import CallLoad
from pytest_jsbench.records.next_steps import next_step
from pytest_jsbench.records.repairs import Repairs, written_generation
from pytest_jsbench.records.transit import Transit
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.values import Comparer, Match
from pytest_jsbench.values.value_digests import ValueDigest
from pytest_jsbench.verdicts import FailureType, Verdict
from pytest_jsbench.verdicts.verdicts import verdict_text


class MissingReason(StrEnum):
    """Reasons why a planned attempt was not made or has no record."""

    #: The run reached a limit that the user set with --jsbench-max-cost.
    LIMIT = "limit"
    #: The provider was down, or would have rejected every call.
    UNAVAILABLE = "unavailable"
    #: The attempt is in a provider's batch that has not ended.
    BATCH = "batch"
    #: Records could not be written, so no more calls were made.
    DISK = "disk"
    #: Memory, threads or open files ran out, or the limits could not be enforced.
    EXHAUSTED = "exhausted"
    #: The session ended before the attempt: Ctrl-C, -x, --maxfail.
    STOPPED = "stopped"
    #: The worker process that made the attempt died.
    WORKER_DIED = "worker_died"
    #: The user's own schema is invalid, so no call could be made.
    SCHEMA = "schema"
    #: The test of the attempt raised an error outside the call.
    ERROR = "error"


class Missing(Struct, frozen=True, kw_only=True, tag="missing", tag_field="type"):
    """A planned attempt without a record, or a project's own test that ended before its first call."""

    key: CaseKey
    repeat: int
    reason: MissingReason
    #: Explanation in one line; empty if the reason is sufficient.
    message: str = ""
    #: Variant of the run; empty in a run without variants.
    variant: str = ""
    #: How the project's own test ended; None for a case of the dataset.
    test_outcome: ProjectTestOutcome | None = None
    #: Whether the attempt was planned; False for a test that ended before its first call.
    is_planned: bool = True

    @property
    def attempt(self) -> Attempt:
        """Attempt that has no record."""
        return Attempt(self.key, self.repeat, self.variant)


#: Version of the lines in `records.jsonl`; increased when a field is added.
RECORDS_VERSION = "1.0"
#: Maximum length of a line in bytes; high enough for a schema, a prompt and an answer, as no record must be lost.
LONGEST_LINE = 100_000_000

#: Valid names of variants, which become part of node ids, gates and file names.
_VARIANT = re.compile(r"[\w.+-]{1,200}")


class Attempt(NamedTuple):
    """Identity of an attempt in a run: its case, the number of the repeat, and the variant."""

    key: CaseKey
    repeat: int
    #: Name of the variant; empty in a run without variants.
    variant: str = ""

    def name(self, *, several: bool) -> str:
        """Return the name for display, `task::id[variant-2]`; if `several` is set, the name includes the number."""
        parts = [*([self.variant] if self.variant else []), *([str(self.repeat + 1)] if several else [])]
        return f"{self.key}[{'-'.join(parts)}]" if parts else str(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy:
    """The project's own test that made an attempt."""

    #: Node id of the test.
    test: str
    #: Digest of the engine and the sampling parameters in the call.
    terms: str
    #: Line of the test in its file, from 1; None if unknown.
    line: int | None = None


class End(StrEnum):
    """Ways in which a test can end, in pytest's terms."""

    PASSED = "passed"
    FAILED = "failed"
    #: The test was skipped after it had made a call.
    SKIPPED = "skipped"
    #: The test failed, as the project's xfail marker expected.
    XFAILED = "xfailed"


class Cause(StrEnum):
    """Causes for the failure of a test."""

    #: The answer did not pass or is missing; the verdict contains the reason.
    ANSWER = "answer"
    #: An assertion in the project or `pytest.fail` failed the test.
    ASSERTION = "assertion"
    #: The answer's type rejected a value that its JSON Schema accepts.
    TYPE_REFUSED = "type_refused"
    #: The test exceeded its own timeout.
    TIMEOUT = "timeout"
    #: The test raised any other exception.
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTestOutcome:
    """How a project's own test, or one of its repeats, ended; not part of the verdict."""

    #: How the test ended, in pytest's terms; xfailed means that it failed as its marker expected.
    end: End
    #: Cause of the failure; None if the test did not fail.
    cause: Cause | None = None
    #: Name of the field that the answer's type rejected.
    field: str | None = None
    #: Message of the failure in one line; empty if there is no message or the message was removed.
    message: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the test passed; None if it neither passed nor failed."""
        return {End.PASSED: True, End.FAILED: False}.get(self.end)

    def without_messages(self, instead: str = "") -> ProjectTestOutcome:
        """Return the outcome with the message and the field's name removed, or replaced by `instead`."""
        return replace(self, message=self.message and instead, field=self.field and (instead or None))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTest:
    """A project's own test, or one of its repeats, that failed without a recorded call."""

    #: Task of the test, as in the records.
    task: str
    #: Name of the test, as in the records.
    id: str
    #: Number of the repeat, from 0.
    repeat: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Variant of the run; empty in a run without variants.
    variant: str = ""
    #: Cause of the failure.
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBy:
    """The engine and the model that answered an attempt, if they are not those of the run."""

    #: Name of the engine.
    engine: str
    #: Name of the model.
    model: str
    #: Provider whose published prices apply; None for a self-hosted server.
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSchema:
    """The information about a schema that a redacted record keeps, in addition to the schema's digest."""

    #: JSON Schema keywords in the schema.
    keywords: tuple[str, ...]


class Turn(TypedDict):
    """A message in the format of OpenAI's chat API."""

    #: Role of the message's sender.
    role: Role
    #: Text of the message; null if the assistant only called tools.
    content: str | None
    #: Tool calls by the assistant; absent if there are none.
    tool_calls: NotRequired[list[dict[str, Any]]]
    #: Id of the call that the message of a tool answers.
    tool_call_id: NotRequired[str]


class WrittenPrompt(Struct, frozen=True, kw_only=True):
    """A prompt as it was sent to the engine."""

    #: SHA-256 digest of the messages.
    digest: Digest
    #: The messages, in order.
    messages: Annotated[tuple[Turn, ...], msgspec.Meta(min_length=1)]

    @classmethod
    def of(cls, prompt: Prompt | None) -> WrittenPrompt | None:
        """Return the prompt as it is written to records; None if there is no prompt or the prompt has no messages."""
        if prompt is None or not prompt.messages:
            return None
        turns: Any = prompt.to_messages()
        return cls(digest=prompt.digest, messages=tuple(turns))


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record", tag_field="type"):
    """
    An attempt with its question, its answer and its verdict.

    The digest of the schema is not checked against the schema: for a record from a file, metrics use the file's digest.
    """

    #: Task of the case.
    task: str
    #: Name of the case in its task.
    id: str
    #: Number of the attempt at its case, from 0.
    repeat: Times
    #: SHA-256 digest of the schema in canonical JSON, or of an object with the schema and the offer if the case offers
    #: tools; None without a schema.
    schema_digest: Digest | None
    #: Schema of the case, by which the answer is judged; None for a dataset row without a readable schema.
    schema: Schema | None
    #: Prompt that was sent; None for an excluded case, for which no call was made.
    written_prompt: WrittenPrompt | None = msgspec.field(name="prompt")
    #: Result of the engine; None if no call was made.
    generation: Generation | None
    #: Verdict of the judge.
    verdict: Verdict
    #: Time of the call in ISO 8601 and UTC; None for an excluded case.
    started_at: str | None = write_always(None)
    #: Seconds that the attempt waited in the queue before it was sent.
    queue_s: Seconds | None = write_always(None)
    #: Number of failed calls that were retried before this result.
    retries: Times = write_always(0)
    #: Differences between the sent schema and the schema of the case, made by the adaptation or by the engine.
    changes: tuple[Change, ...] = write_always(())
    #: The project's own test that made the call; None for a case of the dataset.
    asked_by: AskedBy | None = write_always(None)
    #: Engine and model that answered; None if the run's engine and model answered.
    answered_by: AnsweredBy | None = write_always(None)
    #: Length of the prompt as known before the call; None if no call was to be made.
    prompt_length: PromptLength | None = write_always(None)
    #: Sampling parameters, as far as known; None means the provider's default.
    params: GenerationParams | None = write_always(None)
    #: Notes of the dataset on the correct answer; these are never compared.
    reference: Any = write_always(None)
    #: Expected answer; absent if the case has no expected answer.
    expected: Expected | None = None
    #: Comparison of the answer's values with the expected values, which is not part of the verdict; absent if no values
    #: are expected or there is no answer.
    match: Match | None = None
    #: Tags of the case, from its dataset.
    tags: tuple[str, ...] = write_always(())
    #: Codes that the project's own classifiers assigned to the failure.
    codes: tuple[str, ...] = write_always(())
    #: For each of the project's own metrics, its numerator and denominator; absent if there are none.
    scores: Mapping[str, tuple[Count, Count]] = {}
    #: Information about the schema of a redacted record, in which prompt and answer are digests; None if nothing is
    #: redacted.
    redacted: RedactedSchema | None = write_always(None)
    #: Variant of the run; absent in a run without variants.
    variant: str = ""
    #: How the project's own test ended; absent for a case of the dataset, or if the test has not ended.
    test_outcome: ProjectTestOutcome | None = None
    #: Tools that the case offers, by whose schemas calls are judged; absent if it offers none.
    offer: ToolOffer | None = None
    #: Id of the last call with which the application repeated this call or continued its conversation for the same
    #: answer, and which counts instead; absent if there is none.
    called_again: str = ""
    #: Second tries of a wrong answer, which are not part of the verdict; absent if the answer was not asked for again.
    repairs: Repairs | None = None
    #: Digests of the value of a conforming answer, for comparing the answers to a case; absent if the case has a single
    #: attempt.
    value_digest: ValueDigest | None = None
    #: How the schemas in an application's request compare with those that its test declares; absent if no declared
    #: schema applies.
    transit: Transit | None = None
    #: When the call began and ended, and the plain calls next to it; absent without a call, or if the run has neither a
    #: load nor a service level.
    load: CallLoad | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a part of the record is invalid, such as a message or a comparer."""
        _ = self.key, self.prompt  # these properties raise ValueError if they are invalid
        check_variant(self.variant)
        for comparer in () if self.expected is None else self.expected.comparers.values():
            Comparer.of(comparer)

    @classmethod
    def of(
        cls,
        *,
        key: CaseKey,
        schema: Schema | None,
        prompt: Prompt | None,
        offer: ToolOffer | None = None,
        **others: Any,
    ) -> Record:
        """Create the record of an attempt at a case, with the digests of its schema and prompt."""
        return cls(
            task=key.task,
            id=key.id,
            schema=schema,
            schema_digest=None if schema is None else question_digest(schema, offer),
            offer=offer,
            written_prompt=WrittenPrompt.of(prompt),
            **others,
        )

    @property
    def key(self) -> CaseKey:
        """Key of the case."""
        return CaseKey(task=self.task, id=self.id)

    @property
    def prompt(self) -> Prompt | None:
        """Prompt that was sent, without fields that later versions added; None if no prompt was sent."""
        if self.written_prompt is None:
            return None
        return Prompt(messages=tuple(Message.of(turn, exact=False) for turn in self.written_prompt.messages))

    @property
    def attempt(self) -> Attempt:
        """Attempt that identifies the record in its run."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def prompt_digest(self) -> str | None:
        """Digest of the prompt; None if no prompt was sent."""
        return None if self.written_prompt is None else self.written_prompt.digest

    @property
    def timing(self) -> Timing | None:
        """Times of the call; None without an answer, or if they were not measured."""
        return None if self.generation is None else self.generation.timing

    @property
    def usage(self) -> Usage | None:
        """Token counts of the call; None if no model answered."""
        return None if self.generation is None else self.generation.usage

    @property
    def sent(self) -> Sent | None:
        """Request that the engine sent; None if no model answered, or if the engine does not report it."""
        return None if self.generation is None else self.generation.sent

    @property
    def served_by(self) -> ServedBy | None:
        """What the server said about itself in its answer; None without an answer, or if it said nothing."""
        return self.generation.served_by if isinstance(self.generation, Completion) else None

    @property
    def batch(self) -> str | None:
        """Id of the provider's batch that contained the call; None for a single call."""
        return None if self.sent is None else self.sent.batch

    @property
    def explanation(self) -> str:
        """Explanation of the verdict: its text, an excerpt of the answer, codes, and what the user can change."""
        text = None
        if isinstance(self.generation, Completion):
            text = self.generation.text if self.offer is None else self.generation.shown
        lines = [verdict_text(self.verdict, text)]
        lines += [f"  codes:  {', '.join(map(printable, self.codes))}"] if self.codes else []
        lines += [f"  schema: {self.transit.summary}"] if self.transit is not None and self.transit.is_looser else []
        lines += [f"  tries:  {tries}" for tries in [self.repairs and self.repairs.summary] if tries]
        lines += [f"  next:   {step}" for step in [self.next_step] if step]
        return "\n".join(lines)

    @property
    def next_step(self) -> str:
        """Suggested change after a failure; empty if the attempt passed or the record is redacted."""
        return "" if self.redacted else next_step(self.verdict, self.generation, self.params, self.schema)

    @property
    def failure(self) -> tuple[str, str]:
        """
        Type and message of the failure in the verdict, or else of the project's own test; both
        empty if nothing failed.
        """
        verdict = self.verdict
        test = self.test_outcome
        if verdict.failure_type is not None:
            return verdict.failure_type.value, verdict.message
        return ("", "") if test is None or test.cause is None else (test.cause.value, test.message)

    @property
    def used_keywords(self) -> tuple[str, ...]:
        """JSON Schema keywords in the schema and in the schemas of the offered tools, in alphabetical order."""
        if self.redacted is not None:
            return self.redacted.keywords
        keywords = set(used_keywords(self.schema))
        for tool in () if self.offer is None else self.offer.tools:
            keywords |= used_keywords(tool.parameters)
        return tuple(sorted(keywords))

    @property
    def offered(self) -> ToolOffer | None:
        """
        Tools that were offered, with the tool choice of the run if it was set; None if the case offers none.

        A choice that names no offered tool is ignored, because such a request is never sent.
        """
        choice = None if self.params is None else self.params.tool_choice
        if self.offer is None or choice not in (*ToolMode, *self.offer.names):
            return self.offer
        return self.offer.with_choice(choice)

    @property
    def excluded(self) -> bool:
        """Whether the schema of the case is invalid or missing, so that no engine is to blame."""
        return self.verdict.failure_type is FailureType.INVALID_SCHEMA

    def with_schema(self, schema: Schema | None) -> Record:
        """Return the record with another schema and its digest."""
        of_schema = None if schema is None else question_digest(schema, self.offer)
        return structs.replace(self, schema=schema, schema_digest=of_schema)

    @property
    def with_last_answer(self) -> Record:
        """Record with the last answer of its second tries, and that answer's verdict, in place of the first answer."""
        answered = [] if self.repairs is None else [each for each in self.repairs.tries if not each.failed]
        if not answered:
            return self
        return structs.replace(self, generation=answered[-1].generation, verdict=answered[-1].verdict)

    @property
    def kept(self) -> Record:
        """Record as it is written to disk, without the parts that only the process that created it needs."""
        return structs.replace(
            self,
            generation=None if self.generation is None else written_generation(self.generation),
            verdict=structs.replace(self.verdict, instance=None),
            repairs=self.repairs and self.repairs.kept,
            load=self.load and self.load.kept,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values, as in a line of `records.jsonl`."""
        values: dict[str, Any] = to_json(self.kept)
        return values

    def to_line(self) -> bytes:
        """Return the record as a line of `records.jsonl`; its schema, which is most of it, is not copied."""
        values: dict[str, Any] = to_json(structs.replace(self.kept, schema=None))
        values["schema"] = self.schema
        return json_line(values)

    @classmethod
    def from_dict(cls, data: object) -> Record:
        """Parse a record from JSON values; raise a RecordError that names the first invalid field."""
        try:
            record: Record = from_json(cls, data)
        except ValueError as error:
            raise RecordError(f"not a record of pytest-jsbench: {error}") from error
        return record


def check_variant(name: str) -> None:
    """Raise ValueError if the name is neither empty nor a valid name of a variant."""
    if name and not _VARIANT.fullmatch(name):
        raise ValueError(
            f"'{printable(name, 60)}' is not a valid variant name: expected letters, digits and any of . _ + -"
        )
