"""The plugin's options, each also an ini key of the same name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


def _at_least(least: float, kind: type[int] | type[float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number < float("inf"):
            what = "a whole number" if kind is int else "a number"
            message = f"expected {what} of at least {least:g}, found {text!r}"
            raise ValueError(message)
        return number

    return parse


def _assignment(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        message = f"expected KEY=VALUE, found {text!r}"
        raise ValueError(message)
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _shard(text: str) -> Any:
    from pytest_jsbench.datasets.shards import Shard

    return Shard.parse(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        message = f"expected names with commas between them, found {text!r}"
        raise ValueError(message)
    return names


def _extra_fields(text: str) -> str | tuple[str, ...]:
    return text if text in {"fail", "allow"} else _names(text)


def _sample(text: str) -> tuple[int, int]:
    size, separator, seed = text.partition(":")
    if not (size.isascii() and size.isdecimal() and int(size)) or (separator and not seed.isdecimal()):
        message = f"expected a whole number of at least 1, or with a seed such as 300:7, found {text!r}"
        raise ValueError(message)
    return int(size), int(seed or 0)


def _adaptation(text: str) -> tuple[str, str]:
    mode, separator, subset = text.partition(":")
    subsets = ("openai", "anthropic", "gemini")
    if mode not in {"verbatim", "narrow", "relax"} or (bool(separator) != (subset in subsets)):
        message = f"expected verbatim, narrow or relax, or such as narrow:openai ({', '.join(subsets)}), found {text!r}"
        raise ValueError(message)
    return mode, subset


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: `--jsbench-<name>` and the ini key `jsbench_<name>`."""

    name: str
    metavar: str
    help: str
    #: text to value, for the command line and the ini file alike; ValueError says what is wrong
    parse: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None
    #: given several times, the values add up
    repeated: bool = False

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--jsbench-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute on `config.option`, and the ini key."""
        return f"jsbench_{self.name.replace('-', '_')}"

    def read(self, text: str) -> Any:
        """The value of a text; ValueError says what was expected and found."""
        if self.choices is not None and text not in self.choices:
            message = f"expected one of {', '.join(self.choices)}, found {text!r}"
            raise ValueError(message)
        return self.parse(text)


OPTIONS = (
    Option(
        name="engine",
        metavar="NAME",
        help="Test this engine, one test per JSON Schema: local, openai, anthropic, llguidance, outlines, "
        "xgrammar, replay, scripted, an entry point's name, or package.module:Factory. Without it the plugin does "
        "nothing.",
    ),
    Option(name="model", metavar="ID", help="The model (for local a GGUF file). Default: the engine's."),
    Option(name="base-url", metavar="URL", help="Any server compatible with the engine's API."),
    Option(
        name="api-key-env",
        metavar="VAR",
        help="The environment variable that holds the key. Default: the SDK's.",
    ),
    Option(
        name="response-format",
        metavar="FORMAT",
        choices=("text", "json_object", "json_schema", "tool"),
        help="How the schema reaches the engine: text, json_object, json_schema or tool. "
        "Default: the engine's strongest.",
    ),
    Option(
        name="temperature",
        metavar="T",
        parse=_at_least(0, float),
        help="Sampling temperature. Default: not sent (local: 0).",
    ),
    Option(
        name="max-tokens",
        metavar="N",
        parse=_at_least(1, int),
        help="Most tokens of an answer. Default: 2048 (local: 192).",
    ),
    Option(name="seed", metavar="N", parse=_at_least(0, int), help="Sampling seed. Default: not sent."),
    Option(
        name="engine-option",
        metavar="KEY=VALUE",
        parse=_assignment,
        repeated=True,
        help="Anything else the engine takes; repeatable; the value is read as JSON where it is JSON.",
    ),
    Option(
        name="record",
        metavar="DIR",
        help="Write every answer to a readable file in DIR, to be kept beside the tests.",
    ),
    Option(
        name="replay",
        metavar="DIR",
        help="Ask the answers recorded in DIR (or a run's folder) instead of an engine: no key, no call. A prompt or "
        "schema that has changed since is an error that says how.",
    ),
    Option(
        name="dataset",
        metavar="SOURCE",
        help="builtin (default), a schema file, a folder or glob of them (*.json, *.yaml), rows (*.jsonl, *.parquet), "
        "an OpenAPI document, tool definitions, package.module:name (Pydantic models and the like; :* for all), "
        "a folder in the hub's layout, a hub name such as epfl-dlab/JSONSchemaBench, or a dataset that an installed "
        "package brings.",
    ),
    Option(
        name="instances",
        metavar="SOURCE",
        help="Call no model: ask the engine's grammar (llguidance, outlines, xgrammar) which labelled answers it "
        "accepts, and count the wrong decisions. builtin, or a folder with schemas.jsonl and instances.jsonl (or .gz).",
    ),
    Option(name="tasks", metavar="A,B", parse=_names, help="Only these tasks of the dataset. Default: all."),
    Option(
        name="split",
        metavar="S",
        help="The split of a dataset in the hub's layout, or all. Default: test.",
    ),
    Option(
        name="limit",
        metavar="N",
        parse=_at_least(1, int),
        help="Only the first N cases of each task. Default: all.",
    ),
    Option(
        name="where",
        metavar="CONDITION",
        repeated=True,
        help="Only cases that meet a condition, such as 'keywords:pattern and size<4096' or 'not feature:recursive'; "
        "fields: task, id, tag, dialect, feature, keywords, size, depth. Repeatable: all must be met. --jsbench-limit "
        "and --jsbench-sample count what is left.",
    ),
    Option(
        name="sample",
        metavar="N[:SEED]",
        parse=_sample,
        help="Only N cases over all tasks, each task's share in proportion; the same ones on every machine. Another "
        "seed (default: 0; it has nothing to do with --jsbench-seed) takes others. Default: all.",
    ),
    Option(
        name="adapt",
        metavar="MODE[:SUBSET]",
        parse=_adaptation,
        help="verbatim (default): send the schema as it is. narrow: say it in the subset of JSON Schema that the "
        "provider takes, so that whatever conforms to it conforms to the original, or report unsupported_schema "
        "without a call. relax: leave out what cannot be said, and note it. SUBSET: openai, anthropic or gemini; "
        "default: the engine's. The judge always uses the original.",
    ),
    Option(
        name="prompt",
        metavar="NAME",
        help="What is asked: schema (default), fields or chat; a file of Jinja2; or package.module:function, which "
        "takes a case and returns text, messages or a Prompt.",
    ),
    Option(
        name="shots",
        metavar="N",
        parse=_at_least(0, int),
        help="Examples before the question, of the task's kind: up to 3. Default: 0.",
    ),
    Option(
        name="context",
        metavar="N",
        parse=_at_least(1, int),
        help="Tokens of prompt and answer that the model has room for. A case whose prompt alone is as long is "
        "unsupported_schema without a call. Default: unknown (local: its own), and every prompt is sent.",
    ),
    Option(
        name="concurrency",
        metavar="N",
        parse=_at_least(1, int),
        help="Calls in flight, per process. Default: the engine's (16; local: 4 over all processes).",
    ),
    Option(
        name="rpm",
        metavar="N",
        parse=_at_least(0.001, float),
        help="Most requests a minute, of all processes together. Default: no limit.",
    ),
    Option(
        name="tpm",
        metavar="N",
        parse=_at_least(1, float),
        help="Most tokens a minute, in and out, of all processes together. Default: no limit.",
    ),
    Option(
        name="max-cost",
        metavar="USD",
        parse=_at_least(0, float),
        help="Make no call that could bring the cost of this session's calls above this; what is not run then is "
        "reported as such. Default: no limit.",
    ),
    Option(
        name="resume",
        metavar="FILE|DIR",
        help="Go on with an earlier run: its records.jsonl, its folder, or the folder of runs whose newest it is. What "
        "it has answered is not called again; broken calls are.",
    ),
    Option(
        name="shard",
        metavar="I/N",
        parse=_shard,
        help="Only the I-th of N parts of the cases, such as 2/5; jsbench merge puts the parts together.",
    ),
    Option(
        name="timeout",
        metavar="S",
        parse=_at_least(0.001, float),
        help="Seconds for one call, retries apart. Default: 120.",
    ),
    Option(
        name="retries",
        metavar="N",
        parse=_at_least(0, int),
        help="More tries after a call broke in a way that may mend. Default: 2.",
    ),
    Option(
        name="extra-fields",
        metavar="fail|allow|NAME,…",
        parse=_extra_fields,
        help="Whether fields that the schema names nowhere fail an answer (default: fail); or the names of fields "
        "to ignore.",
    ),
    Option(
        name="duplicate-keys",
        metavar="note|fail",
        choices=("note", "fail"),
        help="Whether an object with a key twice is a syntax error (default: note, and the last one wins).",
    ),
    Option(
        name="fences",
        metavar="strip|forbid",
        choices=("strip", "forbid"),
        help="Whether one Markdown fence round the whole answer is taken off (default: strip).",
    ),
    Option(
        name="reasoning",
        metavar="keep|strip",
        choices=("keep", "strip"),
        help="Whether a leading <think>…</think> is taken off (default: keep, which is a syntax error).",
    ),
    Option(
        name="formats",
        metavar="assert|ignore",
        choices=("assert", "ignore"),
        help="Whether the keyword format is asserted (default: assert).",
    ),
    Option(
        name="default-dialect",
        metavar="DRAFT",
        choices=("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"),
        help="The dialect of schemas without $schema (default: 2020-12).",
    ),
    Option(
        name="validator",
        metavar="NAME",
        choices=("both", "jsonschema-rs", "jsonschema"),
        help="Who judges: jsonschema-rs with jsonschema's second opinion (both, default), or one of them alone.",
    ),
    Option(
        name="judge-timeout",
        metavar="S",
        parse=_at_least(0.001, float),
        help="Seconds for judging one answer. Default: 5.",
    ),
    Option(
        name="min-pass-rate",
        metavar="RATE",
        help="The run passes if at least this part (0 to 1) of all planned attempts passed; failing cases alone then "
        "no longer fail it.",
    ),
    Option(
        name="gate",
        metavar="'METRIC OP VALUE'",
        repeated=True,
        help="Another condition on the run; repeatable: any metric of run.json, as pass_rate>=0.9, "
        "Github_easy.pass_rate.ci_low>=0.85 (a task; the interval's bound), failure_rates.truncated<=0.05, "
        "keywords.pattern.pass_rate>=0.8, ttft_p95<=2, cost<=0.5, error_rate<=0.01, n>=50 (attempts judged) or "
        "baseline.newly_failing<=0. The gates alone decide about failing cases; what was not measured is not met.",
    ),
    Option(
        name="baseline",
        metavar="RUN|FILE",
        help="Compare with another run, case by case: its folder, its run.json, or the file that jsbench baseline "
        "wrote.",
    ),
    Option(
        name="max-regression",
        metavar="RATE",
        help="The run passes if no more than this part (0 to 1) of the baseline's cases were lost on balance.",
    ),
    Option(
        name="repeats",
        metavar="K",
        parse=_at_least(1, int),
        help="Attempts per case, one test each. Default: 1.",
    ),
    Option(
        name="output",
        metavar="DIR",
        help="Keep records.jsonl, run.json, report.html and more in DIR/<run id>/. Default: records and metrics in "
        "pytest's cache, for the last five runs.",
    ),
    Option(
        name="benchmark-rows",
        metavar="task|case",
        choices=("task", "case"),
        help="pytest-benchmark's rows: one per task and metric (default), or one per case and metric.",
    ),
)


#: what is not said again when one case is to be run again


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and their ini keys."""
    group = parser.getgroup("jsbench", "JSON Schema conformance of language models (pytest-jsbench)")
    for option in OPTIONS:
        group.addoption(
            option.flag,
            dest=option.dest,
            metavar=option.metavar,
            help=option.help,
            default=None,
            action="append" if option.repeated else "store",
        )
        if option.repeated:
            parser.addini(option.dest, f"the same as {option.flag}", type="linelist", default=[])
        else:
            parser.addini(option.dest, f"the same as {option.flag}", type="string", default="")


def value_of(config: pytest.Config, name: str) -> Any:
    """What the command line, or else the ini file, says of an option; None where neither does."""
    option = next(option for option in OPTIONS if option.name == name)
    given, place = config.getoption(option.dest), option.flag
    if given is None:
        given, place = config.getini(option.dest) or None, f"{option.dest} in {config.inipath}"
    if given is None:
        return None
    try:
        return [option.read(text) for text in given] if option.repeated else option.read(given)
    except ValueError as error:
        message = f"{place}: {error}"
        raise pytest.UsageError(message) from None


#: what the command that runs one case again leaves out
_NOT_FOR_ONE_CASE = frozenset(
    {"output", "min-pass-rate", "gate", "baseline", "max-regression", "limit", "tasks", "where", "sample"}
    | {"resume", "shard", "max-cost"}
)


def given_arguments(config: pytest.Config) -> list[str]:
    """The plugin's options of this command line, as arguments that say the same again."""
    arguments: list[str] = []
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is not None and option.name not in _NOT_FOR_ONE_CASE:
            arguments += [f"{option.flag}={text}" for text in (given if option.repeated else [given])]
    return arguments
