"""The table of what may be said of a run, and how the text of each becomes a value."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from pytest_jsbench.core.arguments import Reader, flag, joined, number, numeral, path, text, whole


def assignment(text: str) -> tuple[str, Any]:
    """Reads KEY=VALUE, the value as JSON where it is JSON."""
    key, separator, value = text.partition("=")
    if not (key and separator):
        # what is without a = may be a value, and so a secret
        raise ValueError(f"expected KEY=VALUE, found {'no =' if not separator else 'no KEY'}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def shown_assignment(text: str) -> str:
    """The text as it may be shown: an engine's option that may hold a secret is `KEY=…`."""
    from pytest_jsbench.engines.secrets import HIDDEN, shown_option

    key, value = assignment(text)
    return text if shown_option(key, value) == value else f"{key}={HIDDEN}"


def shown_address(text: str) -> str:
    """The URL as it may be shown: without user, password and query."""
    from pytest_jsbench.engines.base import without_credentials

    return without_credentials(text)


def comparer(text: str) -> tuple[str, Any]:
    """Reads FIELD=HOW."""
    from pytest_jsbench.values.comparers import read_comparer

    return read_comparer(text)


def export(text: str) -> tuple[str, str]:
    """Reads NAME=PATH."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise ValueError(f"expected NAME=PATH, such as every_eval_ever=exported, found {text!r}")
    return name, path


def shard(text: str) -> Any:
    """Reads a shard such as 2/5, or auto/5, which takes its number from the environment."""
    from pytest_jsbench.datasets.selection import Shard

    return Shard.parse(text, os.environ)


def names(text: str) -> tuple[str, ...]:
    """Reads names with commas between them."""
    parts = tuple(name.strip() for name in text.split(",") if name.strip())
    if not parts:
        raise ValueError(f"expected names with commas between them, found {text!r}")
    return parts


def extra_fields(text: str) -> str | tuple[str, ...]:
    """Reads how fields that no schema names are judged."""
    return text if text in {"fail", "allow"} else names(text)


def sample(text: str) -> tuple[int, int]:
    """Reads the size of a sample, and its seed."""
    size, separator, seed = text.partition(":")
    if not (size.isascii() and size.isdecimal() and int(size)) or (separator and not seed.isdecimal()):
        raise ValueError(f"expected a whole number of at least 1, or with a seed such as 300:7, found {text!r}")
    return int(size), int(seed or 0)


def response_format(text: str) -> Any:
    """Reads a `ResponseFormat`."""
    from pytest_jsbench.core.generations import ResponseFormat

    return ResponseFormat(text)


def adaptation(text: str) -> tuple[str, str]:
    """Reads a mode of adaptation, and its subset."""
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    mode, separator, subset = text.partition(":")
    if mode not in {"verbatim", "narrow", "relax"} or (bool(separator) != (find_subset(subset) is not None)):
        message = f"expected verbatim, narrow or relax, or such as narrow:openai ({', '.join(SUBSETS)}), found {text!r}"
        raise ValueError(message)
    return mode, subset


def publication(name: str) -> dict[str, Any]:
    """Reads what a publication, which a package brings, says of the options."""
    from pytest_jsbench.core.errors import JSBenchError
    from pytest_jsbench.core.extensions import MEND, extension
    from pytest_jsbench.core.secrets import one_line
    from pytest_jsbench.core.text import described

    try:
        options: Mapping[str, str] = extension("publication", name, error=JSBenchError).options()
        return {option: BY_NAME[option].of_text(text) for option, text in options.items()}
    except JSBenchError as error:
        raise ValueError(f"expected a publication: {error}") from None
    except Exception as error:
        raise ValueError(f"publication '{name}' gives no options: {one_line(described(error))}; {MEND}") from error


@dataclass(frozen=True, slots=True)
class Option:
    """
    A row: what may be said, by whichever door.

    pytest takes `--jsbench-<name>` and the ini key `jsbench_<name>`, a command `--<name>`, each `_` of an option being
    a `-`; a variant's table and a function take `<name>`.
    """

    name: str
    help: str
    #: of one that has no choices
    metavar: str = ""
    _: KW_ONLY
    #: of a number: gives it as it is used; the ValueError of another says what is expected
    check: Reader | None = None
    #: text to value; ValueError says what is wrong
    parse: Callable[[str], Any] = str
    #: the text that a program means by its value
    argument: Reader = text
    choices: tuple[str, ...] = ()
    #: its value where nobody says one
    default: Any = None
    #: given several times, the values add up
    repeated: bool = False
    #: its value where it is given without one
    bare: str | None = None
    #: the text as it may be shown, for one that may hold a secret
    shown: Callable[[str], str] = str

    @property
    def flag(self) -> str:
        """The option as pytest takes it."""
        return f"--jsbench-{self.name.replace('_', '-')}"

    @property
    def placeholder(self) -> str:
        """The value as a help text names it."""
        return self.metavar or "|".join(self.choices)

    @property
    def dest(self) -> str:
        """The attribute on `config.option`, and the ini key."""
        return f"jsbench_{self.name}"

    def of_value(self, value: object) -> Any:
        """Read the value that a program gives; its ValueError says what is expected."""
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
        """Read the value of a text; ValueError says what was expected and found."""
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
    """Give each option of which nothing is said its value where nobody says one."""
    return {**DEFAULTS, **{name: value for name, value in values.items() if value is not None}}


def readers(*names: str) -> dict[str, Reader]:
    """Take the readers of these options, for a function whose arguments they are."""
    return {name: BY_NAME[name].of_value for name in names}


def _number(given: str) -> int | float | str:
    """The number that a text is, or the text itself, which the check refuses."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return given


ON_OFF = ("on", "off")
_SECONDS = number("seconds above 0", above=0)
_RATE = number("a number above 0", above=0)
_ASKED = (
    Option(
        "engine",
        "Test this engine, one test per JSON Schema: local, openai, anthropic, gemini, llguidance, outlines, "
        "xgrammar, replay, application, scripted, an entry point's name, or package.module:Factory. Without it the "
        "plugin does nothing.",
        "NAME",
    ),
    Option("model", "The model (for local a GGUF file). Default: the engine's.", "ID"),
    Option("base_url", "Any server compatible with the engine's API.", "URL", shown=shown_address),
    Option("api_key_env", "The environment variable that holds the key. Default: the SDK's.", "VAR"),
    Option(
        "response_format",
        "How the schema reaches the engine: text, json_object, json_schema or tool. Default: the engine's strongest.",
        choices=("text", "json_object", "json_schema", "tool"),
        parse=response_format,
    ),
    Option(
        "temperature",
        "Sampling temperature. Default: not sent (local: 0).",
        "T",
        check=number("a number of at least 0", least=0),
    ),
    Option("max_tokens", "Most tokens of an answer. Default: 2048 (local: 192).", "N", check=whole(1)),
    Option(
        "seed",
        "Sampling seed of the first attempt; the n-th of a case has this and n - 1. Default: not sent.",
        "N",
        check=whole(0),
    ),
    Option(
        "engine_option",
        "Anything else the engine takes; repeatable; the value is read as JSON where it is JSON.",
        "KEY=VALUE",
        parse=assignment,
        shown=shown_assignment,
        repeated=True,
        default=(),
    ),
    Option(
        "variants",
        "Ask the cases in these ways, which [[tool.jsbench.variants]] in pyproject.toml (or [[variants]] in "
        "jsbench.toml) describes by their names; `all` stands for every one. Default: every one, unless this command "
        "line says what they say. Without a table an option that is typed more than once makes variants.",
        "A,B",
        parse=names,
        argument=joined,
    ),
    Option("record", "Write every answer to a readable file in DIR, to be kept beside the tests.", "DIR"),
    Option(
        "record_mode",
        "Beside --jsbench-record: new asks and records only what is missing in DIR, and what is there answers at "
        "no cost. Default: all, which asks everything again.",
        choices=("all", "new"),
    ),
    Option(
        "replay",
        "Ask the answers recorded in DIR (or a run's folder) instead of an engine: no key, no call. A prompt or "
        "schema that has changed since is an error that says how.",
        "DIR",
    ),
    Option(
        "replay_strict",
        "Make it an error too where an answer was recorded with another model, temperature, token limit, seed, "
        "response format or engine option than is asked for now. Default: off, and the summary says so.",
        choices=ON_OFF,
        bare="on",
    ),
)
_TESTED = (
    Option(
        "preset",
        "Ask as a publication did, where no other option says otherwise: jsonschemabench (the paper's tasks, "
        "prompt, shots, temperature and rules; docs/published.md), or one that an installed package brings. jsbench "
        "compare --published sets the run beside it.",
        "NAME",
        parse=publication,
    ),
    Option(
        "dataset",
        "builtin (default), a schema file, a folder or glob of them (*.json, *.yaml), rows (*.jsonl, *.parquet), "
        "an OpenAPI document, tool definitions, package.module:name (Pydantic models and the like; :* for all), "
        "a folder in the hub's layout, a hub name such as epfl-dlab/JSONSchemaBench (or NAME@REVISION), or a dataset "
        "that an installed package brings.",
        "SOURCE",
    ),
    Option(
        "instances",
        "Call no model: ask the engine's grammar (llguidance, outlines, xgrammar) which labelled answers it "
        "accepts, and count the wrong decisions. builtin, a folder with schemas.jsonl and instances.jsonl (or .gz), or "
        "one of the official JSON Schema Test Suite, such as tests/draft2020-12.",
        "SOURCE",
    ),
    Option("tasks", "Only these tasks of the dataset. Default: all.", "A,B", parse=names, argument=joined),
    Option("split", "The split of a dataset in the hub's layout, or all. Default: test.", "S", default="test"),
    Option("limit", "Only the first N cases of each task. Default: all.", "N", check=whole(1)),
    Option(
        "registry",
        "A folder of schemas to which those of the dataset may refer by the `$id` that each gives itself.",
        "DIR",
    ),
    Option(
        "where",
        "Only cases that meet a condition, such as 'keywords:pattern and size<4096' or 'not feature:recursive'; "
        "fields: task, id, tag, dialect, feature, keywords, size, depth. Repeatable: all must be met. --jsbench-limit "
        "and --jsbench-sample count what is left.",
        "CONDITION",
        repeated=True,
        default=(),
    ),
    Option(
        "sample",
        "Only N cases over all tasks, each task's share in proportion; the same ones on every machine. Another "
        "seed (default: 0; it has nothing to do with --jsbench-seed) takes others. Default: all.",
        "N[:SEED]",
        parse=sample,
        argument=numeral,
    ),
)
_SENT = (
    Option(
        "adapt",
        "verbatim (default): send the schema as it is. narrow: say it in the subset of JSON Schema that the "
        "provider takes, so that whatever conforms to it conforms to the original, or report unsupported_schema "
        "without a call. relax: leave out what cannot be said, and note it. SUBSET: such as openai, anthropic or "
        "gemini; default: the engine's. The judge always uses the original.",
        "MODE[:SUBSET]",
        parse=adaptation,
        default=("verbatim", ""),
    ),
    Option(
        "prompt",
        "What is asked: schema (default), fields or chat; a file of Jinja2; a prompt that an installed package "
        "brings; or package.module:function, which takes a case and returns text, messages or a Prompt.",
        "NAME",
        default="schema",
    ),
    Option(
        "shots",
        "Examples before the question, of the task's kind: up to 3. Default: 0.",
        "N",
        check=whole(0),
        default=0,
    ),
    Option(
        "context",
        "Tokens of prompt and answer that the model has room for. A case whose prompt alone is as long is "
        "unsupported_schema without a call. Default: unknown (local: its own), and every prompt is sent.",
        "N",
        check=whole(1),
    ),
)
_RUNS = (
    Option(
        "concurrency",
        "Calls in flight, per process. Default: the engine's (16; local: 4 over all processes).",
        "N",
        check=whole(1),
    ),
    Option(
        "rpm",
        "Most requests a minute to each engine and address, of all processes together. Default: no limit.",
        "N",
        check=_RATE,
    ),
    Option(
        "tpm",
        "Most tokens a minute, in and out, of each engine and address, of all processes together. Default: no limit.",
        "N",
        check=_RATE,
    ),
    Option(
        "max_cost",
        "Make no call that could bring the cost of this session's calls above this; what is not run then is "
        "reported as such. Default: no limit.",
        "USD",
        check=number("US dollars, at least 0", least=0),
    ),
    Option(
        "batch",
        "Hand the cases in as a batch of the provider (openai, anthropic, gemini), which answers within a day and "
        "at half the price, and wait for it (wait, default), or look at it once (leave). What is not back yet is not "
        "run; --jsbench-batch --jsbench-resume goes on with it.",
        choices=("wait", "leave"),
        bare="wait",
    ),
    Option(
        "resume",
        "Go on with an earlier run: its records.jsonl, its folder, or a folder of runs (the newest). What "
        "it has answered is not called again; broken calls are.",
        "FILE|DIR",
    ),
    Option(
        "shard",
        "Only the I-th of N parts of the cases, such as 2/5; 1of5 is the same counted from 0; auto/5 takes the "
        "number from JOB_COMPLETION_INDEX (Kubernetes) or SLURM_ARRAY_TASK_ID. jsbench merge puts the parts together.",
        "I/N",
        parse=shard,
    ),
    Option("timeout", "Seconds for one call, retries apart. Default: 120.", "S", check=_SECONDS, default=120.0),
    Option(
        "retries", "More tries after a call broke in a way that may mend. Default: 2.", "N", check=whole(0), default=2
    ),
    Option(
        "patience",
        "Seconds without any answer after which the run gives up on a provider that is down or refuses each call; "
        "what is left is not run. With 0 a refused call is not made again. Default: 300.",
        "S",
        check=number("seconds, at least 0", least=0),
    ),
    Option("repeats", "Attempts per case, one test each. Default: 1.", "K", check=whole(1), default=1),
    Option(
        "dry_run",
        "Call nobody: show how many calls the run would make, their tokens, the most that they cost, and the time that "
        "the limits want. Default: off.",
        choices=("on", "off"),
        bare="on",
    ),
)
_JUDGED = (
    Option(
        "invalid_schemas",
        "Whether a case whose own schema is broken fails its test (default: fail, of a published dataset skip); "
        "with strict a word that is near to a keyword and is none breaks a schema too.",
        choices=("fail", "skip", "strict"),
    ),
    Option(
        "extra_fields",
        "Whether fields that the schema does not name fail an answer (default: fail); or the names of fields "
        "to ignore.",
        "fail|allow|NAME,…",
        parse=extra_fields,
        argument=joined,
    ),
    Option(
        "duplicate_keys",
        "Whether an object with a key twice is a syntax error (default: note, and the last one wins).",
        choices=("note", "fail"),
    ),
    Option(
        "fences",
        "Whether one Markdown fence round the whole answer is taken off (default: strip).",
        choices=("strip", "forbid"),
    ),
    Option(
        "reasoning",
        "Whether reasoning before the answer, up to `</think>`, is taken off (default: keep: a syntax error).",
        choices=("keep", "strip"),
    ),
    Option(
        "formats",
        "Whether the keyword format is asserted (default: assert), and in draft-07 contentEncoding and "
        "contentMediaType.",
        choices=("assert", "ignore"),
    ),
    Option(
        "default_dialect",
        "The dialect of schemas without $schema (default: 2020-12).",
        choices=("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"),
    ),
    Option(
        "validator",
        "Who judges: jsonschema-rs with jsonschema's second opinion (both, default), or one of them alone.",
        choices=("both", "jsonschema-rs", "jsonschema"),
    ),
    Option("judge_timeout", "Seconds for judging one answer. Default: 5.", "S", check=_SECONDS),
    Option(
        "classify",
        "Let this classifier give failed attempts codes of your own: what an installed package brings, or "
        "package.module:function, which takes a record and returns a code such as refusal_in_german, or None. An "
        "installed metric counts something of each answer instead. "
        "Repeatable.",
        "NAME",
        repeated=True,
        default=(),
    ),
    Option(
        "comparer",
        "How the values of a field are compared with the expected ones, such as total=tolerance:0.01, "
        "items.*.price=tolerance:1%, name=casefold, items=unordered, due=date, id=ignore or "
        "vendor=function:package.module:same, which takes the expected value and the answer's. Repeatable.",
        "FIELD=HOW",
        parse=comparer,
        repeated=True,
        default=(),
    ),
)
_DECIDES = (
    Option(
        "min_pass_rate",
        "The run passes if at least this part (0 to 1) of all planned attempts passed; failing cases alone then "
        "no longer fail it.",
        "RATE",
        argument=numeral,
    ),
    Option(
        "gate",
        "Another condition on the run; repeatable: any metric of run.json, as pass_rate>=0.9, "
        "Github_easy.pass_rate.ci_low>=0.85 (a task; the interval's bound), failure_rates.truncated<=0.05, "
        "keywords.pattern.pass_rate>=0.8, ttft_p95<=2, cost<=0.5, error_rate<=0.01, n>=50 (attempts judged) or "
        "baseline.newly_failing<=0. The gates alone decide about failing cases; what was not measured is not met.",
        "'METRIC OP VALUE'",
        repeated=True,
        default=(),
    ),
    Option(
        "baseline",
        "Compare with another run, case by case: its folder, its run.json, or the file that jsbench baseline wrote.",
        "RUN|FILE",
    ),
    Option(
        "max_regression",
        "The run fails if the pass rate, over the cases of both, fell by more than this (0 to 1) below the baseline's.",
        "RATE",
        argument=numeral,
    ),
)
_WRITTEN = (
    Option(
        "output",
        "Keep records.jsonl, run.json, report.html and more in DIR/<run id>/. Default: records and metrics in "
        "pytest's cache, for the last five runs.",
        "DIR",
    ),
    Option(
        "redact",
        "Write and show digests in place of prompts, schemas and answers, so that a run over private data can be "
        "kept. Its answers can then not be judged again or replayed.",
        choices=ON_OFF,
        bare="on",
    ),
    Option(
        "export",
        "Write the run in another format at its end: every_eval_ever, what an installed package brings, or "
        "package.module:function. Repeatable.",
        "NAME=PATH",
        parse=export,
        repeated=True,
        default=(),
    ),
    Option(
        "benchmark_rows",
        "Show pytest-benchmark's table, with one row per task and metric (default), or one per case and metric.",
        choices=("task", "case"),
        default="task",
    ),
)

#: all that may be said, in the order in which it is explained
GROUPS = {
    "Whom is asked": _ASKED,
    "What is tested": _TESTED,
    "What is sent": _SENT,
    "How it runs": _RUNS,
    "How it is judged": _JUDGED,
    "What decides": _DECIDES,
    "What is written": _WRITTEN,
}
OPTIONS = tuple(option for group in GROUPS.values() for option in group)
BY_NAME = {option.name: option for option in OPTIONS}
#: those that name a place
PATHS = frozenset({"model", "instances", "registry", "record", "replay", "resume", "baseline", "output"})
#: the value of each where nobody says one
DEFAULTS = {option.name: option.default for option in OPTIONS}
#: the options of which each value that is typed makes a variant; those of the engine by their keys
MULTIPLIED = (
    *("model", "prompt", "base_url", "response_format", "temperature", "max_tokens", "shots", "adapt", "concurrency"),
    "engine_option",
)
#: the options that a variant of the table may set
SETTABLE = ("engine", *MULTIPLIED, "api_key_env", "seed", "context")
