"""The commands `jsbench baseline`, `jsbench export` and `jsbench report`, which write a run in another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.output import Output, print_warnings
from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports import baselines, run_json
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.run_files import find

#: The only exporter that accepts `--version` and `--developer`.
EVERY_EVAL_EVER = "every_eval_ever"


def add_baseline(commands: Any) -> None:
    """Declare `jsbench baseline`."""
    baseline = commands.add_parser(
        "baseline",
        help="write a small baseline file, to be committed",
        description="Write the outcome of each case of a run, one line per case, for --jsbench-baseline.",
    )
    baseline.add_argument("run", type=Path, metavar="RUN", help="a run's directory, its run.json or its records.jsonl")
    baseline.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output file, such as baseline.json"
    )
    baseline.set_defaults(command=_baseline)


def add_export(commands: Any) -> None:
    """Declare `jsbench export`."""
    export = commands.add_parser(
        "export",
        help="export a run to another format",
        description="Write a run as every_eval_ever (one aggregate record, and one row per attempt), as a table with "
        "one row per attempt, or in the format of an exporter: one of an installed package, or your own function.",
    )
    export.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or its records.jsonl")
    export.add_argument(
        "--format",
        default=EVERY_EVAL_EVER,
        metavar="NAME",
        help="every_eval_ever (default), parquet, csv, an installed package's exporter, or package.module:function",
    )
    export.add_argument("--version", choices=("0.3.0", "0.2.0"), help="version of every_eval_ever (default: 0.3.0)")
    export.add_argument(
        "--developer",
        metavar="NAME",
        help="developer of the model, for every_eval_ever (default: the prefix of the model's name)",
    )
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="PATH",
        help="output file; for every_eval_ever, the directory in which data/ is created",
    )
    export.set_defaults(command=_export)


def add_report(commands: Any) -> None:
    """Declare `jsbench report`."""
    report = commands.add_parser(
        "report",
        help="write a run's HTML page",
        description="Write an HTML page with metrics, failures, and every case's schema, prompt, answer and verdict.",
    )
    report.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or its records.jsonl")
    report.add_argument(
        "--baseline",
        type=Path,
        metavar="RUN|FILE",
        help="earlier run or baseline file to compare the run with, case by case",
    )
    report.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="output file, such as report.html"
    )
    report.set_defaults(command=_report)


def _baseline(options: argparse.Namespace, out: Output) -> bool:
    run, outcomes = run_json.with_cases(options.run)
    data = baselines.baseline_to_dict(print_warnings(run), outcomes)
    write_atomically(options.output, baselines.baseline_to_text(data), shared=True)
    whose = f"{printable(run.backend)} {printable(run.label)}"
    out.write(f"{options.output}: {format_count(len(outcomes), 'case')} of {whose}\n")
    return True


def _export(options: argparse.Namespace, out: Output) -> bool:
    chosen = {name: value for name in ("version", "developer") if (value := getattr(options, name)) is not None}
    if chosen and options.format != EVERY_EVAL_EVER:
        found = f"--format={options.format}"
        message = f"--{next(iter(chosen))} applies only to --format={EVERY_EVAL_EVER}, found {found}: omit one of them"
        raise ExportError(message, found=options.format, expected=EVERY_EVAL_EVER, option="format")
    exporter = find(options.format)
    run = print_warnings(run_json.read_run(options.run))
    out.write(f"{exporter.write(options.output, run, summarize(run), **chosen)}\n")
    return True


def _report(options: argparse.Namespace, out: Output) -> bool:
    run = print_warnings(run_json.read_run(options.run))
    summary = summarize(run)
    comparisons = {}
    if options.baseline is not None:
        baseline, _ = run_json.with_cases(options.baseline)
        comparisons = baselines.against(print_warnings(baseline), run.metadata, summary)
    report.write(options.output, run, summary, run_json.read_gates(options.run, run), comparisons)
    out.write(f"{options.output}\n")
    return True
