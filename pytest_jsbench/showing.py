"""The commands that show, compare and convert what was measured; none of them judges or calls a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench import evaluations
from pytest_jsbench.comparisons import compare
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import json_text, printable
from pytest_jsbench.errors import ExportError
from pytest_jsbench.exports import every_eval_ever, report, versus
from pytest_jsbench.exports.plot import plot
from pytest_jsbench.exports.registry import EVERY_EVAL_EVER, find
from pytest_jsbench.summaries import summarize


def add_commands(commands: Any) -> None:
    """Declare the commands; each sets `command`, which says whether all went well."""
    _add_baseline(commands)
    _add_compare(commands)
    _add_plot(commands)
    _add_migrate(commands)
    _add_export(commands)
    _add_report(commands)


def _add_baseline(commands: Any) -> None:
    baseline = commands.add_parser(
        "baseline",
        help="a small file of how each case ended, to be committed and compared with",
        description="Write how each case of a run ended, one line a case, for --jsbench-baseline.",
    )
    baseline.add_argument("run", type=Path, metavar="RUN", help="a run's folder, its run.json or its records.jsonl")
    baseline.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="such as baseline.json")
    baseline.set_defaults(command=_baseline)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="several runs side by side, and which of their differences are real",
        description="Pass rate, speed and cost of several runs, case by case where they say how each case ended; any "
        "evaluation file will do.",
    )
    compare.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, or an evaluation file")
    compare.add_argument("--labels", nargs="+", metavar="L", help="one name for each (default: its model)")
    compare.add_argument("-v", "--verbose", action="store_true", help="every metric, and every case that changed")
    compare.add_argument("--json", action="store_true", help="the same as JSON, and nothing else")
    compare.set_defaults(command=_compare)


def _add_plot(commands: Any) -> None:
    plotting = commands.add_parser(
        "plot",
        help="evaluation files as a picture",
        description="One panel a metric, one bar a file, whiskers for intervals; n/a where a metric is not applicable.",
    )
    plotting.add_argument("--files", type=Path, nargs="+", required=True, metavar="F", help="evaluation files")
    plotting.add_argument("--labels", nargs="+", metavar="L", help="one name for each (default: its model or file)")
    plotting.add_argument("--output", type=Path, required=True, metavar="PICTURE", help="such as comparison.png")
    plotting.add_argument("--metrics", metavar="A,B", default="", help="only these, or all (default: the chief ones)")
    plotting.set_defaults(command=_plot)


def _add_migrate(commands: Any) -> None:
    migrate = commands.add_parser(
        "migrate",
        help="old evaluation files in the current shape",
        description="Wrap bare metrics, and add what a current evaluation file has; nothing is taken away.",
    )
    migrate.add_argument("files", type=Path, nargs="+", metavar="FILE", help="evaluation files of any age")
    place = migrate.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="DIR", help="write them here (default: show them)")
    place.add_argument("--in-place", action="store_true", help="write over the files")
    migrate.set_defaults(command=_migrate)


def _add_export(commands: Any) -> None:
    export = commands.add_parser(
        "export",
        help="a run in another format",
        description="Write a run as every_eval_ever has it (an aggregate record, and a row per attempt), or in a "
        "format that an installed package or a function of your own brings.",
    )
    export.add_argument("run", type=Path, metavar="RUN", help="a run's folder, or its records.jsonl")
    export.add_argument(
        "--format",
        default=EVERY_EVAL_EVER,
        metavar="NAME",
        help="every_eval_ever (default), what an installed package brings, or package.module:function",
    )
    export.add_argument("--version", choices=every_eval_ever.VERSIONS, help="of every_eval_ever (default: 0.3.0)")
    export.add_argument(
        "--developer", metavar="NAME", help="who made the model, for every_eval_ever (default: the model's own prefix)"
    )
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="PATH",
        help="of every_eval_ever: where its folder data/ goes",
    )
    export.set_defaults(command=_export)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="a run as one page for a browser",
        description="Write report.html: figures, failures, and every case with its schema, prompt, answer and verdict.",
    )
    report.add_argument("run", type=Path, metavar="RUN", help="a run's folder, or its records.jsonl")
    report.add_argument("--baseline", type=Path, metavar="RUN|FILE", help="compare with it, case by case")
    report.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="such as report.html")
    report.set_defaults(command=_report)


def _baseline(options: argparse.Namespace, out: TextIO) -> bool:
    found, outcomes = evaluations.with_cases(options.run)
    data = evaluations.baseline_to_dict(found, outcomes)
    write_atomically(options.output, evaluations.baseline_to_text(data), shared=True)
    cases = "1 case" if len(outcomes) == 1 else f"{len(outcomes)} cases"
    out.write(f"{options.output}: {cases} of {printable(found.backend)} {printable(found.label)}\n")
    return True


def _compare(options: argparse.Namespace, out: TextIO) -> bool:
    found, names = _labelled(options.runs, options.labels)
    if options.json:
        out.write(json_text(versus.to_dict(found, names), indent=2) + "\n")
    else:
        out.writelines(f"{line}\n" for line in versus.side_by_side(found, names, verbose=options.verbose))
    return True


def _plot(options: argparse.Namespace, out: TextIO) -> bool:
    found, names = _labelled(options.files, options.labels)
    asked = [name.strip() for name in options.metrics.split(",") if name.strip()]
    plot(found, names, options.output, asked)
    out.write(f"{options.output}\n")
    return True


def _labelled(paths: list[Path], labels: list[str] | None) -> tuple[list[evaluations.Evaluation], list[str]]:
    if labels is not None and len(labels) == 1 and len(paths) == len(parts := labels[0].split(",")):
        labels = [part.strip() for part in parts]
    if labels is not None and len(labels) != len(paths):
        message = f"--labels: found {len(labels)} for {len(paths)} files; expected one for each, as in --labels A B"
        raise ExportError(message)
    found = [evaluations.read(path) for path in paths]
    return found, versus.labels(found, labels)


def _migrate(options: argparse.Namespace, out: TextIO) -> bool:
    for path in options.files:
        migrated = evaluations.migrate(evaluations.load(path))
        evaluations.parse(migrated, source=str(path))
        text = json_text(migrated, indent=2) + "\n"
        if not options.in_place and options.output is None:
            out.write(text)
            continue
        target = path if options.in_place else options.output / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, text, shared=True)
        out.write(f"{target}\n")
    return True


def _export(options: argparse.Namespace, out: TextIO) -> bool:
    own = {name: value for name in ("version", "developer") if (value := getattr(options, name)) is not None}
    if own and options.format != EVERY_EVAL_EVER:
        message = f"--{next(iter(own))} is for --format={EVERY_EVAL_EVER}, not for {options.format}: leave it out"
        raise ExportError(message)
    exporter = find(options.format)
    run = evaluations.read_run(options.run)
    summary = summarize(run)
    if own:
        path = every_eval_ever.write(options.output, run, summary, **own)
    else:
        path = exporter.write(options.output, run, summary)
    out.write(f"{path}\n")
    return True


def _report(options: argparse.Namespace, out: TextIO) -> bool:
    run = evaluations.read_run(options.run)
    summary = summarize(run)
    comparison = None
    if options.baseline is not None:
        comparison = compare(evaluations.with_cases(options.baseline)[1], summary.outcomes)
    report.write(options.output, run, summary, comparison=comparison)
    out.write(f"{options.output}\n")
    return True
