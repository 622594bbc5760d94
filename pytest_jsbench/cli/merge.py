"""`jsbench merge`: the shards of a run as one run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cli.arguments import add_option
from pytest_jsbench.cli.output import Output, make_folder
from pytest_jsbench.core.errors import MergeError
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.gates import Ending, Gate, check, decide
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.merging import merge
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.records.stores import at_hand, originally
from pytest_jsbench.reports.evaluations import run_to_dict, write_run
from pytest_jsbench.reports.run_report import report
from pytest_jsbench.reports.terminal import detail

if TYPE_CHECKING:
    from pytest_jsbench.records.merging import Merged


def add_merge(commands: Any) -> None:
    """Declare `jsbench merge`."""
    merge = commands.add_parser(
        "merge",
        help="put the shards of a run together",
        description="Put runs that were given parts of the same cases (--jsbench-shard) together into one: "
        "records.jsonl and run.json in a folder, and the summary. 0 when all passed, or the gate is met.",
    )
    merge.add_argument(
        "runs",
        nargs="+",
        metavar="DIR",
        help="a run's folder, a folder of runs (the newest); or its URL, such as 's3://bucket/shard-*' (extra stores)",
    )
    merge.add_argument(
        "--output", "-o", type=Path, required=True, metavar="DIR", help="where the merged run is written"
    )
    add_option(merge, "min_pass_rate")
    merge.set_defaults(command=_merge)


def _merge(options: argparse.Namespace, out: Output) -> bool:
    gate = None if options.min_pass_rate is None else Gate.least_pass_rate(options.min_pass_rate)
    with at_hand(options.runs) as (paths, originals):
        return merge_runs(paths, options.output, out, gate=gate, originals=originals)


def merge_runs(
    paths: Sequence[Path], output: Path, out: Output, *, gate: Gate | None, originals: Mapping[str, str] | None = None
) -> bool:
    """
    Write the merged run to a folder and print its summary; True where its verdict is that it passed.

    `originals` are the URLs that paths are copies of.
    """
    merged = merge(paths)
    summary = summarize(merged.run)
    gates = [] if gate is None else [check(gate, summary)]
    verdict = decide(_ending(merged, summary), summary.total, gates)
    run = replace(merged.run, verdict=verdict)
    make_folder(output, MergeError)
    journal.write(output / "records.jsonl", run.metadata, (outcome.source for outcome in run.outcomes))
    write_run(output / "run.json", run_to_dict(run, summary, config_path="unknown", gates=gates))
    out.lines([*(printable(originally(note, originals or {})) for note in merged.notes), ""])
    out.report(report(run, summary))
    out.lines([f"records    {output}", *(f"gate       {result.message}" for result in gates)])
    out.lines(detail("verdict", verdict.text))
    return verdict.passed


def _ending(merged: Merged, summary: Summary) -> Ending:
    """How one session of all shards would have ended: with a failed test for each case that did not pass."""
    parts = summary.variants or {"": summary}
    failing = tuple(
        Attempt(key, 0, name).name(several=False)
        for name, part in parts.items()
        for key, outcome in part.outcomes.items()
        if not outcome.passed and outcome.decided
    )
    lacking = [f"shard {shard} is not among them" for shard in merged.absent]
    lacking += [] if summary.total.planned else ["nothing was measured"]
    return Ending(exit_status=int(bool(failing or lacking)), answers=failing, lacking=tuple(lacking))
