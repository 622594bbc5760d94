"""What is shown: a header line, letters and words for failure types, and the summary at the very end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_jsbench.exports.table import detail, details, keyword_table, table
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.activation import Active
from pytest_jsbench.plugin.controller import Controller

_LETTERS = {
    "api_error": "A",
    "unsupported_schema": "U",
    "refusal": "R",
    "truncated": "T",
    "syntax_error": "J",
    "unjudged": "?",
    "hallucination": "H",
    "schema_violation": "V",
}


class Terminal:
    """Shows; decides nothing."""

    def __init__(self, active: Active, controller: Controller) -> None:
        self._active = active
        self._controller = controller

    def pytest_report_header(self) -> list[str]:
        """Who is asked what."""
        active = self._active
        metadata, dataset = active.metadata, active.metadata.dataset
        switches = (
            name if value else f"not {name}" for name, value in metadata.details.items() if isinstance(value, bool)
        )
        adapt = [] if metadata.adapt == "verbatim" else [metadata.adapt]
        settings = ", ".join([metadata.response_format, *switches, *adapt])
        asked = f"dataset {dataset['source']}, {_cases(len(active.keys))}" if active.suite else "a project's own tests"
        lines = [
            f"jsbench: engine {metadata.engine}, model {metadata.model} ({settings})",
            f"jsbench: {asked}, {active.concurrency} in flight",
        ]
        if active.suite_only:
            lines.append("jsbench: only the schemas run; name a path to run a project's own tests too")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """The failure type as the letter of a failed case; it still counts, and is called, failed."""
        failure_type = transport.failure_type_of(report)
        if not failure_type or not report.failed:
            return None
        return "failed", _LETTERS.get(failure_type, "F"), "FAILED"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Show the summary last, even where another plugin's summary raises."""
        _drop_quiet_reports(terminalreporter)
        try:
            return (yield)
        finally:
            self._show(terminalreporter)

    def _show(self, reporter: pytest.TerminalReporter) -> None:
        controller = self._controller
        if controller.run is None or controller.summary is None:
            return
        reporter.section(f"jsbench: {controller.run.metadata.engine} {controller.run.metadata.model}")
        if reporter.verbosity > 0 and controller.summary.keywords:
            for line in [*keyword_table(controller.summary), ""]:
                reporter.write_line(line)
        for line in [*table(controller.summary), ""]:
            reporter.write_line(line)
        for line in [*details(controller.run, controller.summary), *detail("records", self._where())]:
            reporter.write_line(line)
        for warning in controller.warnings:
            for line in detail("warning", warning):
                reporter.write_line(line, yellow=True)
        if controller.gate is not None:
            met = controller.gate.met
            reporter.write_line(f"{'gate':<11}{controller.gate.message}", green=met, red=not met, bold=True)

    def _where(self) -> str:
        active = self._active
        if active.folder is None:
            return "not kept (--jsbench-output DIR keeps them)"
        here = Path.cwd()
        folder = active.folder.relative_to(here) if active.folder.is_relative_to(here) else active.folder
        if active.settings.output is None:
            return f"{folder} (the last 5 runs; --jsbench-output DIR keeps them for good)"
        return str(folder)


def _cases(number: int) -> str:
    return f"{number} case" if number == 1 else f"{number} cases"


def _drop_quiet_reports(reporter: pytest.TerminalReporter) -> None:
    """Ours say nothing, and pytest searches all of them once per failure: quadratic with thousands of cases."""
    quiet = reporter.stats.get("")
    if quiet:
        reporter.stats[""] = [report for report in quiet if not transport.is_marked(report)]
