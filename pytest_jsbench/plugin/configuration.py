"""Read the settings of a run from the command line, the ini file and pytest's own arguments."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.engine_secrets import shown_text
from pytest_jsbench.plugin.pytest_options import find_suite_arguments, read_options
from pytest_jsbench.run.plan import GATES, check_conflicts, check_recording, gates_of, selection_of
from pytest_jsbench.run.variants import placed, resolve_variant_values
from pytest_jsbench.settings.options import BY_NAME, OPTIONS, SETTABLE, with_defaults

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.run.variants import Values

#: Options whose value may be a file or directory, relative to the directory in which pytest was started.
_FILES = ("instances", "prompt", "model", "registry")
#: Options whose value is always a path.
_PATHS = ("record", "replay", "resume", "baseline", "output", "report")
#: Options that are not included in the command that reruns one case.
_NOT_FOR_ONE_CASE = frozenset(
    {
        "output",
        "report",
        "export",
        "min_pass_rate",
        "gate",
        "baseline",
        "max_regression",
        "limit",
        "tasks",
        "where",
        "sample",
    }
    | {"resume", "shard", "max_cost", "batch"}
)


def _typed_values(config: pytest.Config) -> dict[str, Sequence[str]]:
    """Read the options given on the command line itself rather than in `addopts`, in the order of `OPTIONS`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, fromfile_prefix_chars="@")
    for name in (*SETTABLE, *GATES):  # the order on the command line must not change the names of variants
        parser.add_argument(BY_NAME[name].flag, action="append", dest=name, default=argparse.SUPPRESS)
    typed, _ = parser.parse_known_args(list(map(str, config.invocation_params.args)))
    return {option.name: getattr(typed, option.name) for option in OPTIONS if hasattr(typed, option.name)}


def _read_values(config: pytest.Config, given: Set[str]) -> dict[str, Any]:
    """
    Read all options, with paths relative to the working directory; raise JSBenchError or pytest.UsageError for an
    invalid value.

    A path on the command line is relative to the directory in which pytest was started, and a path in the ini file is
    relative to the directory of that file.
    """
    values = read_options(config)
    here = config.invocation_params.dir
    ini = config.inipath
    starts = {name: here if ini is None or name in given else ini.parent for name in values}
    _choose_recording(values, given)
    check_conflicts(values)
    values |= {name: starts[name] / str(values[name]) for name in _PATHS if values[name] is not None}
    values |= {name: placed(values[name], starts[name], here) for name in _FILES}
    if values["dataset"] is not None:
        values["dataset"] = [placed(source, starts["dataset"], here) for source in values["dataset"]]
    values = with_defaults(values)
    start = starts["engine_option"]
    values["engine_option"] = [(key, placed(value, start, here)) for key, value in values["engine_option"]]
    values["export"] = [(name, starts["export"] / path) for name, path in values["export"]]
    if values["replay"] is not None:
        values["batch"] = None
    return values


def _import_from_ini_directory(config: pytest.Config) -> None:
    """Make modules next to the ini file importable by `package.module:name`, wherever pytest is started."""
    ini_directory = config.rootpath if config.inipath is None else config.inipath.parent
    # The directories come last, so that none of the user's files hides another module.
    for directory in map(str, (config.invocation_params.dir, ini_directory)):
        if directory not in sys.path:
            sys.path.append(directory)
            config.add_cleanup(partial(_stop_importing_from, directory))


def _stop_importing_from(directory: str) -> None:
    with suppress(ValueError):  # a test may have changed the path
        sys.path.remove(directory)


def _choose_recording(values: dict[str, Any], given: Set[str]) -> None:
    """
    Keep at most one of the options for recording and replaying answers.

    A replay set in the ini file applies unless the command line sets an engine or a recording.
    """
    asks = not given.isdisjoint({"engine", "record"})
    values["replay" if values["replay"] is None or asks else "record"] = None
    check_recording(values, given)
    if values["record"] is None:
        values["record_mode"] = None


def _refuse_other_machines(config: pytest.Config) -> None:
    """Raise an error for xdist workers that may run on another machine, where the run's files are missing."""
    for spec in config.getoption("tx", None) or ():
        if "popen" not in spec.partition("//")[0] or "//via=" in spec:
            message = (
                f"--tx={printable(spec, 200)}: a worker on another machine cannot access this run's files; use -n N "
                "on one machine, or --jsbench-shard and `jsbench merge` on several"
            )
            raise pytest.UsageError(message)


def check_gates(config: pytest.Config) -> None:
    """Raise pytest.UsageError if a gate of the ini file is invalid, in a session without an engine."""
    _import_from_ini_directory(config)
    values = read_options(config, (*GATES, "classify", "baseline", "preset"))
    values["gate"] = values["gate"] or []
    values["classify"] = values["classify"] or ()
    try:
        gates_of(values)
    except JSBenchError as error:
        raise pytest.UsageError(f"{error} (in {config.inipath})") from None


def _refuse_forked(config: pytest.Config) -> None:
    """Raise an error if pytest-forked is used, because its child processes have no threads for calls."""
    if _is_on(config, "forked"):
        raise pytest.UsageError("--forked cannot be combined with an engine: remove it, or use -n 1 of pytest-xdist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The tests that pytest collects."""

    #: The suite's node ids on the command line, or prefixes of node ids.
    chosen: tuple[str, ...] = ()
    #: Whether the schemas of the dataset are collected as tests.
    suite: bool
    #: Whether only the suite is collected although the command line names no case.
    suite_only: bool = False
    #: Whether tests of the project may be collected.
    project: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings given to pytest, read once; other modules do not read the options or pytest's arguments."""

    #: Values of all options by name.
    values: Values
    #: Values of all options by variant.
    variant_values: Mapping[str, Values]
    #: Reason why the configured variants are not used; empty if they are used, or if none are configured.
    variants_left_out: str
    #: Whether a gate was given on the command line.
    gates_typed: bool
    selection: Selection
    benchmark_rows: Literal["task", "case"]
    targets: Targets
    #: The expressions given with -m and -k.
    expressions: str
    #: Whether the run is only estimated, without calls.
    dry_run: bool
    #: Whether no fixture runs (--collect-only, --setup-plan, or a dry run), so that no test can make a call.
    only_lists: bool
    #: Whether no test runs (--collect-only, --setup-only, or a dry run), so that nothing is measured or decided.
    only_looks: bool
    #: The command that reruns one case, without the node id of the case.
    rerun: str

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; raise JSBenchError or pytest.UsageError for an invalid value."""
        _refuse_other_machines(config)
        _refuse_forked(config)
        _import_from_ini_directory(config)
        given = {option.name for option in OPTIONS if config.getoption(option.dest) is not None}
        typed = _typed_values(config)
        values = _read_values(config, given)
        targets = _take_targets(config, values, given)
        named = {"variants": values["variants"]} if "variants" in given else {}
        folder = config.rootpath if config.inipath is None else config.inipath.parent
        here = config.invocation_params.dir
        variant_values, left_out = resolve_variant_values(values, {**typed, **named}, folder=folder, here=here)
        return cls(
            values=values,
            variant_values=variant_values,
            variants_left_out=left_out,
            gates_typed=any(name in typed for name in GATES),
            selection=selection_of(values),
            benchmark_rows=values["benchmark_rows"],
            targets=targets,
            expressions=f"{config.option.markexpr} {config.option.keyword}",
            dry_run=values["dry_run"] == "on",
            only_lists=values["dry_run"] == "on" or _is_on(config, "collectonly", "setupplan"),
            only_looks=values["dry_run"] == "on" or _is_on(config, "collectonly", "setuponly"),
            rerun=printable(shlex.join(["pytest", *_given_arguments(config, typed)]), 2000),
        )


def _take_targets(config: pytest.Config, values: Values, given: Set[str]) -> Targets:
    """
    Remove the suite's node ids from pytest's arguments, which pytest would take for paths, and determine what else to
    collect.

    An engine or a dataset on the command line, without a path, selects only the suite. A path selects the tests in it,
    and a dataset on the command line adds the suite. Settings in the ini file do not change which tests pytest runs,
    except that the ini file's dataset is added to a run without a path.
    """
    if chosen := find_suite_arguments(config):
        config.args[:] = [arg for arg in config.args if arg not in chosen]
        return Targets(chosen=chosen, suite=True, project=bool(config.args))
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return Targets(suite=bool(given & {"dataset", "instances"}))
    if given & {"dataset", "instances"} or (given & {"engine", "variants"} and not given & {"record", "replay"}):
        config.args[:] = []
        return Targets(suite=True, suite_only=True, project=False)
    return Targets(suite=bool(values["dataset"]) or values["instances"] is not None)


def _given_arguments(config: pytest.Config, typed: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the plugin's options on this command line as arguments for another command."""
    arguments: list[str] = []
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is None or option.name in _NOT_FOR_ONE_CASE:
            continue
        texts = given if option.repeated else [given]
        if option.name in typed:  # every typed value, since each may define a variant; not the values that it replaced
            keys = {text.partition("=")[0] for text in typed[option.name]}
            kept = [text for text in texts if option.repeated and text.partition("=")[0] not in keys]
            texts = list(dict.fromkeys([*kept, *typed[option.name]]))
        arguments += [f"{option.flag}={shown_text(option, text)}" for text in texts]
    return arguments


def _is_on(config: pytest.Config, *names: str) -> bool:
    """Return whether any of these pytest options is set; another plugin may have removed some of them."""
    return any(getattr(config.option, name, False) for name in names)
