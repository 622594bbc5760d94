"""The plan of a run: its cases and variants, how often it asks, within which limits, and how it judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pytest_jsbench.core.arguments import arguments
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import JSBenchError, errors_about
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import CaseSource, Listing, Sample, Selection
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.keywords import misspelt
from pytest_jsbench.settings.options import BY_NAME, readers
from pytest_jsbench.settings.variants import Variant, make_variants
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.datasets.selection import Shard
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.metrics.gates import Gate
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.settings.classifiers import Classifier
    from pytest_jsbench.settings.variants import Values
    from pytest_jsbench.values import Comparer

#: seconds without any answer after which a run gives up on a provider
PATIENCE = 300.0
#: the options that set a gate
GATES = ("min_pass_rate", "gate", "max_regression")
_HOOK = "pytest_jsbench_classify"


@arguments(
    readers("max_cost", "patience"),
    requests_per_minute=BY_NAME["rpm"].of_value,
    tokens_per_minute=BY_NAME["tpm"].of_value,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits that a user sets for a run; None: no limit. Those of a minute hold for each server by itself."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    #: US dollars
    max_cost: float | None = None
    #: seconds without any answer after which the run gives up on a provider
    patience: float = PATIENCE

    @property
    def any(self) -> bool:
        """Say whether there is one."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_cost is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The cases that a run may ask."""

    source: CaseSource
    #: which these are, as JSON values, for the run's description
    said: Mapping[str, object]
    #: the source with its labelled answers, where no model is called; else None
    labelled: Listing | None = None
    #: whether a word that is near to a keyword breaks a schema
    strict: bool = False

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """Parse the case of that key."""
        case = self.source.case(key)
        if self.strict and isinstance(case, Case) and (problems := misspelt(case.schema)):
            return BrokenCase(key=key, problem=printable("; ".join(problems), 600), reason="unknown_keyword")
        return case


_NO_CASES = Cases(source=Listing(entries={}), said={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run is, whoever starts it; the same in each of its processes, but for the variants' concurrency."""

    #: in their order, by their names
    variants: Mapping[str, Variant]
    cases: Cases = _NO_CASES
    #: the cases of this shard, in the dataset's order
    keys: Sequence[CaseKey] = ()
    #: whether these are asked; else what is asked is whatever the project's tests ask
    suite: bool = True
    shard: Shard | None = None
    #: attempts of each case
    repeats: int = 1
    policy: JudgePolicy = field(default_factory=JudgePolicy)
    limits: RateLimits = field(default_factory=RateLimits)
    #: tries after the first
    retries: int = 2
    #: whether the cases are handed in as a provider's batch, and whether it is waited for
    batch: Literal["wait", "leave"] | None = None
    #: what gives failed attempts codes
    classifiers: tuple[Classifier, ...] = ()
    #: how values are compared with expected ones, by the name of the field
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()
    #: an evaluation file, or a run's folder
    baseline: Path | None = None
    #: an earlier run to go on with; or the newest in `output` that asks the same engines in the same way, if any
    resume: Path | Literal["newest"] | None = None
    #: where every answer is recorded, for all variants
    record: Path | None = None
    #: the recordings, or the run, that answer instead of an engine
    replay: Path | None = None
    #: the folder of all runs; None: nobody named one
    output: Path | None = None
    #: by an exporter's name, where it is to write
    exports: tuple[tuple[str, Path], ...] = ()
    #: whether digests stand for prompts, schemas and answers in all that is written and shown
    redact: bool = False

    @classmethod
    def of(
        cls,
        values: Values,
        ways: Mapping[str, Values],
        *,
        suite: bool = True,
        held: Mapping[str, Variant | EngineFactory] = MappingProxyType({}),
        hook: Callable[[Record], object] | None = None,
        workers: int = 1,
    ) -> Plan:
        """
        Read what the options say of a run, and of each way to ask; JSBenchError where something is not there.

        A program may hold the engines of some ways. The cases, which may take long to read, are not yet among it.
        """
        of_one_name = ("shard", "repeats", "retries", "batch", "baseline", "resume", "record", "replay", "output")
        return cls(
            variants=make_variants(ways, held=held, workers=workers),
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
        """Plan to ask these cases, or those of the shard."""
        keys = cases.source.keys()
        return replace(self, cases=cases, keys=keys if self.shard is None else self.shard.take(keys))

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Whom the variants ask."""
        return tuple(variant.engine for variant in self.variants.values())


#: what leaves no room for what: an option, another, and why
_NOT_TOGETHER = (
    ("instances", "dataset", "brings schemas of its own"),
    ("instances", "resume", "calls no model, so there is nothing to go on with"),
    ("instances", "repeats", "calls no model, and a grammar decides alike each time"),
    ("instances", "record", "calls no model, so there is nothing to record"),
    ("instances", "batch", "calls no model, so there is nothing to hand in"),
    ("instances", "replay", "calls no model, so there is nothing to replay"),
    ("redact", "record", "writes no answer, and a recording is one"),
    ("redact", "batch", "writes no answer, and those of a batch lie in a file until their tests run"),
    ("record_mode=new", "batch", "asks only what is missing, and a batch all"),
)


def refuse_together(values: Values) -> None:
    """Refuse two options of which one leaves no room for the other."""
    for option, other, reason in _NOT_TOGETHER:
        name, _, value = option.partition("=")
        given = values.get(name)
        if values.get(other) is None or given in {None, "off"} or given != (value or given):
            continue
        flag = f"{BY_NAME[name].flag}={value}" if value else BY_NAME[name].flag
        raise JSBenchError(f"{flag} {reason}: leave out {BY_NAME[other].flag}", option=other)


def refuse_recording(values: Values, given: Set[str]) -> None:
    """Refuse what was said for this very run of recorded answers, and cannot be done together or alone."""
    asking = given & {"engine", "record"}
    if "replay" in given and asking:
        other = min(asking)
        message = f"--jsbench-replay asks recorded answers and --jsbench-{other} an engine; leave one of them out"
        raise JSBenchError(message, option="replay")
    if "record_mode" in given and values["record_mode"] == "new" and values["record"] is None:
        message = "--jsbench-record-mode=new fills up a folder of recorded answers: add --jsbench-record=DIR"
        raise JSBenchError(message, option="record_mode")


def selection_of(values: Values) -> Selection:
    """Read the part of a source that is wanted."""
    chosen = {name: values[name] for name in ("tasks", "split", "limit", "registry") if values[name] is not None}
    if values["sample"] is not None:
        size, seed = values["sample"]
        chosen["sample"] = Sample(size=size, seed=seed)
    labelled, invalid = values["instances"] is not None, values["invalid_schemas"]
    source = values["instances"] or values["dataset"] or "builtin"
    return Selection(
        source=source,
        skips_invalid=invalid == "skip" if invalid is not None else labelled or is_published(source),
        strict=invalid == "strict",
        labelled=labelled,
        where=tuple(values["where"]),
        default_dialect=policy_of(values).default_dialect,
        **chosen,
    )


def policy_of(values: Values) -> JudgePolicy:
    """Read how strictly answers are judged; a program may hold a policy, which the options change."""
    return replace(values.get("policy") or JudgePolicy(), **policy_changes(values))


def policy_changes(values: Values) -> dict[str, Any]:
    """Read what the options say of it, as fields of a JudgePolicy."""
    chosen = {name: values[name] for name in ("duplicate_keys", "fences", "reasoning", "formats", "validator")}
    chosen["timeout"] = values["judge_timeout"]
    if values["default_dialect"] is not None:
        chosen["default_dialect"] = NAMES[values["default_dialect"]]
    extra_fields = values["extra_fields"]
    chosen["ignored_fields" if isinstance(extra_fields, tuple) else "extra_fields"] = extra_fields
    return {name: value for name, value in chosen.items() if value is not None}


def _limits_of(values: Values) -> RateLimits:
    if values["replay"] is not None:  # recorded answers cost nothing, and keep nobody waiting
        return RateLimits()
    return RateLimits(
        requests_per_minute=values["rpm"],
        tokens_per_minute=values["tpm"],
        max_cost=values["max_cost"],
        patience=PATIENCE if values["patience"] is None else values["patience"],
    )


def gates_of(values: Values) -> tuple[Gate, ...]:
    """Read the conditions on the run; JSBenchError where one cannot be read, or has nothing to compare with."""
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
        flag, given = BY_NAME[name].flag, values[name]
        for text in given if BY_NAME[name].repeated else filter(None, [given]):
            with errors_about(flag):
                gates.append(read(text))
            if gates[-1].name.baseline and values["baseline"] is None:
                message = f"{flag} {text}: there is nothing to compare with; add --jsbench-baseline=RUN"
                raise JSBenchError(message, found=text, option=name)
    return tuple(gates)


def _find_classifiers(
    named: Sequence[str | Callable[[Record], object]], hook: Callable[[Record], object] | None
) -> tuple[Classifier, ...]:
    """Find the classifiers, and the hook where anybody implements it."""
    if not named and hook is None:
        return ()
    from pytest_jsbench.settings.classifiers import Classifier, find

    classifiers = [find(name) for name in named]
    if hook is not None:
        classifiers.append(Classifier(name=_HOOK, origin="a hook", function=hook))
    return tuple(classifiers)
