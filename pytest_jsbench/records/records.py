"""
Define the records of a run: each attempt with its question, answer and verdict, and planned
attempts without a record.
"""

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
from pytest_jsbench.core.generations import Completion, Declined, Generation, GenerationParams
from pytest_jsbench.core.json_values import Count, Digest, Seconds, Times, digest, from_json, to_json, written
from pytest_jsbench.core.messages import Message, Role
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.next_steps import next_step
from pytest_jsbench.values import Comparer, Match
from pytest_jsbench.verdicts import FailureType, Verdict
from pytest_jsbench.verdicts.verdicts import verdict_text


class MissingReason(StrEnum):
    """Why a planned attempt was not made, or has no record."""

    #: A limit that the user set: --jsbench-max-cost.
    LIMIT = "limit"
    #: The provider was down, or would have rejected every call.
    UNAVAILABLE = "unavailable"
    #: It is in a provider's batch that has not ended.
    BATCH = "batch"
    #: Records could not be written, and calls that cannot be recorded are not made.
    DISK = "disk"
    #: Memory, threads or open files ran out, or the limits could not be enforced.
    EXHAUSTED = "exhausted"
    #: The session ended first: Ctrl-C, -x, --maxfail.
    STOPPED = "stopped"
    #: The process that made it died.
    WORKER_DIED = "worker_died"
    #: The user's own schema is invalid, so no call could be made.
    SCHEMA = "schema"
    #: Its test raised an error outside the call.
    ERROR = "error"


class Missing(Struct, frozen=True, kw_only=True, tag="missing", tag_field="type"):
    """A planned attempt without a record, or a project's own test that ended before its first call."""

    key: CaseKey
    repeat: int
    reason: MissingReason
    #: One line; empty if the reason is enough.
    message: str = ""
    #: Variant of the run; empty in a run without variants.
    variant: str = ""
    #: How the project's own test ended; None for a case of the dataset.
    test_outcome: ProjectTestOutcome | None = None
    #: False if no call was due: the test ended before its first.
    is_planned: bool = True

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run."""
        return Attempt(self.key, self.repeat, self.variant)


#: Version of a line of `records.jsonl`; raised when a field is added.
RECORDS_VERSION = "1.0"
#: Maximum length of a line in bytes; a record contains schema, prompt and answer, and must not be lost for its length.
LONGEST_LINE = 100_000_000

#: Valid names of variants: a part of a node id, of a gate and of a file name.
_VARIANT = re.compile(r"[\w.+-]{1,200}")


class Attempt(NamedTuple):
    """A case, the number of the repeat, and the variant."""

    key: CaseKey
    repeat: int
    #: Empty in a run without variants.
    variant: str = ""

    def name(self, *, several: bool) -> str:
        """Return the name for people: `task::id[variant-2]`, with the number if its case has several attempts."""
        parts = [*([self.variant] if self.variant else []), *([str(self.repeat + 1)] if several else [])]
        return f"{self.key}[{'-'.join(parts)}]" if parts else str(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy:
    """The project's own test that made an attempt."""

    #: Its node id.
    test: str
    #: Digest of the engine and the sampling parameters.
    terms: str
    #: Line in its file, from 1; None if unknown.
    line: int | None = None


class End(StrEnum):
    """How a test ended, in pytest's terms."""

    PASSED = "passed"
    FAILED = "failed"
    #: Skipped after it had made a call.
    SKIPPED = "skipped"
    #: Failed as a marker of the project expected.
    XFAILED = "xfailed"


class Cause(StrEnum):
    """Why a test failed."""

    #: The answer did not pass, or is missing: the verdict has the reason.
    ANSWER = "answer"
    #: An assertion of the project, or `pytest.fail`.
    ASSERTION = "assertion"
    #: The answer's type rejected what its JSON Schema accepts.
    TYPE_REFUSED = "type_refused"
    #: The test's own timeout.
    TIMEOUT = "timeout"
    #: Any other exception.
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTestOutcome:
    """How a project's own test, or one of its repeats, ended; not part of the verdict."""

    #: In pytest's terms; xfailed: failed as its marker expected.
    end: End
    #: None unless it failed.
    cause: Cause | None = None
    #: Field of the answer's type that was rejected.
    field: str | None = None
    #: The failure in one line; empty if there is none, or it is left out.
    message: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the test passed; None if it neither passed nor failed."""
        return {End.PASSED: True, End.FAILED: False}.get(self.end)

    def without_messages(self, instead: str = "") -> ProjectTestOutcome:
        """Return it without the test's messages and names of fields."""
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
    #: Why it failed.
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBy:
    """The engine and model that answered, if the attempt had its own."""

    #: The engine.
    engine: str
    #: The model.
    model: str
    #: Provider whose published prices apply; None for your own server.
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSchema:
    """The part of its schema that a redacted record keeps, in addition to its digest."""

    #: Keywords of JSON Schema in it.
    keywords: tuple[str, ...]


class Turn(TypedDict):
    """A message in the form of OpenAI's chat API."""

    #: Role of the sender.
    role: Role
    #: Null if the assistant only called tools.
    content: str | None
    #: Present if the assistant called tools.
    tool_calls: NotRequired[list[dict[str, Any]]]
    #: For a tool's message, the id of the call that it answers.
    tool_call_id: NotRequired[str]


class WrittenPrompt(Struct, frozen=True, kw_only=True):
    """A prompt as it was sent."""

    #: SHA-256 of the messages.
    digest: Digest
    #: The messages, in order.
    messages: Annotated[tuple[Turn, ...], msgspec.Meta(min_length=1)]

    @classmethod
    def of(cls, prompt: Prompt | None) -> WrittenPrompt | None:
        """Convert the prompt; an application's call without any message has none."""
        if prompt is None or not prompt.messages:
            return None
        turns: Any = prompt.to_messages()
        return cls(digest=prompt.digest, messages=tuple(turns))


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record", tag_field="type"):
    """
    An attempt: the question, the answer and the verdict.

    The caller provides the digest of its schema; that of a record in a file is trusted when metrics are computed.
    """

    #: Task of the case.
    task: str
    #: Name of the case in its task.
    id: str
    #: Number of the case's attempt, from 0.
    repeat: Times
    #: SHA-256 of the schema in canonical JSON; None if there is none.
    schema_digest: Digest | None
    #: The case's own schema, by which the answer is judged; None for a row without JSON.
    schema: Schema | None
    #: None for an excluded case, for which no call was made.
    written_prompt: WrittenPrompt | None = msgspec.field(name="prompt")
    #: The engine's result; None if no call was made.
    generation: Generation | None
    #: The judge's verdict.
    verdict: Verdict
    #: ISO 8601, UTC; None for an excluded case.
    started_at: str | None = written(None)
    #: Seconds between being planned and being sent.
    queue_s: Seconds | None = written(None)
    #: Failed tries before this outcome.
    retries: Times = written(0)
    #: How the schema that was sent differs from the case's, if it was adapted, or the engine itself changed it.
    changes: tuple[Change, ...] = written(())
    #: The project's own test that made the call; None for a case of the dataset.
    asked_by: AskedBy | None = written(None)
    #: None for the run's engine.
    answered_by: AnsweredBy | None = written(None)
    #: Known before the call; None if no call was to be made.
    prompt_length: PromptLength | None = written(None)
    #: Sampling parameters, as far as known: None is the provider's default.
    params: GenerationParams | None = written(None)
    #: The dataset's notes on the correct answer; never compared.
    reference: Any = written(None)
    #: The correct instance; absent if none is expected.
    expected: Expected | None = None
    #: Comparison of the answer's values with the expected ones; not part of the verdict. Absent if none are expected,
    #: or there is no answer.
    match: Match | None = None
    #: Tags of the case, from its dataset.
    tags: tuple[str, ...] = written(())
    #: Codes that the project's own classifiers gave the failure.
    codes: tuple[str, ...] = written(())
    #: Counts of the project's own metrics by name: a part and its whole. Absent if there are none.
    scores: Mapping[str, tuple[Count, Count]] = {}
    #: Replaces the schema if prompt and answer are digests; None if nothing is redacted.
    redacted: RedactedSchema | None = written(None)
    #: Variant of the run; absent in a run without variants.
    variant: str = ""
    #: How the project's test ended; absent for a case of the dataset, or if the test has not ended.
    test_outcome: ProjectTestOutcome | None = None
    #: Id of the application's last call for the same, which counts instead of this one.
    called_again: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a part that cannot be sent or compared."""
        _ = self.key, self.prompt  # raise ValueError if they are invalid
        check_variant(self.variant)
        for comparer in () if self.expected is None else self.expected.comparers.values():
            Comparer.of(comparer)

    @classmethod
    def of(cls, *, key: CaseKey, schema: Schema | None, prompt: Prompt | None, **others: Any) -> Record:
        """Create the record of an attempt at this case, with the digests of schema and prompt."""
        return cls(
            task=key.task,
            id=key.id,
            schema=schema,
            schema_digest=None if schema is None else digest(schema),
            written_prompt=WrittenPrompt.of(prompt),
            **others,
        )

    @property
    def key(self) -> CaseKey:
        """The case."""
        return CaseKey(task=self.task, id=self.id)

    @property
    def prompt(self) -> Prompt | None:
        """The messages that were sent, without fields of later versions."""
        if self.written_prompt is None:
            return None
        return Prompt(messages=tuple(Message.of(turn, exact=False) for turn in self.written_prompt.messages))

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def prompt_digest(self) -> str | None:
        """Digest of the prompt; None if there is none."""
        return None if self.written_prompt is None else self.written_prompt.digest

    @property
    def batch(self) -> str | None:
        """The provider's batch that answered it; None for a single call."""
        sent = getattr(self.generation, "sent", None)
        return None if sent is None else sent.batch

    @property
    def explanation(self) -> str:
        """The verdict in words, an excerpt of the answer, the codes of classifiers, and what to change."""
        text = self.generation.text if isinstance(self.generation, Completion) else None
        lines = [verdict_text(self.verdict, text)]
        lines += [f"  codes:  {', '.join(map(printable, self.codes))}"] if self.codes else []
        lines += [f"  next:   {step}" for step in [self.next_step] if step]
        return "\n".join(lines)

    @property
    def next_step(self) -> str:
        """What to change so that it may pass; empty if it passed, or its attempt does not show it."""
        return "" if self.redacted else next_step(self.verdict, self.generation, self.params, self.schema)

    @property
    def failure(self) -> tuple[str, str]:
        """The failure of the verdict, or else of its own test, as a word and a sentence; empty if there is none."""
        verdict = self.verdict
        test = self.test_outcome
        if verdict.failure_type is not None:
            return verdict.failure_type.value, verdict.message
        return ("", "") if test is None or test.cause is None else (test.cause.value, test.message)

    @property
    def excluded(self) -> bool:
        """Whether the case's own schema is invalid or missing, so that no engine is to blame."""
        return self.verdict.failure_type is FailureType.INVALID_SCHEMA

    def with_schema(self, schema: Schema | None) -> Record:
        """Return the record with another schema."""
        return structs.replace(self, schema=schema, schema_digest=None if schema is None else digest(schema))

    @property
    def kept(self) -> Record:
        """Return the record without what only its process needs."""
        generation = self.generation
        if isinstance(generation, Completion | Declined):
            sent = generation.sent and structs.replace(generation.sent, params=None)
            generation = structs.replace(generation, server=None, sent=sent)
        return structs.replace(self, generation=generation, verdict=structs.replace(self.verdict, instance=None))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values, as in a line of `records.jsonl`."""
        values: dict[str, Any] = to_json(self.kept)
        return values

    @classmethod
    def from_dict(cls, data: object) -> Record:
        """Parse a record; the inverse of `to_dict`. RecordError names the first place that does not conform."""
        try:
            record: Record = from_json(cls, data)
        except ValueError as error:
            raise RecordError(f"not a record of pytest-jsbench: {error}") from error
        return record


def check_variant(name: str) -> None:
    """Raise ValueError if it is neither a variant's name nor empty."""
    if name and not _VARIANT.fullmatch(name):
        raise ValueError(
            f"'{printable(name, 60)}' is not a variant's name: expected letters, digits and any of . _ + -"
        )
