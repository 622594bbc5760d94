"""`jsbench validate` and `jsbench aggregate`: evaluation files of any tool, checked and averaged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench.cli.convert import warn
from pytest_jsbench.core.errors import ExportError, nearest
from pytest_jsbench.core.text import counted, json_text
from pytest_jsbench.metrics.aggregation import Aggregate, aggregate
from pytest_jsbench.reports import evaluations
from pytest_jsbench.reports.blocks import Column, TableBlock
from pytest_jsbench.reports.terminal import fact_lines, table_lines

_FILES = "evaluation files, runs, or folders of runs"


def add_validate(commands: Any) -> None:
    """Declare `jsbench validate`."""
    validate = commands.add_parser(
        "validate",
        help="whether evaluation files are as they should be",
        description="Check evaluation files of any tool, and runs: what must be there, types, and ranges; a rate is "
        "from 0 to 1 or null. One line for each file, or for each thing that is wrong.",
    )
    validate.add_argument("files", type=Path, nargs="+", metavar="FILE", help=_FILES)
    validate.add_argument("--json", action="store_true", help="the same as JSON, and nothing else")
    validate.set_defaults(command=_validate)


def add_aggregate(commands: Any) -> None:
    """Declare `jsbench aggregate`."""
    averaging = commands.add_parser(
        "aggregate",
        help="means over several evaluation files",
        description="The mean of each metric over files, and its mean weighted by what it is a share of, which is that "
        "of all files taken together. Nulls are left out and counted.",
    )
    averaging.add_argument("files", type=Path, nargs="+", metavar="FILE", help=_FILES)
    averaging.add_argument(
        "--weight", metavar="COUNT", help="weight all metrics by this one (default: each by what it is a share of)"
    )
    averaging.add_argument("--json", action="store_true", help="the same as JSON, and nothing else")
    averaging.set_defaults(command=_aggregate)


def _validate(options: argparse.Namespace, out: TextIO) -> bool:
    found = {str(path): evaluations.problems(path) for path in _each(options)}
    if options.json:
        out.write(json_text({"files": [{"file": name, "problems": said} for name, said in found.items()]}, indent=2))
        out.write("\n")
    else:
        for name, said in found.items():
            out.writelines(f"{name}: {line}\n" for line in said or ["valid"])
        wrong = sum(map(bool, found.values()))
        out.write(f"{counted(len(found), 'file')}, {wrong} not valid\n")
    return not any(found.values())


def _aggregate(options: argparse.Namespace, out: TextIO) -> bool:
    read = [evaluations.read(path) for path in _each(options)]
    for whole in read:
        warn(whole)
    found = [one.figures for whole in read for one in whole.each]
    known = sorted(set().union(*found))
    if options.weight is not None and options.weight not in known:
        message = f"--weight: no file has {options.weight!r}: {nearest(options.weight, known)}"
        raise ExportError(message, found=options.weight, expected=known, option="weight")
    means = aggregate(found, weight=options.weight)
    if options.json:
        rows = [one.to_dict() for one in means]
        out.write(json_text({"evaluations": len(found), "metrics": rows}, indent=2) + "\n")
        return True
    out.writelines(f"{line}\n" for line in _lines(means, len(found)))
    return True


def _each(options: argparse.Namespace) -> list[Path]:
    return [one for path in options.files for one in evaluations.each_run(path)]


def _lines(means: list[Aggregate], evaluations: int) -> list[str]:
    """A table of the metrics that an evaluation names, and what their weights are."""
    shown = [one for one in means if one.mean or (one.values + one.nulls and "." not in one.metric)]
    table = TableBlock(head="Metric", columns=(), rows=tuple((one.metric, ()) for one in shown))
    table = table.beside(Column(heading="Values"), [one.values for one in shown])
    table = table.beside(Column(heading="Null"), [one.nulls for one in shown])
    if any(one.absent for one in shown):
        table = table.beside(Column(heading="Absent"), [one.absent for one in shown])
    table = table.beside(Column(heading="Mean", form="{:.6g}"), [one.mean for one in shown])
    table = table.beside(Column(heading="Weighted mean", form="{:.6g}"), [one.weighted_mean for one in shown])
    over = f"{counted(evaluations, 'evaluation')}; null is not applicable, absent is not in the file"
    weighted: dict[str | None, list[str]] = {}
    for one in shown:
        if one.weighted_mean is not None:
            weighted.setdefault(one.weight, []).append(one.metric)
    left_out = [one for one in shown if one.weight is not None and 0 < one.weighted < one.values]
    facts = [
        ("over", over),
        *(("weighted", f"by {weight}: {', '.join(metrics)}") for weight, metrics in weighted.items()),
        *(("left out", f"{one.metric}: {one.values - one.weighted} without {one.weight}") for one in left_out),
    ]
    return [*table_lines(table), "", *fact_lines(facts)]
