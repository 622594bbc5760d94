"""The plugin's options on the command line, each also an ini key of the same name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.plugin.options.declared import OPTIONS


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
            **({} if option.bare is None else {"nargs": "?", "const": option.bare}),
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
    start, here = start_of(config, name), config.invocation_params.dir
    if start == here or not (glob.has_magic(value) or (start / value).exists()):
        return value
    try:
        return os.path.relpath(start / value, here)
    except ValueError:  # on another drive
        return str(start / value)


#: what the command that runs one case again leaves out
_NOT_FOR_ONE_CASE = frozenset(
    {"output", "export", "min-pass-rate", "gate", "baseline", "max-regression", "limit", "tasks", "where", "sample"}
    | {"resume", "shard", "max-cost", "batch"}
)


def given_arguments(config: pytest.Config) -> list[str]:
    """The plugin's options of this command line, as arguments that say the same again."""
    arguments: list[str] = []
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is not None and option.name not in _NOT_FOR_ONE_CASE:
            arguments += [f"{option.flag}={option.shown(text)}" for text in (given if option.repeated else [given])]
    return arguments


#: the top of every node id of the virtual suite
ROOT = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be collected."""

    #: node ids of the suite, or beginnings of them
    chosen: tuple[str, ...] = ()
    #: whether the dataset's schemas are collected
    suite: bool
    #: whether nothing else is, though no case of it was named
    suite_only: bool = False
    #: whether any test of the project's own may be
    own: bool = True


def take_arguments(config: pytest.Config) -> Asked:
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
        return Asked(chosen=chosen, suite=True, own=bool(config.args))
    dataset = _typed(config, "dataset") or _typed(config, "instances")
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return Asked(suite=dataset)
    recording = _typed(config, "record") or _typed(config, "replay")
    if dataset or (_typed(config, "engine") and not recording):
        config.args[:] = []
        return Asked(suite=True, suite_only=True, own=False)
    return Asked(suite=any(value_of(config, name) is not None for name in ("dataset", "instances")))


def only_looks(config: pytest.Config) -> bool:
    """Whether no test is to run: --collect-only, --setup-only and --setup-plan measure nothing, and decide nothing."""
    return bool(config.option.collectonly or getattr(config.option, "setuponly", False))


def is_typed(config: pytest.Config, flags: Iterable[str]) -> bool:
    """Whether one of the options was given for this very run, and neither in the ini file nor in its `addopts`."""
    given = tuple(map(str, config.invocation_params.args))
    return any(argument == flag or argument.startswith(f"{flag}=") for flag in flags for argument in given)


def _typed(config: pytest.Config, name: str) -> bool:
    return config.getoption(f"jsbench_{name}") is not None
