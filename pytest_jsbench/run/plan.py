"""
Build the plan of a run from its spec: cases, variants, limits, judge policy and gates.

Every entry point creates a `Plan` here, and the run session executes it. No calls are made, and no case is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.arguments import CheckedFields
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import JSBenchError, errors_about
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import CaseSource, Listing, Sample, Selection
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.run.variants import Variant, make_variants
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.keywords import misspelt
from pytest_jsbench.settings.load_options import LoadOptions
from pytest_jsbench.settings.option import Option, Values
from pytest_jsbench.settings.options import BY_NAME, GateOptions, readers
from pytest_jsbench.settings.spec import RunSpec
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.metrics.gates import Gate
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.run.classifiers import Classifier
    from pytest_jsbench.settings.options import CaseOptions, JudgingOptions
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
        if not self.strict or isinstance(case, BrokenCase):
            return case
        problems = [problem for schema in case.judging_schemas for problem in misspelt(schema)]
        if problems:
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
    #: Values of the options from which the plan was made.
    spec: RunSpec = field(default_factory=RunSpec)
    policy: JudgePolicy = field(default_factory=JudgePolicy)
    limits: RateLimits = field(default_factory=RateLimits)
    #: Functions that assign codes to failed attempts, or count something in answers.
    classifiers: tuple[Classifier, ...] = ()
    #: Comparers of values with expected values, by field.
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()

    @classmethod
    def of(
        cls,
        spec: RunSpec,
        *,
        suite: bool = True,
        own_engines: Mapping[str, Variant | EngineFactory] = MappingProxyType({}),
        policy: JudgePolicy | None = None,
        hook: Callable[[Record], object] | None = None,
        workers: int = 1,
    ) -> Plan:
        """
        Build the plan of a spec; raise JSBenchError for an invalid value.

        `own_engines` contains engines that a Python program provides, by variant, and `policy` its judge policy, of
        which options override parts. The plan has no cases yet: they can take long to read, and `over` adds them later.
        """
        return cls(
            spec=spec,
            variants=make_variants(spec, own_engines=own_engines, workers=workers),
            suite=suite,
            policy=policy_of(spec.judging, policy),
            limits=_limits_of(spec),
            classifiers=_find_classifiers(spec.judging.classify, hook),
            comparers=dict(spec.judging.comparer),
            gates=gates_of(spec.gates, own=spec.judging.classify),
        )

    def over(self, cases: Cases) -> Plan:
        """Return this plan with the given cases; if the plan has a shard, only with the cases in the shard."""
        keys = cases.source.keys()
        shard = self.spec.execution.shard
        return replace(self, cases=cases, keys=keys if shard is None else shard.take(keys))

    @property
    def replays(self) -> bool:
        """Whether all answers are replayed, so that no calls are made."""
        engines = [engine.name for engine in self.engines]
        return self.spec.recordings.replay is not None or (bool(engines) and set(engines) <= set(RECORDED))

    @property
    def load(self) -> LoadOptions:
        """The load and the service level of the run; replayed answers have a service level only."""
        return LoadOptions({"slo": self.spec.load.slo}) if self.replays else self.spec.load

    @property
    def measures_load(self) -> bool:
        """Whether records contain the times when calls began and ended, for the figures of the load."""
        return bool(self.spec.load.pick(LoadOptions.options)) and not self.replays

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
    ("instances", "repairs", "calls no model, so there is nothing to ask again"),
    *(("instances", option, "calls no model, so there is no load") for option in ("rate", "plain_share", "slo")),
    ("rate", "rpm", "sets when calls begin, so no limit may delay them"),
    ("batch", "rate", "submits all calls at once, so they have no rate"),
    ("batch", "plain_share", "submits all calls at once, and no other call would be next to them"),
    ("batch", "slo", "has no times of single answers"),
    ("batch", "repairs", "submits all calls at once, but a second try needs the first answer"),
    ("redact", "record", "writes no answers, but a recording contains answers"),
    ("redact", "batch", "writes no answers, but a batch keeps answers in a file until their tests run"),
    ("record_mode=new", "batch", "calls only for missing answers, but a batch submits all cases"),
)


def check_conflicts(values: Values) -> None:
    """Raise JSBenchError if two options cannot be combined."""
    for option, other, reason in _NOT_TOGETHER:
        name, _, value = option.partition("=")
        given = values.get(name)
        if values.get(other) is None or given in {None, False} or given != (value or given):
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
    if "record_mode" in given and values["record_mode"] == "new" and values.get("record") is None:
        message = "--jsbench-record-mode=new needs a directory for recorded answers; add --jsbench-record=DIR"
        raise JSBenchError(message, option="record_mode")


def selection_of(cases: CaseOptions, judging: JudgingOptions, policy: JudgePolicy | None = None) -> Selection:
    """Return the selection of cases that the options describe."""
    labelled = cases.instances is not None
    invalid = judging.invalid_schemas
    sources = cases.dataset or ["builtin"] if cases.instances is None else [cases.instances]
    is_all_published = all(map(is_published, sources))
    return Selection.from_sources(
        sources,
        tasks=cases.tasks,
        split=cases.split,
        limit=cases.limit,
        registry=cases.registry,
        sample=None if cases.sample is None else Sample(size=cases.sample[0], seed=cases.sample[1]),
        skips_invalid=invalid == "skip" if invalid is not None else labelled or is_all_published,
        strict=invalid == "strict",
        labelled=labelled,
        where=tuple(cases.where),
        default_dialect=policy_of(judging, policy).default_dialect,
    )


def policy_of(judging: JudgingOptions, policy: JudgePolicy | None = None) -> JudgePolicy:
    """Return the judge policy that the options set, based on a policy if one is given."""
    return replace(policy or JudgePolicy(), **policy_changes(judging))


def policy_changes(judging: JudgingOptions) -> dict[str, Any]:
    """Return the fields of JudgePolicy that the options set, with their values."""
    extra_fields = judging.extra_fields
    dialect = judging.default_dialect
    chosen = {
        "duplicate_keys": judging.duplicate_keys,
        "fences": judging.fences,
        "reasoning": judging.reasoning,
        "formats": judging.formats,
        "validator": judging.validator,
        "timeout": judging.judge_timeout,
        "default_dialect": None if dialect is None else NAMES[dialect],
        "ignored_fields" if isinstance(extra_fields, tuple) else "extra_fields": extra_fields,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _limits_of(spec: RunSpec) -> RateLimits:
    if spec.recordings.replay is not None:  # replayed answers cost nothing and need no requests
        return RateLimits()
    limits = spec.limits
    return RateLimits(
        requests_per_minute=limits.rpm,
        tokens_per_minute=limits.tpm,
        max_cost=limits.max_cost,
        patience=PATIENCE if limits.patience is None else limits.patience,
    )


def gates_of(options: GateOptions, *, own: Sequence[object] = ()) -> tuple[Gate, ...]:
    """
    Return the gates that the options set; raise JSBenchError if a gate is invalid or needs a missing baseline.

    `own` are the run's own metrics and classifiers, as for --jsbench-classify.
    """
    given: list[tuple[Option[Any], str | None]] = [
        (GateOptions.min_pass_rate, options.min_pass_rate),
        *((GateOptions.gate, text) for text in options.gate),
        (GateOptions.max_regression, options.max_regression),
    ]
    if not any(text for _, text in given):
        return ()
    from pytest_jsbench.metrics.gates import Gate

    readers: dict[str, Callable[[str], Gate]] = {
        "min_pass_rate": partial(Gate.least, "pass_rate"),
        "gate": partial(Gate.parse, own=own),
        "max_regression": partial(Gate.least, "baseline.difference", factor=-1),
    }
    gates: list[Gate] = []
    for option, text in given:
        if not text:
            continue
        with errors_about(option.flag):
            gate = readers[option.name](text)
        if gate.name.baseline and options.baseline is None:
            message = f"{option.flag} {text}: no baseline to compare with; add --jsbench-baseline=RUN"
            raise JSBenchError(message, found=text, option=option.name)
        gates.append(gate)
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
