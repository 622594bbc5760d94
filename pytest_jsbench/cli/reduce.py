"""The command `jsbench reduce`: find the smallest schema that still fails like a case of a run, with neutral names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cli.arguments import add_option, flag_names_in_errors, to_argparse_type
from pytest_jsbench.cli.output import Output
from pytest_jsbench.cli.signals import handle_sigterm
from pytest_jsbench.core.arguments import whole
from pytest_jsbench.core.text import format_count, json_text, printable
from pytest_jsbench.settings.call_options import CONNECTION_OPTIONS

if TYPE_CHECKING:
    from pytest_jsbench.run.reduction.candidate import Candidate
    from pytest_jsbench.run.reduction.reduction import Reduction

#: Options that replace those of the run.
_ENGINE_OPTIONS = (*CONNECTION_OPTIONS, "max_tokens", "timeout")


def add_reduce(commands: Any) -> None:
    """Declare `jsbench reduce`."""
    parser = commands.add_parser(
        "reduce",
        help="find the smallest schema that still fails like a case of a run",
        description="Remove and simplify parts of a failing case's schema as long as it fails in the same way: with "
        "the same failure type and keyword, the same refusal, or the same fault. If the case offers tools, find the "
        "smallest set of tools that fails for the same tool, and reduce their schemas and the messages. A model is "
        "called several times for each step, until a sequential test decides; a grammar or an adaptation is called "
        "once. Then replace names and texts by neutral ones, and check that the result still fails. Calls are recorded "
        "in the output directory: the same command continues an interrupted reduction. "
        "Exit with 0 if the result can be shared.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory or records.jsonl")
    parser.add_argument("case", metavar="CASE", help="a failing case of the run: task::id, or its id")
    parser.add_argument(
        "--variant", default="", metavar="NAME", help="variant of the run (default: the first that fails)"
    )
    parser.add_argument(
        "--instances",
        metavar="SOURCE",
        help="labelled answers of the case, as for --jsbench-instances (default: the run's)",
    )
    limits = parser.add_argument_group("Limits")
    limits.add_argument(
        "--max-calls",
        type=to_argparse_type(lambda text: whole(1)(int(text))),
        default=300,
        metavar="N",
        help="maximum number of calls (default: 300)",
    )
    add_option(limits, "max_cost")
    add_option(limits, "concurrency", help="maximum number of concurrent calls (default: 4)")
    engine = parser.add_argument_group(
        "Engine (default: as in RUN, which records no addresses, keys and engine options)"
    )
    for name in _ENGINE_OPTIONS:
        add_option(engine, name, default=None)
    add_option(engine, "engine_option")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="directory of the result and the calls (default: RUN/reduced/TASK/ID)",
    )
    parser.add_argument("--json", action="store_true", help="print only JSON")
    parser.set_defaults(command=_reduce)


def _reduce(options: argparse.Namespace, out: Output) -> bool:
    from pytest_jsbench.records.journal import read_run
    from pytest_jsbench.run.plan import RateLimits
    from pytest_jsbench.run.reduction.issue_text import prepare_folder, reduction_to_dict, write_files
    from pytest_jsbench.run.reduction.reduction import ReductionOptions, reduce_target
    from pytest_jsbench.run.reduction.target import default_folder, find_target

    run = read_run(options.run).run(options.run)
    target = find_target(run, options.case, variant=options.variant, instances=options.instances)
    folder: Path = options.output or default_folder(options.run, target.record)
    prepare_folder(folder)
    given = {name: getattr(options, name) for name in (*_ENGINE_OPTIONS, "engine_option") if getattr(options, name)}
    if not options.json:
        out.lines([f"{target.record.key}: {printable(target.pattern.text)}, {target.original.size_text}"])

    def show(candidate: Candidate, calls: int) -> None:
        if not options.json:
            out.lines([f"  {candidate.size_text} after {format_count(calls, 'call')}"])

    with flag_names_in_errors(options), handle_sigterm():
        reduction = reduce_target(
            target,
            ReductionOptions(
                engine=given,
                max_calls=options.max_calls,
                limits=RateLimits(max_cost=options.max_cost),
                concurrency=options.concurrency,
                folder=folder,
            ),
            accepted=show,
        )
    write_files(reduction, folder)
    if options.json:
        out.json(reduction_to_dict(reduction))
    else:
        out.lines(_lines(reduction, folder))
    return reduction.shareable is not None and not reduction.stopped


def _lines(reduction: Reduction, folder: Path) -> list[str]:
    """Return the lines about a result: the schema, its failure, and how it can be shown to others."""
    from pytest_jsbench.run.reduction.issue_text import ISSUE, PRIVATE, document_of, reproducing_command

    form = reduction.smallest if reduction.shareable is None else reduction.shareable
    evidence = reduction.shareable_evidence or reduction.evidence
    before, after = reduction.original.schema_size, reduction.smallest.schema_size
    messages = reduction.messages if reduction.shareable is None else ()
    lines = ["", *json_text(document_of(form, messages), indent=2).splitlines()]
    if form.answer is not None:
        lines += ["", "answer:", *json_text(form.answer.value, indent=2).splitlines()]
    message = f": {printable(evidence.message)}" if evidence.message else ""
    lines.append("")
    offers = reduction.original.offer, reduction.smallest.offer
    if offers[0] is not None and offers[1] is not None:
        lines.append(f"tools    {len(offers[0].tools)} -> {len(offers[1].tools)}")
    lines += [
        f"size     {before:,} -> {after:,} bytes, {format_count(reduction.calls, 'call')}",
        f"failure  {printable(reduction.failure.text)}, {evidence.text}{message}",
    ]
    if reduction.difference:
        lines.append(f"note     the run of the case has {printable(reduction.difference)}")
    if reduction.stopped:
        lines.append(f"stopped  {printable(reduction.stopped)}; a smaller schema may fail too")
    if reduction.shareable is None:
        why = "no neutral form of it was found that fails"
        if reduction.stopped:
            why = "the reduction ended before a neutral form was shown to fail; the same command continues it"
        elif reduction.needs_messages:
            why = "it fails only with the case's own messages, which may be private"
        lines += [
            f"warning  this schema has your own names: {why}",
            f"written  {folder / PRIVATE}",
        ]
    else:
        lines += [
            "names    neutral: nothing of your own schema is left",
            f"again    {reproducing_command(reduction, str(folder))}",
            f"issue    {folder / ISSUE}",
        ]
    return lines
