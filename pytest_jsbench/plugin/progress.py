"""Write progress lines during a run if a person watches, and lines about problems of a provider."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_jsbench.core.text import dollars, printable
from pytest_jsbench.records.outcomes import AttemptOutcome, Run

if TYPE_CHECKING:
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.run.provider_state import ProviderState
    from pytest_jsbench.run.state import RunState

#: Seconds before the first line, and minimum and maximum number of seconds between lines.
_SOONEST = 10.0
_LATEST = 60.0
#: Minimum number of answers before the remaining time is estimated; in large runs the minimum is a tenth of the
#: attempts.
_FEWEST = 8


class Progress:
    """
    Writes the progress of the run from time to time: on a terminal, outside of CI, and without -q.

    The activation creates one object for the controller, which reports each attempt to it. pytest calls its hooks in
    the main thread: the clock starts with the test loop, and a line may follow each test. The object need not be
    closed.
    """

    def __init__(self, context: RunContext, state: RunState) -> None:
        self._config = context.config
        self._metadata = context.handover.metadata
        self._state = state
        self._watched = False
        self._started = self._latest = time.perf_counter()
        #: Time of the first answer, which may be late because an engine had to start; None before the first answer.
        self._first: float | None = None
        self._done = self._called = self._failing = 0
        #: Attempts of this run whose cost has not yet been added to the total.
        self._made: list[AttemptOutcome] = []
        self._cost = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the clock, and determine whether a person watches, which pytest does not know earlier."""
        self._started = self._latest = time.perf_counter()
        self._watched = is_watched(self._config)

    def count(self, attempt: AttemptOutcome, *, resumed: bool) -> None:
        """Count an attempt; an attempt of a resumed run adds no cost."""
        if self._watched:
            self._done += 1
            self._failing += attempt.failing
            self._made += [] if resumed else [attempt]
            self._first = self._first or time.perf_counter()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Write a line if enough time has passed."""
        now = time.perf_counter()
        if not self._watched or self._done == self._state.count:
            return
        if now - self._latest < min(_LATEST, max(_SOONEST, (now - self._started) / 10)):
            return
        self._latest = now
        write_line(self._config, f"jsbench: {self._line(now - (self._first or now))}")

    def _line(self, seconds: float) -> str:
        from pytest_jsbench.metrics.prices import costs

        made = Run(metadata=self._metadata, planned=(), outcomes=tuple(self._made))
        self._called += len(self._made)
        self._cost += sum(costs(made).attempts.values())
        self._made.clear()
        planned = self._state.count
        parts = [f"{self._done:,} of {planned:,} done", f"{self._failing:,} failing"]
        # with fewer answers, the estimate of the remaining time would be unreliable
        if self._called >= max(_FEWEST, planned / 10) and seconds:
            rate = (self._called - 1) / seconds
            pace = f"{rate:.3g} a second" if rate >= 1 else f"{60 * rate:.3g} a minute"
            parts += [pace, f"about {clock((planned - self._done) / rate)} left"]
        if self._cost:
            parts.append(f"{dollars(self._cost)} so far")
        return ", ".join(parts)


def write_line(config: pytest.Config, line: str, **markup: bool) -> None:
    """Write a line between pytest's lines or after them; write nothing with -p no:terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if config.get_terminal_writer().width_of_current_line:  # under xdist, where the line does not begin with a path
        reporter.line("")
    reporter.write_line(printable(line, None), **markup)


def from_here(path: Path) -> Path:
    """Return a path relative to the working directory if the path is below that directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def is_watched(config: pytest.Config) -> bool:
    """Return whether a person watches the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        return False
    return bool(reporter.isatty) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, with hours if necessary."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


#: Seconds between checks of the shared limits.
_INTERVAL = 1.0
#: Lowest verbosity at which lines explain why nothing happens: they appear with -q, but not with -qq.
_QUIETEST = -1


class ProviderWatch:
    """
    Checks the run's shared limits once a second, and writes a line when the state of a provider has changed.

    The activation creates one object next to the controller. The checks run in a separate thread, from the start of the
    test loop to the end of the session, since the main thread is idle while all calls wait. A provider that is down or
    given up is always reported, and a slow provider only if a person watches. If tests run in this process, pytest
    captures their output, so the lines are written to a duplicate of the terminal's file handle.
    """

    def __init__(self, context: RunContext) -> None:
        self._config = context.config
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: The last reported problem of each provider; empty if the provider works again.
        self._reported: dict[str, str] = {}
        #: File handle of the terminal; None if output is not captured.
        self._terminal: TextIO | None = None
        #: Node id of the test that began most recently.
        self._nodeid = ""
        #: Whether any test has ended.
        self._any_ended = False
        #: Width of pytest's current line and the running test, at the time when a line was last written.
        self._written = (0, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start checking; output is not captured yet."""
        shown = self._config.pluginmanager.has_plugin("terminalreporter") and self._config.get_verbosity() >= _QUIETEST
        if shown and not self._context.settings.only_looks:
            if not self._config.pluginmanager.has_plugin("dsession"):
                self._terminal = _past_capturing()
            with suppress(RuntimeError):  # no more threads can be started, a problem that the calls themselves report
                self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember the test, since lines of different tests may have the same width with -v."""
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """Note that a test has ended: from now on pytest's own output shows progress."""
        self._any_ended = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Check a last time, and stop checking."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._terminal is not None:
            self._terminal.close()

    def _work(self) -> None:
        with closing(self._context.session.limits_file()) as limits:
            ended = False
            alive = not is_watched(self._config)
            while not ended:
                ended = self._ended.wait(_INTERVAL)
                if not (alive or ended or self._any_ended):
                    self._write("jsbench: waiting for the first answer")
                alive = True
                with suppress(sqlite3.Error):  # the calls themselves report problems with the file
                    for name, state in limits.providers().items():
                        if line := self.line(name, state, now=time.monotonic(), watched=is_watched(self._config)):
                            self._write(f"jsbench: {line}")

    def _write(self, line: str) -> None:
        if self._terminal is None:
            write_line(self._config, line)
            return
        width = self._config.get_terminal_writer().width_of_current_line
        before = self._written
        self._written = (width, self._nodeid)
        with suppress(OSError):  # the terminal is closed, which pytest itself reports
            self._terminal.write(("\n" if width and self._written != before else "") + printable(line, None) + "\n")
            self._terminal.flush()

    def line(self, name: str, state: ProviderState, *, now: float, watched: bool) -> str:
        """
        Return a line about a provider whose state changed; empty if nothing changed, or if only the speed changed and
        no person watches.
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
            return f"{name} accepts as many calls as before" if watched else ""
        return f"{name}: {state.describe(now)}"


def _past_capturing() -> TextIO | None:
    """Duplicate the current standard output, which pytest will redirect; None if it has no file descriptor."""
    try:
        handle = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return os.fdopen(handle, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
