"""Define the arguments of `evaluate`: the options of the option table; some arguments also accept Python objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_jsbench.core.arguments import Reader, flag, names, one_of, path, read_all
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.run.plan import RateLimits, check_conflicts, check_recording
from pytest_jsbench.settings.options import BY_NAME, OPTIONS, PATH_OPTIONS
from pytest_jsbench.settings.spelling import rewritten_errors, spelled
from pytest_jsbench.values import Comparer
from pytest_jsbench.values.comparers import comparer_of
from pytest_jsbench.verdicts import JudgePolicy

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Case, Template
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.settings.option import Values

#: Positional arguments of `evaluate`, and the empty name of an option that only pytest has.
_NOT_NAMED = frozenset({"engine", "dataset", ""})
#: Default directory of runs.
RUNS = "jsbench-runs"
Text = str | PathLike[str]


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation; each has the meaning of the plugin's option of the same name in docs/options.md."""

    #: Name of a built-in prompt, a Jinja2 file, `package.module:function`, or a function that takes a case.
    prompt: Text | Template | Callable[[Case], object]
    shots: int
    context: int
    concurrency: int | None
    repeats: int
    retries: int
    #: Whether to repeat the requests that a broken server interrupted one at a time, to find the cause.
    isolate_crashes: bool
    shard: str
    #: Whether to wait for a provider's batch (`wait`, or True), or to check it only once (`leave`).
    batch: Literal["wait", "leave", True]
    #: Directory of all runs, each in its own subdirectory; None to keep the run in memory only.
    output: Text | None
    #: Run to resume; True for the newest run in `output` with the same engine and settings, if any.
    resume: Text | bool
    limits: RateLimits | None
    rpm: float
    tpm: float
    max_cost: float
    patience: float
    #: Rate at which calls begin, as in "8/s" or "8/s:poisson".
    rate: str
    #: Share of requests to send without a schema.
    plain_share: float
    #: Service level of the answers, as in "ttft<=0.5,tgt<=4".
    slo: str
    #: Policy for judging answers; the following options override parts of the policy.
    policy: JudgePolicy | None
    extra_fields: str | Iterable[str]
    duplicate_keys: Literal["note", "fail"]
    fences: Literal["strip", "forbid"]
    reasoning: Literal["keep", "strip"]
    formats: Literal["assert", "ignore"]
    default_dialect: Literal["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]
    validator: Literal["both", "jsonschema-rs", "jsonschema"]
    judge_timeout: float
    #: Classifiers: names, or functions that take a record.
    classify: Iterable[str | Callable[[Record], str | None]]
    #: Comparer of each field: a text such as `tolerance:1%`, or a function of the expected and the actual value.
    comparers: Mapping[str, str | Callable[[Any, Any], object]]
    #: Conditions on metrics, such as `pass_rate>=0.9`, which decide the run's verdict.
    gates: Iterable[str]
    min_pass_rate: float
    max_regression: float
    baseline: Text
    quarantine: Text
    #: Directory in which each answer is recorded as a readable file.
    record: Text | None
    record_mode: Literal["all", "new"]
    #: Directory of recorded answers, or of a run, to use instead of an engine; the engine is then None.
    replay: Text
    replay_strict: bool
    #: Whether to write digests instead of prompts, schemas and answers.
    redact: bool
    export: Mapping[str, Text]
    #: Path to which the run's HTML page is written.
    report: Text
    #: This and the following options are for an engine given by name, not for an open engine.
    model: Text
    base_url: str
    api_key_env: str
    response_format: str
    #: Tool choice of cases that offer tools: `auto`, `required`, `none` or the name of a tool.
    tool_choice: str
    temperature: float
    max_tokens: int
    seed: int
    timeout: float
    adapt: str
    #: Rewritings of the schemas, `order`, `order:SEED` or `inline`; each defines another variant.
    rewrite: str | Iterable[str]
    #: Number of second tries of a wrong answer, as in 2 or "2:blind".
    repairs: int | str
    engine_option: Mapping[str, Any]
    #: Names of variants in pyproject.toml, if the engine is None.
    variants: str | Iterable[str]
    #: This and the following options are for a dataset given by name, not for a loaded dataset.
    instances: Text
    preset: str
    tasks: str | Iterable[str]
    split: str
    limit: int
    registry: Text
    where: str | Iterable[str]
    sample: int | str
    invalid_schemas: Literal["fail", "skip", "strict"]
    #: Whether to show a progress bar, if tqdm is installed.
    progress: bool


def _earlier_run(value: object) -> Path | str | None:
    if isinstance(value, bool):
        return "newest" if value else None
    try:
        return Path(path(value))
    except ValueError:
        raise ValueError("True, or the path of a run") from None


def _classifiers(value: object) -> tuple[str | Callable[[Record], str | None], ...]:
    if isinstance(value, str):
        return (value,)
    classifiers = tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(classifier, str) or callable(classifier) for classifier in classifiers):
        raise ValueError("a list of functions of a record, or of names of classifiers")
    return classifiers


def _comparers(value: object) -> dict[str, Comparer]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) or callable(text) for text in value.values()):
        raise ValueError("a mapping of fields to comparers, such as {'total': 'tolerance:1%'}")
    return {name: _comparer(name, text) for name, text in value.items()}


def _comparer(field: str, given: str | Callable[[Any, Any], object]) -> Comparer:
    if not isinstance(given, str):
        text = f"function:{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', type(given).__qualname__)}"
        return Comparer(function=given, how=text)
    try:
        return comparer_of(given)
    except ValueError as error:
        raise JSBenchError(f"comparers: {field}: {error}", found=given, where="comparers") from None


READERS: dict[str, Reader] = {
    **{option.argument_name: option.of_value for option in OPTIONS if option.argument_name not in _NOT_NAMED},
    "prompt": one_of("a prompt", object),  # `template_of` checks the type
    "resume": _earlier_run,
    "limits": one_of("a RateLimits, such as RateLimits(requests_per_minute=60)", RateLimits),
    "policy": one_of("a JudgePolicy, such as JudgePolicy(extra_fields='allow')", JudgePolicy),
    "classify": _classifiers,
    "comparers": _comparers,
    "gates": names,
    "progress": flag,
}
#: Default of each argument.
EVALUATION_DEFAULTS: Values = {
    **{name: BY_NAME[name].default if name in BY_NAME else None for name in EvaluationOptions.__annotations__},
    **dict.fromkeys(("resume", "progress"), False),
    "output": RUNS,
    "adapt": "verbatim",
}


def read_options(given: Mapping[str, Any], dataset: object, engine: object) -> dict[str, Any]:
    """Parse the arguments of an evaluation into option values; raise a JSBenchError that names an invalid argument."""
    read = read_all(given, READERS, of="evaluate")
    check_conflicts({**read, "dataset": dataset})
    values = {"output": RUNS, **(read.get("preset") or {}), **read}
    if (limits := read.get("limits")) is not None:
        parts = {
            "rpm": "requests_per_minute",
            "tpm": "tokens_per_minute",
            "max_cost": "max_cost",
            "patience": "patience",
        }
        values |= {name: getattr(limits, part) for name, part in parts.items() if read.get(name) is None}
    # a text for `resume` is `newest` and not a path
    texts = {name: values[name] for name in PATH_OPTIONS if isinstance(values.get(name), str) and name != "resume"}
    values |= {name: Path(text) for name, text in texts.items()}
    if values.get("resume") == "newest" and values["output"] is None:
        message = "resume=True looks for a run in output, which is None: pass the run, or an output directory"
        raise JSBenchError(message, where="resume")
    check_recording(values, read.keys() if engine is None else {*read, "engine"})
    values["gate"] = values.pop("gates", ())
    values["comparer"] = list(values.pop("comparers", {}).items())
    return values


@contextmanager
def argument_names_in_errors() -> Iterator[None]:
    """Convert option names in errors to argument names: `--jsbench-api-key-env` becomes `api_key_env`."""
    with rewritten_errors(with_argument_names):
        yield


def with_argument_names(message: str) -> str:
    """Return the message with argument names for options; an engine option becomes an argument of its own name."""
    own = re.sub(r"--jsbench-engine-option[ =](?=\w)", "", message)
    return spelled(own, lambda option: option.argument_name or option.name)
