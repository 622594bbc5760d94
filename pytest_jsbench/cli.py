"""The `jsbench` command: what can be done with schemas and answers without calling a model."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench import __version__
from pytest_jsbench.adaptation.subsets import SUBSETS
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.errors import JSBenchError
from pytest_jsbench.gates import Gate
from pytest_jsbench.judging import is_records, judge_plain, judge_records
from pytest_jsbench.ledgers import show_ledgers
from pytest_jsbench.merging import merge_runs
from pytest_jsbench.showing import add_commands
from pytest_jsbench.verdicts.dialects import NAMES


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


def _add_judge(commands: Any) -> None:
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
    policy.add_argument("--extra-fields", choices=("fail", "allow"), help="as --jsbench-extra-fields")
    policy.add_argument("--duplicate-keys", choices=("note", "fail"), help="as --jsbench-duplicate-keys")
    policy.add_argument("--fences", choices=("strip", "forbid"), help="as --jsbench-fences")
    policy.add_argument("--reasoning", choices=("keep", "strip"), help="as --jsbench-reasoning")
    policy.add_argument("--formats", choices=("assert", "ignore"), help="as --jsbench-formats")
    policy.add_argument(
        "--default-dialect", choices=tuple(NAMES), metavar=f"{{{','.join(NAMES)}}}", help="as --jsbench-default-dialect"
    )
    policy.add_argument("--validator", choices=("both", "jsonschema-rs", "jsonschema"), help="as --jsbench-validator")
    policy.add_argument("--timeout", type=_seconds, metavar="S", help="seconds for judging one answer")
    judge.set_defaults(command=_judge)


def _add_adapt(commands: Any) -> None:
    adapt = commands.add_parser(
        "adapt",
        help="what each provider would take of a dataset's schemas, and what would have to change",
        description="Say each schema in the subset of JSON Schema that a provider takes, as --jsbench-adapt does "
        "before a call: a table of what came of it, and with -v every change.",
    )
    adapt.add_argument("dataset", metavar="DATASET", help="as for --jsbench-dataset")
    adapt.add_argument("--subset", choices=tuple(SUBSETS), help="only this provider's (default: each)")
    adapt.add_argument("--mode", choices=("narrow", "relax"), default="narrow", help="default: narrow")
    adapt.add_argument("--tasks", metavar="A,B", help="only these tasks")
    adapt.add_argument(
        "--split", default="test", metavar="S", help="this split of a dataset in the hub's layout, or all"
    )
    adapt.add_argument("--limit", type=int, metavar="N", help="only the first N cases of each task")
    adapt.add_argument("-v", "--verbose", action="store_true", help="every schema with its changes")
    adapt.add_argument("--json", action="store_true", help="one outcome per line, as JSON, and nothing else")
    adapt.set_defaults(command=_adapt)


def _add_merge(commands: Any) -> None:
    merge = commands.add_parser(
        "merge",
        help="put the shards of a run together",
        description="Put runs that were given parts of the same cases (--jsbench-shard) together into one: "
        "records.jsonl and run.json in a folder, and the summary. 0 when all passed, or the gate is met.",
    )
    merge.add_argument(
        "runs", type=Path, nargs="+", metavar="DIR", help="a run's folder, a folder of runs (the newest)"
    )
    merge.add_argument(
        "--output", "-o", type=Path, required=True, metavar="DIR", help="where the merged run is written"
    )
    merge.add_argument("--min-pass-rate", metavar="RATE", help="as for --jsbench-min-pass-rate")
    merge.set_defaults(command=_merge)


def _merge(options: argparse.Namespace, out: TextIO) -> bool:
    gate = None if options.min_pass_rate is None else Gate.least_pass_rate(options.min_pass_rate)
    return merge_runs(options.runs, options.output, out, gate=gate)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        message = f"expected seconds above 0, found {text!r}"
        raise argparse.ArgumentTypeError(message)
    return seconds


def _adapt(options: argparse.Namespace, out: TextIO) -> bool:
    tasks = None if options.tasks is None else tuple(options.tasks.split(","))
    selection = Selection(source=options.dataset, tasks=tasks, split=options.split, limit=options.limit)
    subsets = tuple(SUBSETS) if options.subset is None else (options.subset,)
    dataset = open_dataset(selection)
    return show_ledgers(dataset, subsets, options.mode, out, as_json=options.json, verbose=options.verbose)


def _judge(options: argparse.Namespace, out: TextIO) -> bool:
    path: Path = options.file
    chosen: dict[str, Any] = {
        name: value
        for name in ("extra_fields", "duplicate_keys", "fences", "reasoning", "formats", "validator", "timeout")
        if (value := getattr(options, name)) is not None
    }
    if options.default_dialect is not None:
        chosen["default_dialect"] = NAMES[options.default_dialect]
    judging = judge_records if path.is_dir() or is_records(path) else judge_plain
    return judging(path, chosen, out, as_json=options.json, verbose=options.verbose)
