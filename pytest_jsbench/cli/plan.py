"""The command `jsbench plan`: estimate the cases, the statistical power and the cost of a comparison of two runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.output import Output, print_warnings
from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.text import dollars, format_count, printable
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.planning import Design, correlation
from pytest_jsbench.reports import run_json


def add_plan(commands: Any) -> None:
    """Declare `jsbench plan`."""
    parser = commands.add_parser(
        "plan",
        help="plan the number of cases and repeats for a comparison",
        description="Plan a comparison of two runs with the same cases. Print the confidence interval of the pass "
        "rate, the power to detect a difference, the number of cases needed, and the cost of a run.",
    )
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        metavar="RUN",
        help="earlier run from which pass rate, correlation and cost are taken",
    )
    parser.add_argument("--cases", type=int, metavar="N", help="number of cases (default: as in RUN, or 100)")
    parser.add_argument("--repeats", type=int, default=1, metavar="K", help="attempts per case (default: 1)")
    parser.add_argument("--rate", type=float, metavar="R", help="expected pass rate (default: as in RUN, or 0.8)")
    parser.add_argument(
        "--difference",
        type=float,
        default=0.05,
        metavar="D",
        help="difference between the two pass rates that should be detected (default: 0.05)",
    )
    parser.add_argument("--power", type=float, default=0.8, metavar="P", help="required power (default: 0.8)")
    parser.add_argument(
        "--correlation",
        type=float,
        metavar="C",
        help="correlation between attempts at the same case, from 0 to 1 (default: as in RUN, or 0.5)",
    )
    parser.add_argument("--json", action="store_true", help="print only JSON")
    parser.set_defaults(command=_plan)


def _plan(options: argparse.Namespace, out: Output) -> bool:
    run = None if options.run is None else print_warnings(run_json.read(options.run))
    figures = {} if run is None else run.figures
    parts = () if run is None else run.each
    rate = options.rate
    if rate is None:
        rate = figures.get("pass_rate")
    if rate is None:
        rate = 0.8
    attempts_correlation = options.correlation
    origin = "as given"
    if attempts_correlation is None:
        attempts_correlation = correlation(case.share for part in parts for case in (part.outcomes or {}).values())
        origin = "estimated from the run"
    if attempts_correlation is None:
        attempts_correlation = 0.5
        origin = "assumed"
    design = Design(
        cases=int(figures.get("cases") or 100) if options.cases is None else options.cases,
        repeats=options.repeats,
        rate=rate,
        correlation=attempts_correlation,
    )
    for name, value, low, high in (
        ("cases", design.cases, 1, 10_000_000),
        ("repeats", design.repeats, 1, 10_000),
        ("rate", design.rate, 0, 1),
        ("correlation", design.correlation, 0, 1),
        ("difference", options.difference, 1e-6, 1),
        ("power", options.power, 0.01, 0.9999),
    ):
        if not low <= value <= high:
            message = f"--{name}: expected a number from {low} to {high:,}, found {value:.12g}"
            raise ExportError(message, found=value, option=name)
    calls = design.cases * design.repeats
    difference = options.difference
    cost = figures.get("cost")
    priced = figures.get("priced")
    price = cost / priced * calls if cost is not None and priced else None
    low, high = design.interval
    power = design.power(difference)
    needed = design.cases_for(difference, options.power)
    required_power = f"{100 * options.power:.4g} %"
    if options.json:
        size = {"cases": design.cases, "repeats": design.repeats, "calls": calls}
        outcome = {"rate": design.rate, "correlation": design.correlation, "ci_low": low, "ci_high": high}
        out.json(size | outcome | {"difference": difference, "power": power, "cases_needed": needed, "cost": price})
        return True
    rate_text = f"a {FIGURES['pass_rate'].title.lower()} of {design.rate:.3f}"
    no_worse = f"that an equal run is at most {difference:g} worse"
    attempts = format_count(design.repeats, "attempt")
    cold = [part for part in parts if "temperature" in part.settings and part.settings["temperature"].value == 0]
    variants = ", ".join(printable(part.variant) for part in cold if part.variant)
    warning = f"at temperature 0{f' of {variants}' if variants else ''} attempts at a case are identical: "
    out.report(
        [
            [
                ("calls", f"{format_count(calls, 'call')}: {format_count(design.cases, 'case')}, {attempts} each"),
                ("repeats", f"correlation between attempts at a case: {design.correlation:.2f}, {origin}"),
                *(
                    [("warning", f"{warning}more attempts add little information")]
                    if cold and design.repeats > 1
                    else []
                ),
                ("interval", f"95 % confidence interval for {rate_text}: {low:.3f} to {high:.3f}"),
                ("power", f"a difference of {difference:g} is detected with {100 * power:.0f} % power"),
                ("needed", f"{format_count(needed, 'case')} with {attempts} each, for {required_power} power"),
                (
                    "no worse",
                    f"as many cases show with {required_power} power {no_worse}",
                ),
                ("cost", "unknown" if price is None else f"{dollars(price)}, at the run's cost per answer"),
            ]
        ]
    )
    return True
