"""Define the options of a run: name, help, checks and parsing of each, for every entry point that accepts them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from pytest_jsbench.core.arguments import Reader, flag, joined, number, numeral, path, text, whole


def assignment(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; the value is parsed as JSON if possible, and is a string otherwise."""
    key, separator, value = text.partition("=")
    if not (key and separator):
        # do not quote the text: without =, it may be the value alone, possibly a secret
        raise ValueError(f"expected KEY=VALUE, found {'no =' if not separator else 'no KEY'}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def shown_assignment(text: str) -> str:
    """Return the text as `KEY=…`, without the value, if the value may contain a secret."""
    from pytest_jsbench.engines.engine_secrets import HIDDEN, shown_option

    key, value = assignment(text)
    return text if shown_option(key, value) == value else f"{key}={HIDDEN}"


def shown_address(text: str) -> str:
    """Return the URL without user, password and query."""
    from pytest_jsbench.engines.base import without_credentials

    return without_credentials(text)


def comparer(text: str) -> tuple[str, Any]:
    """Parse FIELD=HOW, such as `total=tolerance:0.01`."""
    from pytest_jsbench.values.comparers import read_comparer

    return read_comparer(text)


def export(text: str) -> tuple[str, str]:
    """Parse NAME=PATH for an exporter."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise ValueError(f"expected NAME=PATH, such as every_eval_ever=exported, found {text!r}")
    return name, path


def shard(text: str) -> Any:
    """Parse a shard such as 2/5; for auto/5, take the number from environment variables."""
    from pytest_jsbench.datasets.selection import Shard

    return Shard.parse(text, os.environ)


def names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names."""
    parts = tuple(name.strip() for name in text.split(",") if name.strip())
    if not parts:
        raise ValueError(f"expected names separated by commas, found {text!r}")
    return parts


def extra_fields(text: str) -> str | tuple[str, ...]:
    """Parse `fail`, `allow`, or the names of ignored fields."""
    return text if text in {"fail", "allow"} else names(text)


def sample(text: str) -> tuple[int, int]:
    """Parse SIZE or SIZE:SEED for a random sample of cases."""
    size, separator, seed = text.partition(":")
    if not (size.isascii() and size.isdecimal() and int(size)) or (separator and not seed.isdecimal()):
        raise ValueError(f"expected a size of at least 1, or a size and a seed such as 300:7, found {text!r}")
    return int(size), int(seed or 0)


def response_format(text: str) -> Any:
    """Parse the name of a `ResponseFormat`."""
    from pytest_jsbench.core.generations import ResponseFormat

    return ResponseFormat(text)


def adaptation(text: str) -> tuple[str, str]:
    """Parse MODE or MODE:SUBSET for the adaptation of schemas."""
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    mode, separator, subset = text.partition(":")
    if mode not in {"verbatim", "narrow", "relax"} or (bool(separator) != (find_subset(subset) is not None)):
        message = f"expected verbatim, narrow, relax, or narrow:SUBSET ({', '.join(SUBSETS)}), found {text!r}"
        raise ValueError(message)
    return mode, subset


#: Maximum number of attempts per case. Each attempt is a test, and pytest creates all tests before the first call.
MOST_REPEATS = 10_000


def publication(name: str) -> dict[str, Any]:
    """Return the option values of a publication, by name; an installed package provides the publication."""
    from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError
    from pytest_jsbench.core.extensions import FIX_PACKAGE, extension
    from pytest_jsbench.core.secret_masking import one_line
    from pytest_jsbench.core.text import described

    try:
        options: Mapping[str, str] = extension("publication", name, error=JSBenchError).options()
        values = {option: BY_NAME[option].of_text(text) for option, text in options.items()}
        return {name: [value] if BY_NAME[name].repeated else value for name, value in values.items()}
    except JSBenchError as error:
        raise ValueError(f"expected a publication: {error}") from None
    except THIRD_PARTY_ERRORS as error:
        raise ValueError(f"publication '{name}' has no options: {one_line(described(error))}; {FIX_PACKAGE}") from error


@dataclass(frozen=True, slots=True)
class Option:
    """
    An option of a run, under one name for every entry point.

    pytest accepts `--jsbench-<name>` (with `-` for `_`) and the ini key `jsbench_<name>`. Commands accept `--<name>`,
    and tables of variants and functions accept `<name>`.
    """

    name: str
    help: str
    #: Placeholder for the value in help texts; empty if the option has choices.
    metavar: str = ""
    _: KW_ONLY
    #: Function that checks and converts a number; raises a ValueError with the expected value.
    check: Reader | None = None
    #: Function that parses a text; raises a ValueError that states why the text is invalid.
    parse: Callable[[str], Any] = str
    #: Function that converts a Python value to the text that `parse` expects.
    argument: Reader = text
    choices: tuple[str, ...] = ()
    #: Value that applies if the option is not set.
    default: Any = None
    #: Whether the option may be given several times, so that its value is a list.
    repeated: bool = False
    #: Value that applies if the option is given without a value; None if a value is required.
    bare: str | None = None
    #: Function that hides secrets in a text value.
    shown: Callable[[str], str] = str

    @property
    def flag(self) -> str:
        """Name of the option on pytest's command line, such as `--jsbench-model`."""
        return f"--jsbench-{self.name.replace('_', '-')}"

    @property
    def placeholder(self) -> str:
        """Placeholder for the value in help texts, or the choices."""
        return self.metavar or "|".join(self.choices)

    @property
    def dest(self) -> str:
        """Attribute of `config.option`, which is also the ini key."""
        return f"jsbench_{self.name}"

    def of_value(self, value: object) -> Any:
        """Check and convert a value from Python code; raise a ValueError with the expected value."""
        if self.check is not None:
            return self.check(value)
        if self.repeated:
            if isinstance(value, Mapping):
                return list(value.items())
            values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
            return [self.parse(self.argument(part)) for part in values]
        if self.choices == ON_OFF:
            return ON_OFF[not flag(value)]
        if self.choices:
            return self._choice(self.bare if value is True else value)
        return path(value) if self.name in PATHS else self.parse(self.argument(value))

    def of_text(self, given: str) -> Any:
        """Parse a text from the command line or ini file; raise a ValueError with the expected and the found value."""
        if self.check is None and not self.choices:
            return self.parse(given)
        try:
            return self._choice(given) if self.check is None else self.check(_number(given))
        except ValueError as error:
            raise ValueError(f"expected {error}, found {given!r}") from None

    def _choice(self, value: object) -> Any:
        if value not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return self.parse(str(value))


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with the default for each option that is not set."""
    return {**DEFAULTS, **{name: value for name, value in values.items() if value is not None}}


def readers(*names: str) -> dict[str, Reader]:
    """Return the functions that check and convert these options as arguments of a Python function."""
    return {name: BY_NAME[name].of_value for name in names}


def _number(given: str) -> int | float | str:
    """Convert the text to a number; if it is not a number, return the text, which the check then rejects."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return given


ON_OFF = ("on", "off")
_SECONDS = number("seconds above 0", above=0)
_RATE = number("a number above 0", above=0)
_ENGINE = (
    Option(
        "engine",
        "Engine to test, with one test per JSON Schema: local, openai, anthropic, gemini, llguidance, outlines, "
        "xgrammar, replay, application, scripted, the engine of an installed package, or package.module:Factory. "
        "Without an engine, the plugin does nothing.",
        "NAME",
    ),
    Option("model", "Model name; for local, a GGUF file (default: the engine's default model).", "ID"),
    Option("base_url", "Base URL of a server that is compatible with the engine's API.", "URL", shown=shown_address),
    Option("api_key_env", "Environment variable with the API key (default: the provider's usual variable).", "VAR"),
    Option(
        "response_format",
        "How to pass the schema to the engine: text, json_object, json_schema or tool (default: the strictest"
        " that the engine supports).",
        choices=("text", "json_object", "json_schema", "tool"),
        parse=response_format,
    ),
    Option(
        "temperature",
        "Sampling temperature (default: not sent; local: 0).",
        "T",
        check=number("a number of at least 0", least=0),
    ),
    Option("max_tokens", "Maximum number of tokens of an answer (default: 2048; local: 192).", "N", check=whole(1)),
    Option(
        "seed",
        "Sampling seed of the first attempt; attempt n of a case uses seed + n - 1 (default: not sent).",
        "N",
        check=whole(0),
    ),
    Option(
        "engine_option",
        "Any other option of the engine; repeatable. VALUE is parsed as JSON if possible.",
        "KEY=VALUE",
        parse=assignment,
        shown=shown_assignment,
        repeated=True,
        default=(),
    ),
    Option(
        "variants",
        "Run only these variants of [[tool.jsbench.variants]] in pyproject.toml or [[variants]] in "
        "jsbench.toml, or `all` (default: all, unless the command line sets an option that a variant sets). "
        "Without this table, an option that is given several times defines one variant per value.",
        "A,B",
        parse=names,
        argument=joined,
    ),
    Option("record", "Record every answer as a readable file in DIR, to be committed with the tests.", "DIR"),
    Option(
        "record_mode",
        "With --jsbench-record: `new` reuses the answers in DIR, and calls the engine only for missing answers; "
        "`all` calls the engine for every answer (default: all).",
        choices=("all", "new"),
    ),
    Option(
        "replay",
        "Replay the answers in DIR, a directory of recordings or of a run, instead of calling an engine. If a "
        "prompt or schema has changed since, its test fails and shows the change.",
        "DIR",
    ),
    Option(
        "replay_strict",
        "With --jsbench-replay, also fail if an answer was recorded with another model, temperature, token limit, "
        "seed, response format or engine option (default: off; the summary lists the differences).",
        choices=ON_OFF,
        bare="on",
    ),
)
_CASES = (
    Option(
        "preset",
        "Use the settings of a published benchmark for every option that is not set: jsonschemabench (the paper's "
        "tasks, prompt, shots, temperature and rules; docs/published.md), or a publication from an installed "
        "package. `jsbench compare --published` compares the run with the published results.",
        "NAME",
        parse=publication,
    ),
    Option(
        "dataset",
        "Source of the schemas: builtin (default, 88 schemas), builtin-quick (10 of these), a schema file, a "
        "directory or glob of schema files (*.json, *.yaml), rows (*.jsonl, *.parquet), an OpenAPI document, tool "
        "definitions, package.module:name (a Pydantic model or similar type; :* for all), a directory in the layout "
        "of the Hugging Face Hub, a Hub name such as epfl-dlab/JSONSchemaBench (or NAME@REVISION), or a dataset "
        "from an installed package. Repeatable: several sources form one suite.",
        "SOURCE",
        repeated=True,
        default=(),
    ),
    Option(
        "instances",
        "Call no model: check labelled answers against the engine's grammar (llguidance, outlines, xgrammar) "
        "and count wrong decisions. SOURCE is builtin, a directory with schemas.jsonl and instances.jsonl (or"
        " .gz), or a directory of the official JSON Schema Test Suite, such as tests/draft2020-12.",
        "SOURCE",
    ),
    Option("tasks", "Only these tasks of the dataset (default: all).", "A,B", parse=names, argument=joined),
    Option(
        "split",
        "Split of a dataset in the layout of the Hugging Face Hub, or all (default: test).",
        "S",
        default="test",
    ),
    Option("limit", "Only the first N cases of each task (default: all).", "N", check=whole(1)),
    Option("registry", "Directory of schemas that the dataset may reference by their `$id`.", "DIR"),
    Option(
        "where",
        "Only cases that meet this condition, such as 'keywords:pattern and size<4096' or 'not "
        "feature:recursive'; fields: task, id, tag, dialect, feature, keywords, size, depth. Repeatable: a "
        "case has to meet every condition. --jsbench-limit and --jsbench-sample select from these cases.",
        "CONDITION",
        repeated=True,
        default=(),
    ),
    Option(
        "sample",
        "Only a random sample of N cases, proportional to the size of each task (default: all cases). SEED (default: "
        "0) gives the same sample on every machine; it is unrelated to --jsbench-seed.",
        "N[:SEED]",
        parse=sample,
        argument=numeral,
    ),
)
_PROMPT = (
    Option(
        "adapt",
        "verbatim (default): send the schema unchanged. narrow: rewrite the schema into the provider's subset of JSON "
        "Schema, so that each answer that conforms to the result also conforms to the original; if this is "
        "impossible, report unsupported_schema without a call. relax: omit constraints that the subset cannot "
        "express, and record the changes. SUBSET: a subset such as openai, anthropic or gemini (default: the subset "
        "of the engine). The judge always uses the original schema.",
        "MODE[:SUBSET]",
        parse=adaptation,
        default=("verbatim", ""),
    ),
    Option(
        "prompt",
        "Name of a prompt: schema (default), fields, chat, or a prompt from an installed package; a Jinja2 file; or "
        "package.module:function, which takes a case and returns text, messages or a Prompt.",
        "NAME",
        default="schema",
    ),
    Option(
        "shots",
        "Number of examples before the case's prompt, chosen by task, up to 3 (default: 0).",
        "N",
        check=whole(0),
        default=0,
    ),
    Option(
        "context",
        "Context length of the model in tokens, for prompt and answer together. A case whose prompt alone fills "
        "it is reported as unsupported_schema without a call (default: unknown, so no check; local: the model's).",
        "N",
        check=whole(1),
    ),
)
_EXECUTION = (
    Option(
        "concurrency",
        "Maximum number of calls in flight per process (default: 16 or the engine's own; local: 4 over all processes).",
        "N",
        check=whole(1),
    ),
    Option(
        "rpm",
        "Maximum number of requests per minute to each engine and address, over all processes (default: no limit).",
        "N",
        check=_RATE,
    ),
    Option(
        "tpm",
        "Maximum number of tokens per minute, input and output, to each engine and address, over all "
        "processes (default: no limit).",
        "N",
        check=_RATE,
    ),
    Option(
        "max_cost",
        "Make no call that could bring the cost of this session above this amount; the remaining cases are "
        "reported as not run (default: no limit).",
        "USD",
        check=number("US dollars, at least 0", least=0),
    ),
    Option(
        "batch",
        "Submit the cases to the provider's batch API (openai, anthropic, gemini), which answers within a day "
        "at half the price. wait (default): wait for the answers. leave: check once for answers. Cases without an "
        "answer are not run; to continue later, add --jsbench-batch --jsbench-resume.",
        choices=("wait", "leave"),
        bare="wait",
    ),
    Option(
        "resume",
        "Resume an earlier run, given as its records.jsonl, its directory, or a directory of runs (the newest). "
        "Attempts with an answer are reused; failed calls are repeated.",
        "FILE|DIR",
    ),
    Option(
        "shard",
        "Run only shard I of N, such as 2/5 (or 1of5, counted from 0); auto/5 takes the number from "
        "JOB_COMPLETION_INDEX (Kubernetes) or SLURM_ARRAY_TASK_ID. jsbench merge merges the shards.",
        "I/N",
        parse=shard,
    ),
    Option(
        "timeout", "Timeout of one call in seconds, without retries (default: 120).", "S", check=_SECONDS, default=120.0
    ),
    Option(
        "retries", "Maximum number of retries after a transient error (default: 2).", "N", check=whole(0), default=2
    ),
    Option(
        "patience",
        "Seconds without any answer after which the run gives up on a provider that is down or rejects every "
        "call; the remaining cases are not run. 0 disables retries of rejected calls (default: 300).",
        "S",
        check=number("seconds, at least 0", least=0),
    ),
    Option("repeats", "Attempts per case, one test each (default: 1).", "K", check=whole(1, MOST_REPEATS), default=1),
    Option(
        "dry_run",
        "Make no calls; print the estimated number of calls and tokens, the maximum cost, and the minimum time "
        "under the rate limits (default: off).",
        choices=("on", "off"),
        bare="on",
    ),
)
_JUDGING = (
    Option(
        "invalid_schemas",
        "Whether the test of a case with an invalid schema fails or is skipped; `strict`: it fails, and misspelled "
        "keywords are invalid too (default: fail; skip for a published dataset).",
        choices=("fail", "skip", "strict"),
    ),
    Option(
        "extra_fields",
        "Whether an answer fails if it has fields that the schema does not name (default: fail), or fields to ignore.",
        "fail|allow|NAME,…",
        parse=extra_fields,
        argument=joined,
    ),
    Option(
        "duplicate_keys",
        "What to do with an answer that contains a duplicate key: note it and use the last value, or fail the answer "
        "with a syntax error (default: note).",
        choices=("note", "fail"),
    ),
    Option(
        "fences",
        "Whether to strip one Markdown fence around the whole answer (default: strip).",
        choices=("strip", "forbid"),
    ),
    Option(
        "reasoning",
        "Whether to strip reasoning up to `</think>`; if kept, the answer has a syntax error (default: keep).",
        choices=("keep", "strip"),
    ),
    Option(
        "formats",
        "Whether to assert format, and in draft-07 also contentEncoding and contentMediaType (default: assert).",
        choices=("assert", "ignore"),
    ),
    Option(
        "default_dialect",
        "Dialect of schemas without $schema (default: 2020-12).",
        choices=("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"),
    ),
    Option(
        "validator",
        "Validators to use: jsonschema-rs with jsonschema as second opinion (both), or only one validator "
        "(default: both).",
        choices=("both", "jsonschema-rs", "jsonschema"),
    ),
    Option("judge_timeout", "Time limit for judging one answer, in seconds (default: 5).", "S", check=_SECONDS),
    Option(
        "classify",
        "Classifier that assigns your own codes to failed attempts: a classifier in an installed package, or "
        "package.module:function, which takes a record and returns a code such as refusal_in_german, or None. "
        "Also accepts a metric in an installed package, which counts something in each answer. Repeatable.",
        "NAME",
        repeated=True,
        default=(),
    ),
    Option(
        "comparer",
        "How to compare a field with its expected value, such as total=tolerance:0.01, "
        "items.*.price=tolerance:1%, name=casefold, items=unordered, due=date, id=ignore or "
        "vendor=function:package.module:same, with a function of the expected and the actual value. Repeatable.",
        "FIELD=HOW",
        parse=comparer,
        repeated=True,
        default=(),
    ),
)
_CRITERIA = (
    Option(
        "min_pass_rate",
        "Pass the run if at least this share (0 to 1) of all planned attempts passed. With this option, failed "
        "cases alone do not fail the run.",
        "RATE",
        argument=numeral,
    ),
    Option(
        "gate",
        "Condition for passing the run, on any metric in run.json, such as pass_rate>=0.9, "
        "Github_easy.pass_rate.ci_low>=0.85 (for a task; the lower bound of an interval), "
        "failure_rates.truncated<=0.05, keywords.pattern.pass_rate>=0.8, ttft_p95<=2, cost<=0.5, "
        "error_rate<=0.01, n>=50 (judged attempts) or baseline.newly_failing<=0. Repeatable. With a gate, failed "
        "cases alone do not fail the run. A gate on a metric that was not measured is not met.",
        "'METRIC OP VALUE'",
        repeated=True,
        default=(),
    ),
    Option(
        "baseline",
        "Compare with another run case by case: its directory, its run.json, or a file written by jsbench baseline.",
        "RUN|FILE",
    ),
    Option(
        "max_regression",
        "Fail the run if its pass rate, over the cases of both runs, is lower than the baseline's by more than RATE.",
        "RATE",
        argument=numeral,
    ),
)
_OUTPUT = (
    Option(
        "output",
        "Keep records.jsonl, run.json, report.html and more in DIR/<run id>/ (default: keep only records and metrics of"
        " the last five runs, in pytest's cache).",
        "DIR",
    ),
    Option("report", "Write the run's HTML page to FILE at the end of the run (needs the extra `report`).", "FILE"),
    Option(
        "redact",
        "Write and show digests instead of prompts, schemas and answers, so that a run with private data can "
        "be kept. Redacted answers cannot be judged again or replayed.",
        choices=ON_OFF,
        bare="on",
    ),
    Option(
        "export",
        "Also write the run with an exporter: every_eval_ever, an installed package's exporter, or "
        "package.module:function. Repeatable.",
        "NAME=PATH",
        parse=export,
        repeated=True,
        default=(),
    ),
    Option(
        "benchmark_rows",
        "Rows added to pytest-benchmark's table: one per task and metric, or per case and metric (default: task).",
        choices=("task", "case"),
        default="task",
    ),
)

#: All options by group, in the order of the help text.
GROUPS = {
    "Engine and model": _ENGINE,
    "Cases": _CASES,
    "Prompt and schema": _PROMPT,
    "Execution": _EXECUTION,
    "Judging": _JUDGING,
    "Pass criteria": _CRITERIA,
    "Output": _OUTPUT,
}
OPTIONS = tuple(option for group in GROUPS.values() for option in group)
BY_NAME = {option.name: option for option in OPTIONS}
#: Options whose value is a path.
PATHS = frozenset({"model", "instances", "registry", "record", "replay", "resume", "baseline", "output", "report"})
#: Default value of each option.
DEFAULTS = {option.name: option.default for option in OPTIONS}
#: Options that define one variant per value if they are given several times; for engine options, several times per key.
MULTIPLIED = (
    *("model", "prompt", "base_url", "response_format", "temperature", "max_tokens", "shots", "adapt", "concurrency"),
    "engine_option",
)
#: Options that a row in the table of variants may set.
SETTABLE = ("engine", *MULTIPLIED, "api_key_env", "seed", "context")
