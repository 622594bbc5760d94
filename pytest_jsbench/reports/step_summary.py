"""Add the summary of a run to the step summary of a GitHub workflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.reports.run_report import summary_markdown

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.reports.expectations import GateDecision


def append_step_summary(
    page: Path, run: Run, summary: Summary, decision: GateDecision, *, instead_of: Run | None
) -> str:
    """
    Append the run's summary to the step summary of a GitHub workflow; return an error message, or an empty text.

    If `instead_of` is the same run with an earlier run verdict, the earlier summary is removed.
    """
    more = [*decision.facts_of_quarantine()]
    text = summary_markdown(run, summary, decision.gates, decision.comparisons, more=more)
    try:
        if instead_of is not None:
            before = summary_markdown(instead_of, summary, decision.gates, decision.comparisons, more=more)
            page.write_text(page.read_text("utf-8").removesuffix(before), "utf-8")
        with page.open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        return f"cannot write GITHUB_STEP_SUMMARY: {error}"
    return ""
