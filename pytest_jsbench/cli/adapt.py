"""The command `jsbench adapt`: show which schemas each provider accepts, and the changes that other schemas need."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_jsbench.adaptation import Adapted, Inexpressible
from pytest_jsbench.adaptation.adapter import adapt_within
from pytest_jsbench.adaptation.subsets import PROFILES, SUBSETS, find_subset
from pytest_jsbench.cli.arguments import add_option, flag_of
from pytest_jsbench.cli.output import Output
from pytest_jsbench.cli.profile_check import ENGINE_OPTIONS, cases_with_one_schema, format_place, name_refused
from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.reports.blocks import Column, TableBlock
from pytest_jsbench.settings.options import BY_NAME

_MOST_OBSTACLES = 6
#: Default maximum number of tokens of the provider's answer, since only its acceptance of the schema matters.
_MOST_TOKENS = 64


def _kind(outcome: Adapted | Inexpressible, case: Case) -> str:
    if isinstance(outcome, Inexpressible):
        return "not at all"
    if outcome.schema == case.schema:
        return "as it is"
    return "widened" if outcome.lossy else "narrowed"


def _lines(case: Case, subset: str, outcome: Adapted | Inexpressible) -> Iterator[str]:
    yield f"{printable(str(case.key))}: {subset}: {_kind(outcome, case)}"
    if isinstance(outcome, Inexpressible):
        yield f"  {format_place(outcome.keyword, outcome.path)}: {printable(outcome.message)}"
        return
    for warning in outcome.foretold:
        yield f"  {warning}"
    for change in outcome.changes:
        yield f"  {change.kind}: {format_place(change.keyword, change.path)}: {printable(change.note)}"


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
        help="list only the schemas that this provider rejects unchanged, with the reason, and the requests whose "
        "tools together exceed its limits; exit status 1 if any, otherwise 0",
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
    live = adapt.add_argument_group("Calls to the provider, with --for")
    live.add_argument(
        "--live",
        action="store_true",
        help="also send each schema unchanged to the provider, in one call each (all tools of a case in one), and list "
        "where the profile and the provider differ; exit status 0 only if both accept everything",
    )
    for name in ENGINE_OPTIONS:
        changes: dict[str, Any] = {"default": None}
        if name == "max_tokens":
            changes = {"default": _MOST_TOKENS, "help": f"as --jsbench-max-tokens (default: {_MOST_TOKENS})"}
        add_option(live, name, **changes)
    add_option(live, "engine_option")
    adapt.set_defaults(command=_adapt)


def _refuse_options_of_calls(options: argparse.Namespace) -> None:
    """Raise JSBenchError if an option is set that only calls to the provider use."""
    defaults = {"max_tokens": _MOST_TOKENS, "engine_option": []}
    for name in (*ENGINE_OPTIONS, "engine_option"):
        if getattr(options, name) != defaults.get(name):
            raise JSBenchError(f"{flag_of(name)} needs --live: add --live to call the provider", option=name)


def _adapt(options: argparse.Namespace, out: Output) -> bool:
    """Adapt every schema to each subset and print the outcomes; return whether every schema can be adapted."""
    if not options.live:
        _refuse_options_of_calls(options)
    if options.provider is not None:
        return name_refused(options, find_subset(options.provider) or SUBSETS[options.provider], out)
    if options.live:
        raise JSBenchError("--live needs --for: name the provider whose profile is checked", option="live")
    selection = Selection.from_sources(options.dataset, tasks=options.tasks, split=options.split, limit=options.limit)
    dataset = open_dataset(selection)
    named = tuple(SUBSETS) if options.subset is None else (options.subset,)
    subsets = [subset.version for name in named if (subset := find_subset(name)) is not None]
    outcomes = {name: Counter[str]() for name in subsets}
    obstacles = {name: Counter[str]() for name in subsets}
    complex_counts = Counter[str]()
    broken = 0
    for case in cases_with_one_schema(dataset):
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
