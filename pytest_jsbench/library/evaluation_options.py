"""The options of an evaluation: those of the table by their names, some of which a program may hold as objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_jsbench.core.arguments import Reader, flag, names, one_of, path, read_all, respelled
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.settings.options import DEFAULTS, OPTIONS
from pytest_jsbench.settings.plan import RateLimits, refuse_recording, refuse_together
from pytest_jsbench.values import Comparer
from pytest_jsbench.values.comparers import comparer_of
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Case, Template
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.settings.variants import Values

#: the arguments that are not called as their options
_ARGUMENTS = {"comparer": "comparers", "gate": "gates"}
#: what a program says as another argument, or what is of pytest's terminal alone
_LEFT_OUT = frozenset({"engine", "dataset", "gate", "comparer", "benchmark_rows", "dry_run"})
_PATHS = ("output", "baseline", "record", "replay")
#: where runs are kept, unless the program says
RUNS = "jsbench-runs"
Text = str | PathLike[str]


class EvaluationOptions(TypedDict, total=False):
    """The options of an evaluation; each as the plugin's option of that name, of which docs/options.md tells."""

    #: a name, a Jinja2 file, `package.module:function`, or a function that takes a case
    prompt: Text | Template | Callable[[Case], object]
    shots: int
    context: int
    concurrency: int | None
    repeats: int
    retries: int
    shard: str
    #: whether a provider's batch is waited for (True is `wait`), or looked at once
    batch: Literal["wait", "leave", True]
    #: the folder of all runs, in which this one gets a folder of its own; None: the run is only in memory
    output: Text | None
    #: the run to go on with; True: the newest in `output` that asks the same engine in the same way, if any
    resume: Text | bool
    limits: RateLimits | None
    rpm: float
    tpm: float
    max_cost: float
    patience: float
    #: how answers are judged; the options that follow change it
    policy: JudgePolicy | None
    extra_fields: str | Iterable[str]
    duplicate_keys: Literal["note", "fail"]
    fences: Literal["strip", "forbid"]
    reasoning: Literal["keep", "strip"]
    formats: Literal["assert", "ignore"]
    default_dialect: str
    validator: Literal["both", "jsonschema-rs", "jsonschema"]
    judge_timeout: float
    #: classifiers, each a name or a function that takes a record
    classify: Iterable[str | Callable[[Record], str | None]]
    #: how a field's values are compared: in words, or by a function of the expected value and the other
    comparers: Mapping[str, str | Callable[[Any, Any], object]]
    #: conditions on the run, which decide its verdict
    gates: Iterable[str]
    min_pass_rate: float
    max_regression: float
    baseline: Text
    #: a folder in which each answer is kept as a readable file
    record: Text | None
    record_mode: Literal["all", "new"]
    #: recorded answers, or a run's folder, that answer instead of the engine, which is None
    replay: Text
    replay_strict: bool
    #: whether digests stand for prompts, schemas and answers in what is kept
    redact: bool
    export: Mapping[str, Text]
    #: of an engine that is named, and not open
    model: Text
    base_url: str
    api_key_env: str
    response_format: str
    temperature: float
    max_tokens: int
    seed: int
    timeout: float
    adapt: str
    engine_option: Mapping[str, Any]
    #: names of ways to ask in pyproject.toml, where the engine is None
    variants: str | Iterable[str]
    #: of a dataset that is named, and not loaded
    instances: Text
    preset: str
    tasks: str | Iterable[str]
    split: str
    limit: int
    registry: Text
    where: str | Iterable[str]
    sample: int | str
    invalid_schemas: Literal["fail", "skip", "strict"]
    #: whether a bar shows how far it is, where tqdm is installed
    progress: bool


def _earlier_run(value: object) -> Path | str | None:
    if isinstance(value, bool):
        return "newest" if value else None
    try:
        return Path(path(value))
    except ValueError:
        raise ValueError("True, or the path of a run") from None


def _classifiers(value: object) -> tuple[str | Callable[[Record], str | None], ...]:
    classifiers = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(classifier, str) or callable(classifier) for classifier in classifiers):
        raise ValueError("a list of functions of a record, or of names of classifiers")
    return classifiers


def _comparers(value: object) -> dict[str, Comparer]:
    if not isinstance(value, Mapping) or not all(isinstance(how, str) or callable(how) for how in value.values()):
        raise ValueError("a mapping of fields to comparers, such as {'total': 'tolerance:1%'}")
    return {name: _comparer(name, how) for name, how in value.items()}


def _comparer(field: str, way: str | Callable[[Any, Any], object]) -> Comparer:
    if not isinstance(way, str):
        how = f"function:{getattr(way, '__module__', '')}:{getattr(way, '__qualname__', type(way).__qualname__)}"
        return Comparer(function=way, how=how)
    try:
        return comparer_of(way)
    except ValueError as error:
        raise JSBenchError(f"comparers: {field}: {error}", found=way, where="comparers") from None


READERS: dict[str, Reader] = {
    **{option.name: option.of_value for option in OPTIONS if option.name not in _LEFT_OUT},
    "prompt": one_of("a prompt", object),  # `template_of` says what it can be
    "resume": _earlier_run,
    "limits": one_of("a RateLimits, such as RateLimits(requests_per_minute=60)", RateLimits),
    "policy": one_of("a JudgePolicy, such as JudgePolicy(extra_fields='allow')", JudgePolicy),
    "classify": _classifiers,
    "comparers": _comparers,
    "gates": names,
    "progress": flag,
}
#: the value of each argument that nobody gives
EVALUATION_DEFAULTS: Values = {
    **{name: DEFAULTS.get(name) for name in EvaluationOptions.__annotations__},
    **dict.fromkeys(("resume", "redact", "replay_strict", "progress"), False),
    "output": RUNS,
    "adapt": "verbatim",
}


def read_options(given: Mapping[str, Any], dataset: object, engine: object) -> dict[str, Any]:
    """Read the arguments of an evaluation as values of the table; JSBenchError says which is wrong."""
    read = read_all(given, READERS, of="evaluate")
    refuse_together({**read, "dataset": dataset})
    values = {**DEFAULTS, "output": RUNS, **(read.get("preset") or {}), **read}
    if (limits := read.get("limits")) is not None:
        parts = {
            "rpm": "requests_per_minute",
            "tpm": "tokens_per_minute",
            "max_cost": "max_cost",
            "patience": "patience",
        }
        values |= {name: getattr(limits, part) for name, part in parts.items() if read.get(name) is None}
    values |= {name: Path(values[name]) for name in _PATHS if isinstance(values[name], str)}
    if values["resume"] == "newest" and values["output"] is None:
        message = "resume=True goes on with a run in output, which is None: name the run, or an output"
        raise JSBenchError(message, where="resume")
    refuse_recording(values, read.keys() if engine is None else {*read, "engine"})
    values["gate"], values["comparer"] = values.pop("gates", ()), values.pop("comparers", {})
    return values


@contextmanager
def said_to_programs() -> Iterator[None]:
    """Inside, an error that names an option such as `--jsbench-api-key-env` names the argument `api_key_env`."""
    try:
        yield
    except JSBenchError as error:
        error.args = tuple(named(part) if isinstance(part, str) else part for part in error.args)
        raise


def named(message: str) -> str:
    """Write arguments where a message names options; an engine's own option is an argument by its own name."""
    own = re.sub(r"--jsbench-engine-option[ =](?=\w)", "", message)
    return respelled(own, lambda name: _ARGUMENTS.get(name, name))
