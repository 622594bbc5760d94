"""The commands `jsbench history` and `jsbench history add`: show the results of runs over time, and add runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.arguments import to_argparse_type
from pytest_jsbench.cli.output import Output, print_warnings
from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.text import printable
from pytest_jsbench.reports import history, markdown, run_json
from pytest_jsbench.reports.plot import picture_of_history, save
from pytest_jsbench.settings.options import BY_NAME

_LAST = 10


def add_history(commands: Any) -> None:
    """Declare `jsbench history` and `jsbench history add`."""
    showing = commands.add_parser(
        "history",
        help="show runs over time, and significant changes",
        description="Print a table for each label in a history file, and whether the newest run of the label differs "
        "significantly from the previous run with the same cases.",
    )
    showing.add_argument("--file", type=Path, metavar="F", help="history file, such as history.jsonl (required)")
    showing.add_argument("--label", metavar="L", help="show only runs with this label")
    count = to_argparse_type(BY_NAME["limit"].of_text)
    last = f"number of newest runs to show per label (default: {_LAST})"
    showing.add_argument("--last", type=count, default=_LAST, metavar="N", help=last)
    showing.add_argument(
        "--plot", type=Path, metavar="PICTURE", help="also write a plot to this file, such as history.png"
    )
    showing.add_argument("--metric", metavar="NAME", help="metric to plot (default: pass_rate)")
    form = showing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print only JSON")
    form.add_argument("--markdown", action="store_true", help="print GitHub Markdown")
    showing.set_defaults(command=_show)
    inner = showing.add_subparsers(metavar="add", help="add runs to the file instead")
    adding = inner.add_parser(
        "add",
        help="add runs to a history file",
        description="Append one line per run to a history file, which is locked meanwhile. Runs that the file "
        "already contains are skipped.",
    )
    adding.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's directory, or its run.json")
    adding.add_argument("--file", type=Path, required=True, metavar="F", help="history file; created if missing")
    adding.add_argument(
        "--label",
        metavar="L",
        help="label; only runs with the same label are compared (default: engine, model and non-default settings)",
    )
    adding.set_defaults(command=_add)


def _add(options: argparse.Namespace, out: Output) -> bool:
    runs = [print_warnings(run_json.read(path)) for path in options.runs]
    every = [history.HistoryLine.of(part, options.label) for run in runs for part in run.each]
    lines = list({line.identity: line for line in every}.values())
    added, before = history.add(options.file, lines)
    print_warnings(before)
    for line in lines:
        name = line.run["run_id"] + (f", variant {line.variant}" if line.variant else "")
        words = f"added a line for {line.label}: {name}" if line in added else f"already has {name}: nothing added"
        out.write(f"{options.file}: {words}\n")
    return True


def _show(options: argparse.Namespace, out: Output) -> bool:
    if options.file is None:
        raise ExportError("--file is missing: add the history file, such as --file history.jsonl", option="file")
    if options.metric is not None and options.plot is None:
        raise ExportError("--metric affects only a plot: add --plot PICTURE, or omit --metric", option="metric")
    every = print_warnings(history.History.read(options.file)).series if options.file.exists() else ()
    if not every:
        problem = "the file has no readable line" if options.file.exists() else "no such file"
        message = f"{options.file}: {problem}; jsbench history add RUN --file {options.file} adds a run"
        raise ExportError(message, where=options.file)
    chosen = [series for series in every if options.label in {None, series.label}]
    if not chosen:
        labels = "; ".join(printable(series.label, 60) for series in every[:8])
        message = f"no run with the label '{printable(options.label, 60)}' in {options.file}; labels there: {labels}"
        raise ExportError(message, found=options.label, where=options.file)
    if options.json:
        out.json({"series": [series.to_dict() for series in chosen]})
    elif options.markdown:
        out.write(markdown.report(history.report(chosen, last=options.last)))
    else:
        out.report(history.report(chosen, last=options.last))
    if options.plot is not None:
        save(picture_of_history(chosen, options.metric or "pass_rate"), options.plot)
        if not options.json:
            out.write(f"{options.plot}\n")
    return True
