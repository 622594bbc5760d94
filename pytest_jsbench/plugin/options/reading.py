"""The plugin's options on the command line, each also an ini key of the same name."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.plugin.options.declared import OPTIONS, Option


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and their ini keys."""
    group = parser.getgroup("jsbench", "JSON Schema conformance of language models (pytest-jsbench)")
    for option in OPTIONS:
        group.addoption(
            option.flag,
            dest=option.dest,
            metavar=option.metavar,
            help=option.help.replace("%", "%%"),  # argparse formats it
            default=None,
            action="append" if option.repeated else "store",
            **({} if option.bare is None else {"nargs": "?", "const": option.bare}),
        )
        if option.repeated:
            parser.addini(option.dest, f"the same as {option.flag}", type="linelist", default=[])
        else:
            parser.addini(option.dest, f"the same as {option.flag}", type="string", default="")


def value_of(config: pytest.Config, name: str) -> Any:
    """What the command line, or else the ini file, or else the preset, says of an option; None where none does."""
    option = next(option for option in OPTIONS if option.name == name)
    given, place = config.getoption(option.dest), option.flag
    if given is None:
        given, place = config.getini(option.dest) or None, f"{option.dest} in {config.inipath}"
    if given is None:
        return _of_preset(config, option)
    try:
        return [option.read(text) for text in given] if option.repeated else option.read(given)
    except ValueError as error:
        message = f"{place}: {error}"
        raise pytest.UsageError(message) from None


def _of_preset(config: pytest.Config, option: Option) -> Any:
    if option.name == "preset" or value_of(config, "preset") is None:
        return None
    from pytest_jsbench.reports.published import published_coverage

    text = published_coverage().options.get(option.name)
    return None if text is None else option.read(text)


def typed_for_a_run(config: pytest.Config) -> str:
    """The first typed option that means nothing without an engine; empty where there is none."""
    typed = {str(argument).partition("=")[0] for argument in config.invocation_params.args}
    return next((one.flag for one in OPTIONS if one.flag in typed and one.name not in _OF_JUDGING), "")


def start_of(config: pytest.Config, name: str) -> Path:
    """Where a path starts: of the command line where pytest was started, of the ini file where that file is."""
    option = next(option for option in OPTIONS if option.name == name)
    if config.getoption(option.dest) is not None or config.inipath is None:
        return config.invocation_params.dir
    return config.inipath.parent


def path_of(config: pytest.Config, name: str) -> Path | None:
    """The path that an option names; None where it is not given."""
    value = value_of(config, name)
    return None if value is None else start_of(config, name) / str(value)


def from_here(config: pytest.Config, name: str, value: str) -> str:
    """What an option names, which may be a path, as it is named from where pytest was started."""
    return str(placed(value, start_of(config, name), config.invocation_params.dir))


def placed(value: Any, start: Path, here: Path) -> Any:
    """What may be a path from `start`, as it is named from `here`; any other value as it is."""
    if start == here or not isinstance(value, str) or not (glob.has_magic(value) or (start / value).exists()):
        return value
    try:
        return os.path.relpath(start / value, here)
    except ValueError:  # on another drive
        return str(start / value)


#: the options by which an answer is judged that a test hands in, whoever was asked
_OF_JUDGING = (
    *("extra-fields", "duplicate-keys", "fences", "reasoning", "formats", "default-dialect", "validator"),
    *("judge-timeout", "comparer"),
)
#: why a test is skipped that would ask
NO_ENGINE = "no engine named; run with --jsbench-engine=NAME, or set jsbench_engine in the ini file"
#: the top of every node id of the virtual suite
ROOT = "jsbench"
