"""Describe the progress of a run in an interactive terminal, and print lines about problems of providers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_jsbench.core.text import format_clock, printable
from pytest_jsbench.plugin.live_line import LiveLine, is_watched, past_capturing
from pytest_jsbench.plugin.pytest_options import ROOT
from pytest_jsbench.run.progress import RunProgress

if TYPE_CHECKING:
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.run.provider_state import ProviderState
    from pytest_jsbench.run.state import RunState


class Progress:
    """
    Describes the progress of the run for the line that `LiveLine` shows.

    `activation` creates one object for the controller, which reports each attempt to it. pytest calls its hooks in
    the main thread. The thread of `LiveLine` calls `text`, but never during a hook.
    """

    def __init__(self, context: RunContext, state: RunState, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._context = context
        self._clock = clock
        self._progress = RunProgress(context.plan, context.handover.metadata, state)
        self._watched = False
        #: Time when the first test began; the engine was open then.
        self._began = 0.0
        #: Node ids of running tests, each with its start time.
        self._under_way: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Determine whether the terminal is interactive, which pytest does not know earlier."""
        self._watched = is_watched(self._context.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test has begun."""
        self._under_way[nodeid] = self._clock()
        self._began = self._began or self._under_way[nodeid]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that a test has ended."""
        self._under_way.pop(nodeid, None)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Note that a test has crashed its worker process."""
        self._under_way.pop(crashitem, None)

    def count(self, attempt: AttemptFacts, *, resumed: bool) -> None:
        """Count an attempt; an attempt from a resumed run affects neither the cost nor the remaining time."""
        if self._watched:
            self._progress.count(attempt, resumed=resumed)

    def text(self) -> str:
        """Describe the progress: attempts, remaining time, cost, and the test that has been running longest."""
        now = self._clock()
        processes = getattr(self._context.config.option, "numprocesses", None) or 1
        parts = self._progress.parts(now - self._began, processes=processes)
        if self._under_way:
            nodeid, began = next(iter(self._under_way.items()))
            more = f" and {len(self._under_way) - 1} more" if len(self._under_way) > 1 else ""
            passed = f"{now - began:.0f} s" if now - began < 60 else format_clock(now - began)
            parts.append(f"{passed} in {nodeid.removeprefix(f'{ROOT}::')}{more}")
        return ", ".join(parts)


def write_line(config: pytest.Config, line: str, **markup: bool) -> None:
    """Print a line of its own between pytest's lines; print nothing with -p no:terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if config.get_terminal_writer().width_of_current_line:  # under xdist, `ensure_newline` does not end pytest's line
        reporter.line("")
    reporter.write_line(printable(line, None), **markup)


def from_here(path: Path) -> Path:
    """Return a path below the working directory as a relative path, and any other path unchanged."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


#: Seconds between two checks of the limits that all processes share.
_INTERVAL = 1.0
#: Lowest verbosity at which lines about providers are printed: with -q, but not with -qq.
_QUIETEST = -1


class ProviderWatch:
    """
    Checks the providers' state once a second, and prints a line when the state of a provider has changed.

    `activation` creates one object next to the controller. The checks run in a separate thread, from the start of the
    test loop to the end of the session, since the main thread is blocked while it waits for calls. A provider that is
    down or given up is always reported, a slow provider only in an interactive terminal. If tests run in this process,
    pytest captures standard output, so the lines are written to a duplicate of the terminal's file handle.
    """

    def __init__(self, context: RunContext, live_line: LiveLine) -> None:
        self._config = context.config
        self._context = context
        self._live_line = live_line
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: Last reported problem of each provider; an empty text if the provider works again.
        self._reported: dict[str, str] = {}
        #: Duplicate of the terminal's file handle; None if output is not captured.
        self._terminal: TextIO | None = None
        #: Node id of the test that began most recently.
        self._nodeid = ""
        #: Whether any test has ended.
        self._any_ended = False
        #: Width of pytest's current line, and node id of the running test, when a line was last printed.
        self._written = (0, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the checks; at this time, output is not captured yet."""
        shown = self._config.pluginmanager.has_plugin("terminalreporter") and self._config.get_verbosity() >= _QUIETEST
        if shown and not self._context.settings.only_looks:
            if not self._config.pluginmanager.has_plugin("dsession"):
                self._terminal = past_capturing()
            with suppress(RuntimeError):  # no more threads can be started, which the calls report as an error
                self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember the running test: with -v, lines of different tests may have the same width."""
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """Note that a test has ended; pytest's own output shows progress from now on."""
        self._any_ended = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Check the providers a last time, and end the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._terminal is not None:
            self._terminal.close()

    def _work(self) -> None:
        with closing(self._context.session.runners.limits_file()) as limits:
            ended = False
            alive = not is_watched(self._config)
            while not ended:
                ended = self._ended.wait(_INTERVAL)
                if not (alive or ended or self._any_ended or self._live_line.is_shown):
                    self._write("jsbench: waiting for the first answer")
                alive = True
                with suppress(sqlite3.Error):  # the calls report problems with the file of limits
                    for name, state in limits.providers().items():
                        if line := self.line(name, state, now=time.monotonic(), watched=is_watched(self._config)):
                            self._write(f"jsbench: {line}")

    def _write(self, line: str) -> None:
        with self._live_line.cleared():
            self._write_line(line)

    def _write_line(self, line: str) -> None:
        if self._terminal is None:
            write_line(self._config, line)
            return
        width = self._config.get_terminal_writer().width_of_current_line
        before = self._written
        self._written = (width, self._nodeid)
        with suppress(OSError):  # the terminal is closed, which pytest will report
            self._terminal.write(("\n" if width and self._written != before else "") + printable(line, None) + "\n")
            self._terminal.flush()

    def line(self, name: str, state: ProviderState, *, now: float, watched: bool) -> str:
        """
        Return a line about a provider whose state has changed; empty if there is nothing to report. Changes of the
        speed are reported only if `watched`.
        """
        slow = state.share_at(now) < 1
        if state.given_up:
            problem = "given up"
        elif state.down:
            problem = "down"
        else:
            problem = "slow" if slow else ""
        before = self._reported.get(name, "")
        if problem == before or (problem == "slow" and not watched and before != "down"):
            return ""
        self._reported[name] = problem
        if before == "down" and problem in ("", "slow"):
            return f"{name} answers again"
        if before == "slow" and not problem:
            return f"{name} accepts the full number of calls again" if watched else ""
        return f"{name}: {state.describe(now)}"
