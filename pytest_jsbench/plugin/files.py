"""What is written when the run has ended, beside its records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

import pytest

from pytest_jsbench import prices
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.errors import JSBenchError
from pytest_jsbench.exports.runjson import run_to_dict, write_run
from pytest_jsbench.plugin.decision import Decision
from pytest_jsbench.records import Run
from pytest_jsbench.summaries import Summary

if TYPE_CHECKING:
    from pytest_jsbench.exports.registry import Exporter


def write(
    folder: Path, run: Run, summary: Summary, decision: Decision, *, config_path: str, everything: bool
) -> list[str]:
    """Write run.json and, where the user keeps the run, all else; one line for each that could not be written."""
    data = run_to_dict(
        run, summary, config_path=config_path, gates=decision.gates, baseline=decision.comparison_to_dict()
    )
    writers: list[Callable[[], object]] = [partial(write_run, folder / "run.json", data)]
    if everything:
        from pytest_jsbench.exports import every_eval_ever, report
        from pytest_jsbench.exports.every_eval_ever_rows import was_made
        from pytest_jsbench.exports.markdown import summary_markdown

        text = summary_markdown(run, summary, decision.gates, decision.comparison)
        writers.append(partial(write_atomically, folder / "summary.md", text))
        page = folder / "report.html"
        writers.append(partial(report.write, page, run, summary, decision.gates, decision.comparison))
        if any(map(was_made, run.records)):
            writers.append(partial(every_eval_ever.write, folder / "every_eval_ever", run, summary))
    return [problem for writer in writers if (problem := _problem(writer))]


def export(exporters: Iterable[tuple[Exporter, Path]], run: Run, summary: Summary) -> list[str]:
    """Write the formats that were asked for; one line for each that could not be written."""
    writers = [partial(exporter.write, path, run, summary) for exporter, path in exporters]
    return [problem for writer in writers if (problem := _problem(writer))]


def _problem(writer: Callable[[], object]) -> str:
    try:
        writer()
    except (JSBenchError, OSError) as error:
        return str(error)
    return ""


def append_step_summary(run: Run, summary: Summary, decision: Decision, *, instead_of: Run | None = None) -> str:
    """
    Append the summary to the page of a GitHub workflow's step, where there is one; what went wrong, or nothing.

    What was appended before of the same run, under another verdict, is taken away again.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ""
    from pytest_jsbench.exports.markdown import summary_markdown

    text = summary_markdown(run, summary, decision.gates, decision.comparison)
    try:
        if instead_of is not None:
            before = summary_markdown(instead_of, summary, decision.gates, decision.comparison)
            page = Path(path)
            page.write_text(page.read_text("utf-8").removesuffix(before), "utf-8")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        return f"cannot write GITHUB_STEP_SUMMARY: {error}"
    return ""


def complete_junit(config: pytest.Config, run: Run, summary: Summary, decision: Decision) -> None:
    """Add to pytest's JUnit file what it leaves out."""
    given = config.getoption("xmlpath", None)
    if not given:
        return
    from pytest_jsbench.exports import junit

    path = Path(os.path.expandvars(given)).expanduser()
    properties = junit.suite_properties(run, summary, decision.gates)
    costs = {f"{key}[{repeat + 1}]": cost for (key, repeat), cost in prices.costs(run).attempts.items()}
    try:
        junit.complete(path, properties, costs)
    except (OSError, ParseError) as error:
        # the summary has been shown by now
        config.get_terminal_writer().line(f"jsbench: {path} is left as pytest wrote it: {error}", yellow=True)
