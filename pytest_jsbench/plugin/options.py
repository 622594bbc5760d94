"""The plugin's options, each also an ini key of the same name; read once into frozen `Settings`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.gates import Gate
    from pytest_jsbench.generations import ResponseFormat
    from pytest_jsbench.verdicts import JudgePolicy

_DIALECTS = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


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


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
        help="Test this engine, one test per JSON Schema: local, openai, anthropic, scripted, an entry point's "
        "name, or package.module:Factory. Without it the plugin does nothing.",
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
        name="dataset",
        metavar="SOURCE",
        help="builtin (default), a schema file, a folder of *.json, a folder in the hub's layout, or a hub name such "
        "as epfl-dlab/JSONSchemaBench.",
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
        name="prompt",
        metavar="NAME",
        choices=("schema", "fields"),
        help="Prompt preset: schema (default) or fields.",
    ),
    Option(
        name="concurrency",
        metavar="N",
        parse=_at_least(1, int),
        help="Calls in flight, per process. Default: the engine's (16; local: 4 over all processes).",
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
        help="Whether fields that the schema names nowhere fail an answer (default: fail); or the names of fields "
        "to ignore.",
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
        choices=tuple(_DIALECTS),
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
        name="output",
        metavar="DIR",
        help="Keep records.jsonl and run.json in DIR/<run id>/. Default: pytest's cache, for the last five runs.",
    ),
    Option(
        name="benchmark-rows",
        metavar="task|case",
        choices=("task", "case"),
        help="pytest-benchmark's rows: one per task and metric (default), or one per case and metric.",
    ),
)


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


def given_arguments(config: pytest.Config) -> list[str]:
    """The plugin's options of this command line, as arguments that say the same again."""
    arguments: list[str] = []
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is not None and option.name not in {"output", "min-pass-rate", "limit", "tasks"}:
            arguments += [f"{option.flag}={text}" for text in (given if option.repeated else [given])]
    return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user said, read once."""

    engine: EngineConfig
    #: whether the engine was named on the command line, and not only in the ini file
    asked_on_command_line: bool
    selection: Selection
    prompt: str
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    timeout: float
    retries: int
    concurrency: int | None
    policy: JudgePolicy
    gate: Gate | None
    output: Path | None
    benchmark_rows: Literal["task", "case"]

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; pytest.UsageError says what is wrong with a value."""
        from pytest_jsbench.datasets.base import Selection
        from pytest_jsbench.engines.base import EngineConfig
        from pytest_jsbench.errors import JSBenchError
        from pytest_jsbench.gates import Gate

        values = {option.name: value_of(config, option.name) for option in OPTIONS}
        selection = {name: values[name] for name in ("tasks", "split", "limit") if values[name] is not None}
        try:
            gate = None if values["min-pass-rate"] is None else Gate.parse(values["min-pass-rate"])
        except JSBenchError as error:
            message = f"--jsbench-min-pass-rate: {error}"
            raise pytest.UsageError(message) from None
        return cls(
            engine=EngineConfig(
                name=values["engine"],
                model=values["model"],
                base_url=values["base-url"],
                api_key_env=values["api-key-env"],
                response_format=_response_format(values["response-format"]),
                options=dict(values["engine-option"] or ()),
            ),
            asked_on_command_line=config.getoption("jsbench_engine") is not None,
            selection=Selection(source=values["dataset"] or "builtin", **selection),
            prompt=values["prompt"] or "schema",
            max_tokens=values["max-tokens"],
            temperature=values["temperature"],
            seed=values["seed"],
            timeout=values["timeout"] or 120.0,
            retries=2 if values["retries"] is None else values["retries"],
            concurrency=values["concurrency"],
            policy=_policy(values),
            gate=gate,
            output=None if values["output"] is None else config.invocation_params.dir / values["output"],
            benchmark_rows=values["benchmark-rows"] or "task",
        )


def _response_format(text: str | None) -> ResponseFormat | None:
    from pytest_jsbench.generations import ResponseFormat

    return None if text is None else ResponseFormat(text)


def _policy(values: Mapping[str, Any]) -> JudgePolicy:
    from pytest_jsbench.verdicts import JudgePolicy

    chosen: dict[str, Any] = {
        name: values[name] for name in ("fences", "reasoning", "formats", "validator") if values[name]
    }
    if values["judge-timeout"] is not None:
        chosen["timeout"] = values["judge-timeout"]
    if values["default-dialect"] is not None:
        chosen["default_dialect"] = _DIALECTS[values["default-dialect"]]
    extra_fields = values["extra-fields"]
    if extra_fields in {"fail", "allow"}:
        chosen["extra_fields"] = extra_fields
    elif extra_fields is not None:
        chosen["ignored_fields"] = _names(extra_fields)
    return JudgePolicy(**chosen)
