"""The command `jsbench merge`: merge the shards of a run into one run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cli.arguments import add_option, flag_names_in_errors
from pytest_jsbench.cli.output import Output, make_folder
from pytest_jsbench.core.errors import MergeError
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.gates import Ending, Gate, decide, describe_nothing
from pytest_jsbench.metrics.load_terms import options_of
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.merging import merge
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.records.stores import fetch_runs, restore_urls
from pytest_jsbench.reports.expectations import Expectations
from pytest_jsbench.reports.run_files import write_files
from pytest_jsbench.reports.run_json import load
from pytest_jsbench.reports.run_report import report
from pytest_jsbench.reports.terminal import detail, fact_lines
from pytest_jsbench.run.plan import GATES, gates_of
from pytest_jsbench.settings.options import GateOptions

if TYPE_CHECKING:
    from pytest_jsbench.records.merging import Merged


def add_merge(commands: Any) -> None:
    """Declare `jsbench merge`."""
    merge = commands.add_parser(
        "merge",
        help="merge the shards of a run",
        description="Merge the runs of all shards (--jsbench-shard) into one run, write it to a directory, and print "
        "its summary. Exit status 0 if all cases passed, or if gates are set and met.",
    )
    merge.add_argument(
        "runs",
        nargs="+",
        metavar="DIR",
        help="a shard's run directory, or a directory of runs (the newest is merged), or a URL such as "
        "'s3://bucket/shard-*' (extra: stores)",
    )
    merge.add_argument("--output", "-o", type=Path, required=True, metavar="DIR", help="directory of the merged run")
    for name in GATES:
        add_option(merge, name)
    add_option(merge, "baseline", type=Path)
    add_option(merge, "quarantine", type=Path)
    merge.add_argument(
        "--json", action="store_true", help="print only the merged run.json, with notes on the shards, as JSON"
    )
    merge.set_defaults(command=_merge)


def _merge(options: argparse.Namespace, out: Output) -> bool:
    with flag_names_in_errors(options):
        gates = gates_of(GateOptions(vars(options)))
        with fetch_runs(options.runs) as (paths, originals):
            form: dict[str, Any] = {"as_json": options.json, "originals": originals}
            return merge_runs(
                paths,
                options.output,
                out,
                gates=gates,
                baseline=options.baseline,
                quarantine=options.quarantine,
                **form,
            )


def merge_runs(
    paths: Sequence[Path],
    output: Path,
    out: Output,
    *,
    gates: Sequence[Gate] = (),
    baseline: Path | None = None,
    quarantine: Path | None = None,
    as_json: bool = False,
    originals: Mapping[str, str] | None = None,
) -> bool:
    """
    Write the merged run to a directory and print its summary; return whether the run passed.

    `originals` maps the paths of local copies to the URLs that they were copied from.
    """
    merged = merge(paths)
    run = merged.run
    summary = summarize(run)
    own_tests = any(outcome.asked_by is not None for outcome in run.outcomes)
    expectations = Expectations.read(
        gates,
        baseline,
        keys=run.planned,
        variants=run.variants,
        metrics=run.metadata.metrics,
        repeats=None if own_tests else run.metadata.repeats,
        load=options_of(run.metadata),
        quarantine=quarantine,
    )
    decision = expectations.decide(run, summary)
    deciding = decision.deciding or summary
    ending = _build_ending(merged, deciding, decision.quarantined)
    verdict = decide(ending, deciding.total, decision.gates)
    run = replace(run, verdict=verdict)
    make_folder(output, merged.parts, MergeError)
    journal.write(output / "records.jsonl", run.metadata, (outcome.source for outcome in run.outcomes))
    if problems := write_files(output, run, summary, decision, config_path="unknown"):
        raise MergeError("; ".join(problems), where=output)
    warnings = [f"warning: {warning}" for warning in expectations.warnings]
    notes = [printable(restore_urls(note, originals or {})) for note in (*merged.notes, *warnings)]
    if as_json:
        disagreeing = [attempt.name(several=attempt.repeat > 0) for attempt in merged.disagreeing]
        parts = {"notes": notes, "absent": merged.absent, "twice": merged.twice, "disagreeing": disagreeing}
        out.json({**load(output / "run.json"), "merged": parts})
        return verdict.passed
    out.lines([*notes, ""])
    out.report(report(run, summary))
    out.lines(fact_lines(decision.facts(), out.width))
    out.lines([f"records    {output}", *(f"gate       {result.message}" for result in decision.gates)])
    out.lines(detail("verdict", verdict.text))
    return verdict.passed


def _build_ending(merged: Merged, summary: Summary, quarantined: int) -> Ending:
    """
    Return the end of a pytest session that ran all shards, as input for the run verdict; each case that did not
    pass counts as a failed test.
    """
    parts = summary.variants or {"": summary}
    failing = tuple(
        Attempt(key, 0, name).name(several=False)
        for name, part in parts.items()
        for key, outcome in part.outcomes.items()
        if not outcome.passed and outcome.decided
    )
    lacking = [f"shard {shard} is missing" for shard in merged.absent]
    lacking += [] if summary.total.planned else [describe_nothing(quarantined)]
    exit_status = int(bool(failing or lacking))
    return Ending(exit_status=exit_status, answers=failing, lacking=tuple(lacking), quarantined=quarantined)
