"""The `jsbench` command: what can be done with answers that are there, without calling a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench import __version__
from pytest_jsbench.errors import JSBenchError
from pytest_jsbench.judging import is_records, judge_plain, judge_records
from pytest_jsbench.verdicts.dialects import NAMES


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; 0 when all passed, 1 when not, 2 on bad input, as pytest and diff have it."""
    options = _parser().parse_args(arguments)
    try:
        return _judge(options, out or sys.stdout)
    except JSBenchError as error:
        sys.stderr.write(f"jsbench: {error}\n")
        return 2
    except BrokenPipeError:  # `jsbench judge … | head`
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jsbench", description="Judge answers against JSON Schemas.")
    parser.add_argument("--version", action="version", version=f"pytest-jsbench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    judge = commands.add_parser(
        "judge",
        help="judge recorded answers again, or lines of schema and text",
        description="Judge the answers of a run again, by the run's own policy, and show what changed and the "
        'summary; or judge lines of {"schema": ..., "text": ...} and show what did not pass.',
    )
    judge.add_argument("file", type=Path, metavar="FILE", help="records.jsonl, the folder it is in, or any JSONL")
    judge.add_argument("-v", "--verbose", action="store_true", help="say more: all lines; the breakdown by keyword")
    judge.add_argument("--json", action="store_true", help="one verdict per line, as JSON, and nothing else")
    policy = judge.add_argument_group("how strictly (default: as the run was, or the defaults of pytest's options)")
    policy.add_argument("--extra-fields", choices=("fail", "allow"))
    policy.add_argument("--duplicate-keys", choices=("note", "fail"))
    policy.add_argument("--fences", choices=("strip", "forbid"))
    policy.add_argument("--reasoning", choices=("keep", "strip"))
    policy.add_argument("--formats", choices=("assert", "ignore"))
    policy.add_argument("--default-dialect", choices=tuple(NAMES), metavar=f"{{{','.join(NAMES)}}}")
    policy.add_argument("--validator", choices=("both", "jsonschema-rs", "jsonschema"))
    policy.add_argument("--timeout", type=_seconds, metavar="S", help="seconds for judging one answer")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        message = f"expected seconds above 0, found {text!r}"
        raise argparse.ArgumentTypeError(message)
    return seconds


def _judge(options: argparse.Namespace, out: TextIO) -> int:
    path: Path = options.file
    path = path / "records.jsonl" if path.is_dir() else path
    chosen: dict[str, Any] = {
        name: value
        for name in ("extra_fields", "duplicate_keys", "fences", "reasoning", "formats", "validator", "timeout")
        if (value := getattr(options, name)) is not None
    }
    if options.default_dialect is not None:
        chosen["default_dialect"] = NAMES[options.default_dialect]
    judging = judge_records if is_records(path) else judge_plain
    return 0 if judging(path, chosen, out, as_json=options.json, verbose=options.verbose) else 1
