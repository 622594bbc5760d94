"""Add results to pytest's JUnit file at the end of the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from pytest_jsbench.metrics import prices
from pytest_jsbench.plugin.context import MANY
from pytest_jsbench.plugin.progress import write_line
from pytest_jsbench.reports import junit

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.reports.expectations import GateDecision


def complete_junit(context: RunContext, run: Run, summary: Summary, decision: GateDecision) -> None:
    """
    Add properties of the run and costs of the attempts to pytest's JUnit file; for a large run, add the place of the
    details.
    """
    path = Path(os.path.expandvars(context.config.getoption("xmlpath"))).expanduser()
    properties = junit.suite_properties(run, summary, decision.gates)
    costs = {attempt.name(several=True): cost for attempt, cost in prices.costs(run).attempts.items()}
    details = None
    if len(run.planned) > MANY:
        folder = context.handover.folder
        place = (
            "not stored, since no records are kept" if folder is None else f"in {folder}: records.jsonl, report.html"
        )
        details = f"this file has no details of attempts, as there are {len(run.planned):,}; the details are {place}"
    try:
        junit.complete(path, properties, costs, details=details, hide=context.secrecy.mask)
    except (OSError, ParseError) as error:
        # the summary has already been printed
        write_line(context.config, f"jsbench: nothing was added to {path}: {error}", yellow=True)
