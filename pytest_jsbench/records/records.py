"""The records of a run: who was asked, each attempt, and why one that was planned has no record."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
from msgspec import Struct, structs

from pytest_jsbench.adaptation import Change
from pytest_jsbench.core.cases import CaseKey, Expected, Schema
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import Completion, Declined, Generation, GenerationParams
from pytest_jsbench.core.json_values import Digest, Seconds, Times, digest, from_json, to_json, written
from pytest_jsbench.core.messages import Message, Role
from pytest_jsbench.core.prompts import Prompt, PromptLength
from pytest_jsbench.core.text import printable
from pytest_jsbench.records.explanation import next_step
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
#: what is a variant's own; all else of a run's metadata its variants share
_OWN = (
    "variant",
    "engine",
    "model",
    "response_format",
    "streaming",
    "provider",
    "details",
    "params",
    "asked_params",
    "prompt",
    "prompt_digest",
    "shots",
    "adapt",
    "concurrency",
    "plan",
)


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
    asked: WrittenPrompt | None = msgspec.field(name="prompt")
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
        digest_of = None if schema is None else digest(schema)
        asked = WrittenPrompt.of(prompt)
        return cls(task=key.task, id=key.id, schema=schema, schema_digest=digest_of, asked=asked, **others)

    @property
    def key(self) -> CaseKey:
        """The case that it is of."""
        return CaseKey(task=self.task, id=self.id)

    @property
    def prompt(self) -> Prompt | None:
        """The messages that were sent, whatever else a later version says of them."""
        if self.asked is None:
            return None
        return Prompt(messages=tuple(Message.of(turn, exact=False) for turn in self.asked.messages))

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run that it is of."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def identity(self) -> tuple[object, ...]:
        """The attempt and the question; equal for two records of the very same question."""
        return *self.attempt, self.schema_digest, self.prompt_digest

    @property
    def prompt_digest(self) -> str | None:
        """The digest of the prompt; None where there is none."""
        return None if self.asked is None else self.asked.digest

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
        step = "" if self.redacted else next_step(self.verdict, self.generation, self.params)
        return "\n".join([*lines, *([f"  next:   {step}"] if step else [])])

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


class Entry(StrEnum):
    """By which door a run came in."""

    PYTEST = "pytest"
    LIBRARY = "library"


class Sampling(TypedDict, total=False):
    """How answers are sampled; None is the provider's own."""

    #: most tokens of an answer
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    #: sampling temperature
    temperature: float | None
    #: sampling seed
    seed: int | None
    #: seconds for one call
    timeout: float


class ChosenCases(TypedDict, total=False):
    """Which cases, and how they were chosen."""

    #: as for --jsbench-dataset; own tests for a run without a dataset
    source: str
    #: how many
    cases: Annotated[int, msgspec.Meta(ge=0)]
    #: as for --jsbench-split
    split: str
    #: as for --jsbench-tasks; None: all
    tasks: list[str] | None
    #: as for --jsbench-limit; None: all
    limit: int | None
    #: of the cases' names and schemas, in run.json
    digest: Digest
    #: which part of the cases the run was given
    shard: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$")] | None
    #: of the names of all cases, the other shards' too
    cases_digest: Digest
    #: whether labelled answers were asked about (--jsbench-instances), and no model
    labelled: bool
    #: as for --jsbench-invalid-schemas: whether broken schemas are missing, or left out
    invalid_schemas: Literal["fail", "skip", "strict"]
    #: as for --jsbench-where
    where: list[str]
    #: as for --jsbench-sample; None: all
    sample: int | None
    #: the sample's own seed; None where there is no sample
    sample_seed: int | None
    #: what a program did to the cases after it loaded them, in order
    steps: list[str]
    #: the revision that the name of a dataset on the hub ends in; None where none was named
    revision: str | None


class Strictness(TypedDict, total=False):
    """How strictly answers are judged, by the names of the options of the judge."""

    #: as for --jsbench-extra-fields
    extra_fields: Literal["fail", "allow"]
    #: names of fields that are never hallucinations
    ignored_fields: list[str]
    #: as for --jsbench-duplicate-keys
    duplicate_keys: Literal["note", "fail"]
    #: as for --jsbench-fences
    fences: Literal["strip", "forbid"]
    #: as for --jsbench-reasoning
    reasoning: Literal["keep", "strip"]
    #: as for --jsbench-formats
    formats: Literal["assert", "ignore"]
    #: the dialect of a schema that declares none
    default_dialect: str
    #: as for --jsbench-validator
    validator: Literal["both", "jsonschema-rs", "jsonschema"]
    #: seconds for one schema or answer
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]


class MetadataParts(Struct, frozen=True, kw_only=True):
    """What is in the mappings of a run's metadata, which keep what a later version adds."""

    params: Sampling
    asked_params: Sampling | None
    dataset: ChosenCases
    policy: Strictness


class _Parts(Struct, frozen=True, kw_only=True):
    run: MetadataParts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """
    What produced a run; JSON values, no key, no environment.

    Of a run of variants it says what they share; where they differ it counts ("2 models"), or is None.
    """

    #: the name of the run and of its folder
    run_id: str
    #: tells it from every other run, also one of the same second elsewhere; None where that was not written down
    uuid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    #: ISO 8601, UTC
    started_at: str
    #: the engine's name
    engine: str
    #: the model
    model: str
    #: how the schema reaches the engine; of a run of variants that differ in it their number, as of engine, model,
    #: prompt and adapt: 2 response formats
    response_format: str
    #: whether answers came token by token; None where variants differ in it
    streaming: bool | None
    #: whose published prices hold; None for a server of one's own
    provider: str | None = None
    #: versions of the engine's libraries, and settings that change answers
    details: Mapping[str, Any] = field(default_factory=dict)
    #: how answers are sampled: what was asked for, and what the engine itself adds
    params: Mapping[str, Any] = field(default_factory=dict)
    #: what of that was asked for; None where it was not written down
    asked_params: Mapping[str, Any] | None = None
    #: which cases, and how they were chosen
    dataset: Mapping[str, Any] = field(default_factory=dict)
    #: a preset, a file, or `package.module:function`
    prompt: str = "schema"
    #: of the template and its examples; None where that cannot be known
    prompt_digest: Digest | None = None
    #: examples before each question
    shots: Annotated[int, msgspec.Meta(ge=0)] | None = 0
    #: `verbatim`, or mode and subset: `narrow:openai@2026-08`
    adapt: str = "verbatim"
    #: attempts per case
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    #: calls in flight, per process; None where variants differ in it
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 1
    #: how strictly answers were judged, by the names of the options of the judge
    policy: Mapping[str, Any] = field(default_factory=dict)
    #: what gave failed attempts their codes, by name
    classifiers: Sequence[str] = field(default_factory=list)
    #: how values are compared as the user said it, by the name of the field: `function:package.module:same`
    comparers: Mapping[str, str] = field(default_factory=dict)
    #: whether digests stand for prompts, schemas and answers
    redacted: bool = False
    #: who ran it: pytest, or a program that called evaluate(); absent for pytest
    entry: Entry = Entry.PYTEST
    #: the run of which answers were taken over
    resumed_from: str | None = None
    #: by task, the ids of the cases that were to be attempted, in order; None where that was not written down
    plan: Mapping[str, Sequence[str]] | None = None
    #: versions of pytest-jsbench, of Python and of the validators
    versions: Mapping[str, str] = field(default_factory=dict)
    #: system, machine and number of processors
    host: Mapping[str, Any] = field(default_factory=dict)
    #: of which variant of a run it is; empty for a whole run
    variant: str = ""
    #: the ways in which the run asked each case, in order; empty where there was one. A plan of None is the run's
    variants: Annotated[tuple[RunMetadata, ...], msgspec.Meta(max_length=1000)] = ()

    def to_dict(self) -> dict[str, Any]:
        """The metadata as JSON values; of a variant what is its own stands there, once for all what they share."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["variants"] = [{name: getattr(variant, name) for name in _OWN} for variant in self.variants]
        unsaid = {name for name in ("variant", "variants", "comparers") if not data[name]}
        if self.entry is Entry.PYTEST:
            unsaid.add("entry")
        return {name: value for name, value in data.items() if name not in unsaid}

    def of_variant(self, name: str) -> RunMetadata:
        """The metadata of one variant, as of a run of its own; KeyError where there is none."""
        own = {variant.variant: variant for variant in self.variants}[name]
        plan = self.plan if own.plan is None else own.plan
        return replace(self, **{**{part: getattr(own, part) for part in _OWN}, "plan": plan, "variants": ()})

    def with_plan(self, attempts: Iterable[Attempt]) -> RunMetadata:
        """The same, and what was to be attempted."""
        plans: dict[str, dict[str, list[str]]] = {one.variant: {} for one in self.variants} or {"": {}}
        for key, _, variant in attempts:
            plans[variant].setdefault(key.task, []).append(key.id)
        first = next(iter(plans.values()))
        alike = all(plan == first for plan in plans.values())
        return replace(
            self,
            plan=first if alike else None,
            variants=tuple(replace(one, plan=None if alike else plans[one.variant]) for one in self.variants),
        )

    def planned(self) -> tuple[CaseKey, ...] | None:
        """The case of each attempt that was to be made, one variant's after another's; None where it is not known."""
        plans = self.plans()
        written = [plan for plan in plans.values() if plan is not None]
        return tuple(itertools.chain.from_iterable(written)) if len(written) == len(plans) else None

    def plans(self) -> dict[str, tuple[CaseKey, ...] | None]:
        """The same for each variant, by its name; what they share is one and the same tuple."""
        shared = None if self.plan is None else _keys(self.plan)
        own = {variant.variant: shared if variant.plan is None else _keys(variant.plan) for variant in self.variants}
        return own or {self.variant: shared}

    @property
    def judge(self) -> str:
        """The version of the rules that the run was judged by; the first ones were not written down."""
        return str(self.versions.get("judge", "1"))

    @property
    def labelled(self) -> bool:
        """True where an engine's grammar was asked about labelled answers, and no model for one."""
        return self.dataset.get("labelled") is True

    @property
    def engine_asked(self) -> AnsweredBy:
        """Who answers, where an attempt names nobody else."""
        return AnsweredBy(engine=self.engine, model=self.model, provider=self.provider)

    @classmethod
    def from_dict(cls, data: object) -> RunMetadata:
        """The inverse of `to_dict`; RecordError names the first place that is not of a header."""
        try:
            if not isinstance(data, dict):
                raise ValueError(f"it is {data!r:.40}, and no object")
            # a variant says what is its own, and a file of a stranger anything
            shared = {name: value for name, value in data.items() if name not in {"variants", "plan"}}
            variants = data.get("variants", [])
            if isinstance(variants, list):
                variants = [{**shared, **variant} if isinstance(variant, dict) else variant for variant in variants]
            metadata: RunMetadata = from_json(cls, {**data, "variants": variants})
            names = {variant.variant for variant in metadata.variants}
            if "" in names or len(names) < len(metadata.variants):
                raise ValueError("a variant has no name, or that of another")
            metadata.planned()  # every name in it is one
            for each in (metadata, *metadata.variants):
                datetime.fromisoformat(each.started_at)
                check_variant(each.variant)
                from_json(_Parts, {"run": {name: getattr(each, name) for name in MetadataParts.__struct_fields__}})
        except ValueError as error:
            raise RecordError(f"not the header of a run of pytest-jsbench: {error}") from error
        return metadata


def parse_line(data: object) -> Record | RunMetadata:
    """Read a line of a records file; RecordError names the first place that is not as its type describes it."""
    if isinstance(data, dict) and data.get("type") == "run":
        return RunMetadata.from_dict(data.get("run"))
    return Record.from_dict(data)


def _keys(plan: Mapping[str, Sequence[str]]) -> tuple[CaseKey, ...]:
    return tuple(CaseKey(task=task, id=name) for task, names in plan.items() for name in names)
