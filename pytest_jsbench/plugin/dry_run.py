"""Print an estimate of a run instead of making calls."""

from __future__ import annotations

import pytest

from pytest_jsbench.core.text import format_count
from pytest_jsbench.plugin.context import FIXTURE, SHARED, RunContext, uses
from pytest_jsbench.plugin.items import JSBenchCase
from pytest_jsbench.plugin.progress import write_line
from pytest_jsbench.reports.terminal import fact_lines
from pytest_jsbench.run.estimate import estimate_run


class DryRun:
    """
    Prints an estimate instead of running the tests (`--jsbench-dry-run`).

    `activation` creates one object before xdist starts workers. pytest calls its hook once in the main thread, after
    the tests are collected and selected.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        option = context.config.option
        if hasattr(option, "dist"):  # prevent xdist from starting workers
            option.dist, option.tx = "no", []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print the estimate, and run no tests."""
        attempts = [item.attempt for item in session.items if isinstance(item, JSBenchCase)]
        facts = list(estimate_run(self._context.plan, self._context.handover.metadata, attempts))
        own = sum(uses(item, FIXTURE) or uses(item, SHARED) for item in session.items)
        if own:
            facts.append(("own tests", f"{format_count(own, 'test')} of the project not included in the estimate"))
        if self._context.plan.spec.execution.resume is not None:
            facts.append(("resume", "the estimate includes answers that --jsbench-resume reuses without a call"))
        for line in ["", *fact_lines([*facts, ("dry run", "no calls were made, and no tests ran")])]:
            write_line(self._context.config, line)
        return True
