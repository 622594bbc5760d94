"""The records of a run: who was asked, each attempt, and why one that was planned has no record."""

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
    """Why a planned attempt was not made, or never heard of."""

    #: a limit that the user set: --jsbench-max-cost
    LIMIT = "limit"
    #: the provider was down, or would have refused each call
    UNAVAILABLE = "unavailable"
    #: it is in a provider's batch that has not ended
    BATCH = "batch"
    #: records could not be written any more, and what cannot be kept is not paid for
    DISK = "disk"
    #: memory, threads or open files ran out, or the limits could not be kept any more
    EXHAUSTED = "exhausted"
    #: the session ended first: Ctrl-C, -x, --maxfail
    STOPPED = "stopped"
    #: the process that made it died
    WORKER_DIED = "worker_died"
    #: the user's own schema is broken, so that nothing could be asked
    SCHEMA = "schema"
    #: its test broke before or beside the call
    ERROR = "error"


class Missing(Struct, frozen=True, kw_only=True, tag="missing", tag_field="type"):
    """A planned attempt without a record."""

    key: CaseKey
    repeat: int
    reason: MissingReason
    #: one line; empty where the reason says it all
    message: str = ""
    #: of which variant; empty in a run without variants
    variant: str = ""

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run that it would have been."""
        return Attempt(self.key, self.repeat, self.variant)


#: the version of a line of `records.jsonl`; raised when a field is added
RECORDS_VERSION = "1.0"
#: bytes of a line: a record holds the schema, the prompt and the answer, and that may not be lost by being long
LONGEST_LINE = 100_000_000

#: what may be called a variant: a part of a node id, of a gate and of a file's name
_VARIANT = re.compile(r"[\w.+-]{1,200}")


class Attempt(NamedTuple):
    """A case, which of its repeats, and in which of the run's ways it is asked."""

    key: CaseKey
    repeat: int
    #: empty in a run without variants
    variant: str = ""

    def name(self, *, several: bool) -> str:
        """The attempt for people: `task::id[variant-2]`, with the number where its case has several attempts."""
        parts = [*([self.variant] if self.variant else []), *([str(self.repeat + 1)] if several else [])]
        return f"{self.key}[{'-'.join(parts)}]" if parts else str(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy:
    """The project's own test that asked for an attempt."""

    #: its node id
    test: str
    #: digest of whom it asked, and with which sampling
    terms: str
    #: of its file, from 1; None where it is not known
    line: int | None = None


class End(StrEnum):
    """The end of a test, as pytest says it."""

    PASSED = "passed"
    FAILED = "failed"
    #: it was skipped after it had asked
    SKIPPED = "skipped"
    #: it failed, as a marker of the project had foretold
    XFAILED = "xfailed"


class Cause(StrEnum):
    """The cause for which a test failed."""

    #: the answer did not pass, or never came: the verdict says why
    ANSWER = "answer"
    #: an assertion of the project's own, or `pytest.fail`
    ASSERTION = "assertion"
    #: the answer's type refused what its JSON Schema takes
    TYPE_REFUSED = "type_refused"
    #: the test's own time was over
    TIMEOUT = "timeout"
    #: any other exception
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOutcome:
    """The end of a project's own test that asked, or of one of its repeats; it has no part in the verdict."""

    #: as pytest says it; xfailed: it failed as its marker foretells
    end: End
    #: None unless it failed
    cause: Cause | None = None
    #: of the answer's type: which field was refused
    field: str | None = None
    #: what the failure says, on one line; empty where there is nothing to say, and where it is left out
    message: str = ""

    @property
    def passed(self) -> bool | None:
        """True where the test passed; None where it neither passed nor failed."""
        return {End.PASSED: True, End.FAILED: False}.get(self.end)

    def without_words(self, instead: str = "") -> OwnOutcome:
        """The same without what the test said, and without the names of fields."""
        return replace(self, message=self.message and instead, field=self.field and (instead or None))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBy:
    """Who answered an attempt that named an engine or a model of its own."""

    #: the engine
    engine: str
    #: the model
    model: str
    #: whose published prices hold; None for a server of one's own
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSchema:
    """The part of its schema that a redacted record keeps, beside its digest."""

    #: the keywords of JSON Schema that it uses
    keywords: tuple[str, ...]


class Turn(TypedDict):
    """A message as OpenAI's chat has it."""

    #: who says it
    role: Role
    #: null where the assistant only called tools
    content: str | None
    #: there where the assistant called some
    tool_calls: NotRequired[list[dict[str, Any]]]
    #: of a tool's message: the call that it answers
    tool_call_id: NotRequired[str]


class WrittenPrompt(Struct, frozen=True, kw_only=True):
    """A prompt as it was asked."""

    #: SHA-256 of the messages
    digest: Digest
    #: the messages, in order
    messages: Annotated[tuple[Turn, ...], msgspec.Meta(min_length=1)]

    @classmethod
    def of(cls, prompt: Prompt | None) -> WrittenPrompt | None:
        """Write the prompt; a call that an application makes without any message has none."""
        if prompt is None or not prompt.messages:
            return None
        turns: Any = prompt.to_messages()
        return cls(digest=prompt.digest, messages=tuple(turns))


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record", tag_field="type"):
    """
    An attempt: the question, the answer and the verdict.

    Whoever makes one gives the digest of its schema: of those in a file it is taken for true while figures are made.
    """

    #: the case's task
    task: str
    #: the case's name in its task
    id: str
    #: which of the case's attempts, from 0
    repeat: Times
    #: SHA-256 of the schema in canonical JSON; None where there is none
    schema_digest: Digest | None
    #: the case's own, by which the answer is judged; None for a row that holds no JSON
    schema: Schema | None
    #: None for an excluded case, for which nothing was asked
    written_prompt: WrittenPrompt | None = msgspec.field(name="prompt")
    #: what came back of the engine; None where nothing was asked
    generation: Generation | None
    #: what the judge says of it
    verdict: Verdict
    #: ISO 8601, UTC; None for an excluded case
    started_at: str | None = written(None)
    #: seconds from being planned to being sent
    queue_s: Seconds | None = written(None)
    #: failed tries before this outcome
    retries: Times = written(0)
    #: how the schema that was sent differs from the case's, where it was adapted, or the engine itself changed it
    changes: tuple[Change, ...] = written(())
    #: the project's own test that asked; None: a case of the dataset
    asked_by: AskedBy | None = written(None)
    #: None: the run's engine
    answered_by: AnsweredBy | None = written(None)
    #: known before the call; None where nothing was to be asked
    prompt_length: PromptLength | None = written(None)
    #: how it was sampled, as far as that is known: what a provider decides by itself is None
    params: GenerationParams | None = written(None)
    #: words of the dataset on the right answer; nothing is compared with them
    reference: Any = written(None)
    #: the instance that is the right answer; not there where none is expected
    expected: Expected | None = None
    #: the answer's values beside the expected ones; it has no part in the verdict. Not there where none are expected,
    #: or the model said nothing
    match: Match | None = None
    #: the case's own, from its dataset
    tags: tuple[str, ...] = written(())
    #: what the project's own classifiers call the failure
    codes: tuple[str, ...] = written(())
    #: what the project's own metrics count of it, by their names: how many of how many. Not there where nothing is
    scores: Mapping[str, tuple[Count, Count]] = {}
    #: what stands for the schema where digests stand for prompt and answer; None: nothing is redacted
    redacted: RedactedSchema | None = written(None)
    #: which of the run's variants asked; not there in a run without variants
    variant: str = ""
    #: how the project's test that asked ended; not there for a case of the dataset, or where the test has not ended
    test_outcome: OwnOutcome | None = None
    #: the id of the last call that the application made after it for the same, and which counts in its place
    called_again: str = ""

    def __post_init__(self) -> None:
        """ValueError where a part of it is none that could be asked or compared with."""
        _ = self.key, self.prompt  # neither can be made of anything else
        check_variant(self.variant)
        for comparer in () if self.expected is None else self.expected.comparers.values():
            Comparer.of(comparer)

    @classmethod
    def of(cls, *, key: CaseKey, schema: Schema | None, prompt: Prompt | None, **others: Any) -> Record:
        """Make the record of an attempt at this case, with the digests of schema and prompt."""
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
        """The case that it is of."""
        return CaseKey(task=self.task, id=self.id)

    @property
    def prompt(self) -> Prompt | None:
        """The messages that were sent, whatever else a later version says of them."""
        if self.written_prompt is None:
            return None
        return Prompt(messages=tuple(Message.of(turn, exact=False) for turn in self.written_prompt.messages))

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run that it is of."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def prompt_digest(self) -> str | None:
        """The digest of the prompt; None where there is none."""
        return None if self.written_prompt is None else self.written_prompt.digest

    @property
    def batch(self) -> str | None:
        """The provider's batch that it was answered in; None for a call of its own."""
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
        """The change that may let it pass; empty where it passed, or its attempt shows none."""
        return "" if self.redacted else next_step(self.verdict, self.generation, self.params, self.schema)

    @property
    def failure(self) -> tuple[str, str]:
        """The failure of the verdict, or else of its own test, in a word and in a sentence; empty for nothing."""
        verdict, test = self.verdict, self.test_outcome
        if verdict.failure_type is not None:
            return verdict.failure_type.value, verdict.message
        return ("", "") if test is None or test.cause is None else (test.cause.value, test.message)

    @property
    def excluded(self) -> bool:
        """True where the case's own schema is broken, or it has none, so that no engine is to blame."""
        return self.verdict.failure_type is FailureType.INVALID_SCHEMA

    def with_schema(self, schema: Schema | None) -> Record:
        """The same with another schema."""
        return structs.replace(self, schema=schema, schema_digest=None if schema is None else digest(schema))

    @property
    def kept(self) -> Record:
        """The record without what only the process that made it needs."""
        generation = self.generation
        if isinstance(generation, Completion | Declined):
            sent = generation.sent and structs.replace(generation.sent, params=None)
            generation = structs.replace(generation, server=None, sent=sent)
        return structs.replace(self, generation=generation, verdict=structs.replace(self.verdict, instance=None))

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values, as a line of `records.jsonl` holds it."""
        values: dict[str, Any] = to_json(self.kept)
        return values

    @classmethod
    def from_dict(cls, data: object) -> Record:
        """The inverse of `to_dict`; RecordError names the first place that is not of a record."""
        try:
            record: Record = from_json(cls, data)
        except ValueError as error:
            raise RecordError(f"not a record of pytest-jsbench: {error}") from error
        return record


def check_variant(name: str) -> None:
    """ValueError where it is no name of a variant, and not that of none."""
    if name and not _VARIANT.fullmatch(name):
        raise ValueError(f"'{printable(name, 60)}' is no variant: expected letters, digits and any of . _ + -")
