"""Bound the section FAILURES: explain the first failing cases, and count the others."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import RunContext
from pytest_jsbench.plugin.items import of_suite

#: Maximum number of failing cases that are explained without -v; pytest's short summary lists all.
MOST_EXPLAINED = 20


class FailureSections:
    """
    Hides the sections of further failing cases from pytest's terminal reporter while it writes FAILURES.

    The activation creates one in the process that reports. pytest calls its hooks in the main thread, at the end of the
    session. Failures of a project's own tests are always shown.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        #: All reports of failed tests while some of them are hidden; None otherwise.
        self._all_failed: list[object] | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Hide reports before the terminal reporter writes its sections."""
        self._hide(terminalreporter)
        try:
            return (yield)
        finally:
            self._restore(terminalreporter)

    @pytest.hookimpl(specname="pytest_terminal_summary", tryfirst=True)
    def pytest_terminal_summary_after_sections(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Restore the reports for the short summary, and print how many are not explained."""
        hidden = self._restore(terminalreporter)
        if hidden and not terminalreporter.no_summary:
            kept = self._context.handover.folder is not None
            rest = "the page named below explains each" if kept else "-v explains each"
            cases = "1 more failing case is" if hidden == 1 else f"{hidden:,} more failing cases are"
            terminalreporter.write_line(f"jsbench: {cases} not explained here; {rest}")

    def _hide(self, reporter: pytest.TerminalReporter) -> None:
        """Leave only the first failed reports of cases among the reports of failed tests."""
        option = self._context.config.option
        failed = reporter.stats.get("failed", [])
        if self._context.config.get_verbosity() > 0 or option.tbstyle in {"no", "line"}:
            return
        explained = 0
        shown = []
        for report in failed:
            is_case = of_suite(report.nodeid) and transport.failure_type_of(report)
            explained += bool(is_case)
            if not is_case or explained <= MOST_EXPLAINED:
                shown.append(report)
        if len(shown) < len(failed):
            self._all_failed = failed
            reporter.stats["failed"] = shown

    def _restore(self, reporter: pytest.TerminalReporter) -> int:
        """Undo `_hide`, and return how many reports were hidden."""
        if self._all_failed is None:
            return 0
        hidden = len(self._all_failed) - len(reporter.stats["failed"])
        reporter.stats["failed"] = self._all_failed
        self._all_failed = None
        return hidden
