"""
Build the plan of a run from its options: cases, variants, limits, judge policy, gates and outputs.

Every entry point creates a `Plan` here, and the run session executes it. No calls are made, and no case is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pytest_jsbench.core.arguments import CheckedFields
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import JSBenchError, errors_about
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import CaseSource, Listing, Sample, Selection
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.run.variants import Variant, make_variants
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.keywords import misspelt
from pytest_jsbench.settings.options import BY_NAME, readers
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.datasets.selection import Shard
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.metrics.gates import Gate
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.run.classifiers import Classifier
    from pytest_jsbench.run.variants import Values
    from pytest_jsbench.values import Comparer

#: Default of --jsbench-patience, in seconds.
PATIENCE = 300.0
#: Options that set a gate, a condition for passing the run.
GATES = ("min_pass_rate", "gate", "max_regression")
_HOOK = "pytest_jsbench_classify"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits(CheckedFields):
    """Limits on the calls of a run; None means no limit. Limits per minute apply to each server separately."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    #: Maximum cost of the session in US dollars.
    max_cost: float | None = None
    #: Seconds without any answer after which the run gives up on a provider.
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        per_minute = {"requests_per_minute": BY_NAME["rpm"].of_value, "tokens_per_minute": BY_NAME["tpm"].of_value}
        self._convert({**per_minute, **readers("max_cost", "patience")})

    @property
    def any(self) -> bool:
        """Whether a limit per minute or a cost limit is set."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_cost is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The selected cases of a dataset, as input for a run."""

    source: CaseSource
    #: Description of the selection as JSON values, for the run's metadata.
    description: Mapping[str, object]
    #: The source if its labelled answers are checked and no model is called (--jsbench-instances); otherwise None.
    labelled: Listing | None = None
    #: Whether a misspelled keyword makes a schema invalid.
    strict: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about content of the source from which no cases were made."""
        return self.source.notes if isinstance(self.source, Listing) else ()

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """Parse the case with this key."""
        case = self.source.case(key)
        if self.strict and isinstance(case, Case) and (problems := misspelt(case.schema)):
            return BrokenCase(key=key, problem=printable("; ".join(problems), 600), reason="unknown_keyword")
        return case


_NO_CASES = Cases(source=Listing(entries={}), description={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    The resolved settings of a run, for every entry point.

    The plan is the same in each process of the run, except for the concurrency of the variants.
    """

    #: Variants by name, in the order of the run.
    variants: Mapping[str, Variant]
    cases: Cases = _NO_CASES
    #: Keys of the cases in this shard, in the dataset's order.
    keys: Sequence[CaseKey] = ()
    #: Whether the run has a test for each of these cases; otherwise only the project's own tests make calls.
    suite: bool = True
    shard: Shard | None = None
    #: Number of attempts per case.
    repeats: int = 1
    policy: JudgePolicy = field(default_factory=JudgePolicy)
    limits: RateLimits = field(default_factory=RateLimits)
    #: Maximum number of retries of a call.
    retries: int = 2
    #: Whether to wait for the results of the provider's batches, or to check for results once; None if the run makes
    #: single calls.
    batch: Literal["wait", "leave"] | None = None
    #: Functions that assign codes to failed attempts, or count something in answers.
    classifiers: tuple[Classifier, ...] = ()
    #: Comparers of values with expected values, by field.
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()
    #: Evaluation file, or directory of an earlier run, with which the run is compared.
    baseline: Path | None = None
    #: Earlier run to resume; `newest` is the newest run in `output` with the same variants, if there is one.
    resume: Path | Literal["newest"] | None = None
    #: Directory in which the answers of all variants are recorded; None if answers are not recorded.
    record: Path | None = None
    #: Directory of recordings, or earlier run, whose answers are used in place of an engine.
    replay: Path | None = None
    #: Directory in which each run creates its own directory; None if not set.
    output: Path | None = None
    #: Path of an additional copy of the run's HTML page; None if not set.
    report: Path | None = None
    #: Exporters by name, each with the path to which the exporter writes.
    exports: tuple[tuple[str, Path], ...] = ()
    #: Whether digests are written and shown in place of prompts, schemas and answers.
    redact: bool = False

    @classmethod
    def of(
        cls,
        values: Values,
        variant_values: Mapping[str, Values],
        *,
        suite: bool = True,
        own_engines: Mapping[str, Variant | EngineFactory] = MappingProxyType({}),
        hook: Callable[[Record], object] | None = None,
        workers: int = 1,
    ) -> Plan:
        """
        Build the plan from the values of the options, for the run and per variant; raise JSBenchError for an invalid
        value.

        `own_engines` contains engines that a Python program provides, by variant. The plan has no cases yet: they can
        take long to read, and `over` adds them later.
        """
        of_one_name = (
            "shard",
            "repeats",
            "retries",
            "batch",
            "baseline",
            "resume",
            "record",
            "replay",
            "output",
            "report",
        )
        return cls(
            variants=make_variants(variant_values, own_engines=own_engines, workers=workers),
            suite=suite,
            policy=policy_of(values),
            limits=_limits_of(values),
            classifiers=_find_classifiers(values["classify"], hook),
            comparers=dict(values["comparer"]),
            gates=gates_of(values),
            exports=tuple(values["export"]),
            redact=values["redact"] == "on",
            **{name: values[name] for name in of_one_name},
        )

    def over(self, cases: Cases) -> Plan:
        """Return this plan with the given cases; if the plan has a shard, only with the cases in the shard."""
        keys = cases.source.keys()
        return replace(self, cases=cases, keys=keys if self.shard is None else self.shard.take(keys))

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Engine configurations of all variants, in the order of the variants."""
        return tuple(variant.engine for variant in self.variants.values())


#: Options that cannot be combined: an option, the other option, and the reason, as the predicate of the first option.
_NOT_TOGETHER = (
    ("instances", "dataset", "has its own schemas"),
    ("instances", "resume", "calls no model, so there is nothing to resume"),
    ("instances", "repeats", "calls no model, and repeated checks against a grammar have the same result"),
    ("instances", "record", "calls no model, so there is nothing to record"),
    ("instances", "batch", "calls no model, so there is nothing to submit"),
    ("instances", "replay", "calls no model, so there is nothing to replay"),
    ("redact", "record", "writes no answers, but a recording contains answers"),
    ("redact", "batch", "writes no answers, but a batch keeps answers in a file until their tests run"),
    ("record_mode=new", "batch", "calls only for missing answers, but a batch submits all cases"),
)


def check_conflicts(values: Values) -> None:
    """Raise JSBenchError if two options cannot be combined."""
    for option, other, reason in _NOT_TOGETHER:
        name, _, value = option.partition("=")
        given = values.get(name)
        if values.get(other) is None or given in {None, "off"} or given != (value or given):
            continue
        flag = f"{BY_NAME[name].flag}={value}" if value else BY_NAME[name].flag
        raise JSBenchError(f"{flag} {reason}; remove {BY_NAME[other].flag}", option=other)


def check_recording(values: Values, given: Set[str]) -> None:
    """Raise JSBenchError if options for recording and replaying conflict, or if --jsbench-record is missing."""
    engine_options = given & {"engine", "record"}
    if "replay" in given and engine_options:
        other = min(engine_options)
        message = f"--jsbench-replay uses recorded answers, and excludes --jsbench-{other}; remove one of these options"
        raise JSBenchError(message, option="replay")
    if "record_mode" in given and values["record_mode"] == "new" and values["record"] is None:
        message = "--jsbench-record-mode=new needs a directory for recorded answers; add --jsbench-record=DIR"
        raise JSBenchError(message, option="record_mode")


def selection_of(values: Values) -> Selection:
    """Return the selection of cases that the options describe."""
    chosen = {name: values[name] for name in ("tasks", "split", "limit", "registry") if values[name] is not None}
    if values["sample"] is not None:
        size, seed = values["sample"]
        chosen["sample"] = Sample(size=size, seed=seed)
    labelled = values["instances"] is not None
    invalid = values["invalid_schemas"]
    sources = [values["instances"]] if labelled else values["dataset"] or ["builtin"]
    is_all_published = all(map(is_published, sources))
    return Selection.from_sources(
        sources,
        skips_invalid=invalid == "skip" if invalid is not None else labelled or is_all_published,
        strict=invalid == "strict",
        labelled=labelled,
        where=tuple(values["where"]),
        default_dialect=policy_of(values).default_dialect,
        **chosen,
    )


def policy_of(values: Values) -> JudgePolicy:
    """Return the judge policy that the options set, based on the policy that a Python program passes, if any."""
    return replace(values.get("policy") or JudgePolicy(), **policy_changes(values))


def policy_changes(values: Values) -> dict[str, Any]:
    """Return the fields of JudgePolicy that the options set, with their values."""
    chosen = {name: values[name] for name in ("duplicate_keys", "fences", "reasoning", "formats", "validator")}
    chosen["timeout"] = values["judge_timeout"]
    if values["default_dialect"] is not None:
        chosen["default_dialect"] = NAMES[values["default_dialect"]]
    extra_fields = values["extra_fields"]
    chosen["ignored_fields" if isinstance(extra_fields, tuple) else "extra_fields"] = extra_fields
    return {name: value for name, value in chosen.items() if value is not None}


def _limits_of(values: Values) -> RateLimits:
    if values["replay"] is not None:  # replayed answers cost nothing and need no requests
        return RateLimits()
    return RateLimits(
        requests_per_minute=values["rpm"],
        tokens_per_minute=values["tpm"],
        max_cost=values["max_cost"],
        patience=PATIENCE if values["patience"] is None else values["patience"],
    )


def gates_of(values: Values) -> tuple[Gate, ...]:
    """Return the gates that the options set; raise JSBenchError if a gate is invalid or needs a missing baseline."""
    if not any(values[name] for name in GATES):
        return ()
    from pytest_jsbench.metrics.gates import Gate

    gates: list[Gate] = []
    readers: tuple[Callable[[str], Gate], ...] = (
        partial(Gate.least, "pass_rate"),
        partial(Gate.parse, own=values.get("classify", ())),
        partial(Gate.least, "baseline.difference", factor=-1),
    )
    for name, read in zip(GATES, readers, strict=True):
        flag = BY_NAME[name].flag
        given = values[name]
        for text in given if BY_NAME[name].repeated else filter(None, [given]):
            with errors_about(flag):
                gates.append(read(text))
            if gates[-1].name.baseline and values["baseline"] is None:
                message = f"{flag} {text}: no baseline to compare with; add --jsbench-baseline=RUN"
                raise JSBenchError(message, found=text, option=name)
    return tuple(gates)


def _find_classifiers(
    named: Sequence[str | Callable[[Record], object]], hook: Callable[[Record], object] | None
) -> tuple[Classifier, ...]:
    """Return the classifiers with these names, and a classifier that calls the pytest hook if there is one."""
    if not named and hook is None:
        return ()
    from pytest_jsbench.run.classifiers import Classifier, find

    classifiers = [find(name) for name in named]
    if hook is not None:
        classifiers.append(Classifier(name=_HOOK, origin="a hook", function=hook))
    return tuple(classifiers)
