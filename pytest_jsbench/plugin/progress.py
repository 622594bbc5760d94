"""Show the progress of a run if a person watches, and write lines about problems of a provider."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import dollars, printable
from pytest_jsbench.plugin.live_line import LiveLine, is_watched, past_capturing
from pytest_jsbench.plugin.pytest_options import ROOT
from pytest_jsbench.records.outcomes import AttemptOutcome, Run

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.run.provider_state import ProviderState
    from pytest_jsbench.run.state import RunState

#: Maximum number of cases whose schemas are read for the estimate; with more, each case counts the same.
_MOST_WEIGHED = 1000
#: Weight of a case besides its schema, in characters: that of the rest of its prompt.
_PROMPT_WEIGHT = 400


class Progress:
    """
    Counts the attempts, and describes how far the run is, for the line that `LiveLine` shows.

    The activation creates one object for the controller, which reports each attempt to it. pytest calls its hooks in
    the main thread, and the line's thread calls `text` while none of them runs.
    """

    def __init__(self, context: RunContext, state: RunState, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._context = context
        self._state = state
        self._clock = clock
        self._watched = False
        #: Time when the first test began, once the engine was started.
        self._began = 0.0
        self._done = self._failing = self._done_of_suite = 0
        #: Weight of the finished attempts of the suite, and of those that were made by calls of this run.
        self._done_weight = self._called_weight = 0
        #: Weight by case, and that of all planned attempts; computed when the first attempt is counted.
        self._weights: dict[CaseKey, int] | None = None
        self._planned_weight = 0
        #: Attempts of this run whose cost has not yet been added to the total.
        self._made: list[AttemptOutcome] = []
        self._cost = 0.0
        #: Tests that have begun and not ended, with the time when each began.
        self._under_way: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Determine whether a person watches, which pytest does not know earlier."""
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

    def count(self, attempt: AttemptOutcome, *, resumed: bool) -> None:
        """Count an attempt; an attempt of a resumed run adds no cost, and nothing to the speed."""
        if not self._watched:
            return
        weight = self._weight_of(attempt.attempt)
        self._done += 1
        self._done_of_suite += weight > 0
        self._done_weight += weight
        self._failing += attempt.failing
        if not resumed:
            self._called_weight += weight
            self._made.append(attempt)

    def text(self) -> str:
        """Describe how far the run is: attempts, remaining time, cost, and the test that has been running longest."""
        from pytest_jsbench.metrics.prices import costs

        now = self._clock()
        made = Run(metadata=self._context.handover.metadata, planned=(), outcomes=tuple(self._made))
        self._cost += sum(costs(made).attempts.values())
        self._made.clear()
        parts = [f"{self._done:,} of {self._state.count:,} done", f"{self._failing:,} failing"]
        if (left := self._seconds_left(now)) is not None:
            parts.append(f"~{clock(left)} left")
        if self._cost:
            parts.append(f"{dollars(self._cost)} so far")
        if self._under_way:
            nodeid, began = next(iter(self._under_way.items()))
            more = f" and {len(self._under_way) - 1} more" if len(self._under_way) > 1 else ""
            passed = f"{now - began:.0f} s" if now - began < 60 else clock(now - began)
            parts.append(f"{passed} in {nodeid.removeprefix(f'{ROOT}::')}{more}")
        return ", ".join(parts)

    def _seconds_left(self, now: float) -> float | None:
        """
        Estimate the remaining time from the weights of the cases; None before the first answer.

        The calls in flight are assumed to be halfway.
        """
        attempts = len(self._state.planned) - self._done_of_suite
        weight = self._planned_weight - self._done_weight
        if not self._called_weight or attempts <= 0:
            return None
        halfway = weight / attempts * min(self._concurrency, attempts) / 2
        return (weight - halfway) * (now - self._began) / (self._called_weight + halfway)

    @property
    def _concurrency(self) -> int:
        """Maximum number of calls in flight, of all processes."""
        processes = getattr(self._context.config.option, "numprocesses", None) or 1
        return processes * sum(variant.concurrency for variant in self._context.plan.variants.values())

    def _weight_of(self, attempt: Attempt) -> int:
        if self._weights is None:
            self._weights = self._weigh_cases()
            self._planned_weight = sum(self._weights.get(one.key, 0) for one in self._state.planned)
        return self._weights.get(attempt.key, 0)

    def _weigh_cases(self) -> dict[CaseKey, int]:
        """Return the weight of each case: a longer schema has a longer prompt and a longer answer."""
        planned = {attempt.key for attempt in self._state.planned}
        if len(planned) > _MOST_WEIGHED:
            return dict.fromkeys(planned, 1)
        return {key: self._weigh(key) for key in planned}

    def _weigh(self, key: CaseKey) -> int:
        try:
            case = self._context.plan.cases.case(key)
        except JSBenchError:  # the test of the case reports the problem
            return _PROMPT_WEIGHT
        return _PROMPT_WEIGHT + (len(json.dumps(case.schema)) if isinstance(case, Case) else 0)


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

    def __init__(self, context: RunContext, live_line: LiveLine) -> None:
        self._config = context.config
        self._context = context
        self._live_line = live_line
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
                self._terminal = past_capturing()
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
                if not (alive or ended or self._any_ended or self._live_line.is_shown):
                    self._write("jsbench: waiting for the first answer")
                alive = True
                with suppress(sqlite3.Error):  # the calls themselves report problems with the file
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
