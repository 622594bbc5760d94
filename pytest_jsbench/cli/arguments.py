"""Declare options of the table in `settings.options` as arguments of a subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.settings.option import Option
from pytest_jsbench.settings.options import BY_NAME
from pytest_jsbench.settings.spelling import rewritten_errors, spelled

T = TypeVar("T")


def flag_names_in_errors(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Replace `--jsbench-gate` in error messages by `--gate`, and likewise every option that the command has."""

    def spell(option: Option[Any]) -> str:
        # other options are those of pytest
        return flag_of(option.name) if option.name in options else f"pytest {option.flag}"

    return rewritten_errors(lambda message: spelled(message, spell))


def flag_of(name: str) -> str:
    """Return the command's flag for an option."""
    return f"--{name.replace('_', '-')}"


class TakesArguments(Protocol):
    """An argparse parser, or an argument group of a parser."""

    def add_argument(self, *flags: str, **details: Any) -> argparse.Action:
        """Declare an argument."""


def add_option(parser: TakesArguments, name: str, flag: str = "", **changes: Any) -> None:
    """Declare an option of `settings.options` as an argument of the parser; the default flag is `--name`."""
    option = BY_NAME[name]
    described = {
        "metavar": option.placeholder,
        "help": f"as {option.flag}",
        "action": "append" if option.repeated else "store",
        "default": list(option.default) if option.repeated else option.default,
    }
    parser.add_argument(
        flag or flag_of(name),
        **{"dest": name, "type": to_argparse_type(option.of_text), **described, **changes},
    )


def to_argparse_type(read: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a parse function so that its errors have the type whose message argparse prints."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except (ValueError, JSBenchError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
