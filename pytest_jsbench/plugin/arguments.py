"""What pytest's own arguments ask of the plugin: the suite, parts of it, or a project's own tests alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from pytest_jsbench.plugin.options import value_of

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
