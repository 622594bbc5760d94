"""Define the options of a run: name, help, checks and parsing of each, for every entry point that accepts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.arguments import Reader, join_names, number, numeral, path, whole
from pytest_jsbench.settings import parsers
from pytest_jsbench.settings.call_options import EngineOptions, PromptOptions
from pytest_jsbench.settings.load_options import LoadOptions
from pytest_jsbench.settings.option import ON_OFF, Bearing, FileUse, Option, OptionGroup, PerVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Literal

    from pytest_jsbench.datasets.selection import Shard
    from pytest_jsbench.values import Comparer

#: Maximum number of attempts per case. Each attempt is a test, and pytest creates all tests before the first call.
MOST_REPEATS = 10_000


def publication(name: str) -> dict[str, Any]:
    """Return the option values of a publication, by name; an installed package provides the publication."""
    from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError
    from pytest_jsbench.core.extensions import FIX_PACKAGE, extension
    from pytest_jsbench.core.secret_masking import one_line
    from pytest_jsbench.core.text import describe_error

    try:
        options: Mapping[str, str] = extension("publication", name, error=JSBenchError).options()
        values = {option: BY_NAME[option].of_text(text) for option, text in options.items()}
        return {name: [value] if BY_NAME[name].repeated else value for name, value in values.items()}
    except JSBenchError as error:
        raise ValueError(f"expected a publication: {error}") from None
    except THIRD_PARTY_ERRORS as error:
        raise ValueError(
            f"publication '{name}' has no options: {one_line(describe_error(error))}; {FIX_PACKAGE}"
        ) from error


def readers(*names: str) -> dict[str, Reader]:
    """Return the functions that check and convert these options as arguments of a Python function."""
    return {name: BY_NAME[name].of_value for name in names}


_SECONDS = number("seconds above 0", above=0)
_RATE = number("a number above 0", above=0)


class CaseOptions(OptionGroup, heading="Cases"):
    """Which cases a run has."""

    preset: Option[Mapping[str, Any] | None] = Option(
        "Use the settings of a published benchmark for every option that is not set: jsonschemabench (the paper's "
        "tasks, prompt, shots, temperature and rules; docs/published.md), or a publication from an installed "
        "package. `jsbench compare --published` compares the run with the published results.",
        "NAME",
        parse=publication,
    )
    dataset: Option[Sequence[str]] = Option(
        "Source of the schemas: builtin (default, 88 schemas), builtin-quick (10 of these), a schema file, a "
        "directory or glob of schema files (*.json, *.yaml), rows (*.jsonl, *.parquet), an OpenAPI document, tool "
        "definitions, package.module:name (a Pydantic model or similar type; :* for all), a directory in the layout "
        "of the Hugging Face Hub, a Hub name such as epfl-dlab/JSONSchemaBench (or NAME@REVISION), or a dataset "
        "from an installed package. Repeatable: several sources form one suite.",
        "SOURCE",
        repeated=True,
        default=(),
        file=FileUse.MAYBE,
        affects=Bearing.CASES,
        recorded=("dataset.source",),
    )
    instances: Option[str | None] = Option(
        "Call no model: check labelled answers against the engine's grammar (llguidance, outlines, xgrammar) "
        "and count wrong decisions. SOURCE is builtin, a directory with schemas.jsonl and instances.jsonl (or"
        " .gz), or a directory of the official JSON Schema Test Suite, such as tests/draft2020-12.",
        "SOURCE",
        argument=path,
        file=FileUse.MAYBE,
        affects=Bearing.CASES,
        recorded=("dataset.labelled",),
    )
    tasks: Option[tuple[str, ...] | None] = Option(
        "Only these tasks of the dataset (default: all).",
        "A,B",
        parse=parsers.names,
        argument=join_names,
        affects=Bearing.CASES,
        recorded=("dataset.tasks",),
    )
    split: Option[str] = Option(
        "Split of a dataset in the layout of the Hugging Face Hub, or all (default: test).",
        "S",
        default="test",
        affects=Bearing.CASES,
        recorded=("dataset.split",),
    )
    limit: Option[int | None] = Option(
        "Only the first N cases of each task (default: all).",
        "N",
        check=whole(1),
        affects=Bearing.CASES,
        recorded=("dataset.limit",),
    )
    registry: Option[str | None] = Option(
        "Directory of schemas that the dataset may reference by their `$id`.",
        "DIR",
        argument=path,
        file=FileUse.MAYBE,
    )
    where: Option[Sequence[str]] = Option(
        "Only cases that meet this condition, such as 'keywords:pattern and size<4096' or 'not "
        "feature:recursive'; fields: task, id, tag, dialect, feature, keywords, size, depth. Repeatable: a "
        "case has to meet every condition. --jsbench-limit and --jsbench-sample select from these cases.",
        "CONDITION",
        repeated=True,
        default=(),
        affects=Bearing.CASES,
        recorded=("dataset.where",),
    )
    sample: Option[tuple[int, int] | None] = Option(
        "Only a random sample of N cases, proportional to the size of each task (default: all cases). SEED (default: "
        "0) gives the same sample on every machine; it is unrelated to --jsbench-seed.",
        "N[:SEED]",
        parse=parsers.sample,
        argument=numeral,
        affects=Bearing.CASES,
        recorded=("dataset.sample", "dataset.sample_seed"),
    )


class ExecutionOptions(OptionGroup, heading="Execution"):
    """How the attempts of a run are made."""

    variants: Option[tuple[str, ...] | None] = Option(
        "Run only these variants of [[tool.jsbench.variants]] in pyproject.toml or [[variants]] in "
        "jsbench.toml, or `all` (default: all, unless the command line sets an option that a variant sets). "
        "Without this table, an option that is given several times defines one variant per value.",
        "A,B",
        parse=parsers.names,
        argument=join_names,
    )
    repeats: Option[int] = Option(
        "Attempts per case, one test each (default: 1).",
        "K",
        check=whole(1, MOST_REPEATS),
        default=1,
        affects=Bearing.CASES,
        recorded=("repeats",),
    )
    shard: Option[Shard | None] = Option(
        "Run only shard I of N, such as 2/5 (or 1of5, counted from 0); auto/5 takes the number from "
        "JOB_COMPLETION_INDEX (Kubernetes) or SLURM_ARRAY_TASK_ID. jsbench merge merges the shards.",
        "I/N",
        parse=parsers.shard,
        affects=Bearing.CASES,
        recorded=("dataset.shard",),
    )
    batch: Option[Literal["wait", "leave"] | None] = Option(
        "Submit the cases to the provider's batch API (openai, anthropic, gemini), which answers within a day "
        "at half the price. wait (default): wait for the answers. leave: check for them only once. Cases without an "
        "answer are not run; to continue later, add --jsbench-batch --jsbench-resume.",
        choices=("wait", "leave"),
        bare="wait",
    )
    resume: Option[Path | Literal["newest"] | None] = Option(
        "Resume an earlier run, given as its records.jsonl, its directory, or a directory of runs (the newest). "
        "Attempts with an answer are reused; failed calls are repeated.",
        "FILE|DIR",
        argument=path,
        file=FileUse.ALWAYS,
    )
    dry_run: Option[bool] = Option(
        "Make no calls; print the estimated number of calls and tokens, the maximum cost, and the minimum time "
        "under the rate limits (default: off).",
        choices=ON_OFF,
        bare="on",
        default=False,
        keyword="",
    )


class LimitOptions(OptionGroup, heading="Limits"):
    """How much a run may request, spend and wait."""

    rpm: Option[float | None] = Option(
        "Maximum number of requests per minute to each engine and address, over all processes (default: no limit).",
        "N",
        check=_RATE,
        affects=Bearing.TIMES,
    )
    tpm: Option[float | None] = Option(
        "Maximum number of tokens per minute, input and output, to each engine and address, over all "
        "processes (default: no limit).",
        "N",
        check=_RATE,
        affects=Bearing.TIMES,
    )
    max_cost: Option[float | None] = Option(
        "Make no call that could bring the cost of this session above this amount; the remaining cases are "
        "reported as not run (default: no limit).",
        "USD",
        check=number("US dollars, at least 0", least=0),
    )
    retries: Option[int] = Option(
        "Maximum number of retries after a transient error (default: 2).",
        "N",
        check=whole(0),
        default=2,
        affects=Bearing.ANSWERS,
    )
    patience: Option[float | None] = Option(
        "Seconds without any answer after which the run gives up on a provider that is down or rejects every "
        "call; the remaining cases are not run. 0 disables retries of rejected calls (default: 300).",
        "S",
        check=number("seconds, at least 0", least=0),
        affects=Bearing.ANSWERS,
    )
    isolate_crashes: Option[bool] = Option(
        "If a server breaks, wait until it answers again, and repeat each request that was in flight alone: the "
        "request that breaks it again is named, and the others are answered. The server must have a supervisor that "
        "restarts it (default: off; the `local` engine always does this).",
        choices=ON_OFF,
        bare="on",
        default=False,
        affects=Bearing.ANSWERS,
    )


class RecordingOptions(OptionGroup, heading="Recordings"):
    """Where answers are recorded, and from where they are replayed."""

    record: Option[Path | None] = Option(
        "Record every answer as a readable file in DIR, to be committed with the tests.",
        "DIR",
        argument=path,
        file=FileUse.ALWAYS,
    )
    record_mode: Option[Literal["all", "new"] | None] = Option(
        "With --jsbench-record: `new` reuses the answers in DIR, and calls the engine only for missing answers; "
        "`all` calls the engine for every answer (default: all).",
        choices=("all", "new"),
    )
    replay: Option[Path | None] = Option(
        "Replay the answers in DIR, a directory of recordings or of a run, instead of calling an engine. If a "
        "prompt or schema has changed since, its test fails and shows the change.",
        "DIR",
        argument=path,
        file=FileUse.ALWAYS,
    )
    replay_strict: Option[bool] = Option(
        "With --jsbench-replay, also fail if an answer was recorded with another model, temperature, token limit, "
        "seed, response format or engine option (default: off; the summary lists the differences).",
        choices=ON_OFF,
        bare="on",
        default=False,
    )


class JudgingOptions(OptionGroup, heading="Judging"):
    """How answers are judged."""

    invalid_schemas: Option[Literal["fail", "skip", "strict"] | None] = Option(
        "Whether the test of a case with an invalid schema fails or is skipped; `strict`: it fails, and misspelled "
        "keywords are invalid too (default: fail; skip for a published dataset).",
        choices=("fail", "skip", "strict"),
    )
    extra_fields: Option[str | tuple[str, ...] | None] = Option(
        "How to judge fields that the schema does not name: fail, allow, or names of fields to ignore (default: fail).",
        "fail|allow|NAME,…",
        parse=parsers.extra_fields,
        argument=join_names,
        affects=Bearing.VERDICTS,
        recorded=("policy.extra_fields", "policy.ignored_fields"),
    )
    duplicate_keys: Option[str | None] = Option(
        "What to do with an answer that contains a duplicate key: note it and use the last value, or fail the answer "
        "with a syntax error (default: note).",
        choices=("note", "fail"),
        affects=Bearing.VERDICTS,
        recorded=("policy.duplicate_keys",),
    )
    fences: Option[str | None] = Option(
        "Whether to strip one Markdown fence around the whole answer (default: strip).",
        choices=("strip", "forbid"),
        affects=Bearing.VERDICTS,
        recorded=("policy.fences",),
    )
    reasoning: Option[str | None] = Option(
        "Whether to strip reasoning up to `</think>`; if kept, the answer has a syntax error (default: keep).",
        choices=("keep", "strip"),
        affects=Bearing.VERDICTS,
        recorded=("policy.reasoning",),
    )
    formats: Option[str | None] = Option(
        "Whether to assert format, and in draft-07 also contentEncoding and contentMediaType (default: assert).",
        choices=("assert", "ignore"),
        affects=Bearing.VERDICTS,
        recorded=("policy.formats",),
    )
    default_dialect: Option[str | None] = Option(
        "Dialect of schemas without $schema (default: 2020-12).",
        choices=("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"),
        affects=Bearing.VERDICTS,
        recorded=("policy.default_dialect",),
    )
    validator: Option[str | None] = Option(
        "Validators to use: jsonschema-rs with jsonschema as second opinion (both), or one validator (default: both).",
        choices=("both", "jsonschema-rs", "jsonschema"),
        affects=Bearing.VERDICTS,
        recorded=("policy.validator",),
    )
    judge_timeout: Option[float | None] = Option(
        "Time limit for judging one answer, in seconds (default: 5).",
        "S",
        check=_SECONDS,
        affects=Bearing.TIMES,
        recorded=("policy.timeout",),
    )
    classify: Option[Sequence[str | Callable[..., object]]] = Option(
        "Classifier that assigns your own codes to failed attempts: a classifier in an installed package, or "
        "package.module:function, which takes a record and returns a code such as refusal_in_german, or None. "
        "Also accepts a metric in an installed package, which counts something in each answer. Repeatable.",
        "NAME",
        repeated=True,
        default=(),
    )
    comparer: Option[Sequence[tuple[str, Comparer]]] = Option(
        "How to compare a field with its expected value, such as total=tolerance:0.01, "
        "items.*.price=tolerance:1%, name=casefold, items=unordered, due=date, id=ignore or "
        "vendor=function:package.module:same, with a function of the expected and the actual value. Repeatable.",
        "FIELD=HOW",
        parse=parsers.comparer,
        repeated=True,
        default=(),
        keyword="comparers",
        affects=Bearing.VALUES,
        recorded=("comparers",),
    )


class GateOptions(OptionGroup, heading="Pass criteria"):
    """What a run must reach to pass."""

    min_pass_rate: Option[str | None] = Option(
        "Pass the run if at least this share (0 to 1) of all planned attempts passed. With this option, failed "
        "cases alone do not fail the run.",
        "RATE",
        argument=numeral,
    )
    gate: Option[Sequence[str]] = Option(
        "Condition for passing the run, on any metric in run.json, such as pass_rate>=0.9, "
        "Github_easy.pass_rate.ci_low>=0.85 (for a task; the lower bound of an interval), "
        "failure_rates.truncated<=0.05, keywords.pattern.pass_rate>=0.8, ttft_p95<=2, cost<=0.5, "
        "error_rate<=0.01, n>=50 (judged attempts) or baseline.newly_failing<=0. Repeatable. With a gate, failed "
        "cases alone do not fail the run. A gate on a metric that was not measured is not met.",
        "'METRIC OP VALUE'",
        repeated=True,
        default=(),
        keyword="gates",
    )
    baseline: Option[Path | None] = Option(
        "Compare with another run case by case: its directory, its run.json, or a file written by jsbench baseline.",
        "RUN|FILE",
        argument=path,
        file=FileUse.ALWAYS,
    )
    quarantine: Option[Path | None] = Option(
        "List of cases whose failures do not fail the run or decide its gates until a date: lines of the form "
        "CASE: YYYY-MM-DD: REASON. Their tests are reported as xfailed; the summary names entries that have expired or "
        "can be removed.",
        "FILE",
        argument=path,
        file=FileUse.ALWAYS,
    )
    max_regression: Option[str | None] = Option(
        "Fail the run if its pass rate, over the cases of both runs, is lower than the baseline's by more than RATE "
        "(0 to 1).",
        "RATE",
        argument=numeral,
    )


class OutputOptions(OptionGroup, heading="Output"):
    """What is written about a run."""

    output: Option[Path | None] = Option(
        "Keep records.jsonl, run.json, report.html and more in DIR/<run id>/ (default: keep only records and metrics of"
        " the last five runs, in pytest's cache).",
        "DIR",
        argument=path,
        file=FileUse.ALWAYS,
    )
    report: Option[Path | None] = Option(
        "Write the run's HTML page to FILE at the end of the run (needs the extra `report`).",
        "FILE",
        argument=path,
        file=FileUse.ALWAYS,
    )
    redact: Option[bool] = Option(
        "Write and show digests instead of prompts, schemas and answers, so that a run with private data can "
        "be kept. Redacted answers cannot be judged again or replayed.",
        choices=ON_OFF,
        bare="on",
        default=False,
    )
    reduce: Option[int | None] = Option(
        "At the end of the run, reduce the first N distinct failures like `jsbench reduce`, with at most 100 calls "
        "each, within --jsbench-max-cost. The results are in the run's directory, and the summary has a line for each "
        "(default: none).",
        "N",
        check=whole(1),
        keyword="",
    )
    export: Option[Sequence[tuple[str, Path]]] = Option(
        "Also write the run with an exporter: every_eval_ever, an installed package's exporter, or "
        "package.module:function. Repeatable.",
        "NAME=PATH",
        parse=parsers.export,
        file=FileUse.ALWAYS,
        repeated=True,
        default=(),
    )
    benchmark_rows: Option[Literal["task", "case"]] = Option(
        "Rows added to pytest-benchmark's table: one per task and metric, or per case and metric (default: task).",
        choices=("task", "case"),
        default="task",
        keyword="",
    )


#: All groups of options, in the order of the help text.
GROUPS: tuple[type[OptionGroup], ...] = (
    EngineOptions,
    CaseOptions,
    PromptOptions,
    ExecutionOptions,
    LimitOptions,
    LoadOptions,
    RecordingOptions,
    JudgingOptions,
    GateOptions,
    OutputOptions,
)
#: All options by name.
BY_NAME: Mapping[str, Option[Any]] = {name: option for group in GROUPS for name, option in group.options.items()}
OPTIONS = tuple(BY_NAME.values())
BY_FLAG = {option.flag: option for option in OPTIONS}
#: Options that define one variant per value if they are given more than once; engine options are grouped by their keys.
MULTIPLIED = tuple(option.name for option in OPTIONS if option.variants is PerVariant.MULTIPLIED)
#: Options that a variant may set in the table of variants.
SETTABLE = tuple(option.name for option in OPTIONS if option.variants is not PerVariant.SHARED)
#: Options of a single call, which are the fields of `GenerationParams`.
CALL_OPTIONS = tuple(option.name for option in OPTIONS if any(path.startswith("params.") for path in option.recorded))
#: Options of a single call that affect its answer.
SAMPLING_OPTIONS = tuple(name for name in CALL_OPTIONS if BY_NAME[name].affects is Bearing.ANSWERS)
#: Options whose value is always a path.
PATH_OPTIONS = tuple(option.name for option in OPTIONS if option.file is FileUse.ALWAYS)
