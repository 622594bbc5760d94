"""The `jsbench` command: what can be done with schemas and answers without calling a model."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from pytest_jsbench.cli.adapt import _add_adapt
from pytest_jsbench.cli.compare import _add_compare, _add_plot
from pytest_jsbench.cli.convert import _add_baseline, _add_export, _add_migrate, _add_report
from pytest_jsbench.cli.judge import _add_judge
from pytest_jsbench.cli.merge import _add_merge
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; 0 when all passed, 1 when not, 2 on bad input, as pytest and diff have it."""
    parser = _parser()
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        passed: bool = options.command(options, _Printed(out or sys.stdout))
    except JSBenchError as error:
        sys.stderr.write(f"jsbench: {error}\n")
        return 2
    except BrokenPipeError:  # `jsbench judge … | head`
        sys.stderr.close()
        return 1
    return 0 if passed else 1


class _Printed(io.TextIOBase):
    """A stream on which nothing but text is written, whatever it quotes: no escape code and no command."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines."""
        return self._stream.write(printable(text, None, lines=True))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jsbench", description="Work with schemas and answers, without a model.")
    parser.add_argument("--version", action="version", version=f"pytest-jsbench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_judge(commands)
    _add_adapt(commands)
    _add_merge(commands)
    add_commands(commands)
    return parser


def add_commands(commands: Any) -> None:
    """Declare the commands; each sets `command`, which says whether all went well."""
    _add_baseline(commands)
    _add_compare(commands)
    _add_plot(commands)
    _add_migrate(commands)
    _add_export(commands)
    _add_report(commands)
