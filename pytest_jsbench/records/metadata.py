"""Define the metadata of a run: everything that its answers depend on, which each of its files begins with."""

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
from pytest_jsbench.core.json_values import Digest, from_json, to_json
from pytest_jsbench.records.records import AnsweredBy, Attempt, EndedTest, Record, check_variant

#: Fields that each variant has itself; variants share all other metadata of the run.
_OWN = (
    *("variant", "engine", "model", "response_format", "streaming", "provider", "details", "params", "asked_params"),
    *("prompt", "prompt_digest", "shots", "adapt", "concurrency", "plan"),
)


class Entry(StrEnum):
    """How the run was started."""

    PYTEST = "pytest"
    LIBRARY = "library"


class Sampling(TypedDict, total=False):
    """The sampling of answers; None is the provider's default."""

    #: Maximum number of tokens of an answer.
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    #: Sampling temperature.
    temperature: float | None
    #: Sampling seed.
    seed: int | None
    #: Timeout of one call in seconds.
    timeout: float


class ChosenCases(TypedDict, total=False):
    """The cases, and how they were selected."""

    #: As for --jsbench-dataset; own tests for a run without a dataset.
    source: str
    #: Number of cases.
    cases: Annotated[int, msgspec.Meta(ge=0)]
    #: As for --jsbench-split.
    split: str
    #: As for --jsbench-tasks; None for all.
    tasks: list[str] | None
    #: As for --jsbench-limit; None for all.
    limit: int | None
    #: Digest of the cases' names and schemas, in run.json.
    digest: Digest
    #: Shard of the cases that the run was given.
    shard: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$")] | None
    #: Digest of the names of all cases, including other shards.
    cases_digest: Digest
    #: Whether labelled answers were decided (--jsbench-instances) instead of calling a model.
    labelled: bool
    #: As for --jsbench-invalid-schemas: whether invalid schemas fail or are skipped.
    invalid_schemas: Literal["fail", "skip", "strict"]
    #: As for --jsbench-where.
    where: list[str]
    #: As for --jsbench-sample; None for all.
    sample: int | None
    #: Seed of the sample; None without a sample.
    sample_seed: int | None
    #: Changes of the cases in Python after they were loaded, in order.
    steps: list[str]
    #: Revision at the end of a Hub dataset's name; None if there is none.
    revision: str | None


class Strictness(TypedDict, total=False):
    """The policy of the judge, by the names of its options."""

    #: As for --jsbench-extra-fields.
    extra_fields: Literal["fail", "allow"]
    #: Names of fields that never count as hallucinations.
    ignored_fields: list[str]
    #: As for --jsbench-duplicate-keys.
    duplicate_keys: Literal["note", "fail"]
    #: As for --jsbench-fences.
    fences: Literal["strip", "forbid"]
    #: As for --jsbench-reasoning.
    reasoning: Literal["keep", "strip"]
    #: As for --jsbench-formats.
    formats: Literal["assert", "ignore"]
    #: Dialect of a schema that declares none.
    default_dialect: str
    #: As for --jsbench-validator.
    validator: Literal["both", "jsonschema-rs", "jsonschema"]
    #: Time limit in seconds for one schema or answer.
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]


class MetadataParts(Struct, frozen=True, kw_only=True):
    """The mappings of a run's metadata, which keep fields of later versions."""

    params: Sampling
    asked_params: Sampling | None
    dataset: ChosenCases
    policy: Strictness


class _Parts(Struct, frozen=True, kw_only=True):
    run: MetadataParts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """
    The settings that produced a run: JSON values, without keys and environment.

    For a run with variants it has what they share; where they differ it has a count ("2 models") or None.
    """

    #: Name of the run and of its directory.
    run_id: str
    #: Distinguishes it from every other run, including one of the same second elsewhere; None if not recorded.
    uuid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    #: ISO 8601, UTC.
    started_at: str
    #: The engine's name.
    engine: str
    #: The model.
    model: str
    #: How the schema is passed to the engine; if variants differ, their number (2 response formats), as for engine,
    #: model, prompt and adapt.
    response_format: str
    #: Whether answers were streamed; None if variants differ.
    streaming: bool | None
    #: Provider whose published prices apply; None for your own server.
    provider: str | None = None
    #: Versions of the engine's libraries, settings that affect answers, and the SHA-256 of a local model's file.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Sampling parameters: the requested ones, and those that the engine adds.
    params: Mapping[str, Any] = field(default_factory=dict)
    #: The requested sampling parameters; None if not recorded.
    asked_params: Mapping[str, Any] | None = None
    #: The cases, and how they were selected.
    dataset: Mapping[str, Any] = field(default_factory=dict)
    #: A name, a file, or `package.module:function`.
    prompt: str = "schema"
    #: Digest of the template and its examples; None if unknown.
    prompt_digest: Digest | None = None
    #: Number of examples before each question.
    shots: Annotated[int, msgspec.Meta(ge=0)] | None = 0
    #: `verbatim`, or mode and subset, such as `narrow:openai@2026-08`.
    adapt: str = "verbatim"
    #: Attempts per case.
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    #: Maximum number of calls in flight, per process; None if variants differ.
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 1
    #: The policy of the judge, by the names of its options.
    policy: Mapping[str, Any] = field(default_factory=dict)
    #: Names of the classifiers that give failed attempts codes.
    classifiers: Sequence[str] = field(default_factory=list)
    #: Names of the project's own metrics.
    metrics: Sequence[str] = field(default_factory=list)
    #: Comparers as the user gave them, by field, such as `function:package.module:same`.
    comparers: Mapping[str, str] = field(default_factory=dict)
    #: Whether prompts, schemas and answers are replaced by digests.
    redacted: bool = False
    #: How the run was started: by pytest, or by a program that called evaluate(); absent for pytest.
    entry: Entry = Entry.PYTEST
    #: Run whose answers were reused.
    resumed_from: str | None = None
    #: Ids of the planned cases by task, in order; None if not recorded.
    plan: Mapping[str, Sequence[str]] | None = None
    #: The project's own tests that failed without a recorded call; absent if there are none.
    ended_tests: Annotated[tuple[EndedTest, ...], msgspec.Meta(max_length=100_000)] = ()
    #: Versions of pytest-jsbench, of Python and of the validators.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: System, machine, number of processors, memory in GB, and GPUs, as far as the system and driver report them.
    host: Mapping[str, Any] = field(default_factory=dict)
    #: Variant of the run that it describes; empty for a whole run.
    variant: str = ""
    #: The run's variants in order; empty if there is only one. A plan of None is the run's.
    variants: Annotated[tuple[RunMetadata, ...], msgspec.Meta(max_length=1000)] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as JSON values; each variant has its own fields, and shared ones appear once."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["variants"] = [{name: getattr(variant, name) for name in _OWN} for variant in self.variants]
        data["ended_tests"] = [to_json(test) for test in self.ended_tests]
        omitted = {name for name in ("variant", "variants", "comparers", "ended_tests") if not data[name]}
        if self.entry is Entry.PYTEST:
            omitted.add("entry")
        return {name: value for name, value in data.items() if name not in omitted}

    def of_variant(self, name: str) -> RunMetadata:
        """
        Return the metadata of one variant as of a separate run, or of the whole for an empty name;
        KeyError if unknown.
        """
        if not name:
            return self
        own = {variant.variant: variant for variant in self.variants}[name]
        plan = self.plan if own.plan is None else own.plan
        ended = tuple(test for test in self.ended_tests if test.variant == name)
        parts = {part: getattr(own, part) for part in _OWN}
        return replace(self, **{**parts, "plan": plan, "variants": (), "ended_tests": ended})

    def with_plan(self, attempts: Iterable[Attempt]) -> RunMetadata:
        """Return the metadata with a plan."""
        plans: dict[str, dict[str, list[str]]] = {variant.variant: {} for variant in self.variants} or {"": {}}
        for key, _, variant in attempts:
            plans[variant].setdefault(key.task, []).append(key.id)
        first = next(iter(plans.values()))
        is_shared = all(plan == first for plan in plans.values())
        return replace(
            self,
            plan=first if is_shared else None,
            variants=tuple(
                replace(variant, plan=None if is_shared else plans[variant.variant]) for variant in self.variants
            ),
        )

    def planned(self) -> tuple[CaseKey, ...] | None:
        """Return the case of each planned attempt, variant by variant; None if unknown."""
        plans = self.plans()
        written = [plan for plan in plans.values() if plan is not None]
        return tuple(itertools.chain.from_iterable(written)) if len(written) == len(plans) else None

    def plans(self) -> dict[str, tuple[CaseKey, ...] | None]:
        """Return the planned attempts by variant; a shared plan is the same tuple."""
        shared = None if self.plan is None else _keys(self.plan)
        own = {variant.variant: shared if variant.plan is None else _keys(variant.plan) for variant in self.variants}
        return own or {self.variant: shared}

    @property
    def judge(self) -> str:
        """Version of the judge's rules; the first ones were not recorded."""
        return str(self.versions.get("judge", "1"))

    @property
    def labelled(self) -> bool:
        """Whether an engine's grammar decided about labelled answers, instead of calling a model."""
        return self.dataset.get("labelled") is True

    @property
    def engine_asked(self) -> AnsweredBy:
        """The engine that answers, unless an attempt names another."""
        return AnsweredBy(engine=self.engine, model=self.model, provider=self.provider)

    @classmethod
    def from_dict(cls, data: object) -> RunMetadata:
        """Parse metadata; the inverse of `to_dict`. RecordError names the first place that does not conform."""
        try:
            if not isinstance(data, dict):
                raise ValueError(f"it is {data!r:.40}, and no object")
            # a variant has its own fields, and an untrusted file can have anything
            shared = {name: value for name, value in data.items() if name not in {"variants", "plan"}}
            variants = data.get("variants", [])
            if isinstance(variants, list):
                variants = [{**shared, **variant} if isinstance(variant, dict) else variant for variant in variants]
            metadata: RunMetadata = from_json(cls, {**data, "variants": variants})
            names = {variant.variant for variant in metadata.variants}
            if "" in names or len(names) < len(metadata.variants):
                raise ValueError("a variant has no name, or that of another")
            metadata.planned()  # checks that every name in it is valid
            for each in (metadata, *metadata.variants):
                datetime.fromisoformat(each.started_at)
                check_variant(each.variant)
                from_json(_Parts, {"run": {name: getattr(each, name) for name in MetadataParts.__struct_fields__}})
        except ValueError as error:
            raise RecordError(f"not the header of a run of pytest-jsbench: {error}") from error
        return metadata


def parse_line(data: object) -> Record | RunMetadata:
    """Parse a line of a records file; RecordError names the first place that does not conform to its type."""
    if isinstance(data, dict) and data.get("type") == "run":
        return RunMetadata.from_dict(data.get("run"))
    return Record.from_dict(data)


def _keys(plan: Mapping[str, Sequence[str]]) -> tuple[CaseKey, ...]:
    return tuple(CaseKey(task=task, id=name) for task, names in plan.items() for name in names)
