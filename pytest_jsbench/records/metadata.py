"""The description of a run: all that its answers depend on, as each of its files begins with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Struct

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.json_values import Digest, from_json
from pytest_jsbench.records.records import AnsweredBy, Attempt, Record, check_variant

#: what is a variant's own; all else of a run's metadata its variants share
_OWN = (
    *("variant", "engine", "model", "response_format", "streaming", "provider", "details", "params", "asked_params"),
    *("prompt", "prompt_digest", "shots", "adapt", "concurrency", "plan"),
)


class Entry(StrEnum):
    """By which door a run came in."""

    PYTEST = "pytest"
    LIBRARY = "library"


class Sampling(TypedDict, total=False):
    """The sampling of answers; None is the provider's own."""

    #: most tokens of an answer
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    #: sampling temperature
    temperature: float | None
    #: sampling seed
    seed: int | None
    #: seconds for one call
    timeout: float


class ChosenCases(TypedDict, total=False):
    """The cases, and the way in which they were chosen."""

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
    """The strictness of the judge, by the names of its options."""

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
    """The mappings of a run's metadata, which keep what a later version adds."""

    params: Sampling
    asked_params: Sampling | None
    dataset: ChosenCases
    policy: Strictness


class _Parts(Struct, frozen=True, kw_only=True):
    run: MetadataParts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """
    The settings that produced a run; JSON values, no key, no environment.

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
    #: versions of the engine's libraries, settings that change answers, and the SHA-256 of a local model's file
    details: Mapping[str, Any] = field(default_factory=dict)
    #: how answers are sampled: what was asked for, and what the engine itself adds
    params: Mapping[str, Any] = field(default_factory=dict)
    #: what of that was asked for; None where it was not written down
    asked_params: Mapping[str, Any] | None = None
    #: which cases, and how they were chosen
    dataset: Mapping[str, Any] = field(default_factory=dict)
    #: a name, a file, or `package.module:function`
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
    #: the project's own metrics that were asked for, by name
    metrics: Sequence[str] = field(default_factory=list)
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
    #: system, machine, number of processors, memory in GB, and GPUs, as far as system and driver say them
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
        """Give the metadata of one variant, as of a run of its own, or without a name the whole; KeyError for none."""
        if not name:
            return self
        own = {variant.variant: variant for variant in self.variants}[name]
        plan = self.plan if own.plan is None else own.plan
        return replace(self, **{**{part: getattr(own, part) for part in _OWN}, "plan": plan, "variants": ()})

    def with_plan(self, attempts: Iterable[Attempt]) -> RunMetadata:
        """The same, and what was to be attempted."""
        plans: dict[str, dict[str, list[str]]] = {way.variant: {} for way in self.variants} or {"": {}}
        for key, _, variant in attempts:
            plans[variant].setdefault(key.task, []).append(key.id)
        first = next(iter(plans.values()))
        alike = all(plan == first for plan in plans.values())
        return replace(
            self,
            plan=first if alike else None,
            variants=tuple(replace(way, plan=None if alike else plans[way.variant]) for way in self.variants),
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
