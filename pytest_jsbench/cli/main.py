"""The command `jsbench`: its parser and its exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import EntryPoint
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
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.extensions import installed, load, of_lab, origin
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__

ENTRY_POINTS = "pytest_jsbench.commands"


class _Parser(argparse.ArgumentParser):
    """Parse the arguments of a command; what is wrong with them is said in one line."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, and where all arguments stand."""
        self.exit(2, f"{self.prog}: {printable(message.removeprefix('argument '), None)}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; 0 when all passed, 1 when something did not, 2 on bad input."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        parser = _parser()
        if not given:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(given)
        passed: bool = options.command(options, Output(out or sys.stdout))
    except JSBenchError as error:
        sys.stderr.write(f"jsbench: {error}\n")
        return 2
    except BrokenPipeError:  # `jsbench judge … | head`
        sys.stderr.close()
        return 1
    return 0 if passed else 1


def _call(point: EntryPoint, options: argparse.Namespace, out: Output) -> bool:
    """Run a command of an installed package with its arguments; it says whether all passed."""
    command: Any = load(point, kind="command", error=JSBenchError)
    return bool(command(options.arguments, out))


def _of_lab(module: str, *names: str) -> Iterator[Callable[[Any], None]]:
    """The commands of a module of the lab, which nobody imports."""
    for name in names:
        yield getattr(of_lab(module), f"add_{name}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="jsbench", description="Work with schemas, answers and runs; probe a server.")
    parser.add_argument("--version", action="version", version=f"pytest-jsbench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_command in (
        add_init,
        add_judge,
        add_adapt,
        *_of_lab("probe.command", "probe"),
        add_engines,
        add_merge,
        add_recordings,
        add_baseline,
        add_compare,
        add_plan,
        add_plot,
        add_history,
        *_of_lab("interchange.evaluation_files", "validate", "aggregate", "migrate"),
        add_export,
        add_report,
        *_of_lab("view.command", "view"),
    ):
        add_command(commands)  # each sets `command`, a function that returns whether all passed
    for name, point in installed(ENTRY_POINTS, kind="command", error=JSBenchError).items():
        if name not in commands.choices:
            # it reads its own arguments, for which it is imported
            own = commands.add_parser(name, help=f"of {origin(point)}", add_help=False, prefix_chars="\0")
            own.add_argument("arguments", nargs="*")
            own.set_defaults(command=partial(_call, point))
    return parser
