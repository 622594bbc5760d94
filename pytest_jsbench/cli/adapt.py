"""The command `jsbench adapt`: show which schemas each provider accepts, and the changes that other schemas need."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_jsbench.adaptation import Adapted, Inexpressible
from pytest_jsbench.adaptation.adapter import Mode, adapt_within
from pytest_jsbench.adaptation.subsets import PROFILES, SUBSETS, Subset, find_subset
from pytest_jsbench.cli.arguments import add_option
from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.cases import BrokenCase, Case, safe_name
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.datasets.base import Listing, Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.reports.blocks import Column, TableBlock
from pytest_jsbench.settings.options import BY_NAME

_MOST_OBSTACLES = 6


def _kind(outcome: Adapted | Inexpressible, case: Case) -> str:
    if isinstance(outcome, Inexpressible):
        return "not at all"
    if outcome.schema == case.schema:
        return "as it is"
    return "widened" if outcome.lossy else "narrowed"


def _lines(case: Case, subset: str, outcome: Adapted | Inexpressible) -> Iterator[str]:
    yield f"{printable(str(case.key))}: {subset}: {_kind(outcome, case)}"
    if isinstance(outcome, Inexpressible):
        yield f"  {_format_place(outcome.keyword, outcome.path)}: {printable(outcome.message)}"
        return
    for warning in outcome.foretold:
        yield f"  {warning}"
    for change in outcome.changes:
        yield f"  {change.kind}: {_format_place(change.keyword, change.path)}: {printable(change.note)}"


def _format_place(keyword: str, path: str) -> str:
    return f"{printable(keyword) or 'schema'} at {printable(path) or '/'}"


def _first_obstacles(obstacles: dict[str, Counter[str]]) -> Iterator[str]:
    for name, counts in obstacles.items():
        if counts:
            first = counts.most_common(_MOST_OBSTACLES)
            listed = ", ".join(f"{printable(keyword)} {count}" for keyword, count in first)
            yield f"{name}: first obstacle: {listed}"


def add_adapt(commands: Any) -> None:
    """Declare `jsbench adapt`."""
    adapt = commands.add_parser(
        "adapt",
        help="show which schemas each provider accepts, and the changes that other schemas need",
        description="Rewrite each schema into the subset of JSON Schema that a provider accepts, as --jsbench-adapt "
        "does before a call. Print a table of the outcomes, and with -v every change.",
    )
    adapt.add_argument("dataset", metavar="DATASET", nargs="+", help="a dataset, as for --jsbench-dataset")
    chosen = adapt.add_mutually_exclusive_group()
    chosen.add_argument(
        "--for",
        dest="provider",
        choices=(*SUBSETS, *PROFILES),
        metavar="PROVIDER",
        help="list only the schemas that this provider rejects unchanged, with the reason; exit status 1 if any",
    )
    chosen.add_argument(
        "--subset",
        choices=(*SUBSETS, *PROFILES),
        metavar="NAME|NAME@DATE",
        help="only this subset; without @DATE, its newest version (default: the newest version of each subset): "
        f"{', '.join(PROFILES)}",
    )
    adapt.add_argument(
        "--mode", choices=("narrow", "relax"), default="narrow", help="as for --jsbench-adapt (default: narrow)"
    )
    for name in ("tasks", "split", "limit"):
        add_option(adapt, name, help=BY_NAME[name].help)
    adapt.add_argument("-v", "--verbose", action="store_true", help="show every schema with its changes")
    adapt.add_argument("--json", action="store_true", help="print only JSON, one outcome per line")
    adapt.set_defaults(command=_adapt)


def _adapt(options: argparse.Namespace, out: Output) -> bool:
    """Adapt every schema to each subset and print the outcomes; return whether every schema can be adapted."""
    if options.provider is not None:
        return _name_refused(options, find_subset(options.provider) or SUBSETS[options.provider], out)
    selection = Selection.from_sources(options.dataset, tasks=options.tasks, split=options.split, limit=options.limit)
    dataset = open_dataset(selection)
    named = tuple(SUBSETS) if options.subset is None else (options.subset,)
    subsets = [subset.version for name in named if (subset := find_subset(name)) is not None]
    outcomes = {name: Counter[str]() for name in subsets}
    obstacles = {name: Counter[str]() for name in subsets}
    complex_counts = Counter[str]()
    broken = 0
    for case in _cases_with_one_schema(dataset):
        if isinstance(case, BrokenCase):
            broken += 1
            continue
        for name in subsets:
            adapted = adapt_within(case.schema, name, options.mode)
            kind = _kind(adapted, case)
            outcomes[name][kind] += 1
            if isinstance(adapted, Inexpressible):
                obstacles[name][adapted.keyword or f"({adapted.message})"] += 1
            else:
                complex_counts[name] += bool(adapted.foretold)
            if options.json:
                of_case = {"task": case.key.task, "id": case.key.id, "subset": name, "outcome": kind}
                out.json({**of_case, **dataclasses.asdict(adapted)}, indent=None)
            elif options.verbose:
                out.lines(_lines(case, name, adapted))
    count = max(counts.total() for counts in outcomes.values())
    if not options.json:
        kinds = ["as it is", "narrowed", *(["widened"] if options.mode == "relax" else []), "not at all"]
        columns = tuple(Column(heading=kind.capitalize()) for kind in (*kinds, "schemas"))
        rows = tuple((name, (*(counts[kind] for kind in kinds), count)) for name, counts in outcomes.items())
        out.report([TableBlock(head="Subset", columns=columns, rows=rows)])
        out.lines(["", *_first_obstacles(obstacles)])
        out.lines(f"{name}: likely too complex: {count}" for name, count in complex_counts.items() if count)
        if broken:
            out.write(f"omitted: {broken} of {format_count(broken + count, 'case')}, without a schema\n")
    return count > 0 and not any(counts["not at all"] for counts in outcomes.values())


def _cases_with_one_schema(dataset: Listing) -> Iterator[Case | BrokenCase]:
    """Yield the cases; a case that offers tools is replaced by one for each tool, and one for an answer in text."""
    for case in map(dataset.case, dataset.keys()):
        if isinstance(case, BrokenCase) or case.offer is None:
            yield case
            continue
        if case.schema is not True:
            yield dataclasses.replace(case, offer=None)
        for tool in case.offer.tools:
            key = dataclasses.replace(case.key, id=safe_name(f"{case.key.id}.{tool.name}"))
            yield dataclasses.replace(case, key=key, schema=tool.parameters, offer=None)


def _name_refused(options: argparse.Namespace, subset: Subset, out: Output) -> bool:
    """List the schemas that the provider rejects unchanged; return whether the provider accepts every schema."""
    outcomes = Counter[str]()
    for source in options.dataset:
        selection = Selection.from_sources([source], tasks=options.tasks, split=options.split, limit=options.limit)
        dataset = open_dataset(selection)
        keys = dataset.keys()
        for case in _cases_with_one_schema(dataset):
            outcome, reason = _acceptance(case, subset, options.mode)
            outcomes[outcome] += 1
            if options.json:
                of_case = {"dataset": source, "task": case.key.task, "id": case.key.id, "subset": subset.version}
                out.json({**of_case, "outcome": outcome, "reason": reason}, indent=None)
            elif reason:
                place = source if tuple(keys) == (case.key,) else f"{source}: {case.key}"
                out.write(f"{reason}\n" if outcome == "broken" else f"{printable(place, None)}: {reason}\n")
    if not options.json:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        out.write(f"{subset.version}: {format_count(outcomes.total(), 'schema')}{counts and f': {counts}'}\n")
    return outcomes.total() > 0 and outcomes.keys() == {"accepted"}


def _acceptance(case: Case | BrokenCase, subset: Subset, mode: Mode) -> tuple[str, str]:
    """Return `accepted`, `refused` or `broken`, and the reason; the reason for a broken schema names its file."""
    if isinstance(case, BrokenCase):
        return "broken", printable(case.problem, None)
    adapted = adapt_within(case.schema, subset.version, mode)
    if isinstance(adapted, Inexpressible):
        reason = f"{_format_place(adapted.keyword, adapted.path)}: {printable(adapted.message)}"
        return "refused", f"{subset.version} rejects the schema: {reason}; adaptation impossible"
    if adapted.schema == case.schema:
        return "accepted", ""
    first, *more = adapted.changes
    reason = f"{_format_place(first.keyword, first.path)}: {printable(first.note)}" + (
        f" (and {len(more)} more)" if more else ""
    )
    return (
        "refused",
        f"{subset.version} rejects the unchanged schema: {reason}; --jsbench-adapt={mode} sends it rewritten",
    )
