"""Shorten pytest's section FAILURES: explain only the first failed cases, and count the remaining ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import RunContext
from pytest_jsbench.plugin.items import of_suite

#: Maximum number of failed cases that are explained without -v; pytest's short summary lists all failed cases.
MOST_EXPLAINED = 20
#: Category of the reports of passed setups and teardowns in pytest's terminal reporter.
_PHASES = ""


class FailureSections:
    """
    Hides reports of cases while pytest's terminal reporter writes its section FAILURES.

    `activation` creates one object in the process that reports. pytest calls its hooks in the main thread, at the end
    of the session. Failures of a project's own tests are always shown. The reporter's lists of reports are not
    modified: they are replaced by shorter lists while the reporter writes. Another plugin can see the shorter lists
    only in a wrapper of the same hook, before its `yield`.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        #: The reporter's original lists by category, while shorter lists replace them.
        self._whole: dict[str, list[Any]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Hide reports before the terminal reporter writes its sections."""
        stats = terminalreporter.stats
        self._shorten(stats, "failed", self._explained(stats.get("failed", [])))
        self._shorten(stats, _PHASES, _with_output(stats.get(_PHASES, [])))
        try:
            return (yield)
        finally:
            self._restore(stats)

    @pytest.hookimpl(specname="pytest_terminal_summary", wrapper=True, trylast=True)
    def pytest_terminal_summary_after_sections(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Restore the reports before other plugins write a summary, and print how many failures are not explained."""
        hidden = self._restore(terminalreporter.stats)
        if hidden and not terminalreporter.no_summary:
            kept = self._context.handover.folder is not None
            rest = "the HTML report (see below) explains each case" if kept else "-v explains each case"
            cases = "1 more failing case is" if hidden == 1 else f"{hidden:,} more failing cases are"
            terminalreporter.write_line(f"jsbench: {cases} not explained here; {rest}")
        return (yield)

    def _explained(self, failed: list[Any]) -> Iterator[Any]:
        """Yield the reports of failed tests to explain: all with -v, otherwise only the first failed cases."""
        option = self._context.config.option
        if self._context.config.get_verbosity() > 0 or option.tbstyle in {"no", "line"}:
            yield from failed
            return
        explained = 0
        for report in failed:
            is_case = of_suite(report.nodeid) and transport.failure_type_of(report)
            explained += bool(is_case)
            if not is_case or explained <= MOST_EXPLAINED:
                yield report

    def _shorten(self, stats: dict[str, list[Any]], category: str, shown: Iterator[Any]) -> None:
        """Replace one of the reporter's lists by the reports to show, if these are fewer."""
        whole = stats.get(category)
        shorter = [*shown]
        if whole is not None and len(shorter) < len(whole):
            self._whole[category] = whole
            stats[category] = shorter

    def _restore(self, stats: dict[str, list[Any]]) -> int:
        """Restore the original lists, and return how many reports of failed tests were hidden."""
        hidden = len(self._whole["failed"]) - len(stats["failed"]) if "failed" in self._whole else 0
        stats.update(self._whole)
        self._whole.clear()
        return hidden


def _with_output(phases: list[Any]) -> Iterator[Any]:
    """
    Yield the reports of setups and teardowns, without those of cases that captured no output.

    For each failure that pytest explains, it searches all of these reports: 12 s of processor time for 2,000 failures,
    and some 5 minutes for 9,557.
    """
    for report in phases:
        if report.sections or not of_suite(report.nodeid):
            yield report
