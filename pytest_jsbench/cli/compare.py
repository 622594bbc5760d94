"""The commands `jsbench compare` and `jsbench plot`: show several runs side by side, as tables or as a plot."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.output import Output, print_warnings
from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.extensions import extension
from pytest_jsbench.core.text import format_count
from pytest_jsbench.reports import comparison_report, run_json
from pytest_jsbench.reports.blocks import Block
from pytest_jsbench.reports.breakdown import DEFAULT_METRIC, Grouping, break_down, keywords_of_cases
from pytest_jsbench.reports.comparison_report import comparison_markdown
from pytest_jsbench.reports.html import comparison
from pytest_jsbench.reports.html.report import require_jinja2
from pytest_jsbench.reports.plot import picture, save
from pytest_jsbench.reports.terminal import fact_lines


def add_compare(commands: Any) -> None:
    """Declare `jsbench compare`."""
    compare = commands.add_parser(
        "compare",
        help="compare runs, with significance tests",
        description="Compare pass rate, speed and cost of several runs, case by case if the files contain the "
        "outcome of each case. Evaluation files of other tools are accepted too.",
    )
    compare.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's directory, or an evaluation file")
    compare.add_argument("--labels", nargs="+", metavar="L", help="one label per run (default: the run's model)")
    compare.add_argument(
        "-v", "--verbose", action="store_true", help="show every metric, and every case with a changed outcome"
    )
    compare.add_argument(
        "--by",
        choices=[grouping.value for grouping in Grouping],
        help="add a table by task, keyword or prompt length",
    )
    compare.add_argument(
        "--metric",
        default=DEFAULT_METRIC,
        metavar="M",
        help="metric in the table of --by: a time such as tpot, or a rate; with --by task, any metric",
    )
    compare.add_argument(
        "--published", action="store_true", help="add the tables of the JSONSchemaBench paper and of MaskBench"
    )
    compare.add_argument(
        "--margin",
        type=float,
        metavar="D",
        help="also test whether the pass rate of each run is at most D below that of the first run",
    )
    compare.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="also write an HTML page with pictures, such as comparison.html",
    )
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print only JSON")
    form.add_argument("--markdown", action="store_true", help="print GitHub Markdown")
    form.add_argument(
        "--comment",
        metavar="NAME",
        help="print Markdown short enough for a comment; a hidden first line lets a workflow find the comment by NAME",
    )
    compare.add_argument("--link", metavar="URL", help="URL of the run's files, linked in the comment of --comment")
    compare.set_defaults(command=_compare)


def add_plot(commands: Any) -> None:
    """Declare `jsbench plot`."""
    plotting = commands.add_parser(
        "plot",
        help="plot evaluation files",
        description="Plot one panel per metric and one bar per file, with confidence intervals; n/a if not available.",
    )
    plotting.add_argument("--files", type=Path, nargs="+", required=True, metavar="F", help="evaluation files")
    plotting.add_argument(
        "--labels", nargs="+", metavar="L", help="one label per file (default: the model, or the file name)"
    )
    plotting.add_argument(
        "--output", type=Path, required=True, metavar="PICTURE", help="output file, such as comparison.png"
    )
    plotting.add_argument(
        "--metrics", metavar="A,B", default="", help="metrics to plot, or all (default: the main metrics)"
    )
    plotting.set_defaults(command=_plot)


def _compare(options: argparse.Namespace, out: Output) -> bool:
    runs, names = _read_runs(options.runs, options.labels)
    by = None
    if options.by is not None:
        grouping = Grouping(options.by)
        keywords = keywords_of_cases(options.runs) if grouping is Grouping.KEYWORD else None
        by = break_down(runs, grouping, keywords=keywords, metric=options.metric)
    elif options.metric != DEFAULT_METRIC:
        message = f"--metric {options.metric} affects only the table of --by: add --by=task"
        raise ExportError(message, found=options.metric, option="metric")
    if options.margin is not None and not 0 <= options.margin <= 1:
        message = f"--margin: expected a number from 0 to 1, found {options.margin:g}"
        raise ExportError(message, found=options.margin, option="margin")
    if options.link is not None and options.comment is None:
        raise ExportError("--link affects only a comment: add --comment=NAME", found=options.link, option="link")
    if options.margin is not None and len(runs) < 2:
        raise ExportError("--margin: a margin needs two runs, found 1; pass the earlier run first", option="margin")
    if options.output is not None:
        require_jinja2("--output needs jinja2")
    published: list[Any] = []
    if options.published:
        published = extension("publication", "jsonschemabench", error=ExportError).compare_with_published(runs, names)
    more: list[Block] = [block for table in published for block in table.blocks()]
    margin = options.margin
    comment = options.comment
    blocks = partial(
        comparison_report.side_by_side, runs, names, verbose=options.verbose, by=by, margin=margin, more=more
    )
    if options.output is not None:
        comparison.write(options.output, runs, names, blocks())
    if options.json:
        data = comparison_report.to_dict(runs, names, by=by, margin=options.margin)
        out.json({**data, **{table.name: table.to_dict() for table in published}})
    elif options.markdown or comment is not None:
        text = comparison_markdown(runs, names, by=by, margin=margin, more=more, comment=comment, link=options.link)
        out.write(text)
    else:
        out.report([*blocks(), *([] if options.output is None else [[("page", str(options.output))]])])
    return True


def _plot(options: argparse.Namespace, out: Output) -> bool:
    files, names = _read_runs(options.files, options.labels)
    metrics = [name.strip() for name in options.metrics.split(",") if name.strip()]
    save(picture(files, names, metrics), options.output)
    warnings = comparison_report.incomparable(run_json.settings_apart(files))
    out.lines([str(options.output), *fact_lines(warnings)])
    return True


def _read_runs(paths: list[Path], labels: list[str] | None) -> tuple[list[run_json.Evaluation], list[str]]:
    if labels is not None and len(labels) == 1:
        parts = labels[0].split(",")
        if len(parts) == len(paths):
            labels = [part.strip() for part in parts]
    if labels is not None and len(labels) != len(paths):
        found = f"{format_count(len(labels), 'label')} for {format_count(len(paths), 'file')}"
        message = f"--labels: found {found}; expected one per file"
        raise ExportError(message, found=len(labels), expected=len(paths), option="labels")
    runs = [print_warnings(run_json.read(path)) for path in paths]
    if labels is not None:
        named = zip(labels, runs, strict=True)
        labels = [f"{label} {part.variant}".rstrip() for label, run in named for part in run.each]
    every = [part for run in runs for part in run.each]
    return every, comparison_report.labels(every, labels)
