"""Submit the suite's cases as batches of a provider, before the first test runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import errors_about
from pytest_jsbench.core.text import format_clock, format_count
from pytest_jsbench.plugin.live_line import is_watched
from pytest_jsbench.plugin.progress import from_here, write_line
from pytest_jsbench.run.batches import RunBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pytest_jsbench.engines.base import BatchState
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.plugin.controller import Controller
    from pytest_jsbench.run.batch_file import BatchPart

#: Seconds between two progress lines.
_BETWEEN_LINES = 30.0


class Batch:
    """
    Submits the suite's calls as batches of the provider, and waits for their answers.

    `activation` creates one object next to the controller if --jsbench-batch is set. pytest calls its hooks in the
    main thread: after collection and before the first test starts, the object submits the batches and waits for them;
    below the summary, it lists the batches that the provider has not finished. The answers are written to a file that
    the workers read, and the ids of the batches to the run's directory.
    """

    def __init__(self, context: RunContext, controller: Controller) -> None:
        self._config = context.config
        self._context = context
        self._controller = controller
        self._batches = None if context.settings.only_looks else RunBatches(context.session)
        self._begun = False

    def pytest_report_header(self) -> str | None:
        """Return a line with the unfinished batches of the resumed run; None if there are none."""
        under_way = [part for part in self._context.session.earlier_batches if not part.ended]
        return f"jsbench: resuming {_listed(under_way)}" if under_way else None

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Submit the batches if this process runs the tests."""
        self._run(session)

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Submit the batches if xdist's workers run the tests; xdist sends no tests before this hook returns."""
        session = self._config.pluginmanager.get_plugin("session")
        self._run(session)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Print below the summary which batches the provider has not finished, and how to resume them."""
        try:
            return (yield)
        finally:
            self._report_unfinished(terminalreporter)

    def _report_unfinished(self, reporter: pytest.TerminalReporter) -> None:
        folder = self._context.handover.folder
        if self._batches is None or folder is None:
            return
        path = from_here(folder)
        if waiting := self._batches.waiting():
            reporter.write_line(
                f"jsbench: {_listed(waiting)} not finished; to resume without paying twice, run the same command "
                f"with --jsbench-batch --jsbench-resume={path}",
                yellow=True,
            )
        for line in self._batches.doubts(path):
            reporter.write_line(f"jsbench: {line}", yellow=True)

    def _run(self, session: Any) -> None:
        if self._begun or self._batches is None or not self._controller.state.planned:
            return
        if getattr(session, "testsfailed", 0) and not self._config.option.continue_on_collection_errors:
            return
        self._begun = True
        with self._context.secrecy.usage_errors(), errors_about("--jsbench-batch"):
            planned = self._controller.state.planned
            self._batches.make(planned, handed_in=self._report_submitted, progress=self._progress())

    def _report_submitted(self, part: BatchPart) -> None:
        if self._config.get_verbosity() >= 0:
            write_line(self._config, f"jsbench: {_listed([part])} submitted")

    def _progress(self) -> Callable[[BatchState], None]:
        """Return a function that prints a progress line from time to time, in an interactive terminal."""
        started = 0.0
        latest = -_BETWEEN_LINES
        watched = is_watched(self._config)

        def say(standing: BatchState) -> None:
            nonlocal started, latest
            now = time.perf_counter()
            started = started or now
            if watched and now - latest >= _BETWEEN_LINES:
                latest = now
                counts = f"{standing.answered:,} of {standing.total:,} answered, {standing.failed:,} failed"
                write_line(self._config, f"jsbench: {counts}, {format_clock(now - started)} elapsed")

        return say


def _listed(parts: Sequence[BatchPart]) -> str:
    names = ", ".join(str(part.id) for part in parts)
    requests = format_count(sum(len(part.requests) for part in parts), "request")
    return f"batch{'' if len(parts) == 1 else 'es'} {names} ({requests})"
