"""Write the files of a run at its end: run.json, summary.md and report.html; and find exporters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import ExportError, JSBenchError, nearest
from pytest_jsbench.core.extensions import find_entry_points, find_function, reinstall_hint
from pytest_jsbench.core.files import make_private_folder, write_atomically
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.runs import Run

if TYPE_CHECKING:
    from pytest_jsbench.reports.expectations import GateDecision


def write_files(
    folder: Path | None,
    run: Run,
    summary: Summary,
    decision: GateDecision,
    *,
    config_path: str,
    everything: bool = True,
    page: Path | None = None,
) -> list[str]:
    """
    Write run.json, and with `everything` the other files; return a message for each file that could
    not be written.

    `page` is the path of another copy of the HTML page.
    """
    from pytest_jsbench.reports.run_json import run_to_dict, write_run

    gates = decision.gates
    compared = decision.comparisons
    excused = [*decision.facts_of_quarantine()]
    writers: list[Callable[[], object]] = []
    pages = [] if page is None else [page]
    if folder is not None:
        baseline = "" if decision.baseline is None else decision.baseline.source
        data = run_to_dict(run, summary, config_path=config_path, gates=gates, comparisons=compared, baseline=baseline)
        if decision.quarantine is not None:
            data["quarantine"] = decision.quarantine.to_list()
        writers.append(partial(write_run, folder / "run.json", data))
    if folder is not None and everything:
        from pytest_jsbench.reports.run_report import summary_markdown

        text = summary_markdown(run, summary, gates, compared, more=excused)
        writers.append(partial(write_atomically, folder / "summary.md", text))
        if find_spec("jinja2") is not None:  # without jinja2 the page is skipped, since the user did not request it
            pages.append(folder / "report.html")
    if pages:
        from pytest_jsbench.reports.html import report

        if page is not None:
            writers.append(partial(make_private_folder, page.parent))
        writers += [partial(report.write, path, run, summary, gates, compared, excused) for path in pages]
    return [problem for writer in writers if (problem := problem_of(writer))]


def check_page(page: Path) -> None:
    """Raise JSBenchError if the HTML page cannot be written to this path, before any call is made."""
    from pytest_jsbench.reports.html.report import require_jinja2

    require_jinja2("--jsbench-report needs jinja2")
    if page.is_dir():
        message = f"--jsbench-report: {page} is a directory; name a file, such as {page / 'report.html'}"
        raise ExportError(message, found=str(page), option="report")


def problem_of(writer: Callable[[], object]) -> str:
    """Call the writer of a file, and return its error as text; empty if there was no error."""
    try:
        writer()
    except (JSBenchError, OSError) as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A function that exports runs in some format."""

    name: str
    #: Package that provides the exporter, for messages.
    origin: str
    #: Function that is called with the path, the run and its summary; may return the path that it wrote.
    function: Callable[..., object]

    def write(self, path: Path, run: Run, summary: Summary, **more: object) -> Path:
        """
        Export the run and return the path that was written; raise ExportError if the exporter raises an exception.

        `more` are keyword arguments for the exporter.
        """
        try:
            make_private_folder(path.parent)
            written = self.function(path, run, summary, **more)
        except (JSBenchError, KeyboardInterrupt):
            raise
        # includes pytest.fail and sys.exit, since the run's other files still have to be written
        except BaseException as error:
            message = f"exporter '{self.name}', {self.origin}, could not write {path}: {describe_error(error)}"
            raise ExportError(message, found=describe_error(error), where=self.origin) from error
        return written if isinstance(written, Path) else path


def find(name: str) -> Exporter:
    """Return the exporter with this name; raise ExportError with the most similar name if it is unknown."""
    points = find_entry_points("exporter", error=ExportError)
    takes = "a path, a run and its summary"
    if place := find_function(name, points, kind="exporter", takes=takes, error=ExportError):
        return Exporter(name=name, origin=place[0], function=place[1])
    offer = f"{nearest(name, points)}; to use your own exporter, name it as package.module:function"
    message = f"unknown exporter '{printable(name)}': {offer}{reinstall_hint()}"
    raise ExportError(message, found=name, expected=sorted(points))
