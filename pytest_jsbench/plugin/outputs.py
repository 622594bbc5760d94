"""
Add results to files of other tools at the end of the run: pytest's JUnit file, and the step summary of a GitHub
workflow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from pytest_jsbench.metrics import prices
from pytest_jsbench.plugin.context import MANY
from pytest_jsbench.plugin.progress import write_line
from pytest_jsbench.reports import junit
from pytest_jsbench.reports.expectations import GateDecision
from pytest_jsbench.reports.run_report import summary_markdown

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.runs import Run


def append_step_summary(
    page: Path, run: Run, summary: Summary, decision: GateDecision, *, instead_of: Run | None
) -> str:
    """
    Append the run's summary to the step summary of a GitHub workflow; return an error message, or an empty text.

    If `instead_of` is the same run with an earlier run verdict, the earlier summary is removed.
    """
    text = summary_markdown(run, summary, decision.gates, decision.comparisons)
    try:
        if instead_of is not None:
            before = summary_markdown(instead_of, summary, decision.gates, decision.comparisons)
            page.write_text(page.read_text("utf-8").removesuffix(before), "utf-8")
        with page.open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        return f"cannot write GITHUB_STEP_SUMMARY: {error}"
    return ""


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
