"""Read the settings of a run from the command line, the ini file and pytest's own arguments."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.engine_secrets import shown_text
from pytest_jsbench.plugin.pytest_options import find_suite_arguments, read_options, value_of
from pytest_jsbench.run.plan import GATES, check_conflicts, check_recording, gates_of, selection_of
from pytest_jsbench.run.variants import resolve_variant_values
from pytest_jsbench.settings.layers import OptionLayer, merge
from pytest_jsbench.settings.option import Values
from pytest_jsbench.settings.options import BY_NAME, OPTIONS, SETTABLE, GateOptions
from pytest_jsbench.settings.spec import RunSpec

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection

#: Options that the command for rerunning one case does not repeat.
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
    """Read the options on the command line, without `addopts`, in the order of `OPTIONS`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, fromfile_prefix_chars="@")
    # this order, since the order on the command line must not change the names of variants
    for name in (*SETTABLE, *GATES):
        parser.add_argument(BY_NAME[name].flag, action="append", dest=name, default=argparse.SUPPRESS)
    typed, _ = parser.parse_known_args(list(map(str, config.invocation_params.args)))
    return {option.name: getattr(typed, option.name) for option in OPTIONS if hasattr(typed, option.name)}


def _read_values(config: pytest.Config, given: Set[str]) -> dict[str, Any]:
    """
    Read the options that are set, with paths relative to the working directory; raise JSBenchError or pytest.UsageError
    for an invalid value.

    A path on the command line is relative to the directory in which pytest was started, and a path in the ini file is
    relative to the directory of that file.
    """
    here = config.invocation_params.dir
    read = {name: value_of(config, name) for name in BY_NAME}
    values = merge(
        OptionLayer(values={name: read[name] for name in given}, folder=here),
        OptionLayer(values=read, folder=here if config.inipath is None else config.inipath.parent),
        OptionLayer(values=read["preset"] or {}, folder=here),
        here=here,
    )
    _choose_recording(values, given)
    check_conflicts(values)
    if "replay" in values:
        values.pop("batch", None)
    return values


def _import_from_ini_directory(config: pytest.Config) -> None:
    """Make modules next to the ini file importable by `package.module:name`, wherever pytest is started."""
    ini_directory = config.rootpath if config.inipath is None else config.inipath.parent
    # The directories are appended, so that the user's files do not hide other modules.
    for directory in map(str, (config.invocation_params.dir, ini_directory)):
        if directory not in sys.path:
            sys.path.append(directory)
            config.add_cleanup(partial(_stop_importing_from, directory))


def _stop_importing_from(directory: str) -> None:
    with suppress(ValueError):  # a test may have changed sys.path
        sys.path.remove(directory)


def _choose_recording(values: dict[str, Any], given: Set[str]) -> None:
    """
    Remove --jsbench-record or --jsbench-replay, so that at most one of the two is set.

    --jsbench-replay in the ini file applies unless the command line sets --jsbench-engine or --jsbench-record.
    """
    is_called = not given.isdisjoint({"engine", "record"})
    values.pop("record" if "replay" in values and not is_called else "replay", None)
    check_recording(values, given)
    if "record" not in values:
        values.pop("record_mode", None)


def _refuse_other_machines(config: pytest.Config) -> None:
    """Raise pytest.UsageError for xdist workers that may run on another machine, without access to the run's files."""
    for spec in config.getoption("tx", None) or ():
        if "popen" not in spec.partition("//")[0] or "//via=" in spec:
            message = (
                f"--tx={printable(spec, 200)}: a worker on another machine cannot access this run's files; use -n N "
                "on one machine, or --jsbench-shard and `jsbench merge` on several"
            )
            raise pytest.UsageError(message)


def check_gates(config: pytest.Config) -> None:
    """Raise pytest.UsageError if a gate in the ini file is invalid; called in a session without an engine."""
    _import_from_ini_directory(config)
    values = read_options(config, (*GATES, "classify", "baseline", "preset"))
    try:
        gates_of(GateOptions(values), own=values["classify"] or ())
    except JSBenchError as error:
        raise pytest.UsageError(f"{error} (in {config.inipath})") from None


def _refuse_forked(config: pytest.Config) -> None:
    """Raise pytest.UsageError if pytest-forked is used: its child processes do not have the threads that make calls."""
    if _is_on(config, "forked"):
        raise pytest.UsageError(
            "--forked cannot be combined with an engine: remove --forked, or use -n 1 of pytest-xdist"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Which tests pytest collects: the suite, single cases, or tests of the project."""

    #: Node ids of the suite on the command line, which may name a case, a task or the whole suite.
    chosen: tuple[str, ...] = ()
    #: Whether the suite is collected, with a test for each schema of the dataset.
    suite: bool
    #: Whether only the suite is collected because of an option, without a node id on the command line.
    suite_only: bool = False
    #: Whether tests of the project may be collected.
    project: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the session; other modules read neither the options nor pytest's arguments."""

    #: Values of all options.
    spec: RunSpec
    #: Reason why the table of variants is not used; empty if it is used, or does not exist.
    variants_left_out: str
    #: Whether a gate was given on the command line.
    gates_typed: bool
    selection: Selection
    targets: Targets
    #: The expressions given with -m and -k.
    expressions: str
    #: Whether neither fixtures nor tests run (--collect-only, --setup-plan, or a dry run), so that no call is made.
    only_lists: bool
    #: Whether no test runs (--collect-only, --setup-only, or a dry run), so that there is no run verdict.
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
        spec = RunSpec.of(values, variant_values)
        dry_run = spec.execution.dry_run
        return cls(
            spec=spec,
            variants_left_out=left_out,
            gates_typed=any(name in typed for name in GATES),
            selection=selection_of(spec.cases, spec.judging),
            targets=targets,
            expressions=f"{config.option.markexpr} {config.option.keyword}",
            only_lists=dry_run or _is_on(config, "collectonly", "setupplan"),
            only_looks=dry_run or _is_on(config, "collectonly", "setuponly"),
            rerun=printable(shlex.join(["pytest", *_given_arguments(config, typed)]), 2000),
        )


def _take_targets(config: pytest.Config, values: Values, given: Set[str]) -> Targets:
    """
    Determine which tests to collect, and remove the suite's node ids from pytest's arguments, since pytest would read
    them as paths.

    With an engine or a dataset on the command line and no path, only the suite is collected. With a path, the tests in
    the path are collected; a dataset on the command line adds the suite. Of the ini file, only a dataset matters: it
    adds the suite if the command line has no path.
    """
    if chosen := find_suite_arguments(config):
        config.args[:] = [arg for arg in config.args if arg not in chosen]
        return Targets(chosen=chosen, suite=True, project=bool(config.args))
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return Targets(suite=bool(given & {"dataset", "instances"}))
    if given & {"dataset", "instances"} or (given & {"engine", "variants"} and not given & {"record", "replay"}):
        config.args[:] = []
        return Targets(suite=True, suite_only=True, project=False)
    return Targets(suite=bool(values.get("dataset")) or "instances" in values)


def _given_arguments(config: pytest.Config, typed: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the plugin's options as arguments for the command that reruns one case."""
    arguments: list[str] = []
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is None or option.name in _NOT_FOR_ONE_CASE:
            continue
        texts = given if option.repeated else [given]
        # repeat every value on the command line, since each may define a variant, and omit the values in addopts
        if option.name in typed:
            keys = {text.partition("=")[0] for text in typed[option.name]}
            kept = [text for text in texts if option.repeated and text.partition("=")[0] not in keys]
            texts = list(dict.fromkeys([*kept, *typed[option.name]]))
        arguments += [f"{option.flag}={shown_text(option, text)}" for text in texts]
    return arguments


def _is_on(config: pytest.Config, *names: str) -> bool:
    """Return whether any of these pytest options is set; an option may be undefined if its plugin is disabled."""
    return any(getattr(config.option, name, False) for name in names)
