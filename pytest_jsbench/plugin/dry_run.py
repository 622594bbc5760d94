"""A run that is only estimated: what it would take, and no call."""

from __future__ import annotations

import pytest

from pytest_jsbench.plugin.context import FIXTURE, SHARED, RunContext, uses
from pytest_jsbench.plugin.items import JSBenchCase
from pytest_jsbench.plugin.progress import write_line
from pytest_jsbench.reports.terminal import fact_lines
from pytest_jsbench.run.estimate import estimate_run


class DryRun:
    """
    Shows an estimate in the place of the tests (`--jsbench-dry-run`).

    The activation makes one, before xdist could start a worker. pytest calls it once, in the main thread, when the
    tests are collected and chosen.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        option = context.config.option
        if hasattr(option, "dist"):  # no worker starts
            option.dist, option.tx = "no", []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Show the estimate; no test runs after that."""
        attempts = [item.attempt for item in session.items if isinstance(item, JSBenchCase)]
        facts = list(estimate_run(self._context.plan, self._context.handover.metadata, attempts))
        own = sum(uses(item, FIXTURE) or uses(item, SHARED) for item in session.items)
        if own:
            facts.append(("own tests", f"{own} of the project's tests ask by themselves, and are not estimated"))
        if self._context.plan.resume is not None:
            facts.append(("resumed", "what --jsbench-resume takes over is not called, and is not taken off here"))
        for line in ["", *fact_lines([*facts, ("dry run", "nobody was called, and no test has run")])]:
            write_line(self._context.config, line)
        return True
