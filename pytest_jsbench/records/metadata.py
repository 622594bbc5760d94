"""Define the metadata of a run: everything that its answers depend on, in the first line of each records file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Struct

from pytest_jsbench.core.arrivals import ArrivalRate
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.json_values import Digest, Fraction, from_json, to_json
from pytest_jsbench.core.service_level import ServiceLevel
from pytest_jsbench.records.fault_reports import FaultReport
from pytest_jsbench.records.records import AnsweredBy, Attempt, EndedTest, Record, check_variant

#: Fields that each variant has separately; the variants share all other metadata of the run.
_OWN = (
    *("variant", "engine", "model", "response_format", "streaming", "provider", "details", "params", "asked_params"),
    *("prompt", "prompt_digest", "shots", "adapt", "rewrite", "concurrency", "plan", "served", "repairs", "options"),
)
#: Fields that a variant contains only if they have a value.
OMITTED_IN_VARIANT = ("repairs", "rewrite", "options")
#: Fields that files contain only if they have a value.
OMITTED_IF_EMPTY = (
    *("variant", "variants", "comparers", "ended_tests", "fault_reports", "served", "repairs", "rewrite"),
    *("rate", "plain_share", "slo", "merged"),
)
#: Fields that files contain only if they are known; earlier versions did not record them.
OMITTED_IF_UNKNOWN = ("options",)


class Entry(StrEnum):
    """Ways in which a run can be started."""

    PYTEST = "pytest"
    LIBRARY = "library"


class Sampling(TypedDict, total=False):
    """Sampling parameters of the answers; None means the provider's default."""

    #: Maximum number of tokens in an answer.
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    #: Sampling temperature.
    temperature: float | None
    #: Sampling seed.
    seed: int | None
    #: Time limit of one call in seconds.
    timeout: float
    #: Which of the offered tools may be called; absent for the choice of each case.
    tool_choice: str


class ChosenCases(TypedDict, total=False):
    """The cases of a run, and how they were selected."""

    #: Dataset, as for --jsbench-dataset; `own tests` for a run without a dataset.
    source: str
    #: Number of cases.
    cases: Annotated[int, msgspec.Meta(ge=0)]
    #: Split of the dataset, as for --jsbench-split.
    split: str
    #: Selected tasks, as for --jsbench-tasks; None for all tasks.
    tasks: list[str] | None
    #: Maximum number of cases per task, as for --jsbench-limit; None for all cases.
    limit: int | None
    #: Digest of the names and schemas of the cases; only in run.json.
    digest: Digest
    #: Shard of the cases, as for --jsbench-shard; None for all cases.
    shard: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$")] | None
    #: Digest of the names of all cases, including those in other shards.
    cases_digest: Digest
    #: Whether a grammar decided about labelled answers (--jsbench-instances), so that no model was called.
    labelled: bool
    #: Whether invalid schemas fail or are skipped, as for --jsbench-invalid-schemas.
    invalid_schemas: Literal["fail", "skip", "strict"]
    #: Conditions on the cases, as for --jsbench-where.
    where: list[str]
    #: Number of sampled cases, as for --jsbench-sample; None for all cases.
    sample: int | None
    #: Random seed of the sample; None without a sample.
    sample_seed: int | None
    #: Changes that Python code made to the cases after they were loaded, in order.
    steps: list[str]
    #: Revision that a Hub dataset's name ends with; None without a revision.
    revision: str | None


class Strictness(TypedDict, total=False):
    """Policy of the judge; the fields are named after its options."""

    #: Policy for extra fields, as for --jsbench-extra-fields.
    extra_fields: Literal["fail", "allow"]
    #: Names of fields that never count as hallucinations.
    ignored_fields: list[str]
    #: Policy for duplicate keys, as for --jsbench-duplicate-keys.
    duplicate_keys: Literal["note", "fail"]
    #: Policy for code fences around answers, as for --jsbench-fences.
    fences: Literal["strip", "forbid"]
    #: Policy for reasoning before answers, as for --jsbench-reasoning.
    reasoning: Literal["keep", "strip"]
    #: Whether the keyword `format` is asserted, as for --jsbench-formats.
    formats: Literal["assert", "ignore"]
    #: Dialect of schemas without `$schema`.
    default_dialect: str
    #: Validators that judge answers, as for --jsbench-validator.
    validator: Literal["both", "jsonschema-rs", "jsonschema"]
    #: Time limit in seconds for each schema or answer.
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]


class Served(TypedDict, total=False):
    """What the servers said about themselves in the answers of a run: different names, the most frequent first."""

    #: Names of models, which may be more exact than the requested name, such as dated versions.
    model: list[str]
    #: Fingerprints of configurations, as in OpenAI's `system_fingerprint`.
    fingerprint: list[str]
    #: Providers to which a gateway such as OpenRouter passed requests.
    provider: list[str]


class MetadataParts(Struct, frozen=True, kw_only=True):
    """Types of the mappings in a run's metadata; unknown fields, which later versions may add, are kept."""

    params: Sampling
    asked_params: Sampling | None
    dataset: ChosenCases
    policy: Strictness
    served: Served


class _Parts(Struct, frozen=True, kw_only=True):
    run: MetadataParts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """
    The settings that produced a run, as JSON values without API keys and environment variables.

    In a run with variants, these are the settings that all variants share; a field in which variants differ is the
    number of different values ("2 models") or None.
    """

    #: Name of the run and of its directory.
    run_id: str
    #: Unique id that distinguishes the run from all others, also from runs on other machines in the same second; None
    #: if not recorded.
    uuid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    #: Time when the run started, in ISO 8601 and UTC.
    started_at: str
    #: Name of the engine.
    engine: str
    #: Name of the model.
    model: str
    #: How the schema is passed to the engine; if variants differ in the engine, model, response format, prompt or
    #: adapt, that field contains their number (2 response formats).
    response_format: str
    #: Whether answers were streamed; None if variants differ.
    streaming: bool | None
    #: Provider whose published prices apply; None for a self-hosted server.
    provider: str | None = None
    #: Versions of the engine's libraries, settings that affect answers, and the SHA-256 of a local model file.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Sampling parameters that were requested, with parameters that the engine adds.
    params: Mapping[str, Any] = field(default_factory=dict)
    #: Sampling parameters that were requested; None if not recorded.
    asked_params: Mapping[str, Any] | None = None
    #: The cases of the run, and how they were selected.
    dataset: Mapping[str, Any] = field(default_factory=dict)
    #: Prompt: a name, a file, or `package.module:function`.
    prompt: str = "schema"
    #: Digest of the prompt template and its examples; None if unknown.
    prompt_digest: Digest | None = None
    #: Number of examples before each question.
    shots: Annotated[int, msgspec.Meta(ge=0)] | None = 0
    #: Adaptation of the schemas: `verbatim`, or a mode and a subset, such as `narrow:openai@2026-08`.
    adapt: str = "verbatim"
    #: How schemas were rewritten into schemas that accept the same answers, as for --jsbench-rewrite; absent if they
    #: were not.
    rewrite: str = ""
    #: Number of attempts per case.
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    #: Maximum number of calls in flight per process; None if variants differ.
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 1
    #: Policy of the judge; the fields are named after its options.
    policy: Mapping[str, Any] = field(default_factory=dict)
    #: Names of the project's own classifiers, which assign codes to failed attempts.
    classifiers: Sequence[str] = field(default_factory=list)
    #: Names of the project's own metrics.
    metrics: Sequence[str] = field(default_factory=list)
    #: For each field, the comparer as the user wrote it, such as `function:package.module:same`.
    comparers: Mapping[str, str] = field(default_factory=dict)
    #: Whether prompts, schemas and answers are replaced by digests.
    redacted: bool = False
    #: How the run was started: by pytest, or by a program that called evaluate(); absent if by pytest.
    entry: Entry = Entry.PYTEST
    #: What the servers said about themselves in the run's answers; absent if nothing, and before the run ends.
    served: Mapping[str, Any] = field(default_factory=dict)
    #: How wrong answers were asked for again, as for --jsbench-repairs; absent if they were not.
    repairs: str = ""
    #: Rate at which calls began, as for --jsbench-rate; absent without a rate.
    rate: str = ""
    #: Share of requests that were sent without a schema, as for --jsbench-plain-share; absent if there are none.
    plain_share: Fraction | None = None
    #: Service level of the answers, as for --jsbench-slo; absent without one.
    slo: str = ""
    #: Options by name that were set, affect the run, and are recorded in no other field; absent if not recorded.
    options: Mapping[str, str | int | float | bool] | None = None
    #: Earlier run whose answers were reused.
    resumed_from: str | None = None
    #: Number of runs that were merged into this one, at different times; absent if it was not merged.
    merged: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    #: For each task, the ids of the planned cases in order; None if not recorded.
    plan: Mapping[str, Sequence[str]] | None = None
    #: Project's own tests that failed without a recorded call; absent if there are none.
    ended_tests: Annotated[tuple[EndedTest, ...], msgspec.Meta(max_length=100_000)] = ()
    #: Faults that endpoints injected into the calls of the project's own tests; absent if there are none.
    fault_reports: Annotated[tuple[FaultReport, ...], msgspec.Meta(max_length=100_000)] = ()
    #: Versions of pytest-jsbench, of Python and of the validators.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: Operating system, machine type, number of processors, memory in GB, and GPUs, as far as the system and the driver
    #: report them.
    host: Mapping[str, Any] = field(default_factory=dict)
    #: Variant that these metadata describe; empty for a whole run.
    variant: str = ""
    #: Metadata of the run's variants in order; empty for a run without variants. If a variant's plan is None, the run's
    #: plan applies.
    variants: Annotated[tuple[RunMetadata, ...], msgspec.Meta(max_length=1000)] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as JSON values; each variant has only its own fields, and shared fields appear once."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["variants"] = [
            {name: getattr(variant, name) for name in _OWN if name not in OMITTED_IN_VARIANT or getattr(variant, name)}
            for variant in self.variants
        ]
        data["ended_tests"] = [to_json(test) for test in self.ended_tests]
        data["fault_reports"] = [to_json(report) for report in self.fault_reports]
        omitted = {name for name in OMITTED_IF_EMPTY if not data[name]}
        omitted |= {name for name in OMITTED_IF_UNKNOWN if data[name] is None}
        if self.entry is Entry.PYTEST:
            omitted.add("entry")
        return {name: value for name, value in data.items() if name not in omitted}

    def of_variant(self, name: str) -> RunMetadata:
        """
        Return the metadata of one variant, as if it were a separate run, or of the whole run if the name is empty.

        Raise KeyError if the variant is unknown.
        """
        if not name:
            return self
        own = {variant.variant: variant for variant in self.variants}[name]
        plan = self.plan if own.plan is None else own.plan
        ended = tuple(test for test in self.ended_tests if test.variant == name)
        faults = tuple(report for report in self.fault_reports if report.variant == name)
        parts = {part: getattr(own, part) for part in _OWN}
        parts |= {"plan": plan, "variants": (), "ended_tests": ended, "fault_reports": faults}
        return replace(self, **parts)

    def with_plan(self, attempts: Iterable[Attempt]) -> RunMetadata:
        """Return the metadata with these attempts as the plan."""
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
        """Return the case of each planned attempt, one variant after the other; None if the plan is unknown."""
        plans = self.plans()
        written = [plan for plan in plans.values() if plan is not None]
        return tuple(itertools.chain.from_iterable(written)) if len(written) == len(plans) else None

    def plans(self) -> dict[str, tuple[CaseKey, ...] | None]:
        """Return the cases of the planned attempts for each variant; variants with the same plan share one tuple."""
        shared = None if self.plan is None else _keys(self.plan)
        own = {variant.variant: shared if variant.plan is None else _keys(variant.plan) for variant in self.variants}
        return own or {self.variant: shared}

    @property
    def has_load(self) -> bool:
        """Whether the run sets a rate, plain calls or a service level."""
        return bool(self.rate or self.plain_share or self.slo)

    def check_load(self) -> None:
        """Raise ValueError if the rate or the service level, which a file contains as text, is invalid."""
        if self.rate:
            ArrivalRate.parse(self.rate)
        if self.slo:
            ServiceLevel.parse(self.slo)

    @property
    def judge(self) -> str:
        """Version of the judge's rules; 1 if not recorded."""
        return str(self.versions.get("judge", "1"))

    @property
    def labelled(self) -> bool:
        """Whether a grammar decided about labelled answers, so that no model was called."""
        return self.dataset.get("labelled") is True

    @property
    def engine_asked(self) -> AnsweredBy:
        """Engine, model and provider of the run, for attempts whose records do not name them."""
        return AnsweredBy(engine=self.engine, model=self.model, provider=self.provider)

    @classmethod
    def from_dict(cls, data: object) -> RunMetadata:
        """Parse metadata from JSON values; raise a RecordError that names the first invalid field."""
        try:
            if not isinstance(data, dict):
                raise ValueError(f"expected an object, found {data!r:.40}")
            # a variant lists only its own fields; the file is untrusted, so any of these values may have a wrong type
            shared = {name: value for name, value in data.items() if name not in {"variants", "plan"}}
            variants = data.get("variants", [])
            if isinstance(variants, list):
                variants = [{**shared, **variant} if isinstance(variant, dict) else variant for variant in variants]
            metadata: RunMetadata = from_json(cls, {**data, "variants": variants})
            names = {variant.variant for variant in metadata.variants}
            if "" in names or len(names) < len(metadata.variants):
                raise ValueError("a variant has no name, or two variants have the same name")
            metadata.planned()  # raises an error if a name in the plan is invalid
            for each in (metadata, *metadata.variants):
                datetime.fromisoformat(each.started_at)
                check_variant(each.variant)
                each.check_load()
                from_json(_Parts, {"run": {name: getattr(each, name) for name in MetadataParts.__struct_fields__}})
        except ValueError as error:
            raise RecordError(f"not the header of a run of pytest-jsbench: {error}") from error
        return metadata


def parse_line(data: object) -> Record | RunMetadata:
    """Parse a line of a records file; raise a RecordError that names the first invalid field."""
    if isinstance(data, dict) and data.get("type") == "run":
        return RunMetadata.from_dict(data.get("run"))
    return Record.from_dict(data)


def _keys(plan: Mapping[str, Sequence[str]]) -> tuple[CaseKey, ...]:
    return tuple(CaseKey(task=task, id=name) for task, names in plan.items() for name in names)
