"""Options of the table as arguments of a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from pytest_jsbench.core.arguments import respelled
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.settings.options import BY_NAME

T = TypeVar("T")


@contextmanager
def said_to_commands(options: argparse.Namespace) -> Iterator[None]:
    """Inside, an error with an option such as `--jsbench-gate` names the command's own, `--gate`, where it has one."""

    def spell(name: str) -> str:
        if name in options:
            return flag_of(name)
        # no option of pytest's is what a user typed
        return f"pytest {BY_NAME[name].flag}" if name in BY_NAME else f"--jsbench-{name.replace('_', '-')}"

    try:
        yield
    except JSBenchError as error:
        error.args = (respelled(str(error), spell),)
        raise


def flag_of(name: str) -> str:
    """The option as a command takes it."""
    return f"--{name.replace('_', '-')}"


class TakesArguments(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *flags: str, **details: Any) -> argparse.Action:
        """Declare an argument."""


def add_option(parser: TakesArguments, name: str, flag: str = "", **changes: Any) -> None:
    """Declare an option of the table, as `--name` unless another flag is given."""
    option = BY_NAME[name]
    described = {
        "metavar": option.placeholder,
        "help": f"as {option.flag}",
        "action": "append" if option.repeated else "store",
        "default": list(option.default) if option.repeated else option.default,
    }
    parser.add_argument(
        flag or flag_of(name),
        **{"dest": name, "type": reading(option.of_text), **described, **changes},
    )


def reading(read: Callable[[str], T]) -> Callable[[str], T]:
    """Have argparse show why a text cannot be read."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except (ValueError, JSBenchError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
