"""The settings of a run, as the command line, the ini file and pytest's own arguments say them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.options import named_of_suite, value_of
from pytest_jsbench.settings.options import BY_NAME, OPTIONS, SETTABLE
from pytest_jsbench.settings.plan import GATES, refuse_together, selection_of
from pytest_jsbench.settings.variants import VariantsTable, placed, ways_of_run, ways_to_ask

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Selection
    from pytest_jsbench.settings.variants import Values

#: what may be a file, and is named from where pytest was started
_FILES = ("dataset", "instances", "prompt", "model")
#: what the command that runs one case again leaves out
_NOT_FOR_ONE_CASE = frozenset(
    {"output", "export", "min_pass_rate", "gate", "baseline", "max_regression", "limit", "tasks", "where", "sample"}
    | {"resume", "shard", "max_cost", "batch"}
)


def _typed_values(config: pytest.Config, names: Sequence[str] = SETTABLE) -> dict[str, Sequence[str]]:
    """Read what was typed for this very run, and in no `addopts`: by the option, in the order of `OPTIONS`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, fromfile_prefix_chars="@")
    for name in names:  # the order on the command line makes no other names
        parser.add_argument(BY_NAME[name].flag, action="append", dest=name, default=argparse.SUPPRESS)
    typed, _ = parser.parse_known_args(list(map(str, config.invocation_params.args)))
    return {option.name: getattr(typed, option.name) for option in OPTIONS if hasattr(typed, option.name)}


def _is_given(config: pytest.Config, name: str) -> bool:
    """Say whether an option is on the command line, or in `addopts`."""
    return config.getoption(BY_NAME[name].dest) is not None


def _start_of(config: pytest.Config, name: str) -> Path:
    """The folder of a path: where pytest was started for the command line, and for the ini file its own."""
    if _is_given(config, name) or config.inipath is None:
        return config.invocation_params.dir
    return config.inipath.parent


def _path_of(config: pytest.Config, name: str) -> Path | None:
    value = value_of(config, name)
    return None if value is None else _start_of(config, name) / str(value)


def _placed(config: pytest.Config, name: str, value: Any) -> Any:
    """Name what may be a path as it is named from where pytest was started."""
    return placed(value, _start_of(config, name), config.invocation_params.dir)


def _read_recording(config: pytest.Config) -> tuple[Path | None, Path | None]:
    """
    Read where answers are recorded, and where they are replayed from, one of them at most.

    A replay in the ini file is what a run does unless an engine, or a recording, is asked for on the command line.
    """
    typed = {name for name in ("engine", "record", "replay") if _is_given(config, name)}
    if "replay" in typed and len(typed) > 1:
        other = min(typed - {"replay"})
        message = f"--jsbench-replay asks recorded answers and --jsbench-{other} an engine; leave one of them out"
        raise pytest.UsageError(message)
    replay = _path_of(config, "replay")
    if replay is not None and not typed & {"engine", "record"}:
        return None, replay
    return _path_of(config, "record"), None


def _read_values(config: pytest.Config) -> dict[str, Any]:
    """Read all options, each path as it is from here; JSBenchError, or pytest.UsageError, where one cannot be used."""
    values = {option.name: value_of(config, option.name) for option in OPTIONS}
    values["record"], values["replay"] = _read_recording(config)
    if values["record"] is None:
        if values["record_mode"] == "new" and _is_given(config, "record_mode"):
            message = "--jsbench-record-mode=new fills up a folder of recorded answers: add --jsbench-record=DIR"
            raise pytest.UsageError(message)
        values["record_mode"] = None
    refuse_together(values)
    _refuse_other_machines(config)
    values |= {name: _placed(config, name, values[name]) for name in _FILES}
    values |= {name: _path_of(config, name) for name in ("resume", "baseline", "output")}
    values |= {option.name: option.default for option in OPTIONS if values[option.name] is None}
    values["engine_option"] = [(key, _placed(config, "engine_option", value)) for key, value in values["engine_option"]]
    values["export"] = [(name, _start_of(config, "export") / path) for name, path in values["export"]]
    if values["replay"] is not None:
        values["batch"] = None
    return values


def _refuse_other_machines(config: pytest.Config) -> None:
    """Refuse workers of xdist that may be on another machine, where no file of this run is seen."""
    for spec in config.getoption("tx", None) or ():
        if "popen" not in spec.partition("//")[0] or "//via=" in spec:
            message = (
                f"--tx={printable(spec, 200)}: a worker on another machine sees no file of this run; use -n N on one"
                " machine, and on several --jsbench-shard with `jsbench merge`"
            )
            raise pytest.UsageError(message)


def read_ways(config: pytest.Config, values: Values) -> tuple[dict[str, Values], str]:
    """Read the values of each variant, and why those of the configuration are left out; empty where they are not."""
    typed = _typed_values(config)
    if _is_given(config, "variants"):
        typed["variants"] = values["variants"]
    folder = config.rootpath if config.inipath is None else config.inipath.parent
    table = VariantsTable.read(folder, here=config.invocation_params.dir)
    ways, left_out = ways_to_ask(values, table, typed)
    if values["replay"] is not None and list(ways) == [""]:
        ways = ways_of_run(values["replay"], values) or ways
    return ways, left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The tests that pytest is to collect."""

    #: node ids of the suite, or beginnings of them, that were named on the command line
    chosen: tuple[str, ...] = ()
    #: whether the dataset's schemas are collected
    suite: bool
    #: whether nothing else is, though no case of it was named
    suite_only: bool = False
    #: whether tests of the project may be collected
    project: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that the user told pytest, read once: nothing else reads the options, or the arguments of pytest."""

    #: of all options by their names
    values: Values
    #: the same for each way to ask, by its name
    ways: Mapping[str, Values]
    #: why those of the configuration are not among them; empty where they are, or there are none
    variants_left_out: str
    #: whether a gate was asked of this very run, on its command line
    gates_typed: bool
    selection: Selection
    benchmark_rows: Literal["task", "case"]
    targets: Targets
    #: what -m and -k say
    expressions: str
    #: whether the run is only estimated
    dry_run: bool
    #: whether no fixture runs (--collect-only, --setup-plan, a dry run), so that no test can ask an engine
    only_lists: bool
    #: whether no test runs (--setup-only too), so that nothing is measured and nothing decided
    only_looks: bool
    #: the command that runs one case again, but for its node id
    rerun: str

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read the command line and the ini file; JSBenchError or pytest.UsageError says what is wrong with a value."""
        values = _read_values(config)
        ways, left_out = read_ways(config, values)
        return cls(
            values=values,
            ways=ways,
            variants_left_out=left_out,
            gates_typed=bool(_typed_values(config, GATES)),
            selection=selection_of(values),
            benchmark_rows=values["benchmark_rows"],
            targets=_take_targets(config),
            expressions=f"{config.option.markexpr} {config.option.keyword}",
            dry_run=values["dry_run"] == "on",
            only_lists=values["dry_run"] == "on" or _is_on(config, "collectonly", "setupplan"),
            only_looks=values["dry_run"] == "on" or _is_on(config, "collectonly", "setuponly"),
            rerun=printable(shlex.join(["pytest", *_given_arguments(config)]), 2000),
        )


def _take_targets(config: pytest.Config) -> Targets:
    """
    Take the suite's node ids out of pytest's arguments, which are paths to it, and see what else was asked for.

    An engine named on the command line, without a path, asks for the suite alone; so does a dataset. A path asks for
    what is there, and a dataset on the command line adds the suite to it. What the ini file names changes nothing of
    what pytest would run, but that a dataset named there is added to a run without a path.
    """
    if chosen := named_of_suite(config):
        config.args[:] = [arg for arg in config.args if arg not in chosen]
        return Targets(chosen=chosen, suite=True, project=bool(config.args))
    names = ("dataset", "instances", "engine", "variants", "record", "replay")
    given = {name for name in names if _is_given(config, name)}
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return Targets(suite=bool(given & {"dataset", "instances"}))
    if given & {"dataset", "instances"} or (given & {"engine", "variants"} and not given & {"record", "replay"}):
        config.args[:] = []
        return Targets(suite=True, suite_only=True, project=False)
    return Targets(suite=any(value_of(config, name) is not None for name in ("dataset", "instances")))


def _given_arguments(config: pytest.Config) -> list[str]:
    """The plugin's options of this command line, as arguments that say the same again."""
    arguments: list[str] = []
    typed = _typed_values(config)
    for option in OPTIONS:
        given = config.getoption(option.dest)
        if given is None or option.name in _NOT_FOR_ONE_CASE:
            continue
        texts = given if option.repeated else [given]
        if option.name in typed:  # each of its values, which may have made a variant, and none that it replaced
            keys = {text.partition("=")[0] for text in typed[option.name]}
            kept = [text for text in texts if option.repeated and text.partition("=")[0] not in keys]
            texts = list(dict.fromkeys([*kept, *typed[option.name]]))
        arguments += [f"{option.flag}={option.shown(text)}" for text in texts]
    return arguments


def _is_on(config: pytest.Config, *names: str) -> bool:
    """Say whether one of these options of pytest, which another plugin may have left out, is set."""
    return any(getattr(config.option, name, False) for name in names)
