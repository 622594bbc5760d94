"""The commands `jsbench validate`, `jsbench aggregate` and `jsbench migrate` for evaluation files of any tool."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_jsbench.cli.output import Output, print_warnings
from pytest_jsbench.core.errors import ExportError, RecordError, nearest
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import format_count, json_text, printable
from pytest_jsbench.formats import EVALUATION, RUN
from pytest_jsbench.metrics.figures import find_figure
from pytest_jsbench.reports import run_json
from pytest_jsbench.reports.blocks import Block, Column, Fact, TableBlock

_FILES = "evaluation files, runs, or directories of runs"


def add_validate(commands: Any) -> None:
    """Declare `jsbench validate`."""
    validate = commands.add_parser(
        "validate",
        help="validate evaluation files",
        description="Check evaluation files of any tool, and runs, for required fields, types and ranges; for example, "
        "a rate must be a number from 0 to 1 or null. Print one line per valid file and one line per problem.",
    )
    validate.add_argument("files", type=Path, nargs="+", metavar="FILE", help=_FILES)
    validate.add_argument("--json", action="store_true", help="print JSON only")
    validate.set_defaults(command=_validate)


def add_aggregate(commands: Any) -> None:
    """Declare `jsbench aggregate`."""
    averaging = commands.add_parser(
        "aggregate",
        help="average several evaluation files",
        description="For each metric, print the mean over files, and the mean weighted by the metric's denominator, "
        "which equals the metric of all files together. Nulls are left out and counted.",
    )
    averaging.add_argument("files", type=Path, nargs="+", metavar="FILE", help=_FILES)
    averaging.add_argument(
        "--weight", metavar="COUNT", help="weight all metrics by this count (default: the metric's denominator)"
    )
    averaging.add_argument("--json", action="store_true", help="print JSON only")
    averaging.set_defaults(command=_aggregate)


def add_migrate(commands: Any) -> None:
    """Declare `jsbench migrate`."""
    migrate = commands.add_parser(
        "migrate",
        help="upgrade old evaluation files to the current format",
        description="Convert files that contain only metrics, or have an older format, to the current format. Fields "
        "are added, never removed.",
    )
    migrate.add_argument("files", type=Path, nargs="+", metavar="FILE", help="evaluation files of any version")
    place = migrate.add_mutually_exclusive_group()
    place.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory for the new files (default: print the files)"
    )
    place.add_argument("--in-place", action="store_true", help="overwrite the files")
    migrate.set_defaults(command=_migrate)


def _validate(options: argparse.Namespace, out: Output) -> bool:
    files = {str(path): problems(path) for path in _each(options)}
    if options.json:
        out.json({"files": [{"file": name, "problems": wrong} for name, wrong in files.items()]})
    else:
        out.lines(f"{name}: {line}" for name, wrong in files.items() for line in wrong or ["valid"])
        out.write(f"{format_count(len(files), 'file')}, {sum(map(bool, files.values()))} not valid\n")
    return not any(files.values())


def _aggregate(options: argparse.Namespace, out: Output) -> bool:
    figures = [part.figures for path in _each(options) for part in print_warnings(run_json.read(path)).each]
    names = sorted(set().union(*figures))
    if options.weight is not None and options.weight not in names:
        message = f"--weight: no file has {options.weight!r}: {nearest(options.weight, names)}"
        raise ExportError(message, found=options.weight, expected=names, option="weight")
    means = aggregate(figures, weight=options.weight)
    if options.json:
        out.json({"evaluations": len(figures), "metrics": [asdict(mean) for mean in means]})
    else:
        out.report(_table(means, len(figures)))
    return True


def _migrate(options: argparse.Namespace, out: Output) -> bool:
    names = Counter(path.name for path in options.files)
    if options.output is not None and (twice := [name for name, count in names.items() if count > 1]):
        message = f"several files are named {printable(twice[0])} and would overwrite each other; pass only one of them"
        raise ExportError(message, found=twice[0], option="output")
    for path in options.files:
        migrated = run_json.migrate(run_json.load(path))
        run_json.parse(migrated, source=str(path))
        text = json_text(migrated, indent=2) + "\n"
        if not options.in_place and options.output is None:
            out.write(text)
            continue
        target = path if options.in_place else options.output / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, text, shared=True)
        out.write(f"{target}\n")
    return True


def _each(options: argparse.Namespace) -> list[Path]:
    return [run for path in options.files for run in run_json.each_run(path)]


def _table(means: list[Aggregate], evaluations: int) -> list[Block]:
    """Return a table of the averaged metrics, and facts about their weights."""
    shown = [row for row in means if row.mean or (row.values + row.nulls and "." not in row.metric)]
    table = TableBlock(head="Metric", columns=(), rows=tuple((row.metric, ()) for row in shown))
    table = table.beside(Column(heading="Values"), [row.values for row in shown])
    table = table.beside(Column(heading="Null"), [row.nulls for row in shown])
    if any(row.absent for row in shown):
        table = table.beside(Column(heading="Absent"), [row.absent for row in shown])
    table = table.beside(Column(heading="Mean", form="{:.6g}"), [row.mean for row in shown])
    table = table.beside(Column(heading="Weighted mean", form="{:.6g}"), [row.weighted_mean for row in shown])
    over = f"{format_count(evaluations, 'evaluation')}; null: not applicable, absent: not in the file"
    weighted: dict[str | None, list[str]] = {}
    for row in shown:
        if row.weighted_mean is not None:
            weighted.setdefault(row.weight, []).append(row.metric)
    left_out = [row for row in shown if row.weight is not None and 0 < row.weighted < row.values]
    facts: list[Fact] = [
        ("over", over),
        *(("weighted", f"by {weight}: {', '.join(metrics)}") for weight, metrics in weighted.items()),
        *(
            ("left out", f"{row.metric}: {format_count(row.values - row.weighted, 'evaluation')} without {row.weight}")
            for row in left_out
        ),
    ]
    return [table, facts]


def problems(path: Path) -> list[str]:
    """Return the problems of an evaluation file, each with its location, the value found and the value expected."""
    try:
        data = run_json.load(path / "run.json" if path.is_dir() else path)
        metrics = data.get("metrics")
        if metrics is None and any(map(run_json.is_figure, data.values())):
            return ["the file has only bare metrics; `jsbench migrate` adds config_path, backend and metrics"]
        if isinstance(metrics, Mapping):
            wrong = run_json.metric_problems(run_json.without_retired(metrics))
            ours = RUN.problems(data) if run_json.OURS in metrics else ()
            wrong += [*EVALUATION.problems({**data, "metrics": {run_json.OURS: None}}, complete=True), *ours]
        else:
            wrong = list(EVALUATION.problems(data, complete=True))
        if not wrong:
            run_json.parse(data, source=str(path))
    except RecordError as error:
        return [str(error).removeprefix(str(path)).lstrip(": ")]
    return list(dict.fromkeys(wrong))


#: Denominators of the metrics of other tools: the count over which a metric is a share or a mean.
_DENOMINATORS: Mapping[str, str] = {
    "action_type_accuracy": "num_steps",
    "mean_coord_error": "coord_error_count",
    "click_hit_rate": "coord_error_count",
    **dict.fromkeys(
        (
            *("episode_success_rate", "weak_episode_success_rate", "state_success_rate"),
            *("mean_episode_progress", "mean_episode_step_score"),
        ),
        "num_episodes",
    ),
}
#: Suffixes of bounds and quantiles, for which a mean would have no meaning.
_NO_MEAN = re.compile(r"[._](ci_low|ci_high|p\d+|max)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Means of a metric over several evaluations."""

    metric: str
    #: Numbers of evaluations with a value of the metric, with null, and without the metric.
    values: int
    nulls: int
    absent: int
    mean: float | None
    #: Mean over the evaluations that contain the count `weight`, weighted by this count; `weighted` is the number of
    #: these evaluations.
    weighted_mean: float | None
    weight: str | None
    weighted: int


def aggregate(figures: Sequence[Mapping[str, float | None]], *, weight: str | None = None) -> list[Aggregate]:
    """
    Average each metric over the evaluations that have a value; null is counted separately, and never treated as 0.

    Each metric is weighted by its denominator; if `weight` is given, all metrics are weighted by the count with this
    name.
    """
    names = dict.fromkeys(name for evaluation in figures for name in evaluation)
    return [_aggregate_metric(name, figures, weight) for name in names if not _NO_MEAN.search(name)]


def _aggregate_metric(name: str, figures: Sequence[Mapping[str, float | None]], weight: str | None) -> Aggregate:
    values = [(value, evaluation) for evaluation in figures if (value := evaluation.get(name)) is not None]
    nulls = sum(name in evaluation and evaluation[name] is None for evaluation in figures)
    by = _denominator(name) if weight is None else weight
    counts = [(value, evaluation.get(by)) for value, evaluation in values if by]
    pairs = [(value, count) for value, count in counts if count is not None and count >= 0]
    total = sum(count for _, count in pairs)
    return Aggregate(
        metric=name,
        values=len(values),
        nulls=nulls,
        absent=len(figures) - len(values) - nulls,
        mean=fmean(value for value, _ in values) if values else None,
        weighted_mean=sum(value * count for value, count in pairs) / total if total else None,
        weight=by,
        weighted=len(pairs),
    )


def _denominator(name: str) -> str | None:
    """Return the metric's denominator: weighted by this count, the mean equals the metric over all files together."""
    if (row := find_figure(name)) is not None:
        return row.of
    return f"{name.removesuffix('_mean')}_count" if name.endswith("_mean") else _DENOMINATORS.get(name)
