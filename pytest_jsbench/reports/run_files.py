"""The files of a run that has ended, beside its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import write_atomically

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.outcomes import Run


def write_files(
    folder: Path,
    run: Run,
    summary: Summary,
    *,
    config_path: str,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    everything: bool = True,
    page: bool = True,
) -> list[str]:
    """
    Write run.json and, where the user keeps the run, all else; one line for each that could not be written.

    Without `page`, report.html is left out.
    """
    from pytest_jsbench.reports.evaluations import run_to_dict, write_run

    compared = comparisons or {}
    data = run_to_dict(run, summary, config_path=config_path, gates=gates, baselines=baselines)
    writers: list[Callable[[], object]] = [partial(write_run, folder / "run.json", data)]
    if everything:
        from pytest_jsbench.reports.html import report
        from pytest_jsbench.reports.run_report import summary_markdown

        text = summary_markdown(run, summary, gates, compared)
        writers.append(partial(write_atomically, folder / "summary.md", text))
        if page:
            writers.append(partial(report.write, folder / "report.html", run, summary, gates, compared))
    return [problem for writer in writers if (problem := problem_of(writer))]


def problem_of(writer: Callable[[], object]) -> str:
    """What kept a file from being written; nothing where it was."""
    try:
        writer()
    except (JSBenchError, OSError) as error:
        return str(error)
    return ""
