"""Parse the arguments of the command `jsbench`, run the subcommand, and return the exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from pytest_jsbench.cli.adapt import add_adapt
from pytest_jsbench.cli.compare import add_compare, add_plot
from pytest_jsbench.cli.convert import add_baseline, add_export, add_report
from pytest_jsbench.cli.engines import add_engines
from pytest_jsbench.cli.history import add_history
from pytest_jsbench.cli.init import add_init
from pytest_jsbench.cli.judge import add_judge
from pytest_jsbench.cli.merge import add_merge
from pytest_jsbench.cli.output import Output
from pytest_jsbench.cli.plan import add_plan
from pytest_jsbench.cli.recordings import add_recordings
from pytest_jsbench.cli.reduce import add_reduce
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError, nearest
from pytest_jsbench.core.extensions import FIX_PACKAGE, find_entry_points, origin, reinstall_hint
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.core.version import __version__


class _Parser(argparse.ArgumentParser):
    """An argument parser that prints an error as one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error with a reference to `--help`, and exit."""
        self.exit(2, f"{self.prog}: {printable(message.removeprefix('argument '), None)}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command and return its exit status: 0 if all passed, 1 if something failed, 2 for invalid input."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        parser = _parser(given)
        if not given:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(given)
        passed = _run(options, Output(out or sys.stdout), given[0])
    except JSBenchError as error:
        sys.stderr.write(f"jsbench: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("jsbench: interrupted\n")
        return 130
    except BrokenPipeError:  # `jsbench judge … | head`
        sys.stderr.close()
        return 1
    return 0 if passed else 1


def _run(options: argparse.Namespace, out: Output, name: str) -> bool:
    """Run the subcommand; raise JSBenchError if the command of a third-party package fails."""
    command = getattr(options, "command", None)
    if callable(command) and getattr(command, "__module__", "").startswith("pytest_jsbench."):
        return bool(command(options, out))
    point = find_entry_points("command", error=JSBenchError)[name]
    if not callable(command):
        message = (
            f"command '{name}': {origin(point)} does not call parser.set_defaults(command=FUNCTION); {FIX_PACKAGE}"
        )
        raise JSBenchError(message, found=name, expected="a function that takes the options and the output stream")
    try:
        return bool(command(options, out))
    except (JSBenchError, BrokenPipeError):
        raise
    except THIRD_PARTY_ERRORS as error:
        message = f"command '{name}': {origin(point)} raised {one_line(describe_error(error))}; {FIX_PACKAGE}"
        raise JSBenchError(message, found=name) from error


def _parser(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """
    Return the parser for these arguments; without a subcommand, all third-party commands are declared too, so that
    the help lists them.
    """
    parser = _Parser(
        prog="jsbench", description="Judge answers, adapt schemas, compare and convert runs, and probe servers."
    )
    parser.add_argument("--version", action="version", version=f"pytest-jsbench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_command in (
        add_init,
        add_judge,
        add_adapt,
        add_engines,
        add_merge,
        add_recordings,
        add_baseline,
        add_compare,
        add_plan,
        add_plot,
        add_history,
        add_export,
        add_report,
        add_reduce,
    ):
        add_command(commands)  # sets the default of `command` to a function that returns whether all passed
    named = given[0] if given and not given[0].startswith("-") else ""
    if named not in commands.choices:
        _add_installed(commands, named)
    parser.prog = f"jsbench {named}".strip()  # argparse shows this name in the error about unknown arguments
    return parser


def _add_installed(commands: Any, named: str) -> None:
    """Add the third-party command with this name, or all if the name is empty; built-in commands take precedence."""
    points = find_entry_points("command", error=JSBenchError)
    if named and named not in points:
        message = f"unknown command '{printable(named)}': {nearest(named, {*commands.choices, *points})}"
        raise JSBenchError(message + reinstall_hint(), found=named)
    for name in [named] if named else sorted(points.keys() - commands.choices.keys()):
        try:
            points[name].load()(commands)
        except THIRD_PARTY_ERRORS as error:
            message = (
                f"command '{name}': cannot add {origin(points[name])}: {one_line(describe_error(error))}; {FIX_PACKAGE}"
            )
            if named:
                raise JSBenchError(message, found=named) from error
            commands.add_parser(name, help=message.replace("%", "%%"))
