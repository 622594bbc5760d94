"""The settings of a run: the plugin's options, of the command line and the ini file, and pytest's arguments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.options.declared import OPTIONS
from pytest_jsbench.plugin.options.reading import ROOT, from_here, path_of, start_of, value_of
from pytest_jsbench.plugin.options.variant_settings import RecordingSettings, VariantSettings
from pytest_jsbench.plugin.options.variants import Variants, typed_values

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.datasets.selection import Shard
    from pytest_jsbench.metrics.gates import Gate
    from pytest_jsbench.runner.limits import RateLimits
    from pytest_jsbench.values import Comparer
    from pytest_jsbench.verdicts import JudgePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Which tests pytest is to collect."""

    #: node ids of the suite, or beginnings of them, that were named on the command line
    chosen: tuple[str, ...] = ()
    #: whether the dataset's schemas are collected
    suite: bool
    #: whether nothing else is, though no case of it was named
    suite_only: bool = False
    #: whether tests of the project may be collected
    project: bool = True


def read_recording(config: pytest.Config) -> tuple[Path | None, Path | None]:
    """
    Where answers are recorded, and where they are replayed from, one of them at most; pytest.UsageError for both.

    A replay in the ini file is what a run does unless an engine, or a recording, is asked for on the command line.
    """
    typed = {name for name in ("engine", "record", "replay") if config.getoption(f"jsbench_{name}") is not None}
    if "replay" in typed and len(typed) > 1:
        other = sorted(typed - {"replay"})[0]
        message = f"--jsbench-replay asks recorded answers and --jsbench-{other} an engine; leave one of them out"
        raise pytest.UsageError(message)
    replay = path_of(config, "replay")
    if replay is not None and not typed & {"engine", "record"}:
        return None, replay
    return path_of(config, "record"), None


#: the options that set a gate
_GATES = ("min-pass-rate", "gate", "max-regression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that the user said, read once: nothing else reads the options, or the arguments of pytest."""

    #: the ways in which the cases are asked, by their names; one without a name where there is no other
    variants: Mapping[str, VariantSettings]
    #: why those of the configuration are not among them; empty where they are, or there are none
    variants_left_out: str
    #: the recordings, or the run, that answer instead of an engine
    replay: Path | None
    #: where every answer is recorded, for all variants
    record: Path | None
    selection: Selection
    timeout: float
    retries: int
    limits: RateLimits
    #: whether the cases are handed in as a provider's batch, and whether it is waited for
    batch: Literal["wait", "leave"] | None
    #: an earlier run to go on with
    resume: Path | None
    shard: Shard | None
    policy: JudgePolicy
    gates: tuple[Gate, ...]
    #: whether one of them was asked of this very run, on its command line
    gates_typed: bool
    #: an evaluation file or a run's folder
    baseline: Path | None
    #: attempts per case
    repeats: int
    output: Path | None
    #: whether digests stand for prompts, schemas and answers in all that is written and shown
    redact: bool
    #: names of classifiers, which give failed attempts codes
    classify: tuple[str, ...]
    #: how values are compared with expected ones, by the name of the field
    comparers: Mapping[str, Comparer]
    #: by an exporter's name, where it is to write
    exports: tuple[tuple[str, Path], ...]
    benchmark_rows: Literal["task", "case"]
    targets: Targets
    #: what -m and -k say
    expressions: str
    #: whether no fixture runs (--collect-only, --setup-plan), so that no test can ask an engine
    only_lists: bool
    #: whether no test runs (--setup-only too), so that nothing is measured and nothing decided
    only_looks: bool
    #: the command that runs one case again, but for its node id
    rerun: str

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; pytest.UsageError says what is wrong with a value."""
        from pytest_jsbench.runner.limits import RateLimits

        values = {option.name: value_of(config, option.name) for option in OPTIONS}
        _place(config, values)
        record, replay = read_recording(config)
        only_new = record is not None and values["record-mode"] == "new"
        strict = values["replay-strict"] == "on"
        recording = RecordingSettings(record=record, only_new=only_new, replay=replay, strict=strict)
        _refuse_beside_new_recordings(config, {**values, "record": record})
        _refuse_other_machines(config)
        _refuse_beside_instances({**values, "record": record, "replay": replay})
        _refuse_beside_redact({**values, "record": record})
        policy = _policy(values)
        variants = Variants.read(config, values, recorded=record is not None or replay is not None)
        if replay is not None and [one.name for one in variants.all] == [""]:
            variants = variants.of_run(replay)
        return cls(
            variants={one.name: VariantSettings.of(one, recording) for one in variants.all},
            variants_left_out=variants.left_out,
            replay=replay,
            record=record,
            selection=_selection(values, policy),
            timeout=values["timeout"] or 120.0,
            retries=2 if values["retries"] is None else values["retries"],
            # recorded answers cost nothing, and keep nobody waiting
            limits=_limits(values) if replay is None else RateLimits(),
            batch=values["batch"] if replay is None else None,
            resume=path_of(config, "resume"),
            shard=values["shard"],
            policy=policy,
            gates=_gates(values),
            gates_typed=bool(typed_values(config, _GATES)),
            baseline=path_of(config, "baseline"),
            repeats=values["repeats"] or 1,
            output=path_of(config, "output"),
            redact=values["redact"] == "on",
            classify=tuple(values["classify"] or ()),
            comparers=dict(values["comparer"] or ()),
            exports=tuple((name, start_of(config, "export") / path) for name, path in values["export"] or ()),
            benchmark_rows=values["benchmark-rows"] or "task",
            targets=_take_targets(config),
            expressions=f"{config.option.markexpr} {config.option.keyword}",
            only_lists=_is_on(config, "collectonly", "setupplan"),
            only_looks=_is_on(config, "collectonly", "setuponly"),
            rerun=printable(shlex.join(["pytest", *_given_arguments(config)]), 2000),
        )


def _place(config: pytest.Config, values: dict[str, Any]) -> None:
    """Name what may be a file, and was named in the ini file, from where pytest was started."""
    for name in ("dataset", "instances", "prompt", "model"):
        values[name] = None if values[name] is None else from_here(config, name, values[name])
    values["engine-option"] = [
        (key, from_here(config, "engine-option", value) if isinstance(value, str) else value)
        for key, value in values["engine-option"] or ()
    ]


def _limits(values: Mapping[str, Any]) -> RateLimits:
    from pytest_jsbench.runner.limits import RateLimits
    from pytest_jsbench.runner.provider_state import PATIENCE

    return RateLimits(
        requests_per_minute=values["rpm"],
        tokens_per_minute=values["tpm"],
        max_cost=values["max-cost"],
        patience=PATIENCE if values["patience"] is None else values["patience"],
    )


def _refuse_other_machines(config: pytest.Config) -> None:
    """Refuse workers of xdist that may be on another machine, where no file of this run is seen."""
    for spec in config.getoption("tx", None) or ():
        if "popen" not in spec.partition("//")[0] or "//via=" in spec:
            message = (
                f"--tx={printable(spec, 200)}: a worker on another machine sees no file of this run; use -n N on one"
                " machine, and on several --jsbench-shard with `jsbench merge`"
            )
            raise pytest.UsageError(message)


def _refuse_beside_instances(values: Mapping[str, Any]) -> None:
    """What asking a grammar about labelled answers leaves no room for."""
    if values["instances"] is None:
        return
    reasons = {
        "dataset": "brings schemas of its own",
        "resume": "calls no model, so there is nothing to go on with",
        "repeats": "calls no model, and a grammar decides alike each time",
        "record": "calls no model, so there is nothing to record",
        "batch": "calls no model, so there is nothing to hand in",
        "replay": "calls no model, so there is nothing to replay",
    }
    for name, reason in reasons.items():
        if values[name] is not None:
            message = f"--jsbench-instances {reason}: leave out --jsbench-{name}"
            raise pytest.UsageError(message)


def _refuse_beside_redact(values: Mapping[str, Any]) -> None:
    """What keeps answers as they are."""
    reasons = {
        "record": "writes no answer, and a recording is one",
        "batch": "writes no answer, and those of a batch lie in a file until their tests run",
    }
    for name, reason in reasons.items():
        if values["redact"] == "on" and values[name] is not None:
            message = f"--jsbench-redact {reason}: leave out --jsbench-{name}"
            raise pytest.UsageError(message)


def _refuse_beside_new_recordings(config: pytest.Config, values: Mapping[str, Any]) -> None:
    """What leaves nothing to fill up, and what would pay for answers that are there."""
    if values["record-mode"] != "new":
        return
    if values["record"] is None and _typed(config, "record_mode"):
        message = "--jsbench-record-mode=new fills up a folder of recorded answers: add --jsbench-record=DIR"
        raise pytest.UsageError(message)
    if values["record"] is not None and values["batch"] is not None:
        message = "--jsbench-record-mode=new asks only what is missing, and a batch all: leave out --jsbench-batch"
        raise pytest.UsageError(message)


def _selection(values: Mapping[str, Any], policy: JudgePolicy) -> Selection:
    from pytest_jsbench.datasets.base import Sample, Selection
    from pytest_jsbench.datasets.registry import is_published

    chosen = {name: values[name] for name in ("tasks", "split", "limit", "registry") if values[name] is not None}
    if values["sample"] is not None:
        size, seed = values["sample"]
        chosen["sample"] = Sample(size=size, seed=seed)
    source = values["instances"] or values["dataset"] or "builtin"
    if values["invalid-schemas"] is not None:
        skips = values["invalid-schemas"] == "skip"
    else:
        skips = values["instances"] is not None or is_published(source)
    return Selection(
        source=source,
        skips_invalid=skips,
        strict=values["invalid-schemas"] == "strict",
        labelled=values["instances"] is not None,
        where=tuple(values["where"] or ()),
        default_dialect=policy.default_dialect,
        **chosen,
    )


def _gates(values: Mapping[str, Any]) -> tuple[Gate, ...]:
    if all(values[option] is None or values[option] == [] for option in _GATES):
        return ()
    from pytest_jsbench.core.errors import JSBenchError
    from pytest_jsbench.metrics.gates import Gate

    readers = zip(_GATES, (Gate.least_pass_rate, Gate.parse, Gate.most_regression), strict=True)
    gates: list[Gate] = []
    for option, read in readers:
        given = values[option]
        for text in given if isinstance(given, list) else [] if given is None else [given]:
            try:
                gates.append(read(text))
            except JSBenchError as error:
                message = f"--jsbench-{option}: {error}"
                raise pytest.UsageError(message) from None
            if gates[-1].name.baseline and values["baseline"] is None:
                message = f"--jsbench-{option} {text}: there is nothing to compare with; add --jsbench-baseline=RUN"
                raise pytest.UsageError(message)
    return tuple(gates)


def read_policy(config: pytest.Config) -> JudgePolicy:
    """How strictly answers are judged; pytest.UsageError where an option of that cannot be read."""
    return _policy({option.name: value_of(config, option.name) for option in OPTIONS})


def _policy(values: Mapping[str, Any]) -> JudgePolicy:
    from pytest_jsbench.schemas.dialects import NAMES
    from pytest_jsbench.verdicts import JudgePolicy

    chosen: dict[str, Any] = {
        name.replace("-", "_"): values[name]
        for name in ("duplicate-keys", "fences", "reasoning", "formats", "validator")
        if values[name]
    }
    if values["judge-timeout"] is not None:
        chosen["timeout"] = values["judge-timeout"]
    if values["default-dialect"] is not None:
        chosen["default_dialect"] = NAMES[values["default-dialect"]]
    extra_fields = values["extra-fields"]
    if extra_fields in {"fail", "allow"}:
        chosen["extra_fields"] = extra_fields
    elif extra_fields is not None:
        chosen["ignored_fields"] = extra_fields
    return JudgePolicy(**chosen)


def _take_targets(config: pytest.Config) -> Targets:
    """
    Take the suite's node ids out of pytest's arguments, which are paths to it, and see what else was asked for.

    An engine named on the command line, without a path, asks for the suite alone; so does a dataset. A path asks for
    what is there, and a dataset on the command line adds the suite to it. What the ini file names changes nothing of
    what pytest would run, but that a dataset named there is added to a run without a path.
    """
    chosen = tuple(arg for arg in config.args if arg == ROOT or arg.startswith(f"{ROOT}::"))
    chosen = tuple(arg for arg in chosen if not (config.invocation_params.dir / arg).exists())
    if chosen:
        config.args[:] = [arg for arg in config.args if arg not in chosen]
        return Targets(chosen=chosen, suite=True, project=bool(config.args))
    dataset = _typed(config, "dataset") or _typed(config, "instances")
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return Targets(suite=dataset)
    recording = _typed(config, "record") or _typed(config, "replay")
    if dataset or ((_typed(config, "engine") or _typed(config, "variants")) and not recording):
        config.args[:] = []
        return Targets(suite=True, suite_only=True, project=False)
    return Targets(suite=any(value_of(config, name) is not None for name in ("dataset", "instances")))


#: what the command that runs one case again leaves out
_NOT_FOR_ONE_CASE = frozenset(
    {"output", "export", "min-pass-rate", "gate", "baseline", "max-regression", "limit", "tasks", "where", "sample"}
    | {"resume", "shard", "max-cost", "batch"}
)


def _given_arguments(config: pytest.Config) -> list[str]:
    """The plugin's options of this command line, as arguments that say the same again."""
    arguments: list[str] = []
    typed = typed_values(config)
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is None or option.name in _NOT_FOR_ONE_CASE:
            continue
        texts = given if option.repeated else [given]
        if option.name in typed:  # each of its values, which may have made a variant, and none that it replaced
            keys = {text.partition("=")[0] for text in typed[option.name]}
            kept = [text for text in texts if option.repeated and text.partition("=")[0] not in keys]
            texts = list(dict.fromkeys([*kept, *typed[option.name]]))
        arguments += [f"{option.flag}={option.shown(text)}" for text in texts]
    return arguments


def _typed(config: pytest.Config, name: str) -> bool:
    return config.getoption(f"jsbench_{name}") is not None


def _is_on(config: pytest.Config, *names: str) -> bool:
    """Whether one of these options of pytest, which another plugin may have left out, is set."""
    return any(getattr(config.option, name, False) for name in names)
