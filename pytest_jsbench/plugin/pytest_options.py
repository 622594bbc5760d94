"""Declare and read the plugin's options: on pytest's command line, and as ini keys with the same names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_jsbench.settings.option import ON_OFF, Option
from pytest_jsbench.settings.options import BY_NAME, GROUPS, OPTIONS, JudgingOptions
from pytest_jsbench.settings.parsers import names

#: Options that apply without an engine too, to answers that a test passes to `jsbench.check`.
_OF_JUDGING = JudgingOptions.options.keys() - {"invalid_schemas", "classify"}
#: Reason for skipping tests that make calls.
NO_ENGINE = "no engine is set; run with --jsbench-engine=NAME, or set jsbench_engine in the ini file"
#: Type of an ini value: text; in pytest 9.2 and later, also a number or a boolean in a native TOML table of pytest.
_SCALAR: Any = str | bool | int | float if pytest.version_tuple >= (9, 2) else "string"
_LIST: Any = {"type": "linelist", "default": []}
#: The first part of every node id of the suite.
ROOT = "jsbench"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and their ini keys."""
    for options in GROUPS:
        heading = options.heading.lower()
        group = parser.getgroup(f"jsbench {heading}", f"pytest-jsbench: {heading}")
        for option in options.options.values():
            group.addoption(
                option.flag,
                dest=option.dest,
                metavar=option.placeholder,
                help=option.help.replace("%", "%%"),  # argparse formats the help text with %
                default=None,
                action="append" if option.repeated else "store",
                **({} if option.bare is None else {"nargs": "?", "const": option.bare}),
            )
            ini: Any = _LIST if option.repeated or option.parse is names else {"type": _SCALAR, "default": ""}
            parser.addini(option.dest, f"the same as {option.flag}", **ini)


def read_options(config: pytest.Config, names: Iterable[str] = BY_NAME) -> dict[str, Any]:
    """Return option values by name: from the command line, else the ini file, else --jsbench-preset, else None."""
    values = {name: value_of(config, name) for name in names}
    of_preset = values["preset"] or {}
    return {name: of_preset.get(name) if value is None else value for name, value in values.items()}


def value_of(config: pytest.Config, name: str) -> Any:
    """Return the option's value from the command line, else from the ini file, else None."""
    option = BY_NAME[name]
    given = config.getoption(option.dest)
    place = option.flag
    hint = "" if option.bare is None else f"; write {option.flag}={option.bare} if the next argument is a path"
    if given is None:
        given = _of_ini(config, option)
        place = f"{option.dest} in {config.inipath}"
        hint = ""
        if given in ("", []):
            return None
    try:
        value = [option.of_text(text) for text in given] if option.repeated else option.of_text(_text(option, given))
        if given == "":
            raise ValueError(f"expected {option.placeholder}, found ''")
        return value
    except ValueError as error:
        raise pytest.UsageError(f"{place}: {error}{hint}") from None


def _of_ini(config: pytest.Config, option: Option[Any]) -> Any:
    """Read an ini key; in a native TOML table, pytest expects a list, but a dataset may be a string too."""
    try:
        return config.getini(option.dest)
    except (TypeError, pytest.UsageError):
        text = _string_of_toml(config, option.dest) if option.name == "dataset" else None
        if text is None:
            raise
        return [text]


def _string_of_toml(config: pytest.Config, key: str) -> str | None:
    """Read a string from pytest's native TOML table; None if the value is not a string."""
    path = config.inipath
    if path is None or path.suffix != ".toml":
        return None
    import tomllib  # imported here to save time, since every pytest session imports this module

    content = tomllib.loads(path.read_text("utf-8"))
    tables = content.get("tool", {}) if path.name == "pyproject.toml" else content
    value = tables.get("pytest", {}).get(key)
    return value if isinstance(value, str) else None


def _text(option: Option[Any], given: str | bool | float | list[str]) -> str:
    """Convert a value from pytest's native TOML table to the text for the command line."""
    match given:
        case list():
            return ",".join(given)
        case True if option.bare is not None:
            return option.bare
        case False if option.choices == ON_OFF:
            return "off"
    return str(given).lower() if isinstance(given, bool) else str(given)


def check_ini_keys(config: pytest.Config) -> None:
    """Raise pytest.UsageError for an unknown ini key that begins with `jsbench`, and suggest a similar key."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pytest deprecates `inicfg` from 9.1 on, without a replacement
        given = config.inicfg
    known = {option.dest for option in OPTIONS}
    for key in given:
        if not key.startswith(("jsbench_", "jsbench-")) or key in known:
            continue
        try:
            config.getini(key)
        except ValueError:
            import difflib  # imported here for the same reason as tomllib

            close = difflib.get_close_matches(key.replace("-", "_"), [option.dest for option in OPTIONS], n=1)
            hint = f"did you mean {close[0]}?" if close else "`pytest --help` lists the keys"
            raise pytest.UsageError(f"unknown key {key} in {config.inipath}: {hint}") from None


def find_run_argument(config: pytest.Config) -> str:
    """Return the first option or node id on the command line that needs an engine; empty if there is none."""
    typed = {str(argument).partition("=")[0] for argument in config.invocation_params.args}
    flags = (option.flag for option in OPTIONS if option.flag in typed and option.name not in _OF_JUDGING)
    return next(flags, "") or ("" if config.option.pyargs else next(iter(find_suite_arguments(config)), ""))


def find_suite_arguments(config: pytest.Config) -> tuple[str, ...]:
    """Return the suite's node ids among pytest's arguments; existing files and directories are not node ids."""
    named = (arg for arg in config.args if arg == ROOT or arg.startswith(f"{ROOT}::"))
    return tuple(arg for arg in named if not (config.invocation_params.dir / arg).exists())


def read_judging(config: pytest.Config) -> JudgingOptions:
    """Read the options for judging answers that a test passes to `jsbench.check`."""
    return JudgingOptions(read_options(config, ("preset", *_OF_JUDGING)))
