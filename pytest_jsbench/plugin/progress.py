"""Lines while a run goes: how far it is, where a person watches, and that calls wait for a provider."""

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

#: seconds to the first line, and between two of them at least and at most
_SOONEST = 10.0
_LATEST = 60.0
#: answers, from which on a time is told that is left; of a large run it takes a tenth of it
_FEWEST = 8


class Progress:
    """
    Writes a line now and then on how far the run is: on a terminal, not under CI, not with -q.

    The activation makes one for the controller, which counts each attempt with it. pytest calls its hooks in the main
    thread: the clock starts with the test loop, and a line may follow each test. It needs no end.
    """

    def __init__(self, context: RunContext, state: RunState) -> None:
        self._config = context.config
        self._metadata = context.handover.metadata
        self._state = state
        self._watched = False
        self._started = self._latest = time.perf_counter()
        #: when the first answer came, before which an engine may have had to start; None while there is none
        self._first: float | None = None
        self._done = self._called = self._failing = 0
        #: those that this run has made, and no line has counted the cost of
        self._made: list[AttemptOutcome] = []
        self._cost = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the clock, and find out whether a person watches, which pytest does not know any earlier."""
        self._started = self._latest = time.perf_counter()
        self._watched = is_watched(self._config)

    def count(self, attempt: AttemptOutcome, *, resumed: bool) -> None:
        """Count an attempt; an earlier run has paid for a resumed one."""
        if self._watched:
            self._done += 1
            self._failing += attempt.failing
            self._made += [] if resumed else [attempt]
            self._first = self._first or time.perf_counter()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Write a line, if it is time."""
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
        # no time is told that is left before it can be known
        if self._called >= max(_FEWEST, planned / 10) and seconds:
            rate = (self._called - 1) / seconds
            pace = f"{rate:.3g} a second" if rate >= 1 else f"{60 * rate:.3g} a minute"
            parts += [pace, f"about {clock((planned - self._done) / rate)} left"]
        if self._cost:
            parts.append(f"{dollars(self._cost)} so far")
        return ", ".join(parts)


def write_line(config: pytest.Config, line: str, **markup: bool) -> None:
    """Write a line of its own between those of the tests, or after them; none with -p no:terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if config.get_terminal_writer().width_of_current_line:  # under xdist, where no path heads the line
        reporter.line("")
    reporter.write_line(printable(line, None), **markup)


def from_here(path: Path) -> Path:
    """Write a path as it is seen from the working folder, where it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def is_watched(config: pytest.Config) -> bool:
    """Say whether a person watches the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        return False
    return bool(reporter.isatty) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def clock(seconds: float) -> str:
    """Write minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


#: seconds between two looks
_INTERVAL = 1.0
#: with -q too it is said why nothing happens; with -qq nothing is said
_QUIETEST = -1


class ProviderWatch:
    """
    Looks at the run's shared limits once a second, and writes a line where something has changed.

    The activation makes one beside the controller. It looks in a thread of its own, from the start of the test loop to
    the end of the session, since the main thread has nothing to do while all calls wait. Being down and being given up
    is said to everybody; being slowed down only where a person watches. Where tests run in this process, pytest
    captures what is written meanwhile, so the lines go past it, by a handle of their own.
    """

    def __init__(self, context: RunContext) -> None:
        self._config = context.config
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: what was last said of each provider, without its numbers
        self._said: dict[str, str] = {}
        #: None where nothing is captured
        self._terminal: TextIO | None = None
        #: the test that began last, and whether any has ended
        self._nodeid, self._any_ended = "", False
        #: the width of pytest's line and its test, when this last wrote
        self._written = (0, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin to look; nothing is captured yet."""
        shown = self._config.pluginmanager.has_plugin("terminalreporter") and self._config.get_verbosity() >= _QUIETEST
        if shown and not self._context.settings.only_looks:
            if not self._config.pluginmanager.has_plugin("dsession"):
                self._terminal = _past_capturing()
            with suppress(RuntimeError):  # no more threads: the calls themselves will say so
                self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember it: with -v, lines of different tests may be equally wide."""
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """From the first answer on, the tests themselves show that the run goes."""
        self._any_ended = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Look a last time, and no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._terminal is not None:
            self._terminal.close()

    def _work(self) -> None:
        with closing(self._context.session.limits_file()) as limits:
            ended, alive = False, not is_watched(self._config)
            while not ended:
                ended = self._ended.wait(_INTERVAL)
                if not (alive or ended or self._any_ended):
                    self._write("jsbench: waiting for the first answer")
                alive = True
                with suppress(sqlite3.Error):  # the calls themselves say what is wrong with the file
                    for name, state in limits.providers().items():
                        if line := self.line(name, state, now=time.monotonic(), watched=is_watched(self._config)):
                            self._write(f"jsbench: {line}")

    def _write(self, line: str) -> None:
        if self._terminal is None:
            write_line(self._config, line)
            return
        width = self._config.get_terminal_writer().width_of_current_line
        before, self._written = self._written, (width, self._nodeid)
        with suppress(OSError):  # nobody reads it any more, and pytest itself will say so
            self._terminal.write(("\n" if width and self._written != before else "") + printable(line, None) + "\n")
            self._terminal.flush()

    def line(self, name: str, state: ProviderState, *, now: float, watched: bool) -> str:
        """Say what is new of a provider; empty where nothing is, or nobody watches that it is slowed down."""
        slow = state.share_at(now) < 1
        standing = "given up" if state.given_up else "down" if state.down else "slow" if slow else ""
        before = self._said.get(name, "")
        if standing == before or (standing == "slow" and not watched and before != "down"):
            return ""
        self._said[name] = standing
        if before == "down" and standing in ("", "slow"):
            return f"{name} answers again"
        if before == "slow" and not standing:
            return f"{name} takes as many calls as before" if watched else ""
        return f"{name}: {state.describe(now)}"


def _past_capturing() -> TextIO | None:
    """Keep the standard output as it is now, whatever pytest does to it later; None where it is no file."""
    try:
        handle = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return os.fdopen(handle, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
