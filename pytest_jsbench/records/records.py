"""The records of a run: who was asked, each attempt, and why one that was planned has no record."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from pytest_jsbench.adaptation import Change
from pytest_jsbench.core.cases import CaseKey, Expected, Schema
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import (
    Completion,
    Generation,
    GenerationParams,
    generation_from_dict,
    generation_to_dict,
)
from pytest_jsbench.core.json_values import UNSAID, UNWRITTEN, digest, from_json, to_json
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt, PromptLength
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import HEADER, RECORD
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
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

    engine: str
    model: str
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSchema:
    """The part of its schema that a redacted record keeps."""

    #: as of the schema itself
    digest: str | None = field(metadata=UNWRITTEN)
    #: the keywords of JSON Schema that it uses
    keywords: tuple[str, ...]


class Digests(NamedTuple):
    """Of a record's schema and prompt; None where there is none. It takes long to make them of large ones."""

    schema: str | None
    prompt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An attempt: the question, the answer and the verdict."""

    key: CaseKey = field(metadata=UNWRITTEN)
    repeat: int
    #: None for a row that holds no JSON
    schema: Schema | None = field(metadata=UNWRITTEN)
    #: None for an excluded case, for which nothing was asked
    prompt: Prompt | None = field(metadata=UNWRITTEN)
    generation: Generation | None = field(metadata=UNWRITTEN)
    verdict: Verdict = field(metadata=UNWRITTEN)
    #: ISO 8601, UTC; None for an excluded case
    started_at: str | None = None
    #: seconds from being planned to being sent
    queue_s: float | None = None
    #: failed tries before this outcome
    retries: int = 0
    #: how the schema that was sent differs from the case's, where it was adapted
    changes: tuple[Change, ...] = ()
    #: None: a case of the dataset
    asked_by: AskedBy | None = None
    #: None: the run's engine
    answered_by: AnsweredBy | None = None
    #: None where nothing was to be asked
    prompt_length: PromptLength | None = None
    #: how it was sampled, as far as that is known: what a provider decides by itself is None
    params: GenerationParams | None = None
    #: words of the dataset on the right answer; nothing is compared with them
    reference: object = None
    #: the instance that is the right answer; None where none is expected
    expected: Expected | None = field(default=None, metadata=UNSAID)
    #: the answer's values beside the expected ones; it has no part in the verdict. None where the model said nothing
    match: Match | None = field(default=None, metadata=UNSAID)
    #: the case's own, from its dataset
    tags: tuple[str, ...] = ()
    #: what the project's own classifiers call the failure
    codes: tuple[str, ...] = ()
    #: what stands for the schema where digests stand for prompt and answer; None: nothing is redacted
    redacted: RedactedSchema | None = None
    #: which of the run's variants asked; empty in a run without variants
    variant: str = field(default="", metadata=UNSAID)
    #: how the project's test that asked ended; None: a case of the dataset, or the test has not ended
    test_outcome: OwnOutcome | None = field(default=None, metadata=UNSAID)
    #: the id of the last call that the application made after it for the same, and which counts in its place
    called_again: str = field(default="", metadata=UNSAID)

    @property
    def attempt(self) -> Attempt:
        """The attempt of the run that it is of."""
        return Attempt(self.key, self.repeat, self.variant)

    @property
    def identity(self) -> tuple[object, ...]:
        """The attempt and the question; equal for two records of the very same question."""
        return *self.attempt, *self.digests

    @property
    def schema_digest(self) -> str | None:
        """The digest of the schema; None for a row that holds no JSON."""
        if self.redacted is not None:
            return self.redacted.digest
        return None if self.schema is None else digest(self.schema)

    @property
    def digests(self) -> Digests:
        """The digests of schema and prompt."""
        return Digests(self.schema_digest, None if self.prompt is None else self.prompt.digest)

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

    def to_dict(self, digests: Digests | None = None) -> dict[str, Any]:
        """The record as JSON values, as a line of `records.jsonl` holds it; `digests` are its own, where known."""
        digests = digests or self.digests
        messages = self.prompt.to_messages() if self.prompt else []
        return {
            "type": "record",
            "task": self.key.task,
            "id": self.key.id,
            "schema_digest": digests.schema,
            "schema": self.schema,
            # a call that an application makes without any message has none
            "prompt": {"digest": digests.prompt, "messages": messages} if self.prompt and messages else None,
            "generation": None if self.generation is None else generation_to_dict(self.generation),
            "verdict": self.verdict.to_dict(),
            **to_json(self),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of `to_dict`, of a line that is as it was published; RecordError where it is no record."""
        try:
            prompt, generation, redacted = data["prompt"], data["generation"], data.get("redacted")
            expected, match = data.get("expected"), data.get("match")
            turns = None if prompt is None else tuple(Message.of(turn, exact=False) for turn in prompt["messages"])
            return from_json(
                cls,
                data,
                key=CaseKey(task=data["task"], id=data["id"]),
                schema=data["schema"],
                prompt=None if turns is None else Prompt(messages=turns),
                generation=None if generation is None else generation_from_dict(generation),
                verdict=Verdict.from_dict(data["verdict"]),
                expected=None if expected is None else _expected(expected),
                match=None if match is None else Match.from_dict(match),
                redacted=None
                if redacted is None
                else from_json(RedactedSchema, redacted, digest=data["schema_digest"]),
                variant=_variant(data.get("variant", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"not a record of pytest-jsbench: {type(error).__name__}: {error}") from error


def _variant(name: object) -> str:
    """The name of a variant, or of none; ValueError where it is no name."""
    if name == "" or (isinstance(name, str) and _VARIANT.fullmatch(name)):
        return name
    raise ValueError(f"'{printable(str(name), 60)}' is no variant: expected letters, digits and any of . _ + -")


def _expected(data: Mapping[str, Any]) -> Expected:
    """Read what was expected; ValueError where it could not be compared with."""
    expected = from_json(Expected, data)
    for comparer in expected.comparers.values():
        Comparer.of(comparer)
    return expected


class Entry(StrEnum):
    """By which door a run came in."""

    PYTEST = "pytest"
    LIBRARY = "library"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """
    What produced a run; JSON values, no key, no environment.

    Of a run of variants it says what they share; where they differ it counts ("2 models"), or is None.
    """

    run_id: str
    #: tells it from every other run, also one of the same second elsewhere; None where that was not written down
    uuid: str | None = None
    #: ISO 8601, UTC
    started_at: str
    engine: str
    model: str
    response_format: str
    streaming: bool | None
    provider: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    #: how answers are sampled: what was asked for, and what the engine itself adds
    params: Mapping[str, Any] = field(default_factory=dict)
    #: what of that was asked for; None where it was not written down
    asked_params: Mapping[str, Any] | None = None
    dataset: Mapping[str, Any] = field(default_factory=dict)
    #: a preset, a file, or `package.module:function`
    prompt: str = "schema"
    #: of the template and its examples; None where that cannot be known
    prompt_digest: str | None = None
    #: examples before each question
    shots: int | None = 0
    #: `verbatim`, or mode and subset: `narrow:openai@2026-08`
    adapt: str = "verbatim"
    repeats: int = 1
    concurrency: int | None = 1
    policy: Mapping[str, Any] = field(default_factory=dict)
    #: what gave failed attempts their codes, by name
    classifiers: Sequence[str] = field(default_factory=list)
    #: how values are compared as the user said it, by the name of the field: `function:package.module:same`
    comparers: Mapping[str, str] = field(default_factory=dict)
    #: whether digests stand for prompts, schemas and answers
    redacted: bool = False
    entry: Entry = Entry.PYTEST
    #: the run of which answers were taken over
    resumed_from: str | None = None
    #: by task, the ids of the cases that were to be attempted, in order; None where that was not written down
    plan: Mapping[str, Sequence[str]] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    #: of which variant of a run it is; empty for a whole run
    variant: str = ""
    #: the ways in which the run asked each case, in order; empty where there was one. A plan of None is the run's
    variants: tuple[RunMetadata, ...] = ()

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
    def from_dict(cls, data: Mapping[str, Any]) -> RunMetadata:
        """The inverse of `to_dict`, of a header that is as it was published; fields it does not know are left alone."""
        try:
            datetime.fromisoformat(data["started_at"])
            values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
            _variant(values.get("variant", ""))
            values["entry"] = Entry(values.get("entry", Entry.PYTEST))
            metadata = cls(**{**values, "variants": _variants(data)})
            metadata.planned()  # every name in it is one
            return metadata
        except KeyError as error:
            raise RecordError(f"not the header of a run of pytest-jsbench: {error.args[0]} is missing") from error
        except (TypeError, ValueError) as error:
            raise RecordError(f"not the header of a run of pytest-jsbench: {error}") from error


def parse_line(data: object) -> Record | RunMetadata:
    """Read a line of a records file; RecordError names the first place that is not as it was published."""
    if not isinstance(data, dict):
        raise RecordError("not an object")
    if data.get("type") == "run":
        HEADER.check(data)
        return RunMetadata.from_dict(data.get("run", {}))
    RECORD.check(data)
    return Record.from_dict(data)


def _keys(plan: Mapping[str, Sequence[str]]) -> tuple[CaseKey, ...]:
    return tuple(CaseKey(task=task, id=name) for task, names in plan.items() for name in names)


def _variants(data: Mapping[str, Any]) -> tuple[RunMetadata, ...]:
    """The variants in a run's header, each whole; RecordError or ValueError where one is none."""
    shared = {name: value for name, value in data.items() if name not in {"variants", "plan"}}
    variants = tuple(RunMetadata.from_dict({**shared, **variant}) for variant in data.get("variants", ()))
    names = {variant.variant for variant in variants}
    if "" in names or len(names) < len(variants):
        raise ValueError("a variant has no name, or that of another")
    return variants
