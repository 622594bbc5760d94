"""The arguments of an evaluation, and messages in their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_jsbench.core.arguments import Reader, arguments, flag, names, one_of, path
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.settings.options import SETTABLE, readers, respelled
from pytest_jsbench.settings.plan import RateLimits
from pytest_jsbench.verdicts import JudgePolicy
from pytest_jsbench.verdicts.verdicts import POLICY_OFFERS

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Case
    from pytest_jsbench.core.prompts import Template
    from pytest_jsbench.records.records import Record


#: the arguments that are not called as their options
_ARGUMENTS = {
    "comparer": "comparers",
    "engine_option": "argument",
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "where": "filter",
}


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
    own = re.sub(r"--jsbench-engine-option[ =](?=\w+=)", "", message)
    return respelled(own, lambda name: _ARGUMENTS.get(name, name))


class EvaluationOptions(TypedDict, total=False):
    """The options of an evaluation; each as the plugin's option of that name."""

    #: a preset, a Jinja2 file, `package.module:function`, or a function that takes a case
    prompt: str | PathLike[str] | Template | Callable[[Case], object]
    #: examples before each question
    shots: int
    #: calls in flight
    concurrency: int | None
    #: attempts of each case
    repeats: int
    #: the folder of all runs, in which this one gets a folder of its own; None: the run is only in memory
    output: str | PathLike[str] | None
    #: the run to go on with; True: the newest in `output` that asks the same engine in the same way, if any
    resume: str | PathLike[str] | bool
    limits: RateLimits | None
    #: tries after the first
    retries: int
    policy: JudgePolicy | None
    #: classifiers, each a name or a function that takes a record
    classify: Iterable[str | Callable[[Record], str | None]]
    #: how a field's values are compared: as `--jsbench-comparer` says it, or a function of the expected and the other
    comparers: Mapping[str, str | Callable[[Any, Any], object]]
    #: conditions on the run, as `--jsbench-gate` has them; they decide its verdict
    gates: Iterable[str]
    #: a folder in which each answer is kept as a readable file; `open_engine("recorded", folder=…)` says them again
    record: str | PathLike[str] | None
    #: `new` asks and records only what is not in that folder
    record_mode: Literal["all", "new"]
    #: whether digests stand for prompts, schemas and answers in what is kept
    redact: bool
    #: whether a bar shows how far it is, where tqdm is installed
    progress: bool


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _run_or_flag(value: object) -> str | bool:
    if isinstance(value, bool):
        return value
    try:
        return path(value)
    except ValueError:
        raise ValueError("True, or the path of a run") from None


def _classifiers(value: object) -> tuple[str | Callable[[Record], str | None], ...]:
    classifiers = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(classifier, str) or callable(classifier) for classifier in classifiers):
        raise ValueError("a list of functions of a record, or of names of classifiers")
    return classifiers


def _comparers(value: object) -> Mapping[str, str | Callable[[Any, Any], object]]:
    if not isinstance(value, Mapping) or not all(isinstance(how, str) or callable(how) for how in value.values()):
        raise ValueError("a mapping of fields to comparers, such as {'total': 'tolerance:1%'}")
    return value


#: where what the plugin's options say has another place; each begins where `evaluate has no argument 'x': ` ends
_OTHERWISE = {
    **dict.fromkeys((*SETTABLE, "timeout"), "say it to open_engine(…), whose engine can be evaluated"),
    **dict.fromkeys(("tasks", "split", "limit", "registry"), "say it to Dataset.load(…)"),
    "where": "say it to Dataset.filter(…)",
    "sample": "take it by Dataset.sample(size, seed)",
    **dict.fromkeys(("rpm", "requests_per_minute"), "give limits=RateLimits(requests_per_minute=…)"),
    **dict.fromkeys(("tpm", "tokens_per_minute"), "give limits=RateLimits(tokens_per_minute=…)"),
    **{name: f"give limits=RateLimits({name}=…)" for name in ("max_cost", "patience")},
    **POLICY_OFFERS,
    "judge_timeout": "give policy=JudgePolicy(timeout=…)",
    "replay": 'open the answers as an engine: open_engine("recorded", folder=…)',
    "variants": "evaluate once for each way to ask, and set the runs side by side with plot_runs; "
    "pytest --jsbench-variants asks all ways in one run",
    "instances": "labelled answers are put to a grammar by pytest --jsbench-instances; load_run reads that run",
    "batch": "a provider's batches are handed in by pytest --jsbench-batch; load_run reads that run",
    "min_pass_rate": "give gates=['pass_rate>=…']",
    **dict.fromkeys(
        ("baseline", "max_regression"),
        "ask the run that comes of it: run.check('baseline.difference>=…', baseline=RUN)",
    ),
    "shard": "parts of a run are made by pytest --jsbench-shard and put together by jsbench merge",
    "preset": "pytest --jsbench-preset asks as a publication did; load_run reads that run",
    "export": "the run has to_csv, to_parquet and more; jsbench export writes the other formats",
}


#: checks the arguments of an evaluation
checked = arguments(
    readers("shots", "concurrency", "repeats", "retries", "record_mode"),
    of="evaluate",
    otherwise=_OTHERWISE,
    output=_or_none(path),
    resume=_run_or_flag,
    limits=one_of("a RateLimits, such as RateLimits(requests_per_minute=60)", RateLimits),
    policy=one_of("a JudgePolicy, such as JudgePolicy(extra_fields='allow')", JudgePolicy),
    classify=_classifiers,
    comparers=_comparers,
    gates=names,
    record=path,
    redact=flag,
    progress=flag,
)
